//! The subflows of a connection. Values that are needed at every poll are cached, so that only
//! changed subflows are evaluated again.

use std::ops::{Deref, Index, IndexMut};

use super::lifecycle::Phase;
use super::subflow_context::SubflowContext;
use crate::cc::Window;
use crate::pm::FourTuple;
use crate::sched::{Range, Reason, SubflowView};
use crate::subflow::CloseReason;
use crate::time::{NEVER, Nanos};
use crate::wire::Packet;

/// Subflows in the order in which they were added, with their congestion windows. Mutable access to
/// a subflow invalidates its cached values.
#[derive(Debug, Default)]
pub(super) struct Subflows {
    subflows: Vec<SubflowContext>,
    windows: Vec<Window>,
    caches: Vec<Cache>,
    /// One view for each subflow once the scheduler was called. Empty on a connection that only
    /// receives.
    views: Vec<SubflowView>,
    /// Which subflows changed since their deadlines were cached.
    changed: Changed,
    /// The earliest cached deadline, if there is one.
    first_deadline: Option<Nanos>,
    /// Whether a subflow was added since the last call to [`Paths::has_come`].
    has_come: bool,
}

/// Cached values of a subflow, valid until it changes. They are stored together, because a
/// [`SubflowContext`] takes many cache lines.
#[derive(Clone, Copy, Debug)]
struct Cache {
    /// Local and remote port, which never change.
    ports: (u16, u16),
    /// Whether any of the following values was cached since the last change.
    is_filled: bool,
    /// Whether the view is older than the last change.
    is_view_stale: bool,
    /// Largest receive window in bytes with which the subflow has nothing to send, if known.
    rests_with: Option<u64>,
    /// When something is due, or [`NEVER`]; `None` if not evaluated since the last change.
    deadline: Option<Nanos>,
}

/// Which subflows changed.
#[derive(Clone, Copy, Debug, Default)]
enum Changed {
    #[default]
    None,
    One(usize),
    Several,
}

impl Changed {
    fn add(&mut self, subflow: usize) {
        *self = match *self {
            Self::None => Self::One(subflow),
            Self::One(same) if same == subflow => *self,
            Self::One(_) | Self::Several => Self::Several,
        };
    }
}

impl Cache {
    fn new(context: &SubflowContext) -> Self {
        Self {
            ports: (context.four.local.port(), context.four.remote.port()),
            is_filled: false,
            is_view_stale: true,
            rests_with: None,
            deadline: None,
        }
    }

    fn make_stale(&mut self) {
        self.is_filled = false;
        self.is_view_stale = true;
        self.rests_with = None;
        self.deadline = None;
    }

    #[inline]
    fn deadline_of(&self, context: &SubflowContext) -> Nanos {
        self.deadline
            .unwrap_or_else(|| context.poll_timeout().unwrap_or(NEVER))
    }
}

impl Subflows {
    pub(super) fn push(&mut self, context: SubflowContext, window: Window) {
        // There are few subflows, and a vector would reserve room for four at once.
        self.windows.reserve_exact(1);
        self.subflows.reserve_exact(1);
        self.caches.reserve_exact(1);
        self.caches.push(Cache::new(&context));
        self.windows.push(window);
        self.subflows.push(context);
        self.has_come = true;
        self.become_others();
    }

    pub(super) fn remove(&mut self, subflow: usize) -> SubflowContext {
        self.windows.remove(subflow);
        self.caches.remove(subflow);
        self.become_others();
        self.subflows.remove(subflow)
    }

    fn become_others(&mut self) {
        self.views = Vec::new();
        self.changed = Changed::Several;
    }

    /// Returns the congestion windows, one for each subflow.
    pub(super) fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// Returns a subflow for changes, and all windows. The caller may change only the window of
    /// that subflow.
    pub(super) fn with_windows(&mut self, subflow: usize) -> (&mut SubflowContext, &mut [Window]) {
        self.change(subflow);
        (&mut self.subflows[subflow], &mut self.windows)
    }

    /// Returns the subflow added last.
    ///
    /// # Panics
    /// If there is no subflow.
    pub(super) fn last_mut(&mut self) -> &mut SubflowContext {
        let last = self.len() - 1;
        &mut self[last]
    }

    /// Returns the subflow with these addresses and ports.
    pub(super) fn with_ends(&mut self, four: FourTuple) -> Option<&mut SubflowContext> {
        let subflow = self.iter().position(|context| context.four == four)?;
        Some(&mut self[subflow])
    }

    /// Returns the subflow to which a packet belongs.
    pub(super) fn receiver_of(&self, packet: &Packet) -> Option<usize> {
        let segment = &packet.segment;
        let ports = (segment.destination_port, segment.source_port);
        let mut caches = self.caches.iter().zip(&self.subflows);
        caches.position(|(cache, context)| cache.ports == ports && context.receives(packet))
    }

