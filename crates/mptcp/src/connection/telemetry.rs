//! State and counters of a running connection.

use super::Connection;
use crate::cc::Window;
use crate::pm::FourTuple;
use crate::subflow::{self, State};
use crate::time::Nanos;

/// Counters of a connection since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes sent on a further subflow after a first one.
    pub reinjected_bytes: u64,
    /// Bytes received that the connection already had.
    pub duplicate_bytes: u64,
    /// Bytes received beyond the receive window.
    pub refused_bytes: u64,
    /// How often the scheduler halved the congestion window of a subflow (penalization).
    pub penalizations: u64,
    /// Mappings with a wrong DSS checksum.
    pub failed_checksums: u64,
    /// Joins with a wrong or missing HMAC.
    pub refused_joins: u64,
    /// Announcements with a wrong HMAC.
    pub refused_announcements: u64,
    /// DATA_ACKs for data that was never sent.
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

/// State of a subflow at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct SubflowState {
    /// The number of the subflow in its connection.
    pub id: u32,
    /// Its addresses and ports.
    pub four: FourTuple,
    /// Its TCP state.
    pub state: State,
    /// Its windows and round-trip times.
    pub window: Window,
    /// Its counters since its start.
    pub counters: subflow::Counters,
    /// Whether either host marked it as backup.
    pub is_backup: bool,
    /// Whether it is stale.
    pub is_stale: bool,
    /// When its handshake completed.
    pub established_at: Option<Nanos>,
}

impl Connection {
    /// Returns the state of all subflows, in the order in which they were added.
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

    /// Returns the counters since the start of the connection.
    pub fn counters(&self) -> Counters {
        self.counters.as_deref().copied().unwrap_or_default()
    }

    /// Returns the bytes received beyond a gap, in the connection and in its subflows.
    pub fn out_of_order_bytes(&self) -> u64 {
        let in_subflows = self
            .subflows
            .iter()
            .map(|context| u64::from(context.tcp.out_of_order_bytes()));
        self.receive.out_of_order_bytes() + in_subflows.sum::<u64>()
    }

    /// Returns the receive window of the subflow that offers most, in bytes beyond the acknowledged
    /// data.
    pub fn receive_window_bytes(&self) -> u64 {
        let subflows = 0..self.subflows.len();
        let offered = subflows
            .map(|subflow| self.window_offered_on(subflow))
            .max();
        offered.unwrap_or_else(|| self.receive.window_bytes())
    }

    /// Returns the bytes that were written and that the peer has not acknowledged.
    pub fn unacked_bytes(&self) -> u64 {
        self.send.written() - self.send.acked()
    }

    /// Returns the bytes received in order that the application has not read.
    pub fn unread_bytes(&self) -> u64 {
        self.receive.ready_bytes()
    }
}
