//! Failure of paths: when a subflow counts as failed, and which data is then reinjected.
//!
//! A path can fail without notice. Its subflow then retransmits with growing back-off, while the
//! byte stream waits for the data that it carries. RFC 8684 leaves the reaction to local policy
//! (section 3.3.6), as long as data is kept until the peer sends its DATA_ACK. The policy consists
//! of five decisions. The presets of [`Behaviour`] are those of two Linux kernels:
//!
//! 1. *Has the subflow failed?* At its first retransmission timeout, or after several intervals in
//!    which nothing was received ([`StaleDetector`]).
//! 2. *Which data is reinjected?* Data that the subflow did not deliver and no other subflow
//!    carries ([`is_worth_reinjecting`]), or all data without a DATA_ACK.
//! 3. *How often is this checked?* By the timer of the connection: [`MetaRto`] or
//!    [`remaining_interval`].
//! 4. *Is a lost announcement repeated?* After the intervals of [`waits`] (RFC 8684, section
//!    3.4.1).
//! 5. *Is a lost subflow reopened?* The path manager reopens it according to [`Recreation`].
//!
//! A failed subflow is not closed. It gets no new data and keeps retransmitting. The first packet
//! that arrives on it makes it usable again.
//!
//! The rules are pure functions and state machines. The connection owns their state and acts on
//! them.

mod add_address;
mod meta_timer;
mod reinjection;
mod stale;

use crate::pm::{Recreation, Waits};
use crate::sched::SubflowOrder;
use crate::time::{MILLISECOND, Nanos};

pub use add_address::{AddAddressTimer, TRIES, waits};
pub use meta_timer::{MetaRto, remaining_interval};
pub use reinjection::is_worth_reinjecting;
pub use stale::StaleDetector;

/// The condition under which a subflow counts as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedAfter {
    /// A subflow fails at its first retransmission timeout while another subflow works
    /// ("potentially failed" in the out-of-tree kernel).
    FirstRto,
    /// A subflow fails after it has received nothing for more than this many intervals of the
    /// connection's timer, if another subflow has missed clearly fewer ([`StaleDetector`]). With 0,
    /// a subflow never fails.
    StaleIntervals(u32),
}

/// When the connection reinjects data, that is, sends data on a further subflow although another
/// one has already carried it.
///
/// Apart from this, schedulers can send data on several subflows: `redundant` always does, and
/// `min_rtt` does when a window is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reinjection {
    /// The connection never reinjects data. Each subflow delivers its own data, however long that
    /// takes. If a subflow closes with undelivered data, the connection is aborted, because nothing
    /// can fill the gap.
    None,
    /// Reinjects the data of a subflow at each of its retransmission timeouts while another subflow
    /// works, whether or not the subflow counts as failed. Also reinjects when the subflow closes.
    /// Each expiry of the connection's timer reinjects the oldest data.
    OnRto,
    /// Reinjects the data of a subflow when the subflow starts to count as failed
    /// ([`FailedAfter`]), and when it closes. Each expiry of the connection's timer reinjects the
    /// oldest data.
    OnStale,
    /// Reinjects the data of a subflow only when the subflow closes. A standstill lasts as long as
    /// the outage that causes it.
    OnClose,
    /// Reinjects the oldest data when it blocks the peer's window or the send buffer, and all data
    /// of a subflow when the subflow closes.
    ///
    /// Oldest data that blocks goes to the free subflow with the lowest RTT, one segment at a time.
    /// The next segment follows when the segment before is acknowledged. The free subflow must be
    /// clearly faster than the subflows that carry the data, as the scheduler `min_rtt` requires
    /// ([`crate::sched::is_sent_again`]); this applies to every scheduler. A DATA_FIN alone blocks
    /// nothing and waits for its subflow.
    Opportunistic,
}

impl Reinjection {
    /// Returns whether each expiry of the connection's timer reinjects the oldest data.
    pub fn repeats_oldest(self) -> bool {
        matches!(self, Self::OnRto | Self::OnStale)
    }
}

