//! Packet schedulers: policies that decide which subflow carries which data.
//!
//! Whenever data can be sent, the engine calls [`Scheduler::next`] and executes the decision, until
//! it is [`Decision::Wait`]. Data waits in two places: at the connection, where any subflow can
//! still take it, and, once assigned, in the send queue of a subflow. Most schedulers assign only
//! as much as the subflow's window takes now; `kernel_default` fills the send queue.
//!
//! Each module has its rule as a pure function, which the scheduler calls. Schedulers with names
//! ending in `-oot` use the integer arithmetic of the out-of-tree kernel. Those with names starting
//! with `x-` are mptcplab's own definitions.

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

use crate::algorithm;
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

/// The state of a subflow that schedulers use.
#[derive(Clone, Debug, PartialEq)]
pub struct SubflowView {
    /// Number of the subflow in the order of creation, from 0. It never changes and is not reused.
    pub id: u32,
    /// Whether the subflow can carry data: established, fourth packet received (RFC 8684, section
    /// 3.2), and not closing.
    pub is_usable: bool,
    /// Whether either host gave the subflow backup priority (RFC 8684, section 3.3.8).
    pub is_backup: bool,
    /// Whether the subflow is stale: it timed out without progress ("potentially failed" in the
    /// out-of-tree kernel).
    pub is_stale: bool,
    /// Whether the subflow recovers from a retransmission timeout (`TCP_CA_Loss` of Linux).
    pub in_loss: bool,
    /// Whether the subflow is not in any recovery (`TCP_CA_Open` of Linux).
    pub is_open: bool,
    /// Smoothed round-trip time. 0 before the first sample.
    pub srtt: Nanos,
    /// Mean deviation of the round-trip time (RTTVAR of RFC 6298).
    pub rttvar: Nanos,
    /// Payload of a full-sized segment in bytes.
    pub mss_bytes: u32,
    /// Congestion window in bytes, rounded down.
    pub cwnd_bytes: u32,
    /// Slow start threshold in bytes. `u32::MAX` if there is none yet.
    pub ssthresh_bytes: u32,
    /// Bytes in flight: sent, and neither acknowledged nor marked lost.
    pub in_flight_bytes: u32,
    /// Bytes assigned to the subflow and not sent yet.
    pub queued_bytes: u32,
    /// Bytes assigned to the subflow, sent or not, and not acknowledged on it.
    pub unacked_bytes: u32,
    /// Size of the subflow's send buffer in bytes: the upper limit of `unacked_bytes`.
    pub buffer_bytes: u32,
    /// Whether the subflow is throttled, because too much of its data waits in the queues of the
    /// local host (`TSQ_THROTTLED` of Linux).
    pub is_throttled: bool,
    /// Pacing rate in bytes per second.
    pub pacing_rate: f64,
    /// Bytes sent since the subflow started, including retransmitted ones.
    pub sent_bytes: u64,
    /// Bytes retransmitted since the subflow started.
    pub resent_bytes: u64,
    /// Number of consecutive expiries of the connection's timer since the subflow last received a
    /// segment (`stale_count` of mainline). Only expiries while the subflow has unacknowledged data
    /// count.
    pub missed_intervals: u32,
    /// Whether the subflow has carried [`View::head`]. False for new data.
    pub has_carried_head: bool,
}

impl SubflowView {
    /// Returns whether the subflow can carry data, now or when its window opens: it is usable and
    /// not stale.
    pub fn is_available(&self) -> bool {
        self.is_usable && !self.is_stale
    }

    /// Returns how many further bytes fit into both the subflow's congestion window and its send
    /// buffer.
    pub fn room_bytes(&self) -> u32 {
        let used = self.in_flight_bytes.saturating_add(self.queued_bytes);
        let window = self.cwnd_bytes.saturating_sub(used);
        window.min(self.buffer_left_bytes())
    }

    /// Returns how many further bytes fit into the subflow's send buffer.
    pub fn buffer_left_bytes(&self) -> u32 {
        self.buffer_bytes.saturating_sub(self.unacked_bytes)
    }

    /// Returns whether a full-sized segment could be sent on the subflow now: it is not throttled,
    /// and the segment fits into its congestion window and send buffer.
    pub fn has_window(&self) -> bool {
        !self.is_throttled && self.room_bytes() >= self.mss_bytes
    }

