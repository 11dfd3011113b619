//! Time in integer nanoseconds.

/// A time or a duration in nanoseconds. Times count from an origin that the driver chooses.
pub type Nanos = u64;

/// Nanoseconds in a microsecond.
pub const MICROSECOND: Nanos = 1_000;
/// Nanoseconds in a millisecond.
pub const MILLISECOND: Nanos = 1_000_000;
/// Nanoseconds in a second.
pub const SECOND: Nanos = 1_000_000_000;

/// Converts `duration` from nanoseconds to seconds.
pub fn seconds(duration: Nanos) -> f64 {
    duration as f64 / SECOND as f64
}

/// A time that is never reached.
pub(crate) const NEVER: Nanos = Nanos::MAX;

/// Returns the earliest of `instants`, or `None` if all of them are `None`.
pub(crate) fn earliest(instants: impl IntoIterator<Item = Option<Nanos>>) -> Option<Nanos> {
    let instants = instants.into_iter().map(|at| at.unwrap_or(NEVER));
    let first = instants.fold(NEVER, Nanos::min);
    Some(first).filter(|at| *at != NEVER)
}