    /// Returns all subflows for changes, with their windows.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&mut SubflowContext, &mut Window)> {
        (0..self.caches.len()).for_each(|subflow| self.change(subflow));
        self.subflows.iter_mut().zip(&mut self.windows)
    }

    /// Returns the scheduler's view of the subflows for a decision about `head`.
    pub(super) fn views(&mut self, reason: Reason, head: Range) -> &[SubflowView] {
        if self.views.is_empty() {
            let subflows = self.subflows.iter().zip(&self.windows);
            self.views = subflows
                .map(|(context, window)| view_of(context, window))
                .collect();
        }
        for (subflow, (view, cache)) in self.views.iter_mut().zip(&mut self.caches).enumerate() {
            let context = &self.subflows[subflow];
            if std::mem::take(&mut cache.is_view_stale) {
                cache.is_filled = true;
                *view = view_of(context, &self.windows[subflow]);
            }
            view.has_carried_head = reason != Reason::NewData && context.holds(head);
        }
        &self.views
    }

    /// Returns whether a subflow was added since the last call.
    pub(super) fn has_come(&mut self) -> bool {
        std::mem::take(&mut self.has_come)
    }

    /// Returns for each subflow what it adds to the send buffer of the connection, in bytes of
    /// payload. The segments of a plain TCP connection are made in that buffer, those of an MPTCP
    /// connection in the buffers of its subflows.
    pub(super) fn buffers(&self, is_multipath: bool) -> impl Iterator<Item = u32> {
        self.iter().map(move |context| match is_multipath {
            true => context.tcp.send_memory_bytes(),
            false => context.tcp.buffer_bytes(),
        })
    }

    /// Returns the round-trip times of the subflows that receive data.
    pub(super) fn receive_rtts(&self) -> impl Iterator<Item = Nanos> {
        self.iter().filter_map(|context| context.tcp.receive_rtt())
    }

    /// Returns the first subflow that has ended and whose RST is sent, and why it ended.
    pub(super) fn first_ended(&self) -> Option<(usize, CloseReason)> {
        let ended = |subflow| Some((subflow, self[subflow].ended()?));
        match self.changed {
            Changed::None => None,
            Changed::One(subflow) => ended(subflow),
            Changed::Several => (0..self.len()).find_map(ended),
        }
    }

    /// Returns the first subflow, from index `from` on, that is to be closed with FIN.
    pub(super) fn next_to_retire(&self, from: usize) -> Option<usize> {
        let is_to_retire = |context: &SubflowContext| matches!(*context.life, Phase::Retiring(_));
        (from..self.len()).find(|subflow| is_to_retire(&self[*subflow]))
    }

    /// Returns whether a subflow is known to have nothing to send with a receive window of this
    /// size.
    #[inline]
    pub(super) fn rests(&self, subflow: usize, receive_window_bytes: u64) -> bool {
        let rests_with = self.caches[subflow].rests_with;
        rests_with.is_some_and(|with| receive_window_bytes <= with)
    }

    /// Records that a subflow has nothing to send.
    pub(super) fn record_rest(&mut self, subflow: usize) {
        let cache = &mut self.caches[subflow];
        cache.is_filled = true;
        cache.rests_with = self.subflows[subflow].tcp.rests_with();
    }

    /// Returns when something is due on any subflow.
    pub(super) fn poll_timeout(&self) -> Option<Nanos> {
        match self.changed {
            Changed::None => self.first_deadline,
            Changed::One(_) | Changed::Several => self.first_of_deadlines(),
        }
    }

    fn first_of_deadlines(&self) -> Option<Nanos> {
        let subflows = self.caches.iter().zip(&self.subflows);
        let deadlines = subflows.map(|(cache, context)| cache.deadline_of(context));
        deadlines.min().filter(|at| *at != NEVER)
    }

    /// Returns whether something is due on a subflow.
    pub(super) fn is_due(&self, subflow: usize, now: Nanos) -> bool {
        self.caches[subflow].deadline_of(&self.subflows[subflow]) <= now
    }

    /// Caches the deadlines of the subflows that changed.
    pub(super) fn record_deadlines(&mut self) {
        let all = self.caches.iter_mut().zip(&self.subflows);
        let fill = |(cache, context): (&mut Cache, &SubflowContext)| {
            cache.is_filled = true;
            cache.deadline = Some(cache.deadline_of(context));
        };
        match std::mem::take(&mut self.changed) {
            Changed::None => return,
            Changed::One(subflow) => all.skip(subflow).take(1).for_each(fill),
            Changed::Several => all.for_each(fill),
        }
        self.first_deadline = self.first_of_deadlines();
    }

    fn change(&mut self, subflow: usize) {
        if self.caches[subflow].is_filled {
            self.caches[subflow].make_stale();
            self.changed.add(subflow);
        }
    }
}

impl Deref for Subflows {
    type Target = [SubflowContext];

    fn deref(&self) -> &[SubflowContext] {
        &self.subflows
    }
}

impl Index<usize> for Subflows {
    type Output = SubflowContext;

    fn index(&self, subflow: usize) -> &SubflowContext {
        &self.subflows[subflow]
    }
}

impl IndexMut<usize> for Subflows {
    fn index_mut(&mut self, subflow: usize) -> &mut SubflowContext {
        self.change(subflow);
        &mut self.subflows[subflow]
    }
}

fn view_of(context: &SubflowContext, window: &Window) -> SubflowView {
    let tcp = &context.tcp;
    let counters = tcp.counters();
    SubflowView {
        id: context.id,
        is_usable: context.can_send(),
        is_backup: context.is_backup(),
        is_stale: context.is_stale(),
        in_loss: tcp.in_loss(),
        is_open: !window.in_recovery,
        srtt: window.srtt.unwrap_or(0),
        rttvar: tcp.rttvar(),
        mss_bytes: window.mss_bytes,
        cwnd_bytes: window.cwnd_bytes as u32,
        ssthresh_bytes: window.ssthresh_bytes as u32,
        in_flight_bytes: window.in_flight_bytes,
        queued_bytes: tcp.queued_bytes(),
        unacked_bytes: tcp.unacked_bytes(),
        buffer_bytes: tcp.buffer_bytes(),
        is_throttled: tcp.is_throttled(),
        pacing_rate: tcp.pacing_rate(window),
        sent_bytes: counters.sent_bytes + counters.retransmitted_bytes,
        resent_bytes: counters.retransmitted_bytes,
        missed_intervals: context.delivery.missed_intervals(),
        has_carried_head: false,
    }
}
