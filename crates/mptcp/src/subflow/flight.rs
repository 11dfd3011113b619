//! The segments sent and not acknowledged: one record per segment, with the time at which it was
//! sent and whether the peer has SACKed it (the scoreboard of RFC 6675).
//!
//! A record keeps its boundaries until all of it is acknowledged, because an MPTCP mapping may
//! belong to it. [`SentData`] holds the bytes.

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

/// The marks of a record, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Marks(u8);

impl Marks {
    /// The peer has SACKed the record.
    const SACKED: u8 = 1;
    /// All transmissions of the record are lost, except a retransmission in flight.
    const LOST: u8 = 2;
    /// A retransmission of the record is in flight.
    const RETRANSMITTED: u8 = 4;
    /// The record was sent more than once.
    const EVER_RETRANSMITTED: u8 = 8;
    /// The record ends with the local FIN.
    const FIN: u8 = 16;
    /// Nothing else waited to be sent after the record, so the segment carries PSH.
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

/// The smallest growth of the list, in records.
const LEAST_GROWTH: usize = 1;
/// Records for which an empty list keeps memory, because a flight that ends every RTT would
/// otherwise allocate: 4 kB.
const KEPT_RECORDS: usize = 128;

/// Describes a segment that was sent and is not acknowledged.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// When the segment was last sent.
    pub sent_at: Nanos,
    pub sent: SentState,
    pub seq: SeqNr,
    /// The number of the last transmission of the segment.
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

    /// Returns the parts of at most `most_bytes` bytes that make up the record, all marked as lost.
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

    /// Returns whether the record is lost and not retransmitted since.
    fn awaits_retransmission(&self) -> bool {
        self.marks.has(Marks::LOST) && !self.marks.has(Marks::RETRANSMITTED)
    }

    /// Returns the bytes of the record in the network: SetPipe of RFC 6675, section 4, for one
    /// record.
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
    /// Bytes marked as lost since the last [`Flight::take_newly_lost`].
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

    /// Iterates over the stream ranges of all records with payload, in the order in which they were
    /// first sent.
    pub fn unacked(&self) -> impl Iterator<Item = Range> {
        let with_data = self.records.iter().filter(|record| record.payload_len > 0);
        with_data.map(|record| Range {
            start: self.data.offset(record.seq),
            len: u64::from(record.payload_len),
        })
    }

    /// Returns the stream offset after the last byte of the first record that contains the byte at
    /// `offset` of the stream. Returns `None` if no record contains it.
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

    /// Returns the payload of the record at `index`, with its offset in the stream.
    pub fn chunk(&self, index: usize) -> Chunk {
        let record = self.record(index);
        self.data.slice(record.seq, record.payload_len())
    }

    /// Returns the estimated number of bytes in flight (the pipe of RFC 6675, section 4).
    pub fn in_flight_bytes(&self) -> u32 {
        self.sums.in_flight_bytes
    }

    /// Returns the number of sequence numbers from the first unacknowledged segment to the end of
    /// the last segment sent.
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

    /// Adds a segment that is sent for the first time at `now`, and returns the index of its
    /// record. The segment has the payload `chunk`, the first sequence number `seq`, a FIN if `fin`
    /// is true, and the delivery state `sent`.
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

    /// Sets PSH for the record at `index`, because nothing else waited to be sent after it when it
    /// was first sent (RFC 9293, section 3.9.1.2).
    pub fn mark_pushed(&mut self, index: usize) {
        self.records[index].marks.set(Marks::PUSHED);
    }

    /// Adds a record. The list grows by an eighth, so that a large window leaves little memory
    /// unused.
    fn keep(&mut self, record: Record) {
        let len = self.records.len();
        if len == self.records.capacity() {
            self.records.reserve_exact(LEAST_GROWTH.max(len / 8));
        }
        self.records.push_back(record);
    }

    /// Returns the index of the first record that is marked as lost and whose retransmission is not
    /// in flight (RFC 6675, section 4, NextSeg rule 1).
    pub fn next_lost(&self) -> Option<usize> {
        if !self.awaits_retransmission() {
            return None;
        }
        self.records.iter().position(Record::awaits_retransmission)
    }

    /// Returns the index of the last record that has not been SACKed, which a tail loss probe
    /// retransmits.
    pub fn last_unreported(&self) -> Option<usize> {
        self.records.iter().rposition(|record| !record.is_sacked())
    }

    /// Records that the record at `index` is retransmitted at `now` with the delivery state `sent`.
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

    /// Removes the records that end at or before `ack`. Calls `delivered` with each removed record
    /// that had not been SACKed before.
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

    /// Removes all data and releases the memory of a large flight.
    fn empty(&mut self) {
        self.data.clear();
        self.records.shrink_to(KEPT_RECORDS);
    }

    /// Marks the records within the SACK block `block` as SACKed. Calls `delivered` with each newly
    /// marked record. A block beyond the data sent marks none.
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

    /// Returns whether the receiver has reneged (RFC 2018, section 8): it SACKed the first record,
    /// but the cumulative acknowledgment does not cover it.
    pub fn is_reneged(&self) -> bool {
        self.records.front().is_some_and(Record::is_sacked)
    }

    /// Clears the SACK marks of all records.
    pub fn forget_reports(&mut self) {
        for index in 0..self.records.len() {
            self.change(index, |record| record.marks.clear(Marks::SACKED));
        }
    }

    /// Marks the record at `index` as lost. A retransmission of it counts as lost too.
    pub fn mark_lost(&mut self, index: usize) {
        self.newly_lost_bytes += self.records[index].seq_len();
        self.change(index, |record| {
            record.marks.set(Marks::LOST);
            record.marks.clear(Marks::RETRANSMITTED);
        });
    }

    /// Returns the number of bytes marked as lost since the last call, and resets it to 0.
    pub fn take_newly_lost(&mut self) -> u32 {
        std::mem::take(&mut self.newly_lost_bytes)
    }

    /// After a timeout, marks as lost every record that has not been SACKed, unless `spare` returns
    /// true for it. The first record is never spared.
    pub fn mark_all_lost(&mut self, spare: impl Fn(&Record) -> bool) {
        for index in 0..self.records.len() {
            let record = &self.records[index];
            let is_spared = index > 0 && spare(record);
            if !record.is_sacked() && !is_spared {
                self.mark_lost(index);
            }
        }
    }

    /// Divides the records that have more than `most_bytes` of payload and have not been SACKed
    /// into records of at most `most_bytes`, and marks these as lost.
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

    /// Clears the lost marks of all records.
    pub fn clear_losses(&mut self) {
        for index in 0..self.records.len() {
            self.change(index, |record| record.marks.clear(Marks::LOST));
        }
    }

    /// Applies RACK_detect_loss at `now` with the reordering window `window` (RFC 8985, section
    /// 6.2, step 5). Returns whether any record was newly marked as lost, and the time at which the
    /// next record will be lost.
    ///
    /// The search ends at the first record that was sent only once and after which no later
    /// transmission has been delivered, because all later records were sent even later.
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

    /// Marks as lost the records for which IsLost is true with segments of `smss_bytes` (RFC 6675,
    /// section 4), among the records sent once. Returns whether it marked any.
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

    /// Changes a record and updates the sums.
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
