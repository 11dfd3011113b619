//! Time in integer nanoseconds.

/// Nanoseconds: a duration, or a time since an origin that the driver chooses.
pub type Nanos = u64;

/// Nanoseconds in a microsecond.
pub const MICROSECOND: Nanos = 1_000;
/// Nanoseconds in a millisecond.
pub const MILLISECOND: Nanos = 1_000_000;
/// Nanoseconds in a second.
pub const SECOND: Nanos = 1_000_000_000;

/// Converts a duration to seconds, for formulas.
pub fn seconds(duration: Nanos) -> f64 {
    duration as f64 / SECOND as f64
}

/// A time that is never reached.
pub(crate) const NEVER: Nanos = Nanos::MAX;

/// Returns the earliest of the given times, if there is any.
pub(crate) fn earliest(instants: impl IntoIterator<Item = Option<Nanos>>) -> Option<Nanos> {
    let instants = instants.into_iter().map(|at| at.unwrap_or(NEVER));
    let first = instants.fold(NEVER, Nanos::min);
    Some(first).filter(|at| *at != NEVER)
}