/// How an MPTCP implementation reacts to failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// When a subflow counts as failed. Schedulers assign no data to a failed subflow until it
    /// receives a segment.
    pub failed_after: FailedAfter,
    /// When data of a subflow is reinjected on another subflow.
    pub reinjection: Reinjection,
    /// Which data [`Reinjection::OnRto`] and [`Reinjection::OnStale`] reinject: all unacknowledged
    /// data of the connection if true, otherwise only data of the subflow that
    /// [`is_worth_reinjecting`] selects.
    pub reinject_whole_queue: bool,
    /// How long address changes are collected before they are reported to the path manager. The
    /// driver copies the value to
    /// [`NetworkView::change_delay`](crate::endpoint::NetworkView::change_delay).
    pub path_manager_delay: Nanos,
    /// Whether and when the path manager reopens failed subflows.
    pub recreation: Recreation,
    /// The order in which schedulers go through subflows.
    pub subflow_order: SubflowOrder,
    /// How long the sender of an announcement waits for the echo before it sends the announcement
    /// again. With `None`, each announcement is sent once.
    pub add_address: Option<AddAddressTimer>,
    /// Whether the receive threshold of the connection grows with the data of all subflows. If
    /// false, each subflow has a threshold that grows with its own data. This determines how fast
    /// the window of many slow subflows opens ([`Buffer::Auto`](crate::connection::Buffer::Auto)).
    pub shares_receive_threshold: bool,
    /// Whether data in the connection's out-of-order queue reduces the receive window, by the
    /// memory that Linux counts for it (`__mptcp_space`, `sk_rmem_alloc`). Filling a gap with
    /// little data then does not open the window.
    pub counts_out_of_order: bool,
    /// Whether window updates after the application has read are sent only if the window has
    /// doubled (`mptcp_cleanup_rbuf`, `tcp_cleanup_rbuf`).
    ///
    /// An idle subflow then sends an update only if the window has doubled since the last one sent
    /// on any subflow and since the last one sent on itself. If false, each subflow decides by
    /// itself, and all send an update when a nearly closed window has opened.
    pub tells_doubled_window: bool,
    /// Whether the acknowledgment of more than a full-sized segment waits until the application has
    /// read, if it would offer a smaller window than the last one (`__tcp_ack_snd_check`,
    /// `mptcp_subflow_could_cleanup`).
    ///
    /// Data that fills a gap then opens the whole window with one acknowledgment. If false, that
    /// acknowledgment leaves at once, and the window opens in parts.
    pub acks_wait_for_reader: bool,
    /// Whether the window of a subflow may shrink to that of the connection
    /// (`mptcp_established_options_dss` of Linux 7.3, which resets `rcv_wnd`).
    ///
    /// When a gap is filled, the DATA_ACK jumps ahead, and the room behind it shrinks by as much.
    /// If false, the window of the subflow keeps its end, as a window of TCP has to (RFC 9293,
    /// section 3.8.6). Added to the DATA_ACK (RFC 8684, section 3.3.4), it offers more than the
    /// buffer has.
    pub narrows_subflow_window: bool,
    /// Whether arriving data takes the place of data further ahead in the out-of-order queue if the
    /// receive buffer is overfull (`mptcp_prune_ofo_queue`). The peer has to send the removed data
    /// again (RFC 8684, section 3.3.6). If false, an overfull buffer keeps what it has.
    pub prunes_out_of_order: bool,
    /// Whether each expiry of the connection's timer sends the oldest data again in several pieces,
    /// one on each idle subflow (`__mptcp_retrans` of Linux 7.3). If false, it sends one piece.
    pub repeats_several_pieces: bool,
}

impl Behaviour {
    /// Returns the behaviour of the out-of-tree kernel 0.9x, which papers of 2014 to 2019 used.
    ///
    /// A subflow is potentially failed at its first retransmission timeout. Each of its segments is
    /// reinjected on a subflow that has not carried it, so a standstill lasts about one RTO. The
    /// path manager processes address changes after 500 ms. It reopens subflows that timed out only
    /// if built to do so (`create_on_err` of `mptcp_fullmesh`). Lists of subflows have the newest
    /// subflow first.
    pub fn oot() -> Self {
        Self {
            failed_after: FailedAfter::FirstRto,
            reinjection: Reinjection::OnRto,
            reinject_whole_queue: false,
            path_manager_delay: 500 * MILLISECOND,
            recreation: Recreation::Never,
            subflow_order: SubflowOrder::NewestFirst,
            // RFC 6824 has no echo of ADD_ADDR.
            add_address: None,
            shares_receive_threshold: true,
            counts_out_of_order: false,
            tells_doubled_window: false,
            acks_wait_for_reader: false,
            narrows_subflow_window: true,
            prunes_out_of_order: false,
            repeats_several_pieces: false,
        }
    }

    /// Returns the behaviour of mainline Linux, as read in 6.12 and measured on 6.18.44.
    ///
    /// A subflow is stale after its first retransmission timeout and four further intervals of at
    /// least 200 ms without a packet, if another subflow has missed fewer intervals. The whole
    /// queue of the connection is then reinjected. Until then, only idle subflows repeat the first
    /// unacknowledged data, so a bulk transfer stalls for about a second.
    ///
    /// The in-kernel path manager reopens no subflow, whatever `recreation` says
    /// ([`KernelEndpoints`](crate::pm::KernelEndpoints)). Other path managers of mainline are
    /// programs that decide for themselves; those of mptcplab wait between attempts, each time
    /// twice as long.
    pub fn mainline() -> Self {
        Self {
            failed_after: FailedAfter::StaleIntervals(4),
            reinjection: Reinjection::OnStale,
            reinject_whole_queue: true,
            path_manager_delay: 0,
            recreation: Recreation::Backoff(Waits::OF_SUBFLOW),
            subflow_order: SubflowOrder::OldestFirst,
            add_address: Some(AddAddressTimer::Adaptive),
            shares_receive_threshold: false,
            counts_out_of_order: true,
            tells_doubled_window: true,
            acks_wait_for_reader: true,
            narrows_subflow_window: true,
            prunes_out_of_order: false,
            repeats_several_pieces: false,
        }
    }

    /// Returns the behaviour of Linux 6.12, as read in 6.12.117. Announcements are repeated after a
    /// fixed time (`mptcp_pm_add_timer`).
    pub fn mainline_6_12() -> Self {
        Self {
            add_address: Some(AddAddressTimer::Fixed),
            ..Self::mainline()
        }
    }

    /// Returns the behaviour of Linux 6.18 before commit da23be77e129, which later releases of 6.18
    /// contain. The window of a subflow never shrinks.
    pub fn mainline_6_18() -> Self {
        Self {
            narrows_subflow_window: false,
            ..Self::mainline()
        }
    }

    /// Returns the behaviour of Linux 7.3, as read in 7.3.4. An overfull receive buffer is pruned,
    /// and the connection's timer sends several pieces again.
    pub fn mainline_7_3() -> Self {
        Self {
            prunes_out_of_order: true,
            repeats_several_pieces: true,
            ..Self::mainline()
        }
    }
}
