//! State and counters of a running connection.

use super::Connection;
use crate::cc::Window;
use crate::pm::FourTuple;
use crate::subflow::{self, State};
use crate::time::Nanos;

/// Counters of a connection since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes assigned to a subflow after they had already been assigned to a subflow before: by
    /// reinjection, or by a scheduler that sends copies.
    pub reinjected_bytes: u64,
    /// Bytes received that the connection already had and dropped.
    pub duplicate_bytes: u64,
    /// Bytes received and dropped, because they were beyond the receive window or left too many
    /// gaps.
    pub refused_bytes: u64,
    /// Number of times that the scheduler halved the congestion window of a subflow (penalization).
    pub penalizations: u64,
    /// Number of received mappings with a wrong DSS checksum.
    pub failed_checksums: u64,
    /// Number of joins refused because their HMAC was wrong or missing.
    pub refused_joins: u64,
    /// Number of received announcements (ADD_ADDR) refused because their HMAC was wrong.
    pub refused_announcements: u64,
    /// Number of received DATA_ACKs for data that was never sent.
    pub unbelievable_acks: u64,
    /// Sum of the TCP counters of all closed subflows, including payload sent, acknowledged and
    /// received.
    pub closed_subflows: subflow::Counters,
}

impl Counters {
    pub(super) fn add_closed(&mut self, counters: &subflow::Counters) {
        self.closed_subflows.add(counters);
    }
}

/// The state of a subflow at the time of the call to [`Connection::subflows`].
#[derive(Clone, Debug, PartialEq)]
pub struct SubflowState {
    /// The number of the subflow in its connection, from 0 in the order of creation. It never
    /// changes.
    pub id: u32,
    /// The addresses and ports of the subflow.
    pub four: FourTuple,
    /// The TCP state of the subflow.
    pub state: State,
    /// The congestion window, the slow start threshold and the round-trip times of the subflow.
    pub window: Window,
    /// The TCP counters of the subflow since its start.
    pub counters: subflow::Counters,
    /// Whether either host gave the subflow backup priority.
    pub is_backup: bool,
    /// Whether the subflow counts as failed ([`FailedAfter`](crate::failure::FailedAfter)). It gets
    /// no new data until it receives a segment.
    pub is_stale: bool,
    /// When the handshake of the subflow completed; `None` before.
    pub established_at: Option<Nanos>,
}

impl Connection {
    /// Returns the states of all subflows, in the order in which they were added.
    pub fn subflows(&self) -> impl Iterator<Item = SubflowState> {
        let subflows = self.subflows.iter().zip(self.subflows.windows());
        subflows.map(|(context, window)| SubflowState {
            id: context.id,
            four: context.four,
            state: context.tcp.state(),
            window: window.clone(),
            counters: *context.tcp.counters(),
            is_backup: context.is_backup(),
            is_stale: context.is_stale(),
            established_at: context.life.established_at(),
        })
    }

    /// Returns the counters of the connection since its start.
    pub fn counters(&self) -> Counters {
        self.counters.as_deref().copied().unwrap_or_default()
    }

    /// Returns how many received bytes wait behind a gap, in the connection and in its subflows
    /// together.
    pub fn out_of_order_bytes(&self) -> u64 {
        let in_subflows = self
            .subflows
            .iter()
            .map(|context| u64::from(context.tcp.out_of_order_bytes()));
        self.receive.out_of_order_bytes() + in_subflows.sum::<u64>()
    }

    /// Returns the largest receive window that one of the subflows offers, in bytes beyond the data
    /// received in order.
    pub fn receive_window_bytes(&self) -> u64 {
        let subflows = 0..self.subflows.len();
        let offered = subflows
            .map(|subflow| self.window_offered_on(subflow))
            .max();
        offered.unwrap_or_else(|| self.receive.window_bytes())
    }

    /// Returns how many written bytes, sent or not, the peer has not acknowledged.
    pub fn unacked_bytes(&self) -> u64 {
        self.send.written() - self.send.acked()
    }

    /// Returns how many bytes received in order the application has not read yet.
    pub fn unread_bytes(&self) -> u64 {
        self.receive.ready_bytes()
    }
}