    /// Returns whether no further data can be sent on the subflow now: it recovers from a
    /// retransmission timeout, it is throttled ([`SubflowView::is_throttled`]), or a full-sized
    /// segment does not fit into its congestion window and send buffer.
    pub fn is_busy(&self) -> bool {
        self.in_loss || !self.has_window()
    }

    /// Returns the congestion window in whole segments, rounded down.
    pub fn cwnd_packets(&self) -> u32 {
        self.cwnd_bytes / self.mss_bytes
    }

    /// Returns the number of segments in flight. A partial segment counts as a whole one.
    pub fn in_flight_packets(&self) -> u32 {
        self.in_flight_bytes.div_ceil(self.mss_bytes)
    }
}

/// Reasons why the engine calls a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Data must be reinjected, for example that of a stale subflow. [`View::head`] is this data.
    Reinject,
    /// The connection's timer expired. [`View::head`] is the first unacknowledged data.
    MetaTimeout,
    /// Data that was never assigned to a subflow waits to be sent. [`View::head`] is this data.
    NewData,
    /// New data waits, but neither all of it nor a full-sized segment of it fits into the peer's
    /// receive window. [`View::head`] is the first unacknowledged data.
    WindowBlocked,
    /// All written data is assigned, and the send buffer is full. [`View::head`] is the first
    /// unacknowledged data.
    BufferBlocked,
    /// All written data is assigned, and some of it is not acknowledged. The send buffer has room.
    /// [`View::head`] is the first unacknowledged data.
    NothingNew,
}

/// The state of a connection that schedulers use. All offsets count bytes from the start of the
/// byte stream.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// The time of the call.
    pub now: Nanos,
    /// The reason of the call.
    pub reason: Reason,
    /// The states of the subflows, in the order of their creation.
    pub subflows: &'a [SubflowView],
    /// The data that the decision is about; never empty.
    ///
    /// For [`Reason::NewData`], it is all written data from [`View::assigned_bytes`] on. For
    /// [`Reason::Reinject`], it is the next range to reinject. For other reasons, it starts at
    /// [`View::acked_bytes`].
    pub head: Range,
    /// Bytes of the byte stream that the peer has acknowledged so far (DATA_ACK).
    pub acked_bytes: u64,
    /// Bytes of the byte stream that the application has written so far.
    pub written_bytes: u64,
    /// Bytes of the byte stream that have been assigned to a subflow so far.
    pub assigned_bytes: u64,
    /// The peer's receive window in bytes, from [`View::acked_bytes`] on.
    pub window_bytes: u64,
}

impl View<'_> {
    /// Returns how many written bytes were never assigned to a subflow.
    pub fn unassigned_bytes(&self) -> u64 {
        self.written_bytes - self.assigned_bytes
    }

    /// Returns how many bytes of new data fit into the peer's receive window.
    pub fn window_left_bytes(&self) -> u64 {
        (self.acked_bytes + self.window_bytes).saturating_sub(self.assigned_bytes)
    }

    /// Returns whether backup subflows may carry data now, because no regular subflow is available
    /// (RFC 8684, section 3.3.8).
    pub fn uses_backups(&self) -> bool {
        let mut subflows = self.subflows.iter();
        !subflows.any(|subflow| !subflow.is_backup && subflow.is_available())
    }

    /// Returns how many bytes of the head fit on a subflow: whole segments, unless it is the rest
    /// of the head, or all that a peer with a window of less than a segment will ever take (RFC
    /// 9293, section 3.8.6.2.1).
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

    /// Assigns as much of the head as fits, at most `segments` segments. Waits if nothing fits.
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

/// A range of the byte stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Offset of the first byte from the start of the byte stream.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
}

/// A scheduler's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Assign the first `bytes` of [`View::head`] to a subflow. Data that was sent before is sent
    /// again.
    Assign {
        /// The subflow that gets the data, as an index into [`View::subflows`].
        subflow: usize,
        /// Number of bytes to assign, above 0 and at most the length of [`View::head`].
        bytes: u32,
    },
    /// Assign a range other than the head to a subflow. Used by `redundant`, whose subflows go
    /// through the byte stream independently, and by `x-lamps` for second copies.
    AssignRange {
        /// The subflow that gets the data, as an index into [`View::subflows`].
        subflow: usize,
        /// The range to assign. All of it is written, and not all of it is acknowledged.
        range: Range,
    },
    /// Penalize a subflow: halve its congestion window and, unless it is in slow start, its slow
    /// start threshold ([`penalized`]). The engine then calls the scheduler again.
    Penalize {
        /// The subflow to penalize, as an index into [`View::subflows`].
        subflow: usize,
    },
    /// Send nothing until something changes.
    Wait,
}

