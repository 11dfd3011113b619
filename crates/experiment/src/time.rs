//! Time as integer nanoseconds since the start of a run.

pub use mptcp::time::{Nanos, SECOND as NANOS_PER_SECOND, seconds};
