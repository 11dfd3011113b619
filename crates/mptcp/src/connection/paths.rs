//! The subflows of a connection, with what it asks of all of them at every turn. What takes a while to work out is noted, so
//! that it looks only at those that have changed.

use std::ops::{Deref, Index, IndexMut};

use super::path::Path;
use crate::cc::Window;
use crate::pm::FourTuple;
use crate::sched::{Range, Reason, SubflowView};
use crate::subflow::CloseReason;
use crate::time::{NEVER, Nanos};

/// Paths in the order in which they came, with their congestion windows. Whoever gets one to change it makes its notes stale.
#[derive(Debug, Default)]
pub(super) struct Paths {
    paths: Vec<Path>,
    windows: Vec<Window>,
    notes: Vec<Note>,
    /// One for each path once the scheduler has been asked; who only receives has none.
    views: Vec<SubflowView>,
    /// Whether a deadline is not noted.
    has_changed: bool,
}

/// What a path says as long as nobody changes it.
#[derive(Clone, Copy, Debug)]
struct Note {
    /// When something is due, or [`NEVER`], if it was asked since the last change.
    deadline: Option<Nanos>,
    /// Its view is that of before the last change.
    is_view_stale: bool,
}

impl Note {
    const STALE: Self = Self {
        deadline: None,
        is_view_stale: true,
    };

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
        self.views = Vec::new();
        self.notes.push(Note::STALE);
        self.windows.push(window);
        self.paths.push(path);
        self.has_changed = true;
    }

    pub(super) fn remove(&mut self, which: usize) -> Path {
        self.windows.remove(which);
        self.notes.remove(which);
        self.views = Vec::new();
        self.paths.remove(which)
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
                *view = view_of(path, &self.windows[which]);
            }
            view.has_carried_head = reason != Reason::NewData && path.holds(head);
        }
        &self.views
    }

    /// The most that each is to have assigned and unacknowledged, in bytes.
    pub(super) fn buffers(&self) -> impl Iterator<Item = u32> {
        self.iter().map(|path| path.subflow.buffer_bytes())
    }

    /// The longest round-trip time of those on which data comes.
    pub(super) fn receive_rtt(&self) -> Option<Nanos> {
        let measured = self.iter().filter_map(|path| path.subflow.receive_rtt());
        measured.max()
    }

    /// The first that has ended, its reset sent, and why.
    pub(super) fn first_ended(&self) -> Option<(usize, CloseReason)> {
        let with_numbers = self.iter().enumerate();
        let mut ended = with_numbers.filter(|(_, path)| !path.subflow.owes_reset());
        ended.find_map(|(which, path)| Some((which, path.subflow.closed()?)))
    }

    /// The first from `from` on that is to be closed by FIN.
    pub(super) fn next_to_retire(&self, from: usize) -> Option<usize> {
        let is_to_retire = |path: &Path| path.is_retiring && path.retired_until.is_none();
        (from..self.len()).find(|which| is_to_retire(&self[*which]))
    }

    /// Whether a path is known to have nothing to send as long as the receive window is not wider.
    pub(super) fn rests(&self, which: usize, receive_window_bytes: u64) -> bool {
        let rests_with = self[which].subflow.rests_with();
        rests_with.is_some_and(|with| receive_window_bytes <= with)
    }

    /// When something is due on any path.
    pub(super) fn poll_timeout(&self) -> Option<Nanos> {
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
        if std::mem::take(&mut self.has_changed) {
            for (note, path) in self.notes.iter_mut().zip(&self.paths) {
                note.deadline = Some(note.deadline_of(path));
            }
        }
    }

    fn change(&mut self, which: usize) {
        self.has_changed = true;
        self.notes[which] = Note::STALE;
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
        pacing_rate: subflow.pacing_rate(window),
        sent_bytes: counters.sent_bytes + counters.retransmitted_bytes,
        resent_bytes: counters.retransmitted_bytes,
        missed_intervals: path.stale.missed_intervals(),
        has_carried_head: false,
    }
}