/// The packet scheduler of one connection.
pub trait Scheduler: Debug + Send {
    /// Returns the next decision for the connection, whose state is `view`. The engine executes the
    /// decision before it calls this again.
    fn next(&mut self, view: &View<'_>) -> Decision;
}

/// The order in which schedulers go through subflows. It decides between subflows that are
/// otherwise equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubflowOrder {
    /// The first created subflow first, as in mainline.
    #[default]
    OldestFirst,
    /// The last created subflow first, as in the out-of-tree kernel.
    NewestFirst,
}

impl SubflowOrder {
    /// Returns the indices of `count` subflows in this order. Index 0 is the subflow that was
    /// created first.
    pub fn indices(self, count: usize) -> impl Iterator<Item = usize> + Clone {
        (0..count).map(move |index| match self {
            Self::OldestFirst => index,
            Self::NewestFirst => count - 1 - index,
        })
    }
}

/// Parameters of all schedulers. Each scheduler uses only its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// The order in which schedulers go through subflows. `kernel_default` always uses the oldest
    /// first.
    pub order: SubflowOrder,
    /// Number of segments that a subflow may carry in its turn, at least 1. Used by `round_robin`.
    pub num_segments: u32,
    /// Whether a subflow that cannot send a full-sized segment now ([`SubflowView::has_window`]) is
    /// skipped. If false, all subflows wait while it is the turn of such a subflow. Used by
    /// `round_robin` and `weighted_round_robin`.
    pub cwnd_limited: bool,
    /// Weights of the subflows by their number, 1 for subflows beyond the list. If `None`, the
    /// weight of a subflow is its rate, cwnd/srtt, measured once a second. Used by
    /// `weighted_round_robin`.
    pub weights: Option<Vec<u32>>,
    /// Settings of `blest`: lambda, the factor that corrects BLEST's estimate of blocking, and how
    /// it adapts.
    pub blest: Lambda,
    /// Settings of `blest-oot`: lambda, the factor that corrects BLEST's estimate of blocking, and
    /// how it adapts.
    pub blest_oot: Lambda,
    /// 1/beta, where beta is the hysteresis that favours waiting while the scheduler already waits.
    /// Used by `ecf` and `ecf-oot`.
    pub inverse_beta: u32,
    /// Whether products wrap at 32 bits, as in the kernel. Used by `ecf-oot`.
    pub arithmetic: Arithmetic,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            order: SubflowOrder::OldestFirst,
            num_segments: 1,
            cwnd_limited: true,
            weights: None,
            blest: Lambda::PAPER,
            blest_oot: Lambda::KERNEL,
            inverse_beta: 4,
            arithmetic: Arithmetic::Wrapping,
        }
    }
}

/// A function that creates a scheduler for one connection. It takes the [`Parameters`] of all
/// schedulers and uses only those of its own.
pub type Constructor = fn(&Parameters) -> Box<dyn Scheduler>;

/// A row of [`SCHEDULERS`]: the description of a scheduler and its constructor.
pub type Entry = algorithm::Entry<Parameters, Constructor>;

/// All schedulers of the engine, with their descriptions and constructors.
pub const SCHEDULERS: &[Entry] = &[
    min_rtt::ROW,
    round_robin::ROW,
    weighted_round_robin::ROW,
    redundant::ROW,
    blest::ROW,
    ecf::ROW,
    kernel_default::ROW,
    blest_oot::ROW,
    ecf_oot::ROW,
    lamps::ROW,
    adaptive_redundant::ROW,
];

/// Returns the names of all schedulers in the order of [`SCHEDULERS`], without their aliases.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> {
    SCHEDULERS.iter().map(|one| one.description.name)
}

/// Returns the constructor of the scheduler named `name`, or `None` if there is none. Aliases are
/// not accepted.
pub fn by_name(name: &str) -> Option<Constructor> {
    let mut schedulers = SCHEDULERS.iter();
    let found = schedulers.find(|entry| entry.description.name == name);
    found.map(|entry| entry.make)
}
