//! Probes over UDP. The receiver echoes each, which yields a round-trip time.

use experiment::time::Nanos;

/// Probes at a fixed interval.
pub(crate) struct Probe {
    every: Nanos,
    answered: u64,
}

impl Probe {
    pub(crate) fn new(every: Nanos) -> Self {
        Self { every, answered: 0 }
    }

    /// Returns the number of probes answered.
    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }

    /// Returns when probe `number` is sent, counted from the start.
    pub(super) fn send_time(&self, number: u64) -> Nanos {
        self.every.saturating_mul(number)
    }

    pub(super) fn record_answer(&mut self) {
        self.answered += 1;
    }
}
