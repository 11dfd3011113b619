//! What can be read of a connection while it runs.

use super::Connection;
use crate::cc::Window;
use crate::pm::FourTuple;
use crate::subflow::{self, State};
use crate::time::Nanos;

/// What happened on a connection since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Data given to a further subflow after a first one, in bytes.
    pub reinjected_bytes: u64,
    /// Data that arrived again, in bytes.
    pub duplicate_bytes: u64,
    /// Data beyond the receive window, in bytes.
    pub refused_bytes: u64,
    /// Windows that the scheduler halved.
    pub penalizations: u64,
    /// DSS checksums that were wrong.
    pub failed_checksums: u64,
    /// Joins whose HMAC was wrong or missing.
    pub refused_joins: u64,
    /// Announced addresses whose HMAC was wrong.
    pub refused_announcements: u64,
    /// DATA_ACKs of what was never sent.
    pub unbelievable_acks: u64,
    /// Payload that closed subflows sent, acknowledged and received, with all that TCP counts.
    pub closed_subflows: subflow::Counters,
}

impl Counters {
    pub(super) fn add_closed(&mut self, counters: &subflow::Counters) {
        self.closed_subflows.add(counters);
    }
}

/// A subflow at an instant.
#[derive(Clone, Debug, PartialEq)]
pub struct SubflowState {
    /// Its name.
    pub id: u32,
    /// Its ends.
    pub four: FourTuple,
    /// Where TCP stands.
    pub state: State,
    /// Its windows and round-trip times.
    pub window: Window,
    /// What happened on it.
    pub counters: subflow::Counters,
    /// Whether either side marked it as a backup one.
    pub is_backup: bool,
    /// Whether nothing seems to arrive on it.
    pub is_stale: bool,
    /// When its handshake was complete.
    pub established_at: Option<Nanos>,
}

impl Connection {
    /// All subflows, in the order in which they came.
    pub fn subflows(&self) -> impl Iterator<Item = SubflowState> {
        let paths = self.paths.iter().zip(self.paths.windows());
        paths.map(|(path, window)| SubflowState {
            id: path.id,
            four: path.four,
            state: path.subflow.state(),
            window: window.clone(),
            counters: *path.subflow.counters(),
            is_backup: path.is_backup(),
            is_stale: path.is_stale(),
            established_at: path.established_at,
        })
    }

    /// What happened since it began.
    pub fn counters(&self) -> Counters {
        self.counters.as_deref().copied().unwrap_or_default()
    }

    /// Data that arrived and waits for what is missing before it, in bytes.
    pub fn out_of_order_bytes(&self) -> u64 {
        let in_subflows = self
            .paths
            .iter()
            .map(|path| u64::from(path.subflow.out_of_order_bytes()));
        self.receive.out_of_order_bytes() + in_subflows.sum::<u64>()
    }

    /// What it offers on the path that offers most, in bytes beyond what it has acknowledged.
    pub fn receive_window_bytes(&self) -> u64 {
        let paths = 0..self.paths.len();
        let offered = paths.map(|which| self.window_offered_on(which)).max();
        offered.unwrap_or_else(|| self.receive.window_bytes())
    }

    /// Data that was written and that the peer has not acknowledged, in bytes.
    pub fn unacked_bytes(&self) -> u64 {
        self.send.written() - self.send.acked()
    }

    /// Data in order that the application has not read, in bytes.
    pub fn unread_bytes(&self) -> u64 {
        self.receive.ready_bytes()
    }
}
