//! Time as integer nanoseconds since the start of a run.

/// Nanoseconds: an instant counts from the start of the run, a duration from the instant it belongs to.
pub type Nanos = u64;

/// Nanoseconds in one second.
pub const NANOS_PER_SECOND: Nanos = 1_000_000_000;
