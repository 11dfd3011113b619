//! Received data: in order and beyond gaps (RFC 9293, section 3.10.7.4; RFC 2018; RFC 2883).

use std::collections::VecDeque;

use crate::payload::{Payload, most_pieces};
use crate::queue;
use crate::seq::SeqNr;
use crate::wire::{SackBlock, SackBlocks};

#[derive(Clone, Debug)]
struct Piece {
    seq: SeqNr,
    payload: Payload,
}

impl Piece {
    fn end(&self) -> SeqNr {
        self.seq + self.payload.len()
    }

    fn cut_front(&mut self, bytes: u32) {
        self.payload = self.payload.slice(bytes..self.payload.len());
        self.seq += bytes;
    }
}

/// The place at which the data of a segment was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// The data was appended in order, and no other data waited beyond a gap.
    InOrder,
    /// The data was appended in order, while other data waited beyond a gap.
    InHole,
    /// The data was stored beyond a gap.
    OutOfOrder,
    /// The data was not stored, because it had arrived before or there is no room.
    Nowhere,
}

/// Stores the received data of a subflow.
#[derive(Clone, Debug)]
pub(super) struct Reassembly {
    irs: SeqNr,
    /// RCV.NXT.
    next: SeqNr,
    /// The sequence number of the peer's FIN, if it has arrived.
    fin: Option<SeqNr>,
    readable: VecDeque<Payload>,
    /// Data that did not arrive in order, if there is any. Allocated lazily, because most subflows
    /// never have such data.
    disorder: Option<Box<Disorder>>,
}

/// Data beyond gaps, and the SACK blocks that report it and duplicates.
#[derive(Clone, Debug, Default)]
struct Disorder {
    /// Disjoint pieces, in order of their sequence numbers.
    pieces: VecDeque<Piece>,
    piece_bytes: u32,
    /// SACK blocks to report, the latest first.
    blocks: SackBlocks,
    /// A duplicate segment to report (DSACK).
    duplicate: Option<SackBlock>,
}

impl Reassembly {
    pub fn new(irs: SeqNr) -> Self {
        Self {
            irs,
            next: irs + 1,
            fin: None,
            readable: VecDeque::new(),
            disorder: None,
        }
    }

    pub fn irs(&self) -> SeqNr {
        self.irs
    }

    pub fn next(&self) -> SeqNr {
        self.next
    }

    pub fn out_of_order_bytes(&self) -> u32 {
        self.disorder.as_ref().map_or(0, |it| it.piece_bytes)
    }

    pub fn has_readable(&self) -> bool {
        !self.readable.is_empty()
    }

    /// Returns whether an acknowledgment has SACK blocks to report.
    pub fn has_blocks(&self) -> bool {
        self.disorder.as_ref().is_some_and(|it| it.has_blocks())
    }

    /// Removes and returns the next bytes in order, or `None` if there are none.
    pub fn read(&mut self) -> Option<Payload> {
        self.readable.pop_front()
    }

    /// Stores the part of `payload` that is before `edge`, the end of the receive window. `seq` is
    /// the sequence number of the first byte of `payload`. Returns where the data was stored.
    /// Records parts that had arrived before as duplicates.
    pub fn insert(&mut self, seq: SeqNr, payload: &Payload, edge: SeqNr) -> Placed {
        let mut piece = Piece {
            seq,
            payload: payload.clone(),
        };
        self.cut_to_window(&mut piece, edge);
        if piece.payload.is_empty() {
            return Placed::Nowhere;
        }
        let is_next = piece.seq == self.next;
        match &mut self.disorder {
            Some(disorder) if is_next && !disorder.pieces.is_empty() => {
                disorder.place(piece);
                self.close_hole();
                Placed::InHole
            }
            _ if is_next => {
                self.append(piece);
                Placed::InOrder
            }
            disorder => {
                let window = edge.distance_from(self.next).max(0) as u64;
                disorder.get_or_insert_default().keep(piece, window)
            }
        }
    }

    fn cut_to_window(&mut self, piece: &mut Piece, edge: SeqNr) {
        let edge = self.fin.map_or(edge, |fin| edge.min(fin));
        if piece.end().is_after(edge) {
            let room = edge.distance_from(piece.seq).max(0) as u32;
            piece.payload = piece.payload.slice(0..room);
        }
        let old = self.next.distance_from(piece.seq).max(0) as u32;
        if old > 0 && !piece.payload.is_empty() {
            let old = old.min(piece.payload.len());
            let disorder = self.disorder.get_or_insert_default();
            disorder.record_duplicate(piece.seq, piece.seq + old);
            piece.cut_front(old);
        }
    }

    fn append(&mut self, piece: Piece) {
        self.next = piece.end();
        queue::push(&mut self.readable, piece.payload);
    }

    /// Moves waiting pieces that are now in order to the readable data.
    fn close_hole(&mut self) {
        while let Some(first) = self.take_piece_at(self.next) {
            self.append(first);
        }
        if let Some(disorder) = &mut self.disorder {
            let next = self.next;
            disorder.blocks.retain(|block| block.end.is_after(next));
        }
        self.forget_disorder();
    }

