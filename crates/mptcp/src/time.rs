//! Time as integer nanoseconds.

/// Nanoseconds: an instant counts from an origin that the driver chooses, a duration from the instant it belongs to.
pub type Nanos = u64;

/// Nanoseconds in a microsecond.
pub const MICROSECOND: Nanos = 1_000;
/// Nanoseconds in a millisecond.
pub const MILLISECOND: Nanos = 1_000_000;
/// Nanoseconds in a second.
pub const SECOND: Nanos = 1_000_000_000;

/// A duration in seconds, for formulas.
pub fn seconds(duration: Nanos) -> f64 {
    duration as f64 / SECOND as f64
}

/// An instant that does not come.
pub(crate) const NEVER: Nanos = Nanos::MAX;

/// The earliest of some instants, if there is any.
pub(crate) fn earliest(instants: impl IntoIterator<Item = Option<Nanos>>) -> Option<Nanos> {
    let instants = instants.into_iter().map(|at| at.unwrap_or(NEVER));
    let first = instants.fold(NEVER, Nanos::min);
    Some(first).filter(|at| *at != NEVER)
}
