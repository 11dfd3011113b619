//! Limits on the data that waits in the host before its first link, as reported by the driver.

use super::Endpoint;
use crate::pm::FourTuple;

impl Endpoint {
    /// Reports that a sent packet with `payload_bytes` of payload waits in the host before its
    /// first link.
    ///
    /// `four` holds the addresses and ports of the subflow. Data that waits in the host holds back
    /// further data of the same subflow, as Linux's `tcp_small_queue_check` does. If the driver
    /// never calls this function, no data is held back.
    pub fn waits_in_host(&mut self, four: FourTuple, payload_bytes: u32) {
        if let Some(id) = self.connection_between(four)
            && let Some(slot) = self.connections.get_mut(&id)
        {
            slot.connection.waits_in_host(four, payload_bytes);
        }
    }

    /// Reports that a packet that waited in the host was sent or dropped.
    ///
    /// `four` and `payload_bytes` must be the same as in the call to [`Endpoint::waits_in_host`].
    /// The subflow may now be able to send more, so poll the endpoint afterwards.
    pub fn departed(&mut self, four: FourTuple, payload_bytes: u32) {
        if let Some(id) = self.connection_between(four) {
            self.with(id, |connection, _| connection.departed(four, payload_bytes));
        }
    }
}