    /// Removes and returns the first piece if it starts at `seq`.
    fn take_piece_at(&mut self, seq: SeqNr) -> Option<Piece> {
        let disorder = self.disorder.as_mut()?;
        if disorder.pieces.front()?.seq != seq {
            return None;
        }
        let first = disorder.pieces.pop_front()?;
        disorder.piece_bytes -= first.payload.len();
        Some(first)
    }

    /// Releases the memory when all data is in order and everything has been reported.
    fn forget_disorder(&mut self) {
        self.disorder
            .take_if(|it| it.pieces.is_empty() && !it.has_blocks());
    }

    /// Records the segment from `start` up to `end` as a duplicate, if all of it had been received
    /// in order before.
    pub fn record_old(&mut self, start: SeqNr, end: SeqNr) {
        if end.is_after(start) && end.is_at_or_before(self.next) {
            let disorder = self.disorder.get_or_insert_default();
            disorder.record_duplicate(start, end);
        }
    }

    /// Returns at most `limit` SACK blocks for the next acknowledgment. If a duplicate segment has
    /// not been reported yet, the first block reports it (DSACK), and later calls do not report it
    /// again.
    pub fn take_blocks(&mut self, limit: usize) -> SackBlocks {
        let Some(disorder) = &mut self.disorder else {
            return SackBlocks::new();
        };
        let duplicate = disorder.duplicate.take();
        let all = duplicate.into_iter().chain(disorder.blocks.iter().copied());
        let blocks = all.take(limit.min(SackBlocks::new().capacity())).collect();
        self.forget_disorder();
        blocks
    }

    /// Records that the peer's FIN has the sequence number `seq`. Has no effect if a FIN was
    /// recorded before, or if `seq` is before the next expected number.
    pub fn fin_received(&mut self, seq: SeqNr) {
        if self.fin.is_none() && seq.is_at_or_after(self.next) {
            self.fin = Some(seq);
        }
    }

    /// Advances RCV.NXT beyond the FIN if all data before it has arrived. Returns whether it did.
    pub fn take_fin(&mut self) -> bool {
        let is_next = self.fin == Some(self.next);
        if is_next {
            self.next += 1;
        }
        is_next
    }
}

impl Disorder {
    fn has_blocks(&self) -> bool {
        self.duplicate.is_some() || !self.blocks.is_empty()
    }

    /// Stores a piece that is beyond a gap, in a window of `window_bytes`.
    fn keep(&mut self, piece: Piece, window_bytes: u64) -> Placed {
        if self.pieces.len() >= most_pieces(window_bytes) {
            return Placed::Nowhere;
        }
        let block = SackBlock {
            start: piece.seq,
            end: piece.end(),
        };
        let is_new = self.place(piece);
        self.report(block);
        if is_new {
            Placed::OutOfOrder
        } else {
            Placed::Nowhere
        }
    }

    /// Stores the missing parts of a piece between the other pieces. Returns whether any part was
    /// missing.
    fn place(&mut self, mut piece: Piece) -> bool {
        let mut any = false;
        while !piece.payload.is_empty() {
            let at = self
                .pieces
                .partition_point(|other| other.seq.is_at_or_before(piece.seq));
            let known = at.checked_sub(1).map_or(0, |before| {
                self.pieces[before].end().distance_from(piece.seq)
            });
            if known > 0 {
                let known = (known as u32).min(piece.payload.len());
                self.record_duplicate(piece.seq, piece.seq + known);
                piece.cut_front(known);
                continue;
            }
            self.place_up_to_next(&mut piece, at);
            any = true;
        }
        any
    }

    /// Stores the part of a piece that ends where `pieces[at]` begins, before that piece.
    fn place_up_to_next(&mut self, piece: &mut Piece, at: usize) {
        let len = piece.payload.len();
        let room = self
            .pieces
            .get(at)
            .map_or(len, |next| next.seq.distance_from(piece.seq) as u32)
            .min(len);
        let part = Piece {
            seq: piece.seq,
            payload: piece.payload.slice(0..room),
        };
        self.piece_bytes += room;
        self.pieces.insert(at, part);
        piece.cut_front(room);
    }

    /// Records the first duplicate segment since the last acknowledgment, which will be reported by
    /// DSACK (RFC 2883, section 4).
    fn record_duplicate(&mut self, start: SeqNr, end: SeqNr) {
        self.duplicate.get_or_insert(SackBlock { start, end });
    }

    /// Adds a block at the front and merges the blocks that it touches (RFC 2018, section 4).
    fn report(&mut self, mut block: SackBlock) {
        self.blocks.retain(|other| {
            let touches =
                other.start.is_at_or_before(block.end) && other.end.is_at_or_after(block.start);
            if touches {
                block.start = block.start.min(other.start);
                block.end = block.end.max(other.end);
            }
            !touches
        });
        if self.blocks.is_full() {
            self.blocks.pop();
        }
        self.blocks.insert(0, block);
    }
}
