//! Middleboxes: elements between an interface and its link that change TCP.
//!
//! They take parsed packets and time and return packets, so that the simulator and the emulator
//! share one implementation. The middleboxes at one interface form a [`Chain`]. Packets that leave
//! the interface pass it in the order of the description, arriving packets in the opposite order.
//! Packets that a middlebox creates go out at once.

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

use experiment::resolved::{self, Element, Experiment, MiddleboxDirection};
use experiment::rng::Generator;
use experiment::time::Nanos;
use mptcp::wire::Packet;
use serde::Serialize;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Heading {
    /// From the interface to the link.
    Leaving,
    /// From the link to the interface.
    Arriving,
}

impl Heading {
    /// Returns the opposite heading.
    pub fn back(self) -> Self {
        match self {
            Self::Leaving => Self::Arriving,
            Self::Arriving => Self::Leaving,
        }
    }

    /// Returns whether a middlebox that processes `direction` processes packets with this heading.
    fn is_covered_by(self, direction: MiddleboxDirection) -> bool {
        match direction {
            MiddleboxDirection::Leaving => self == Self::Leaving,
            MiddleboxDirection::Arriving => self == Self::Arriving,
            MiddleboxDirection::Both => true,
        }
    }
}

/// A packet at a middlebox.
#[derive(Clone, Debug)]
pub struct Passing {
    packet: Packet,
    bytes: Option<Arc<[u8]>>,
    /// Whether the packet was changed since the last middlebox it passed.
    is_changed: bool,
}

impl Passing {
    /// Returns a packet to be processed, with the bytes it was parsed from if it has any.
    pub fn new(packet: Packet, bytes: Option<Arc<[u8]>>) -> Self {
        Self {
            packet,
            bytes,
            is_changed: false,
        }
    }

    /// Returns the packet.
    pub fn packet(&self) -> &Packet {
        &self.packet
    }

    /// Returns the packet for changes, and discards the bytes it was parsed from.
    fn change(&mut self) -> &mut Packet {
        self.bytes = None;
        self.is_changed = true;
        &mut self.packet
    }

    /// Returns the packet, and the bytes it was parsed from if it was not changed.
    pub fn into_parts(self) -> (Packet, Option<Arc<[u8]>>) {
        (self.packet, self.bytes)
    }
}

/// Counters of a middlebox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Packets that arrived at it.
    pub packets: u64,
    /// Packets that it passed on changed.
    pub changed_packets: u64,
    /// Packets that it did not pass on, including those joined to another packet.
    pub dropped_packets: u64,
    /// Packets that it created: copies, pieces and answers.
    pub made_packets: u64,
}

/// A middlebox in the result of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MiddleboxSummary {
    /// The interface at which it stands.
    pub at: String,
    /// The kind of the middlebox.
    pub kind: &'static str,
    /// What it counted.
    #[serde(flatten)]
    pub counters: Counters,
}

/// The behaviour of one kind of middlebox.
trait Middlebox: Send {
    /// Handles a packet.
    fn handle(&mut self, now: Nanos, heading: Heading, passing: Passing, out: &mut Outlet<'_>);

    /// Returns when `handle_timeout` must be called. `None` means not before the next packet.
    fn poll_timeout(&self) -> Option<Nanos> {
        None
    }

    /// Handles the timeout returned by `poll_timeout`.
    fn handle_timeout(&mut self, _now: Nanos, _out: &mut Outlet<'_>) {}
}

/// Collects the packets that a middlebox sends.
struct Outlet<'a> {
    emitted: &'a mut VecDeque<(Heading, Passing)>,
    counters: &'a mut Counters,
}

impl Outlet<'_> {
    /// Passes on a packet that arrived.
    fn pass(&mut self, heading: Heading, mut passing: Passing) {
        self.counters.changed_packets += u64::from(std::mem::take(&mut passing.is_changed));
        self.emitted.push_back((heading, passing));
    }

    /// Drops a packet that arrived.
    fn drop(&mut self, _passing: Passing) {
        self.counters.dropped_packets += 1;
    }

    /// Sends a packet that the middlebox created.
    fn make(&mut self, heading: Heading, packet: Packet) {
        self.counters.made_packets += 1;
        self.emitted
            .push_back((heading, Passing::new(packet, None)));
    }
}

/// The middleboxes at one interface.
pub struct Chain {
    /// In the order in which packets leaving the interface pass them.
    stages: Vec<Stage>,
    output: VecDeque<(Heading, Passing)>,
    emitted: VecDeque<(Heading, Passing)>,
}

struct Stage {
    middlebox: Box<dyn Middlebox>,
    /// Index of its description.
    index: usize,
    summary: MiddleboxSummary,
}

impl Chain {
    /// Returns the middleboxes of a valid experiment at an interface, with the randomness of
    /// `seed`. `None` if there are none.
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

    /// Handles a packet that enters the chain.
    pub fn enter(&mut self, now: Nanos, heading: Heading, passing: Passing) {
        let first = match heading {
            Heading::Leaving => 0,
            Heading::Arriving => self.stages.len() - 1,
        };
        self.carry(now, VecDeque::from([(first, heading, passing)]));
    }

    /// Returns the next packet that has passed the chain.
    pub fn poll_output(&mut self) -> Option<(Heading, Passing)> {
        self.output.pop_front()
    }

    /// Returns when `handle_timeout` must be called. `None` means not before the next packet.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let stages = self.stages.iter();
        stages
            .filter_map(|stage| stage.middlebox.poll_timeout())
            .min()
    }

    /// Calls the middleboxes whose timeout has expired.
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
                self.move_emitted(place, &mut waiting);
                self.carry(now, waiting);
            }
        }
    }

    /// Takes packets through the middleboxes, each from the stage given with it, in order of
    /// arrival.
    fn carry(&mut self, now: Nanos, mut waiting: VecDeque<(usize, Heading, Passing)>) {
        while let Some((place, heading, passing)) = waiting.pop_front() {
            let stage = &mut self.stages[place];
            stage.summary.counters.packets += 1;
            let mut out = Outlet {
                emitted: &mut self.emitted,
                counters: &mut stage.summary.counters,
            };
            stage.middlebox.handle(now, heading, passing, &mut out);
            self.move_emitted(place, &mut waiting);
        }
    }

    /// Moves the packets sent by the middlebox at `place` to the next stage, or to the output.
    fn move_emitted(&mut self, place: usize, waiting: &mut VecDeque<(usize, Heading, Passing)>) {
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

/// Returns the summaries of all middleboxes, in the order of the description.
pub fn summaries<'a>(chains: impl Iterator<Item = &'a Chain>) -> Vec<MiddleboxSummary> {
    let mut stages: Vec<_> = chains.flat_map(|chain| &chain.stages).collect();
    stages.sort_by_key(|stage| stage.index);
    let stages = stages.into_iter();
    stages.map(|stage| stage.summary.clone()).collect()
}

/// Creates a middlebox of the described kind.
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
