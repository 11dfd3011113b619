//! What waits in the host before its first link: who sends the packets tells it.

use super::Endpoint;
use crate::pm::FourTuple;

impl Endpoint {
    /// A packet that was sent between these, with so much payload, waits in the host before its first link. What waits there of a
    /// subflow holds back the rest of it (`tcp_small_queue_check` of Linux); who never says so holds back nothing.
    pub fn waits_in_host(&mut self, four: FourTuple, payload_bytes: u32) {
        if let Some(id) = self.connection_between(four)
            && let Some(slot) = self.connections.get_mut(&id)
        {
            slot.connection.waits_in_host(four, payload_bytes);
        }
    }

    /// A packet that waited in the host has left it, or is gone: there may be room for others.
    pub fn departed(&mut self, four: FourTuple, payload_bytes: u32) {
        if let Some(id) = self.connection_between(four) {
            self.with(id, |connection, _| connection.departed(four, payload_bytes));
        }
    }
}
