//! The subflows of a connection. Values that are needed at every poll are cached, so that only
//! changed subflows are evaluated again.

use std::ops::{Deref, Index, IndexMut};

use super::lifecycle::Phase;
use super::path::Path;
use crate::cc::Window;
use crate::pm::FourTuple;
use crate::sched::{Range, Reason, SubflowView};
use crate::subflow::CloseReason;
use crate::time::{NEVER, Nanos};
use crate::wire::Packet;

/// Subflows in the order in which they were added, with their congestion windows. Mutable access to
/// a subflow invalidates its cached values.
#[derive(Debug, Default)]
pub(super) struct Paths {
    paths: Vec<Path>,
    windows: Vec<Window>,
    notes: Vec<Note>,
    /// One view for each subflow once the scheduler was called. Empty on a connection that only
    /// receives.
    views: Vec<SubflowView>,
    /// Which subflows changed since their deadlines were cached.
    changed: Changed,
    /// The earliest cached deadline, if there is one.
    first_deadline: Option<Nanos>,
    /// Whether a subflow was added since the last call of [`Paths::has_come`].
    has_come: bool,
}

/// Cached values of a subflow, valid until it changes. They are stored together, because a [`Path`]
/// takes many cache lines.
#[derive(Clone, Copy, Debug)]
struct Note {
    /// Local and remote port, which never change.
    ports: (u16, u16),
    /// Whether any of the following values was cached since the last change.
    has_said: bool,
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
    fn add(&mut self, which: usize) {
        *self = match *self {
            Self::None => Self::One(which),
            Self::One(same) if same == which => *self,
            Self::One(_) | Self::Several => Self::Several,
        };
    }
}

impl Note {
    fn new(path: &Path) -> Self {
        Self {
            ports: (path.four.local.port(), path.four.remote.port()),
            has_said: false,
            is_view_stale: true,
            rests_with: None,
            deadline: None,
        }
    }

    fn make_stale(&mut self) {
        self.has_said = false;
        self.is_view_stale = true;
        self.rests_with = None;
        self.deadline = None;
    }

    #[inline]
    fn deadline_of(&self, path: &Path) -> Nanos {
        self.deadline
            .unwrap_or_else(|| path.poll_timeout().unwrap_or(NEVER))
    }
}

impl Paths {
    pub(super) fn push(&mut self, path: Path, window: Window) {
        // There are few subflows, and a vector would reserve room for four at once.
        self.windows.reserve_exact(1);
        self.paths.reserve_exact(1);
        self.notes.reserve_exact(1);
        self.notes.push(Note::new(&path));
        self.windows.push(window);
        self.paths.push(path);
        self.has_come = true;
        self.become_others();
    }

    pub(super) fn remove(&mut self, which: usize) -> Path {
        self.windows.remove(which);
        self.notes.remove(which);
        self.become_others();
        self.paths.remove(which)
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
    pub(super) fn with_windows(&mut self, which: usize) -> (&mut Path, &mut [Window]) {
        self.change(which);
        (&mut self.paths[which], &mut self.windows)
    }

    /// Returns the subflow added last.
    ///
    /// # Panics
    /// If there is no subflow.
    pub(super) fn last_mut(&mut self) -> &mut Path {
        let last = self.len() - 1;
        &mut self[last]
    }

    /// Returns the subflow with these addresses and ports.
    pub(super) fn with_ends(&mut self, four: FourTuple) -> Option<&mut Path> {
        let which = self.iter().position(|path| path.four == four)?;
        Some(&mut self[which])
    }

    /// Returns the subflow to which a packet belongs.
    pub(super) fn receiver_of(&self, packet: &Packet) -> Option<usize> {
        let segment = &packet.segment;
        let ports = (segment.destination_port, segment.source_port);
        let mut notes = self.notes.iter().zip(&self.paths);
        notes.position(|(note, path)| note.ports == ports && path.receives(packet))
    }

    /// Returns all subflows for changes, with their windows.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&mut Path, &mut Window)> {
        (0..self.notes.len()).for_each(|which| self.change(which));
        self.paths.iter_mut().zip(&mut self.windows)
    }

