//! What was sent and is not acknowledged: one record per segment, with what the peer and the clock say of it (RFC 6675's
//! scoreboard).
//!
//! A record keeps its boundaries until all of it is acknowledged, because an MPTCP mapping may belong to it. Its bytes stand in
//! [`SentData`].

use std::collections::VecDeque;

use super::Chunk;
use super::delivery_rate::SentState;
use super::rack::{Rack, Transmission};
use super::sack::SackedAbove;
use super::sent_data::SentData;
use crate::sched::Range;
use crate::seq::SeqNr;
use crate::time::Nanos;
use crate::wire::SackBlock;

/// What is known of a record, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Marks(u8);

impl Marks {
    /// The peer has it out of order.
    const SACKED: u8 = 1;
    /// Its last transmission but one is lost, or its only one.
    const LOST: u8 = 2;
    /// A retransmission of it is under way.
    const RETRANSMITTED: u8 = 4;
    /// It was sent more than once.
    const EVER_RETRANSMITTED: u8 = 8;
    /// It ends with our FIN.
    const FIN: u8 = 16;
    /// It was the last that there was to be sent.
    const PUSHED: u8 = 32;

    fn has(self, mark: u8) -> bool {
        self.0 & mark != 0
    }

    fn set(&mut self, mark: u8) {
        self.0 |= mark;
    }

    fn clear(&mut self, mark: u8) {
        self.0 &= !mark;
    }
}

/// The least by which the list grows, in records.
const LEAST_GROWTH: usize = 1;
/// Records that an empty list keeps room for, lest a flight that ends every round trip allocates: 4 kB.
const KEPT_RECORDS: usize = 128;

/// A segment that was sent.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// When it was sent last.
    pub sent_at: Nanos,
    pub sent: SentState,
    pub seq: SeqNr,
    /// Its last transmission.
    pub transmission: Transmission,
    payload_len: u16,
    marks: Marks,
}

impl Record {
    pub fn end(&self) -> SeqNr {
        self.seq + self.seq_len()
    }

    pub fn is_pushed(&self) -> bool {
        self.marks.has(Marks::PUSHED)
    }

    pub fn has_fin(&self) -> bool {
        self.marks.has(Marks::FIN)
    }

    pub fn was_retransmitted(&self) -> bool {
        self.marks.has(Marks::EVER_RETRANSMITTED)
    }

    pub fn payload_len(&self) -> u32 {
        u32::from(self.payload_len)
    }

    fn seq_len(&self) -> u32 {
        self.payload_len() + u32::from(self.has_fin())
    }

    fn is_sacked(&self) -> bool {
        self.marks.has(Marks::SACKED)
    }

    /// The parts of at most so many bytes that it consists of, all lost.
    fn lost_parts(&self, most_bytes: u16) -> impl Iterator<Item = Self> {
        let len = self.payload_len;
        (0..len).step_by(most_bytes.into()).map(move |from| {
            let is_last = len - from <= most_bytes;
            let mut part = self.clone();
            part.seq = self.seq + u32::from(from);
            part.payload_len = most_bytes.min(len - from);
            part.marks.set(Marks::LOST);
            part.marks.clear(Marks::RETRANSMITTED);
            if !is_last {
                part.marks.clear(Marks::FIN | Marks::PUSHED);
            }
            part
        })
    }

    /// Lost, and not yet repeated since.
    fn awaits_retransmission(&self) -> bool {
        self.marks.has(Marks::LOST) && !self.marks.has(Marks::RETRANSMITTED)
    }

    /// How much of it is in the network: SetPipe of RFC 6675, section 4, for one record.
    fn in_flight(&self) -> u32 {
        if self.is_sacked() {
            return 0;
        }
        let original = u32::from(!self.marks.has(Marks::LOST));
        let repeated = u32::from(self.marks.has(Marks::RETRANSMITTED));
        (original + repeated) * self.seq_len()
    }
}

/// All records, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Flight {
    records: VecDeque<Record>,
    data: SentData,
    sums: Sums,
    last_transmission: Transmission,
    /// Bytes that were marked lost since this was asked last.
    newly_lost_bytes: u32,
}

/// Sums over all records.
#[derive(Clone, Debug, Default)]
struct Sums {
    in_flight_bytes: u32,
    sacked_segments: u32,
    awaiting_retransmission: u32,
}

impl Sums {
    fn add(&mut self, record: &Record) {
        self.in_flight_bytes += record.in_flight();
        self.sacked_segments += u32::from(record.is_sacked());
        self.awaiting_retransmission += u32::from(record.awaits_retransmission());
    }

    fn remove(&mut self, record: &Record) {
        self.in_flight_bytes -= record.in_flight();
        self.sacked_segments -= u32::from(record.is_sacked());
        self.awaiting_retransmission -= u32::from(record.awaits_retransmission());
    }
}

