//! From which of several addresses a connection starts.

use rand_core::Rng;

use super::path::Join;
use super::{Connection, Subflow};
use crate::pm::{FourTuple, PathManager};
use crate::seq::SeqNr;
use crate::subflow::{Arrival, CloseReason};
use crate::time::Nanos;

/// How a connection that there are several ways for starts. RFC 8684 knows one initial subflow and leaves open from where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// On the first way; on the next one when its SYNs have died or were refused.
    #[default]
    Primary,
    /// On all ways at once, each with a SYN that has MP_CAPABLE. The first answer wins, and the others are answered by a reset:
    /// a SYN of version 1 has no key, so they are handshakes of their own. The path manager may join over their ways later. Ours:
    /// no RFC says so.
    Race,
}

/// A way to start besides the one that is the connection's initial one for now.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) four: FourTuple,
    iss: SeqNr,
    /// What becomes the path manager if the connection starts there, as it has to know the initial subflow.
    pub(super) path_manager: Box<dyn PathManager>,
    is_tried: bool,
}

impl Connection {
    /// Another way for a connection that was just opened; [`Config::start`](super::Config::start) says when it is tried.
    pub fn add_way(
        &mut self,
        now: Nanos,
        four: FourTuple,
        path_manager: Box<dyn PathManager>,
        rng: &mut dyn Rng,
    ) {
        let iss = SeqNr(rng.next_u32());
        let is_tried = self.config.start == Start::Race;
        self.ways.push(Way {
            four,
            iss,
            path_manager,
            is_tried,
        });
        if is_tried {
            self.start_on(now, four, iss);
        }
    }

    pub(super) fn start_on(&mut self, now: Nanos, four: FourTuple, iss: SeqNr) {
        let config = self.config.subflow.clone();
        let ports = (four.local.port(), four.remote.port());
        let subflow = Subflow::connect(now, config, ports.0, ports.1, iss);
        self.add_path(now, four, (0, 0), subflow, Join::Initial);
    }

    /// Where the connection can be reached: the ends of its subflows, and those that it may still start from.
    pub fn ends(&self) -> impl Iterator<Item = FourTuple> {
        let paths = self.paths.iter().map(|path| path.four);
        let untried = self.ways.iter().filter(|way| !way.is_tried);
        paths.chain(untried.map(|way| way.four))
    }

    /// A path was answered first: it is the initial one, and there are no others. Says its new index.
    pub(super) fn settle_start(&mut self, now: Nanos, which: usize, arrival: Arrival) -> usize {
        if self.ways.is_empty() || !arrival.established {
            return which;
        }
        let winner = self.paths[which].four;
        self.begin_with(winner);
        self.ways.clear();
        while let Some(loser) = self.paths.iter().position(|path| path.four != winner) {
            self.remove_path(now, loser, CloseReason::Aborted);
        }
        0
    }

    /// Its last path has gone before any was answered: whether there is another way.
    pub(super) fn try_next_way(&mut self, now: Nanos) -> bool {
        let untried = self.ways.iter_mut().find(|way| !way.is_tried);
        let Some(way) = untried.filter(|_| self.closed.is_none()) else {
            return false;
        };
        way.is_tried = true;
        let (four, iss) = (way.four, way.iss);
        self.begin_with(four);
        self.start_on(now, four, iss);
        true
    }

    fn begin_with(&mut self, four: FourTuple) {
        if let Some(way) = self.ways.iter_mut().find(|way| way.four == four) {
            self.initial = four;
            std::mem::swap(&mut self.path_manager, &mut way.path_manager);
        }
    }
}
