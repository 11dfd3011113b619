//! The subflows of a connection, with what it asks of all of them at every turn. What takes a while to work out is noted, so
//! that it looks only at those that have changed.

use std::ops::{Deref, Index, IndexMut};

use super::path::Path;
use crate::cc::Window;
use crate::pm::FourTuple;
use crate::sched::{Range, Reason, SubflowView};
use crate::subflow::CloseReason;
use crate::time::{NEVER, Nanos};
use crate::wire::Packet;

/// Paths in the order in which they came, with their congestion windows. Whoever gets one to change it makes its notes stale.
#[derive(Debug, Default)]
pub(super) struct Paths {
    paths: Vec<Path>,
    windows: Vec<Window>,
    notes: Vec<Note>,
    /// One for each path once the scheduler has been asked; who only receives has none.
    views: Vec<SubflowView>,
    /// Which have changed since the deadlines were noted.
    changed: Changed,
    /// The first deadline that was noted, if there is one.
    first_deadline: Option<Nanos>,
    /// Whether one came after [`Paths::has_come`] was asked.
    has_come: bool,
}

/// What a path says as long as nobody changes it. Notes stand close together, as a path takes many cache lines.
#[derive(Clone, Copy, Debug)]
struct Note {
    /// Ours and the peer's: they never change.
    ports: (u16, u16),
    /// Whether it has said any of what follows since the last change.
    has_said: bool,
    /// Its view is that of before the last change.
    is_view_stale: bool,
    /// Up to which receive window in bytes it has nothing to send, if it said so since the last change.
    rests_with: Option<u64>,
    /// When something is due, or [`NEVER`], if it was asked since the last change.
    deadline: Option<Nanos>,
}

/// Which paths have changed since then.
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
        // There are few, and a vector would make room for four at once.
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

    /// The windows, one for each path.
    pub(super) fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// A path, and all windows, of which only its own may be changed.
    pub(super) fn with_windows(&mut self, which: usize) -> (&mut Path, &mut [Window]) {
        self.change(which);
        (&mut self.paths[which], &mut self.windows)
    }

    /// The one that came last.
    ///
    /// # Panics
    /// There is none.
    pub(super) fn last_mut(&mut self) -> &mut Path {
        let last = self.len() - 1;
        &mut self[last]
    }

    /// The one between those ends.
    pub(super) fn with_ends(&mut self, four: FourTuple) -> Option<&mut Path> {
        let which = self.iter().position(|path| path.four == four)?;
        Some(&mut self[which])
    }

    /// Whose packet it is.
    pub(super) fn receiver_of(&self, packet: &Packet) -> Option<usize> {
        let segment = &packet.segment;
        let ports = (segment.destination_port, segment.source_port);
        let mut notes = self.notes.iter().zip(&self.paths);
        notes.position(|(note, path)| note.ports == ports && path.receives(packet))
    }

    /// All of them to be changed, with their windows.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&mut Path, &mut Window)> {
        (0..self.notes.len()).for_each(|which| self.change(which));
        self.paths.iter_mut().zip(&mut self.windows)
    }

    /// What the scheduler sees of them when it is asked about that data.
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

    /// Whether one has come since this was asked.
    pub(super) fn has_come(&mut self) -> bool {
        std::mem::take(&mut self.has_come)
    }

    /// The most that each is to have assigned and unacknowledged, in bytes.
    pub(super) fn buffers(&self) -> impl Iterator<Item = u32> {
        self.iter().map(|path| path.subflow.buffer_bytes())
    }

    /// The round-trip times of those on which data comes.
    pub(super) fn receive_rtts(&self) -> impl Iterator<Item = Nanos> {
        self.iter().filter_map(|path| path.subflow.receive_rtt())
    }

    /// The first that has ended, its reset sent, and why.
    pub(super) fn first_ended(&self) -> Option<(usize, CloseReason)> {
        let ended = |which| Some((which, self[which].ended()?));
        match self.changed {
            Changed::None => None,
            Changed::One(which) => ended(which),
            Changed::Several => (0..self.len()).find_map(ended),
        }
    }

    /// The first from `from` on that is to be closed by FIN.
    pub(super) fn next_to_retire(&self, from: usize) -> Option<usize> {
        let is_to_retire = |path: &Path| path.is_retiring && path.retired_until.is_none();
        (from..self.len()).find(|which| is_to_retire(&self[*which]))
    }

    /// Whether a path is known to have nothing to send as long as the receive window is not wider.
    #[inline]
    pub(super) fn rests(&self, which: usize, receive_window_bytes: u64) -> bool {
        let rests_with = self.notes[which].rests_with;
        rests_with.is_some_and(|with| receive_window_bytes <= with)
    }

    /// A path has nothing to send.
    pub(super) fn note_rest(&mut self, which: usize) {
        let note = &mut self.notes[which];
        note.has_said = true;
        note.rests_with = self.paths[which].subflow.rests_with();
    }

    /// When something is due on any path.
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

    /// Whether something is due on a path.
    pub(super) fn is_due(&self, which: usize, now: Nanos) -> bool {
        self.notes[which].deadline_of(&self.paths[which]) <= now
    }

    /// Notes the deadlines of those that have changed.
    pub(super) fn note_deadlines(&mut self) {
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
        missed_intervals: path.stale.missed_intervals(),
        has_carried_head: false,
    }
}