impl Flight {
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub fn segments(&self) -> usize {
        self.records.len()
    }

    /// The data of all records, in the order in which it was sent.
    pub fn unacked(&self) -> impl Iterator<Item = Range> {
        let with_data = self.records.iter().filter(|record| record.payload_len > 0);
        with_data.map(|record| Range {
            start: self.data.offset(record.seq),
            len: u64::from(record.payload_len),
        })
    }

    /// Where the data of the first record with that byte of the stream ends.
    pub fn end_of_record_with(&self, offset: u64) -> Option<u64> {
        let seq = self.data.seq_of(offset)?;
        let after = self
            .records
            .partition_point(|record| record.seq.is_at_or_before(seq));
        let record = &self.records[after - 1];
        let rest = (record.seq + record.payload_len()).distance_from(seq);
        Some(offset + rest as u64)
    }

    pub fn record(&self, index: usize) -> &Record {
        &self.records[index]
    }

    /// The data of a record.
    pub fn chunk(&self, index: usize) -> Chunk {
        let record = self.record(index);
        self.data.slice(record.seq, record.payload_len())
    }

    /// Bytes in the network, as far as it is known.
    pub fn in_flight_bytes(&self) -> u32 {
        self.sums.in_flight_bytes
    }

    /// Bytes not acknowledged.
    pub fn outstanding_bytes(&self) -> u32 {
        match (self.records.front(), self.records.back()) {
            (Some(first), Some(last)) => last.end().distance_from(first.seq) as u32,
            _ => 0,
        }
    }

    pub fn sacked_segments(&self) -> u32 {
        self.sums.sacked_segments
    }

    pub fn awaits_retransmission(&self) -> bool {
        self.sums.awaiting_retransmission > 0
    }

    /// A segment is sent for the first time; the number of its record.
    pub fn push(
        &mut self,
        now: Nanos,
        chunk: &Chunk,
        seq: SeqNr,
        fin: bool,
        sent: SentState,
    ) -> usize {
        let mut marks = Marks::default();
        if fin {
            marks.set(Marks::FIN);
        }
        self.last_transmission = self.last_transmission.next();
        let record = Record {
            sent_at: now,
            sent,
            seq,
            transmission: self.last_transmission,
            payload_len: chunk.payload.len() as u16,
            marks,
        };
        self.data.push(seq, chunk);
        self.sums.add(&record);
        self.keep(record);
        self.records.len() - 1
    }

    /// Nothing waited behind that record when it was sent first: the receiver is told (RFC 9293, section 3.9.1.2).
    pub fn mark_pushed(&mut self, index: usize) {
        self.records[index].marks.set(Marks::PUSHED);
    }

    /// The list grows by an eighth: of large windows little memory is left unused.
    fn keep(&mut self, record: Record) {
        let len = self.records.len();
        if len == self.records.capacity() {
            self.records.reserve_exact(LEAST_GROWTH.max(len / 8));
        }
        self.records.push_back(record);
    }

    /// The first that is lost and not repeated (RFC 6675, section 4, NextSeg rule 1).
    pub fn next_lost(&self) -> Option<usize> {
        if !self.awaits_retransmission() {
            return None;
        }
        self.records.iter().position(Record::awaits_retransmission)
    }

    /// The last that the peer has not reported: what a tail loss probe repeats.
    pub fn last_unreported(&self) -> Option<usize> {
        self.records.iter().rposition(|record| !record.is_sacked())
    }

    /// A record is sent again.
    pub fn retransmitted(&mut self, now: Nanos, index: usize, sent: SentState) {
        self.last_transmission = self.last_transmission.next();
        let transmission = self.last_transmission;
        self.change(index, |record| {
            record.transmission = transmission;
            (record.sent_at, record.sent) = (now, sent);
            record
                .marks
                .set(Marks::RETRANSMITTED | Marks::EVER_RETRANSMITTED);
        });
    }

    /// Removes what is acknowledged whole; `delivered` is told of each record that was not reported before.
    pub fn acknowledge(&mut self, ack: SeqNr, mut delivered: impl FnMut(&Record)) {
        while self
            .records
            .front()
            .is_some_and(|first| first.end().is_at_or_before(ack))
        {
            let record = self.records.pop_front().expect("the first");
            self.sums.remove(&record);
            if !record.is_sacked() {
                delivered(&record);
            }
        }
        match self.records.front() {
            Some(first) => self.data.forget_before(first.seq),
            None => self.empty(),
        }
    }

    /// All is acknowledged; the memory of a large flight is given back.
    fn empty(&mut self) {
        self.data.clear();
        self.records.shrink_to(KEPT_RECORDS);
    }