    /// Returns the scheduler's view of the subflows for a decision about `head`.
    pub(super) fn views(&mut self, reason: Reason, head: Range) -> &[SubflowView] {
        if self.views.is_empty() {
            let paths = self.paths.iter().zip(&self.windows);
            self.views = paths.map(|(path, window)| view_of(path, window)).collect();
        }
        for (which, (view, note)) in self.views.iter_mut().zip(&mut self.notes).enumerate() {
            let path = &self.paths[which];
            if std::mem::take(&mut note.is_view_stale) {
                note.has_said = true;
                *view = view_of(path, &self.windows[which]);
            }
            view.has_carried_head = reason != Reason::NewData && path.holds(head);
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
        self.iter().map(move |path| match is_multipath {
            true => path.subflow.send_memory_bytes(),
            false => path.subflow.buffer_bytes(),
        })
    }

    /// Returns the round-trip times of the subflows that receive data.
    pub(super) fn receive_rtts(&self) -> impl Iterator<Item = Nanos> {
        self.iter().filter_map(|path| path.subflow.receive_rtt())
    }

    /// Returns the first subflow that has ended and whose RST is sent, and why it ended.
    pub(super) fn first_ended(&self) -> Option<(usize, CloseReason)> {
        let ended = |which| Some((which, self[which].ended()?));
        match self.changed {
            Changed::None => None,
            Changed::One(which) => ended(which),
            Changed::Several => (0..self.len()).find_map(ended),
        }
    }

    /// Returns the first subflow, from index `from` on, that is to be closed with FIN.
    pub(super) fn next_to_retire(&self, from: usize) -> Option<usize> {
        let is_to_retire = |path: &Path| matches!(*path.life, Phase::Retiring(_));
        (from..self.len()).find(|which| is_to_retire(&self[*which]))
    }

    /// Returns whether a subflow is known to have nothing to send with a receive window of this
    /// size.
    #[inline]
    pub(super) fn rests(&self, which: usize, receive_window_bytes: u64) -> bool {
        let rests_with = self.notes[which].rests_with;
        rests_with.is_some_and(|with| receive_window_bytes <= with)
    }

    /// Records that a subflow has nothing to send.
    pub(super) fn record_rest(&mut self, which: usize) {
        let note = &mut self.notes[which];
        note.has_said = true;
        note.rests_with = self.paths[which].subflow.rests_with();
    }

    /// Returns when something is due on any subflow.
    pub(super) fn poll_timeout(&self) -> Option<Nanos> {
        match self.changed {
            Changed::None => self.first_deadline,
            Changed::One(_) | Changed::Several => self.first_of_deadlines(),
        }
    }

    fn first_of_deadlines(&self) -> Option<Nanos> {
        let paths = self.notes.iter().zip(&self.paths);
        let deadlines = paths.map(|(note, path)| note.deadline_of(path));
        deadlines.min().filter(|at| *at != NEVER)
    }

    /// Returns whether something is due on a subflow.
    pub(super) fn is_due(&self, which: usize, now: Nanos) -> bool {
        self.notes[which].deadline_of(&self.paths[which]) <= now
    }

    /// Caches the deadlines of the subflows that changed.
    pub(super) fn record_deadlines(&mut self) {
        let all = self.notes.iter_mut().zip(&self.paths);
        let note = |(note, path): (&mut Note, &Path)| {
            note.has_said = true;
            note.deadline = Some(note.deadline_of(path));
        };
        match std::mem::take(&mut self.changed) {
            Changed::None => return,
            Changed::One(which) => all.skip(which).take(1).for_each(note),
            Changed::Several => all.for_each(note),
        }
        self.first_deadline = self.first_of_deadlines();
    }

    fn change(&mut self, which: usize) {
        if self.notes[which].has_said {
            self.notes[which].make_stale();
            self.changed.add(which);
        }
    }
}

impl Deref for Paths {
    type Target = [Path];

    fn deref(&self) -> &[Path] {
        &self.paths
    }
}

impl Index<usize> for Paths {
    type Output = Path;

    fn index(&self, which: usize) -> &Path {
        &self.paths[which]
    }
}

impl IndexMut<usize> for Paths {
    fn index_mut(&mut self, which: usize) -> &mut Path {
        self.change(which);
        &mut self.paths[which]
    }
}

fn view_of(path: &Path, window: &Window) -> SubflowView {
    let subflow = &path.subflow;
    let counters = subflow.counters();
    SubflowView {
        id: path.id,
        is_usable: path.can_send(),
        is_backup: path.is_backup(),
        is_stale: path.is_stale(),
        in_loss: subflow.in_loss(),
        is_open: !window.in_recovery,
        srtt: window.srtt.unwrap_or(0),
        rttvar: subflow.rttvar(),
        mss_bytes: window.mss_bytes,
        cwnd_bytes: window.cwnd_bytes as u32,
        ssthresh_bytes: window.ssthresh_bytes as u32,
        in_flight_bytes: window.in_flight_bytes,
        queued_bytes: subflow.queued_bytes(),
        unacked_bytes: subflow.unacked_bytes(),
        buffer_bytes: subflow.buffer_bytes(),
        is_throttled: subflow.is_throttled(),
        pacing_rate: subflow.pacing_rate(window),
        sent_bytes: counters.sent_bytes + counters.retransmitted_bytes,
        resent_bytes: counters.retransmitted_bytes,
        missed_intervals: path.delivery.missed_intervals(),
        has_carried_head: false,
    }
}
