//! Paths that come to their end while the connection goes on: closed by FIN (RFC 8684, sections 3.3.3 and 3.4.2), or found dead
//! after an address of theirs was removed (section 3.4.2).

use std::mem;
use std::net::IpAddr;

use super::{Connection, Path};
use crate::subflow::State;
use crate::time::{Nanos, earliest};
use crate::wire::{AddressId, ResetReason, Segment};

/// Keepalives without an answer that prove a path dead.
const KEEPALIVES: u32 = 3;

/// An address of a path was removed, and keepalives ask whether it is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suspicion {
    /// A bare acknowledgment that comes earlier was under way before.
    answers_from: Nanos,
    /// Data that come earlier may have been under way before, in queues.
    data_from: Nanos,
    /// When the next keepalive is due, or the path is dead.
    next_at: Nanos,
    /// How long the last keepalive waits.
    wait: Nanos,
    keepalives: u32,
}

impl Path {
    /// Asks whether the path lives. One that is not yet established is reset; one that is being closed has its own end.
    fn suspect(&mut self, now: Nanos, min_rtt: Nanos) {
        if self.established_at.is_none() {
            self.reset(ResetReason::UNSPECIFIED);
        } else if self.can_send() && self.suspicion.is_none() {
            let wait = self.subflow.rto();
            self.subflow.send_keepalive();
            self.suspicion = Some(Box::new(Suspicion {
                answers_from: now + min_rtt,
                data_from: now + wait,
                next_at: now + wait,
                wait,
                keepalives: 1,
            }));
        }
    }

    /// Whatever is sent after the keepalive came shows that the path lives.
    pub(super) fn answer_suspicion(&mut self, now: Nanos, segment: &Segment) {
        let is_answered = |suspicion: &Suspicion| match segment.payload.is_empty() {
            true => now >= suspicion.answers_from,
            false => now >= suspicion.data_from,
        };
        if self.suspicion.as_deref().is_some_and(is_answered) {
            self.suspicion = None;
        }
    }

    pub(super) fn handle_retirement_timeout(&mut self, now: Nanos) {
        self.pursue_suspicion(now);
        self.give_up_retirement(now);
    }

    /// The next keepalive if it is time, waiting twice as long each time, and at last the end.
    fn pursue_suspicion(&mut self, now: Nanos) {
        let Some(suspicion) = self
            .suspicion
            .as_deref_mut()
            .filter(|its| its.next_at <= now)
        else {
            return;
        };
        if suspicion.keepalives == KEEPALIVES {
            self.suspicion = None;
            self.reset(ResetReason::UNSPECIFIED);
            return;
        }
        suspicion.keepalives += 1;
        suspicion.wait *= 2;
        suspicion.next_at = now + suspicion.wait;
        self.subflow.send_keepalive();
    }

    pub(super) fn retirement_timeout(&self) -> Option<Nanos> {
        let suspicion = self.suspicion.as_deref().map(|suspicion| suspicion.next_at);
        let retired = self.retired_until.filter(|_| self.awaits_fin());
        earliest([suspicion, retired])
    }

    fn awaits_fin(&self) -> bool {
        !matches!(self.subflow.state(), State::TimeWait | State::Closed)
    }

    /// A FIN after what it has been given and has sent; what it has not sent is the caller's.
    fn retire(&mut self, until: Nanos) {
        self.subflow.close();
        self.retired_until = Some(until);
    }

    /// A FIN exchange that does not come to its end is cut off.
    fn give_up_retirement(&mut self, now: Nanos) {
        if self.awaits_fin() && self.retired_until.is_some_and(|until| until <= now) {
            self.reset_leftover();
        }
    }

    /// Its data have arrived another way (section 3.3.3).
    pub(super) fn reset_leftover(&mut self) {
        self.reset(match self.subflow.unacked_bytes() {
            0 => ResetReason::UNSPECIFIED,
            _ => ResetReason::TOO_MUCH_OUTSTANDING_DATA,
        });
    }
}

impl Connection {
    /// The paths to an address that the peer has removed.
    pub(super) fn suspect_paths_to(&mut self, now: Nanos, id: AddressId) {
        self.suspect_paths(now, |path| path.remote_id == id);
    }

    /// The paths from an address that we had removed, and that is back before they went: the peer may have given them up.
    pub(super) fn suspect_paths_from(&mut self, now: Nanos, local: IpAddr) {
        self.suspect_paths(now, |path| {
            path.four.local.ip() == local && mem::take(&mut path.has_lost_address)
        });
    }

    /// These paths are not used until they have shown that they live; if they do not, they are reset.
    fn suspect_paths(&mut self, now: Nanos, mut is_suspect: impl FnMut(&mut Path) -> bool) {
        for which in 0..self.paths.len() {
            if !is_suspect(&mut self.paths[which]) {
                continue;
            }
            let (path, windows) = self.paths.with_windows(which);
            path.suspect(now, windows[which].min_rtt.unwrap_or(0));
            windows[which].is_usable = path.is_healthy();
            if self.has_other_path(which) {
                self.reinject_from(which);
            }
        }
    }

    /// Closes by FIN the paths that are to go, as soon as the connection can do without them: another works, or nothing is
    /// outstanding (section 3.3.3).
    pub(super) fn retire_paths(&mut self, now: Nanos) {
        if !self.has_retiring {
            return;
        }
        let is_idle = self.send.acked() == self.send.assigned();
        let mut next = 0;
        while let Some(which) = self.paths.next_to_retire(next) {
            if is_idle || self.has_other_path(which) {
                self.retire_path(now, which);
            }
            next = which + 1;
        }
        self.has_retiring = self.paths.next_to_retire(0).is_some();
    }

    fn retire_path(&mut self, now: Nanos, which: usize) {
        let path = &mut self.paths[which];
        for range in path.subflow.take_queue() {
            self.reinjections.push(range.start, range.len);
        }
        path.retire(now + self.config.subflow.time_wait);
        let (four, is_unfit) = (path.four, path.is_unfit);
        self.is_schedulable = true;
        self.tell_closed(now, four, is_unfit);
    }

    /// The peer closes a subflow by FIN before its stream has ended; ours follows if there is another (section 3.3.3).
    pub(super) fn follow_fin(&mut self, now: Nanos, which: usize) {
        let has_ended = self.session.fins.is_remote_reached(self.receive.next());
        if !has_ended && self.has_other_path(which) {
            self.paths[which].is_retiring = true;
            self.has_retiring = true;
            self.retire_paths(now);
        }
    }
}