    /// Marks what lies within a block; `delivered` is told of each record that is new. A block beyond what was sent finds none.
    pub fn report(&mut self, block: SackBlock, mut delivered: impl FnMut(&Record)) {
        let mut index = self
            .records
            .partition_point(|record| record.seq.is_before(block.start));
        while self
            .records
            .get(index)
            .is_some_and(|record| record.end().is_at_or_before(block.end))
        {
            if !self.records[index].is_sacked() {
                delivered(&self.records[index]);
                self.change(index, |record| {
                    record.marks.set(Marks::SACKED);
                    record.marks.clear(Marks::LOST | Marks::RETRANSMITTED);
                });
            }
            index += 1;
        }
    }

    /// Whether the peer took back a report: it has the first, and does not acknowledge it (RFC 2018, section 8).
    pub fn is_reneged(&self) -> bool {
        self.records.front().is_some_and(Record::is_sacked)
    }

    /// Forgets all reports.
    pub fn forget_reports(&mut self) {
        for index in 0..self.records.len() {
            self.change(index, |record| record.marks.clear(Marks::SACKED));
        }
    }

    /// Marks a record lost, its retransmission too.
    pub fn mark_lost(&mut self, index: usize) {
        self.newly_lost_bytes += self.records[index].seq_len();
        self.change(index, |record| {
            record.marks.set(Marks::LOST);
            record.marks.clear(Marks::RETRANSMITTED);
        });
    }

    /// Bytes that were marked lost since the last call.
    pub fn take_newly_lost(&mut self) -> u32 {
        std::mem::take(&mut self.newly_lost_bytes)
    }

    /// Marks all that the peer has not reported, after a timeout; with `spare`, not those it holds for.
    pub fn mark_all_lost(&mut self, spare: impl Fn(&Record) -> bool) {
        for index in 0..self.records.len() {
            let record = &self.records[index];
            let is_spared = index > 0 && spare(record);
            if !record.is_sacked() && !is_spared {
                self.mark_lost(index);
            }
        }
    }

    /// What went out in longer segments, and is not reported, is lost; it is sent again in segments of at most so many bytes.
    pub fn divide(&mut self, most_bytes: u32) {
        let is_long = |record: &Record| !record.is_sacked() && record.payload_len() > most_bytes;
        if !self.records.iter().any(is_long) {
            return;
        }
        for record in std::mem::take(&mut self.records) {
            if !is_long(&record) {
                self.keep(record);
                continue;
            }
            self.sums.remove(&record);
            for part in record.lost_parts(most_bytes as u16) {
                self.sums.add(&part);
                self.keep(part);
            }
        }
    }

    /// No segment is lost after all.
    pub fn clear_losses(&mut self) {
        for index in 0..self.records.len() {
            self.change(index, |record| record.marks.clear(Marks::LOST));
        }
    }

    /// RACK_detect_loss (RFC 8985, section 6.2, step 5): whether something is newly lost, and when something else will be.
    ///
    /// A record that was sent once and is not overtaken ends the search: all after it were sent later.
    pub fn detect_losses(
        &mut self,
        now: Nanos,
        rack: &Rack,
        window: Nanos,
    ) -> (bool, Option<Nanos>) {
        let (mut any, mut next) = (false, None::<Nanos>);
        for index in 0..self.records.len() {
            let record = &self.records[index];
            if record.is_sacked() || record.awaits_retransmission() {
                continue;
            }
            if !rack.is_overtaken(record) {
                if record.was_retransmitted() {
                    continue;
                }
                break;
            }
            let lost_at = rack.lost_at(record, window);
            if lost_at <= now {
                self.mark_lost(index);
                any = true;
            } else {
                next = Some(next.map_or(lost_at, |next| next.min(lost_at)));
            }
        }
        (any, next)
    }

    /// Marks what RFC 6675's IsLost says, for records sent once; whether there was any.
    pub fn detect_losses_by_count(&mut self, smss_bytes: u32) -> bool {
        let (mut above, mut continues, mut any) = (SackedAbove::default(), false, false);
        for index in (0..self.records.len()).rev() {
            let record = &self.records[index];
            if record.is_sacked() {
                above.add(record.seq_len(), continues);
                continues = true;
                continue;
            }
            continues = false;
            if above.is_lost(smss_bytes)
                && !record.was_retransmitted()
                && !record.marks.has(Marks::LOST)
            {
                self.mark_lost(index);
                any = true;
            }
        }
        any
    }

    /// Changes a record and keeps the sums right.
    fn change(&mut self, index: usize, change: impl FnOnce(&mut Record)) {
        let record = &mut self.records[index];
        self.sums.remove(record);
        change(record);
        self.sums.add(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_small() {
        assert!(size_of::<Record>() <= 32);
    }
}
