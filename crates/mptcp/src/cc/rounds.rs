//! Rounds of about one round-trip time each, derived from delivered bytes.

use super::{Acked, Context};

/// The current round. It ends when more bytes are delivered than had been sent when it started.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    end_bytes: u64,
}

impl Round {
    /// Returns whether this acknowledgment ends the round. If so, starts the next one.
    pub fn is_over(&mut self, context: &Context<'_>, acked: &Acked) -> bool {
        let is_over = acked.delivered_bytes > self.end_bytes;
        if is_over {
            self.end_bytes = acked.delivered_bytes + u64::from(context.this().in_flight_bytes);
        }
        is_over
    }
}
