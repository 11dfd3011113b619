//! The choice of the address pair on which a connection starts.

use rand_core::Rng;

use super::lifecycle::Lifecycle;
use super::{Connection, Subflow};
use crate::pm::{FourTuple, PathManager};
use crate::seq::SeqNr;
use crate::subflow::{Arrival, CloseReason};
use crate::time::Nanos;

/// How a connection starts if several address pairs are available. RFC 8684 has one initial subflow
/// and does not say which address pair it uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// The opener tries the first address pair. It tries the next one when the SYNs remain
    /// unanswered or are refused.
    #[default]
    Primary,
    /// The opener sends a SYN with MP_CAPABLE on every address pair at once.
    ///
    /// The first pair that is answered becomes the initial subflow, and later answers get a RST.
    /// The handshakes are separate, because a SYN of MPTCP version 1 carries no key. The path
    /// manager may join on the other address pairs later. This is an extension of mptcplab: no RFC
    /// defines it.
    Race,
}

/// An address pair, besides the current initial one, on which the connection can start.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) four: FourTuple,
    iss: SeqNr,
    /// The path manager for a start on this address pair. It replaces the current one, because a
    /// path manager has to know the initial subflow.
    pub(super) path_manager: Box<dyn PathManager>,
    is_tried: bool,
}

impl Connection {
    /// Adds another address pair, `four`, on which a connection that was just opened can start.
    /// [`Config::start`](super::Config::start) determines whether it is tried at `now` or later.
    ///
    /// `path_manager` replaces the path manager of the connection if the connection starts on this
    /// pair. `rng` chooses the initial sequence number.
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
        let tcp = Subflow::connect(now, config, ports.0, ports.1, iss);
        self.add_subflow(now, four, (0, 0), tcp, Lifecycle::connecting());
    }

    /// Returns the addresses and ports at which packets of the connection can arrive: those of its
    /// subflows, and those on which it may still start.
    pub fn ends(&self) -> impl Iterator<Item = FourTuple> {
        let subflows = self.subflows.iter().map(|context| context.four);
        let untried = self.ways.iter().filter(|way| !way.is_tried);
        subflows.chain(untried.map(|way| way.four))
    }

    /// Once a subflow is answered, makes it the initial subflow and removes all others. Returns its
    /// new index.
    pub(super) fn settle_start(&mut self, now: Nanos, subflow: usize, arrival: Arrival) -> usize {
        if self.ways.is_empty() || !arrival.established {
            return subflow;
        }
        let winner = self.subflows[subflow].four;
        self.begin_with(winner);
        self.ways.clear();
        while let Some(loser) = self
            .subflows
            .iter()
            .position(|context| context.four != winner)
        {
            self.remove_subflow(now, loser, CloseReason::Aborted);
        }
        0
    }

    /// Starts on the next address pair after the last subflow closed without an answer. Returns
    /// whether there was one.
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
