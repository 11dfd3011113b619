//! Packet schedulers: which subflow carries which data.
//!
//! Whenever something can be sent, the engine asks [`Scheduler::next`] until it answers [`Decision::Wait`], carrying out what
//! it decides in between. Data waits in two places: at the connection, where any subflow can still take it, and in a subflow's
//! own queue, once assigned. Most schedulers assign only what a subflow's window takes now; `kernel_default` fills the queue.
//!
//! Each file has its rule as a pure function, which the scheduler calls. Names ending in `-oot` compute as the out-of-tree
//! kernel did, in integers; those beginning with `x-` are defined here.

mod adaptive_redundant;
mod blest;
mod blest_oot;
mod ecf;
mod ecf_oot;
mod kernel_default;
mod lamps;
mod loss_rate;
mod lowest_rtt;
mod min_rtt;
mod penalization;
mod per_subflow;
mod redundant;
mod round_robin;
mod weighted_round_robin;

use std::fmt::Debug;

use crate::time::Nanos;

pub use adaptive_redundant::{AdaptiveRedundant, copies_pay};
pub use blest::{Blest, Forecast, Lambda};
pub use blest_oot::{BlestOot, FastSubflow, SlowSubflow, fast_bytes, linger_time, space_bytes};
pub use ecf::{Ecf, Estimate, Path};
pub use ecf_oot::{Arithmetic, EcfOot, KernelEstimate, KernelPath};
pub use kernel_default::{BURST_BYTES, KernelDefault, average_pacing, least_linger, linger_q32};
pub use lamps::{Lamps, expected_delay};
pub use lowest_rtt::{LowestRtt, lowest_rtt};
pub use min_rtt::MinRtt;
pub use penalization::{is_penalized, is_sent_again, penalized, retransmit_opportunistically};
pub use redundant::Redundant;
pub use round_robin::{RoundRobin, Turn, next_turn};
pub use weighted_round_robin::{WeightedRoundRobin, heaviest, pass_turn};

/// A subflow as a scheduler sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct SubflowView {
    /// Its number in the order in which subflows came, from 0. It stays the same as long as the subflow lives, and is never
    /// used again.
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
    /// Whether it is held back because so much of it waits in the host (`TSQ_THROTTLED` of Linux).
    pub is_throttled: bool,
    /// Bytes per second at which it is paced.
    pub pacing_rate: f64,
    /// Bytes sent since it began, those sent again included.
    pub sent_bytes: u64,
    /// Bytes sent again on it since it began.
    pub resent_bytes: u64,
    /// Expiries of the connection's timer since something was received on it (`stale_count` of mainline).
    pub missed_intervals: u32,
    /// Whether it has already carried the data in question ([`View::head`]).
    pub has_carried_head: bool,
}

impl SubflowView {
    /// Whether it may carry data, now or when its window opens.
    pub fn is_available(&self) -> bool {
        self.is_usable && !self.is_stale
    }

    /// Bytes that its congestion window and its buffer take beyond what is in flight and assigned.
    pub fn room_bytes(&self) -> u32 {
        let used = self.in_flight_bytes.saturating_add(self.queued_bytes);
        let window = self.cwnd_bytes.saturating_sub(used);
        window.min(self.buffer_left_bytes())
    }

    /// Bytes that its buffer still takes.
    pub fn buffer_left_bytes(&self) -> u32 {
        self.buffer_bytes.saturating_sub(self.unacked_bytes)
    }

    /// Whether a full-sized segment could leave now.
    pub fn has_window(&self) -> bool {
        !self.is_throttled && self.room_bytes() >= self.mss_bytes
    }

    /// Whether it has to wait, for acknowledgments or for its host, before it carries more.
    pub fn is_busy(&self) -> bool {
        self.in_loss || !self.has_window()
    }

    /// Congestion window in whole segments.
    pub fn cwnd_packets(&self) -> u32 {
        self.cwnd_bytes / self.mss_bytes
    }

    /// Segments in flight, a short one counted in full.
    pub fn in_flight_packets(&self) -> u32 {
        self.in_flight_bytes.div_ceil(self.mss_bytes)
    }
}

