//! Middleboxes: what stands between an interface and its link and does not leave TCP as it is.
//!
//! Parsed packets and time in, packets out: one implementation for the simulator and for real time. Several before one interface
//! are a [`Chain`]: what leaves the interface passes them in the order of the description, what arrives in the opposite order.
//! What a middlebox makes itself goes out at once.

mod acknowledge_early;
mod change_bytes;
mod coalesce;
mod connections;
mod duplicate;
mod insert_bytes;
mod nat;
mod rewrite_sequence;
mod selection;
mod split;

use std::collections::VecDeque;
use std::sync::Arc;

use mptcp::wire::Packet;
use serde::Serialize;

use crate::resolved::{self, Element, Experiment, MiddleboxDirection};
use crate::rng::Generator;
use crate::time::Nanos;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Heading {
    /// From the interface to the link.
    Leaving,
    /// From the link to the interface.
    Arriving,
}

impl Heading {
    /// The other way.
    pub fn back(self) -> Self {
        match self {
            Self::Leaving => Self::Arriving,
            Self::Arriving => Self::Leaving,
        }
    }
}

impl MiddleboxDirection {
    /// Whether packets that go this way are worked on.
    fn covers(self, heading: Heading) -> bool {
        match self {
            Self::Leaving => heading == Heading::Leaving,
            Self::Arriving => heading == Heading::Arriving,
            Self::Both => true,
        }
    }
}

/// A packet at a middlebox.
#[derive(Clone, Debug)]
pub struct Passing {
    packet: Packet,
    bytes: Option<Arc<[u8]>>,
    /// Since the last middlebox that it passed.
    is_changed: bool,
}

impl Passing {
    /// A packet, with the bytes that it was read from if it has some.
    pub fn new(packet: Packet, bytes: Option<Arc<[u8]>>) -> Self {
        Self {
            packet,
            bytes,
            is_changed: false,
        }
    }

    /// The packet.
    pub fn packet(&self) -> &Packet {
        &self.packet
    }

    /// The packet, to be changed: the bytes that it was read from are no longer its own.
    fn change(&mut self) -> &mut Packet {
        self.bytes = None;
        self.is_changed = true;
        &mut self.packet
    }

    /// The packet, and the bytes that it was read from if nobody has changed it.
    pub fn into_parts(self) -> (Packet, Option<Arc<[u8]>>) {
        (self.packet, self.bytes)
    }
}

/// What a middlebox has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Packets that came to it.
    pub packets: u64,
    /// Packets that went on otherwise than they came.
    pub changed_packets: u64,
    /// Packets that did not go on, those that became part of another one included.
    pub dropped_packets: u64,
    /// Packets that it made: copies, pieces and answers.
    pub made_packets: u64,
}

/// What a middlebox says of itself in the result of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MiddleboxSummary {
    /// The interface before which it stands.
    pub at: String,
    /// What it does.
    pub kind: &'static str,
    /// What it has done.
    #[serde(flatten)]
    pub counters: Counters,
}

/// A kind of middlebox at work.
trait Middlebox: Send {
    /// Takes a packet.
    fn handle(&mut self, now: Nanos, heading: Heading, passing: Passing, out: &mut Outlet<'_>);

    /// When it must be called without a packet; `None`: not before the next one.
    fn poll_timeout(&self) -> Option<Nanos> {
        None
    }

    /// The time has come.
    fn handle_timeout(&mut self, _now: Nanos, _out: &mut Outlet<'_>) {}
}

/// Where a middlebox puts packets.
struct Outlet<'a> {
    emitted: &'a mut VecDeque<(Heading, Passing)>,
    counters: &'a mut Counters,
}

impl Outlet<'_> {
    /// Lets a packet that came go on.
    fn pass(&mut self, heading: Heading, mut passing: Passing) {
        self.counters.changed_packets += u64::from(std::mem::take(&mut passing.is_changed));
        self.emitted.push_back((heading, passing));
    }

    /// A packet goes no further.
    fn drop(&mut self, _passing: Passing) {
        self.counters.dropped_packets += 1;
    }

    /// Sends a packet that did not come.
    fn make(&mut self, heading: Heading, packet: Packet) {
        self.counters.made_packets += 1;
        self.emitted
            .push_back((heading, Passing::new(packet, None)));
    }
}

/// The middleboxes before one interface.
pub struct Chain {
    /// In the order in which leaving packets pass them.
    stages: Vec<Stage>,
    output: VecDeque<(Heading, Passing)>,
    emitted: VecDeque<(Heading, Passing)>,
}

struct Stage {
    middlebox: Box<dyn Middlebox>,
    /// Place of its description.
    index: usize,
    summary: MiddleboxSummary,
}

