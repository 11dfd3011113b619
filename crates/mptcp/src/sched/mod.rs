//! Packet schedulers: which subflow carries which data.
//!
//! Whenever something can be sent, the engine asks [`Scheduler::next`] until it answers [`Decision::Wait`], carrying out what
//! it decides in between. Data waits in two places: at the connection, where any subflow can still take it, and in a subflow's
//! own queue, once assigned. Most schedulers assign only what a subflow's window takes now; `kernel_default` fills the queue.

use std::fmt::Debug;

use crate::time::Nanos;

/// A subflow as a scheduler sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct SubflowView {
    /// Stays the same as long as the subflow lives, and is never used again.
    pub id: u32,
    /// Whether it can carry data now: established, fourth packet seen (RFC 8684, section 3.2), not closing.
    pub is_usable: bool,
    /// Whether either side marked it as a backup one (RFC 8684, section 3.3.8).
    pub is_backup: bool,
    /// Whether it was found to deliver nothing ("potentially failed" in the out-of-tree kernel, "stale" in mainline).
    pub is_stale: bool,
    /// Whether it repairs what a retransmission timeout left (the state `TCP_CA_Loss` of Linux).
    pub in_loss: bool,
    /// Whether it repairs nothing (the state `TCP_CA_Open`).
    pub is_open: bool,
    /// Smoothed round-trip time; 0 without a sample.
    pub srtt: Nanos,
    /// Mean deviation of the round-trip time (RTTVAR of RFC 6298).
    pub rttvar: Nanos,
    /// The smallest round-trip time; 0 without a sample.
    pub min_rtt: Nanos,
    /// The largest smoothed round-trip time so far.
    pub max_srtt: Nanos,
    /// Payload of a full-sized segment in bytes.
    pub mss_bytes: u32,
    /// Congestion window in bytes, rounded down.
    pub cwnd_bytes: u32,
    /// Slow start threshold in bytes; `u32::MAX` while there is none.
    pub ssthresh_bytes: u32,
    /// Bytes sent and neither acknowledged nor lost.
    pub in_flight_bytes: u32,
    /// Bytes assigned and not yet sent.
    pub queued_bytes: u32,
    /// Bytes sent or assigned and not yet acknowledged on the subflow.
    pub unacked_bytes: u32,
    /// The most that `unacked_bytes` may become: the send buffer.
    pub buffer_bytes: u32,
    /// Bytes per second at which it is paced.
    pub pacing_rate: f64,
    /// Whether it has already carried the data in question ([`View::head`]).
    pub has_carried_head: bool,
}

impl SubflowView {
    /// Bytes that the congestion window would take beyond what is in flight and assigned.
    pub fn free_window_bytes(&self) -> u32 {
        self.cwnd_bytes
            .saturating_sub(self.in_flight_bytes + self.queued_bytes)
    }

    /// Whether a full-sized segment could leave now.
    pub fn has_window(&self) -> bool {
        self.free_window_bytes() >= self.mss_bytes
    }
}

/// Why the scheduler is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is data to be sent again on another subflow: [`View::head`].
    Reinject,
    /// There is data that was never sent: [`View::head`].
    NewData,
    /// There is new data, but the peer's window is full. `head` is the first data not acknowledged.
    WindowBlocked,
    /// Nothing new can be written as the send buffer is full of data that was sent. `head` is the first data not acknowledged.
    BufferBlocked,
}

/// A connection as a scheduler sees it.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// The instant.
    pub now: Nanos,
    /// Why it is asked.
    pub reason: Reason,
    /// Subflows in the order in which they came.
    pub subflows: &'a [SubflowView],
    /// The data in question: where it starts, in bytes from the start of the stream, and how long it is.
    pub head: Range,
    /// Data acknowledged by the peer so far.
    pub acked_bytes: u64,
    /// Data written by the application so far.
    pub written_bytes: u64,
    /// Data assigned to some subflow so far.
    pub assigned_bytes: u64,
    /// The peer's receive window beyond [`View::acked_bytes`].
    pub window_bytes: u64,
}

impl View<'_> {
    /// Data written and never assigned.
    pub fn unassigned_bytes(&self) -> u64 {
        self.written_bytes - self.assigned_bytes
    }

    /// New data that the peer's window still takes.
    pub fn window_left_bytes(&self) -> u64 {
        (self.acked_bytes + self.window_bytes).saturating_sub(self.assigned_bytes)
    }
}

/// Data of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first byte.
    pub start: u64,
    /// How many bytes.
    pub len: u64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The first `bytes` of the head, at most as much as there is, go to the subflow with that index.
    Assign {
        /// Index in [`View::subflows`].
        subflow: usize,
        /// How many bytes, more than none.
        bytes: u32,
    },
    /// Data behind the head goes to a subflow: `redundant` lets every subflow walk the stream by itself.
    AssignRange {
        /// Index in [`View::subflows`].
        subflow: usize,
        /// Which data, all of it written, not all of it acknowledged.
        range: Range,
    },
    /// The window of the subflow with that index is halved (Raiciu et al., NSDI 2012); the scheduler is asked again.
    Penalize {
        /// Index in [`View::subflows`].
        subflow: usize,
    },
    /// Nothing goes out until something changes.
    Wait,
}

/// A policy for one connection.
pub trait Scheduler: Debug + Send {
    /// The next decision.
    fn next(&mut self, view: &View<'_>) -> Decision;

    /// A subflow was closed.
    fn subflow_removed(&mut self, _id: u32) {}
}
