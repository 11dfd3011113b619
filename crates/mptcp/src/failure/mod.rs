//! How a connection meets the failure of a path: rules for when a subflow counts as failed and what is sent again elsewhere.
//!
//! A path can die without a word. Its subflow then repeats what it sent, waiting longer each time, while the stream waits for
//! the bytes it holds. RFC 8684 leaves what to do about it to local policy (section 3.3.6), as long as data stays until the
//! peer has acknowledged it at the level of the connection. Five decisions make the policy, and Linux has had two answers to
//! them, the presets of [`Behaviour`]:
//!
//! 1. *Has it failed?* At the first retransmission timeout, or when nothing was received for some intervals
//!    ([`StaleDetector`]).
//! 2. *What goes elsewhere?* What it did not deliver and no other carries ([`is_worth_reinjecting`]), or all that waits for its
//!    DATA_ACK.
//! 3. *How often is that looked at?* The timer of the connection: [`MetaRto`], or [`remaining_interval`].
//! 4. *Is a lost announcement repeated?* [`waits`] says when (section 3.4.1).
//! 5. *Is a subflow opened again that was lost?* [`Recreation`] says when; the path manager does it.
//!
//! A failed subflow is not closed. Nothing new goes to it, it goes on repeating what it has, and the first packet that arrives
//! on it makes it usable again.
//!
//! The rules are pure; the connection owns their state and acts on them.

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

/// When a subflow counts as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedAfter {
    /// At its first retransmission timeout ("potentially failed").
    FirstRto,
    /// After so many intervals of the connection's timer without anything received on it; 0 is never ([`StaleDetector`]).
    StaleIntervals(u32),
}

/// When the connection sends data again on another subflow than the one that has carried it. What a scheduler repeats of its
/// own accord (`redundant`, or `min_rtt` when a window is full) comes on top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reinjection {
    /// Never: each subflow delivers what it has, however long that takes. One that closes with data undelivered leaves a hole
    /// that nothing can fill, and the connection is aborted.
    None,
    /// At each retransmission timeout of the subflow while another one works, whether it counts as failed or not; and at its
    /// close. The oldest data goes out again with each expiry of the connection's timer.
    OnRto,
    /// When the subflow begins to count as failed ([`FailedAfter`]), and when it closes. The oldest data goes out again with each
    /// expiry of the connection's timer.
    OnStale,
    /// When the subflow closes, and not before: a stall lasts as long as its outage.
    OnClose,
    /// When the oldest data blocks the peer's window or the send buffer: a segment of it goes to the free subflow with the lowest
    /// round-trip time, on the terms of `min_rtt` ([`crate::sched::is_sent_again`]) and whatever the scheduler, and the next one
    /// when that has arrived. And when the subflow closes. The end of a stream blocks nothing, and waits for its subflow.
    Opportunistic,
}

impl Reinjection {
    /// Whether the connection's own timer has the oldest data sent again.
    pub fn repeats_oldest(self) -> bool {
        matches!(self, Self::OnRto | Self::OnStale)
    }
}

/// What an implementation of Multipath TCP does about failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// When a subflow counts as failed: nothing is scheduled on it until something is received on it.
    pub failed_after: FailedAfter,
    /// When its data goes to others.
    pub reinjection: Reinjection,
    /// Whether with [`Reinjection::OnRto`] and [`Reinjection::OnStale`] all that the connection has unacknowledged is sent again,
    /// or only what the subflow carried and [`is_worth_reinjecting`] picks.
    pub reinject_whole_queue: bool,
    /// How long the path manager waits after an address event.
    pub path_manager_delay: Nanos,
    /// When the path manager opens a subflow again that failed.
    pub recreation: Recreation,
    /// The order in which schedulers go through subflows.
    pub subflow_order: SubflowOrder,
    /// How long an announcement waits for its echo before it is repeated; `None` if it is sent once.
    pub add_address: Option<AddAddressTimer>,
    /// Whether what is offered at most grows with what all subflows bring, or on each with what it brings itself: that decides how
    /// fast the window of many slow subflows opens ([`Buffer::Auto`](crate::connection::Buffer::Auto)).
    pub shares_receive_threshold: bool,
    /// Whether what waits at the connection for missing bytes takes from the window that is offered, by the memory that Linux
    /// counts for it (`__mptcp_space`, `sk_rmem_alloc`). A hole that is filled by little then opens the window by nothing.
    pub counts_out_of_order: bool,
    /// Whether a subflow on which nothing comes tells that the application has read only where the window has doubled: beyond what
    /// was told last on any, and on that subflow (`mptcp_cleanup_rbuf`, `tcp_cleanup_rbuf`). So what fills a hole is told where it
    /// came. Without, each subflow tells for itself, and all do when a window that was nearly closed has opened.
    pub tells_doubled_window: bool,
}

impl Behaviour {
    /// The out-of-tree kernel 0.9x, which the papers of 2014 to 2019 used: a subflow is potentially failed at its first
    /// retransmission timeout, and each of its segments goes to a subflow that has not carried it. So an outage lasts about one
    /// retransmission timeout. Its path manager works off address events after half a second, and opens what timed out again only if built so
    /// (`create_on_err` of `mptcp_fullmesh`); lists have the newest first.
    pub fn oot() -> Self {
        Self {
            failed_after: FailedAfter::FirstRto,
            reinjection: Reinjection::OnRto,
            reinject_whole_queue: false,
            path_manager_delay: 500 * MILLISECOND,
            recreation: Recreation::Never,
            subflow_order: SubflowOrder::NewestFirst,
            // RFC 6824 knows no echo.
            add_address: None,
            shares_receive_threshold: true,
            counts_out_of_order: false,
            tells_doubled_window: false,
        }
    }

    /// Linux as read in 6.12 and measured on 6.18: a subflow is stale after its first timer and four intervals of at least
    /// 200 ms without a packet, if another one is better off; then the whole queue of the connection is pushed again. Until
    /// then only idle subflows repeat the first unacknowledged data, so a bulk transfer stalls for about a second. Its own path
    /// manager opens nothing again, whatever stands here ([`KernelEndpoints`](crate::pm::KernelEndpoints)); others are programs
    /// and decide for themselves, ours by waits that double.
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
        }
    }
}