impl Chain {
    /// Those of a valid experiment before an interface, as they work with this seed; `None` if there are none.
    pub fn before(experiment: &Experiment, seed: u64, interface: &str) -> Option<Self> {
        let all = experiment.middleboxes.iter().enumerate();
        let here = all.filter(|(_, middlebox)| middlebox.at == interface);
        let stages = here.map(|(index, middlebox)| Stage {
            middlebox: made(
                middlebox,
                Generator::new(seed, &format!("middlebox/{index}")),
            ),
            index,
            summary: MiddleboxSummary {
                at: middlebox.at.clone(),
                kind: middlebox.element.kind(),
                counters: Counters::default(),
            },
        });
        let stages: Vec<_> = stages.collect();
        (!stages.is_empty()).then(|| Self {
            stages,
            output: VecDeque::new(),
            emitted: VecDeque::new(),
        })
    }

    /// Takes a packet.
    pub fn enter(&mut self, now: Nanos, heading: Heading, passing: Passing) {
        let first = match heading {
            Heading::Leaving => 0,
            Heading::Arriving => self.stages.len() - 1,
        };
        self.carry(now, VecDeque::from([(first, heading, passing)]));
    }

    /// The next packet that is through.
    pub fn poll_output(&mut self) -> Option<(Heading, Passing)> {
        self.output.pop_front()
    }

    /// When it must be called without a packet; `None`: not before the next one.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let stages = self.stages.iter();
        stages
            .filter_map(|stage| stage.middlebox.poll_timeout())
            .min()
    }

    /// Lets those act whose time has come.
    pub fn handle_timeout(&mut self, now: Nanos) {
        for place in 0..self.stages.len() {
            let stage = &mut self.stages[place];
            if stage.middlebox.poll_timeout().is_some_and(|at| at <= now) {
                let mut out = Outlet {
                    emitted: &mut self.emitted,
                    counters: &mut stage.summary.counters,
                };
                stage.middlebox.handle_timeout(now, &mut out);
                let mut waiting = VecDeque::new();
                self.take_emitted(place, &mut waiting);
                self.carry(now, waiting);
            }
        }
    }

    /// Takes packets through the middleboxes before which they stand, in the order of their coming.
    fn carry(&mut self, now: Nanos, mut waiting: VecDeque<(usize, Heading, Passing)>) {
        while let Some((place, heading, passing)) = waiting.pop_front() {
            let stage = &mut self.stages[place];
            stage.summary.counters.packets += 1;
            let mut out = Outlet {
                emitted: &mut self.emitted,
                counters: &mut stage.summary.counters,
            };
            stage.middlebox.handle(now, heading, passing, &mut out);
            self.take_emitted(place, &mut waiting);
        }
    }

    /// What the middlebox at `place` has put out goes to the next one, or is through.
    fn take_emitted(&mut self, place: usize, waiting: &mut VecDeque<(usize, Heading, Passing)>) {
        for (heading, passing) in self.emitted.drain(..) {
            let next = match heading {
                Heading::Leaving => Some(place + 1).filter(|next| *next < self.stages.len()),
                Heading::Arriving => place.checked_sub(1),
            };
            match next {
                Some(next) => waiting.push_back((next, heading, passing)),
                None => self.output.push_back((heading, passing)),
            }
        }
    }
}

/// What all middleboxes have done, in the order of the description.
pub fn summaries<'a>(chains: impl Iterator<Item = &'a Chain>) -> Vec<MiddleboxSummary> {
    let mut stages: Vec<_> = chains.flat_map(|chain| &chain.stages).collect();
    stages.sort_by_key(|stage| stage.index);
    let stages = stages.into_iter();
    stages.map(|stage| stage.summary.clone()).collect()
}

/// The table of all kinds.
fn made(described: &resolved::Middlebox, random: Generator) -> Box<dyn Middlebox> {
    let direction = described.direction;
    match &described.element {
        Element::StripOptions(selection) => Box::new(selection::Strip::new(selection, direction)),
        Element::DropOptions(selection) => Box::new(selection::Drop::new(selection, direction)),
        Element::RewriteSequence {} => {
            Box::new(rewrite_sequence::RewriteSequence::new(direction, random))
        }
        Element::Nat(nat) => Box::new(nat::Nat::new(*nat, direction, random)),
        Element::Split(split) => Box::new(split::Split::new(*split, direction)),
        Element::Coalesce(coalesce) => Box::new(coalesce::Coalesce::new(*coalesce, direction)),
        Element::ChangeBytes(change) => {
            Box::new(change_bytes::ChangeBytes::new(*change, direction, random))
        }
        Element::InsertBytes(insert) => {
            Box::new(insert_bytes::InsertBytes::new(*insert, direction))
        }
        Element::Duplicate(duplicate) => {
            Box::new(duplicate::Duplicate::new(*duplicate, direction, random))
        }
        Element::AcknowledgeEarly(early) => {
            Box::new(acknowledge_early::AcknowledgeEarly::new(*early, direction))
        }
    }
}
