//! Cuts segments into smaller ones, as segmentation offload of a network card does.

use experiment::resolved::{self, MiddleboxDirection, PiecesWithOptions};
use experiment::time::Nanos;
use mptcp::wire::{Flags, MptcpOptions, Packet};

use super::{Heading, Middlebox, Outlet, Passing};

/// Cuts segments.
pub(super) struct Split {
    described: resolved::Split,
    direction: MiddleboxDirection,
}

impl Split {
    pub(super) fn new(described: resolved::Split, direction: MiddleboxDirection) -> Self {
        Self {
            described,
            direction,
        }
    }
}

impl Middlebox for Split {
    fn handle(&mut self, _now: Nanos, heading: Heading, mut passing: Passing, out: &mut Outlet) {
        let largest = self.described.largest_bytes;
        let whole = passing.packet().clone();
        let len = whole.segment.payload.len();
        if len <= largest || !heading.is_covered_by(self.direction) {
            return out.pass(heading, passing);
        }
        *passing.change() = piece(&whole, 0, largest);
        out.pass(heading, passing);
        for start in (largest..len).step_by(largest as usize) {
            let mut piece = piece(&whole, start, len.min(start + largest));
            if self.described.options == PiecesWithOptions::First {
                piece.segment.options.mptcp = MptcpOptions::new();
            }
            out.make(heading, piece);
        }
    }
}

/// Returns the payload from `start` to `end` as a packet. Only the last piece keeps FIN and PSH.
pub(super) fn piece(whole: &Packet, start: u32, end: u32) -> Packet {
    let mut piece = whole.clone();
    let segment = &mut piece.segment;
    if end < segment.payload.len() {
        segment.flags = Flags(segment.flags.0 & !(Flags::FIN.0 | Flags::PSH.0));
    }
    segment.payload = segment.payload.slice(start..end);
    segment.seq += start;
    piece
}