/// Why the scheduler is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is data to be sent again on another subflow, such as that of a failed one: [`View::head`].
    Reinject,
    /// The connection's own timer expired. `head` is the first data not acknowledged.
    MetaTimeout,
    /// There is data that was never sent: [`View::head`].
    NewData,
    /// There is new data, but not a segment of it fits into the peer's window. `head` is the first data not acknowledged.
    WindowBlocked,
    /// Nothing new can be written as the send buffer is full of data that was sent. `head` is the first data not acknowledged.
    BufferBlocked,
    /// All that was written is assigned, and not all of it acknowledged; there is space for more. `head` is the first data not
    /// acknowledged.
    NothingNew,
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
    /// The data in question: where it starts, in bytes from the start of the stream, and how long it is; not empty. What was
    /// sent before is as long as the same subflows have carried it. New data starts at [`View::assigned_bytes`].
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

    /// Whether backup subflows carry data: while no regular one may (RFC 8684, section 3.3.8).
    pub fn uses_backups(&self) -> bool {
        let mut subflows = self.subflows.iter();
        !subflows.any(|subflow| !subflow.is_backup && subflow.is_available())
    }

    /// How much of the head fits on a subflow: whole segments, unless it is the rest, or all that a peer with a window below a
    /// segment will ever take (RFC 9293, section 3.8.6.2.1).
    fn portion(&self, subflow: &SubflowView) -> u32 {
        let room = u64::from(subflow.room_bytes());
        let allowed = match self.reason {
            Reason::NewData => room.min(self.window_left_bytes()),
            _ => room,
        };
        let whole = allowed - allowed % u64::from(subflow.mss_bytes);
        let portion = if allowed >= self.head.len {
            self.head.len
        } else if whole == 0 && self.acked_bytes == self.assigned_bytes {
            allowed
        } else {
            whole
        };
        u32::try_from(portion).unwrap_or(u32::MAX)
    }

    /// As much of the head as fits, at most so many segments; waits if that is nothing.
    fn assign(&self, index: usize, segments: u32) -> Decision {
        let subflow = &self.subflows[index];
        let limit = subflow.mss_bytes.saturating_mul(segments);
        match self.portion(subflow).min(limit) {
            0 => Decision::Wait,
            bytes => Decision::Assign {
                subflow: index,
                bytes,
            },
        }
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
    /// The first `bytes` of the head, at most as much as there is, go to the subflow with that index. Data that was sent before
    /// goes out again.
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
    /// The window of the subflow with that index becomes what [`penalized`] says; the scheduler is asked again.
    Penalize {
        /// Index in [`View::subflows`].
        subflow: usize,
    },
    /// Nothing goes out until something changes.
    Wait,
}

/// A policy for one connection.
pub trait Scheduler: Debug + Send {
    /// The next decision. What it decides has been carried out when it is asked again.
    fn next(&mut self, view: &View<'_>) -> Decision;
}

/// The order in which subflows are gone through: it decides between equal ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubflowOrder {
    /// The first created first, as in mainline.
    #[default]
    OldestFirst,
    /// The last created first, as in the out-of-tree kernel.
    NewestFirst,
}

impl SubflowOrder {
    /// The indices of so many subflows, which are given in the order of their creation.
    pub fn indices(self, count: usize) -> impl Iterator<Item = usize> + Clone {
        (0..count).map(move |index| match self {
            Self::OldestFirst => index,
            Self::NewestFirst => count - 1 - index,
        })
    }
}

/// What a description can set; each scheduler takes what concerns it.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// The order in which subflows are gone through; `kernel_default` always takes the oldest first.
    pub order: SubflowOrder,
    /// `round_robin`: segments on one subflow before the next one's turn, 1 or more.
    pub num_segments: u32,
    /// `round_robin`, `weighted_round_robin`: whether a subflow without window is passed over; else all wait for it.
    pub cwnd_limited: bool,
    /// `weighted_round_robin`: weights by the number of the subflow, 1 for those beyond the list; without it each weighs its
    /// rate, cwnd by srtt, taken once a second.
    pub weights: Option<Vec<u32>>,
    /// `blest`, `blest-oot`: how the factor of the forecast adapts; by default as in their sources.
    pub lambda: Option<Lambda>,
    /// `ecf`, `ecf-oot`: the reciprocal of beta, the advantage of waiting on.
    pub inverse_beta: u32,
    /// `ecf-oot`: whether products wrap at 32 bits as they did in the kernel.
    pub arithmetic: Arithmetic,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            order: SubflowOrder::OldestFirst,
            num_segments: 1,
            cwnd_limited: true,
            weights: None,
            lambda: None,
            inverse_beta: 4,
            arithmetic: Arithmetic::Wrapping,
        }
    }
}

/// Makes a scheduler for a connection.
pub type Constructor = fn(&Parameters) -> Box<dyn Scheduler>;

/// All schedulers, by name.
pub const SCHEDULERS: &[(&str, Constructor)] = &[
    ("min_rtt", |given| Box::new(MinRtt::new(given))),
    ("round_robin", |given| Box::new(RoundRobin::new(given))),
    ("weighted_round_robin", |given| {
        Box::new(WeightedRoundRobin::new(given))
    }),
    ("redundant", |given| Box::new(Redundant::new(given))),
    ("blest", |given| Box::new(Blest::new(given))),
    ("ecf", |given| Box::new(Ecf::new(given))),
    ("kernel_default", |_| Box::new(KernelDefault::default())),
    ("blest-oot", |given| Box::new(BlestOot::new(given))),
    ("ecf-oot", |given| Box::new(EcfOot::new(given))),
    ("x-lamps", |given| Box::new(Lamps::new(given))),
    ("x-adaptive_redundant", |given| {
        Box::new(AdaptiveRedundant::new(given))
    }),
];

/// The constructor of the scheduler of that name.
pub fn by_name(name: &str) -> Option<Constructor> {
    let found = SCHEDULERS.iter().find(|(its_name, _)| *its_name == name);
    found.map(|(_, constructor)| *constructor)
}
