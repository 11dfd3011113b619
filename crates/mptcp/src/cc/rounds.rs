//! Rounds: about one round-trip time each, told by what has been delivered.

use super::{Acked, Context};

/// A round is over when more has been delivered than was sent when it began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    end_bytes: u64,
}

impl Round {
    /// Whether the acknowledgment ends the round; the next then begins.
    pub fn is_over(&mut self, context: &Context<'_>, acked: &Acked) -> bool {
        let is_over = acked.delivered_bytes > self.end_bytes;
        if is_over {
            self.end_bytes = acked.delivered_bytes + u64::from(context.this().in_flight_bytes);
        }
        is_over
    }
}
