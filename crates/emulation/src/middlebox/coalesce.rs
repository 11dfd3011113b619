//! Joins segments to larger ones, as receive offload or a normalizing proxy does.

use std::collections::BTreeMap;

use experiment::resolved::{self, MiddleboxDirection};
use experiment::time::Nanos;
use mptcp::wire::{Flags, Segment};

use super::connections::Ends;
use super::{Heading, Middlebox, Outlet, Passing};

/// Joins a segment to the one before it. Keeps the options of the first; options of later segments
/// are lost.
pub(super) struct Coalesce {
    described: resolved::Coalesce,
    direction: MiddleboxDirection,
    held: BTreeMap<(Heading, Ends), Held>,
}

/// A segment held until the next one arrives or `until` is reached.
struct Held {
    passing: Passing,
    until: Nanos,
}

impl Coalesce {
    pub(super) fn new(described: resolved::Coalesce, direction: MiddleboxDirection) -> Self {
        Self {
            described,
            direction,
            held: BTreeMap::new(),
        }
    }

    fn continues(&self, first: &Segment, next: &Segment) -> bool {
        let bytes = first.payload.len() + next.payload.len();
        next.seq == first.end() && bytes <= self.described.largest_bytes
    }
}

/// Returns whether the segment carries data and no SYN, FIN, RST or URG flag.
fn is_plain_data(segment: &Segment) -> bool {
    let others = Flags::SYN.0 | Flags::FIN.0 | Flags::RST.0 | Flags::URG.0;
    !segment.payload.is_empty() && segment.flags.0 & others == 0
}

/// Appends the payload of `next` and takes its newer acknowledgment and window.
fn append(first: &mut Segment, next: Segment) {
    first.payload.append(next.payload);
    first.flags |= next.flags;
    (first.ack, first.window) = (next.ack, next.window);
}

impl Middlebox for Coalesce {
    fn handle(&mut self, now: Nanos, heading: Heading, passing: Passing, out: &mut Outlet) {
        let key = (heading, Ends::of(heading, passing.packet()));
        let is_data = is_plain_data(&passing.packet().segment);
        if let Some(mut first) = self.held.remove(&key) {
            let next = &passing.packet().segment;
            if is_data && self.continues(&first.passing.packet().segment, next) {
                append(&mut first.passing.change().segment, next.clone());
                self.held.insert(key, first);
                return out.drop(passing);
            }
            out.pass(heading, first.passing);
        }
        if !is_data || !heading.is_covered_by(self.direction) {
            return out.pass(heading, passing);
        }
        let until = now + self.described.hold_ns;
        self.held.insert(key, Held { passing, until });
    }

    fn poll_timeout(&self) -> Option<Nanos> {
        self.held.values().map(|held| held.until).min()
    }

    fn handle_timeout(&mut self, now: Nanos, out: &mut Outlet) {
        let held = self.held.iter();
        let due = held.filter(|(_, held)| held.until <= now);
        for key in due.map(|(key, _)| *key).collect::<Vec<_>>() {
            let held = self.held.remove(&key);
            held.into_iter()
                .for_each(|held| out.pass(key.0, held.passing));
        }
    }
}
