//! The bytes that a subflow sent and the peer has not acknowledged. The connection may have
//! released them. The subflow still retransmits data that another subflow delivered until it is
//! acknowledged here (RFC 8684, section 3.3.6).

use std::collections::VecDeque;

use super::Chunk;
use crate::queue;
use crate::seq::SeqNr;

/// Holds all unacknowledged data in the order of its sequence numbers. Data that was sent in
/// sequence from one part of the stream is one run, so a segment takes no memory for its bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct SentData {
    runs: VecDeque<Run>,
    /// Whether a run is before an earlier run in the stream, as reinjected data does.
    is_mixed: bool,
}

/// Data that is contiguous on the subflow and in the stream.
#[derive(Clone, Debug)]
struct Run {
    seq: SeqNr,
    chunk: Chunk,
}

impl Run {
    fn end(&self) -> SeqNr {
        self.seq + self.chunk.payload.len()
    }

    /// Appends `next` if it continues the run. Returns whether it did.
    fn extend(&mut self, next: &Chunk) -> bool {
        self.chunk.end() == next.offset && self.chunk.payload.extend_in_place(&next.payload)
    }

    fn cut_front(&mut self, bytes: u32) {
        self.seq += bytes;
        self.chunk.offset += u64::from(bytes);
        self.chunk.payload.cut_front(bytes);
    }
}

impl SentData {
    /// Appends `chunk`, which is sent for the first time. `seq` is the sequence number of its first
    /// byte and must follow the data before.
    pub fn push(&mut self, seq: SeqNr, chunk: &Chunk) {
        let last = self.runs.back_mut();
        self.is_mixed = match &last {
            Some(last) => self.is_mixed || chunk.offset < last.chunk.end(),
            None => false,
        };
        let continues = last.is_some_and(|last| last.extend(chunk));
        if !continues && !chunk.payload.is_empty() {
            let chunk = chunk.clone();
            queue::push(&mut self.runs, Run { seq, chunk });
        }
    }

    /// Removes the data before the sequence number `seq`, because it is acknowledged.
    pub fn forget_before(&mut self, seq: SeqNr) {
        while self
            .runs
            .front()
            .is_some_and(|first| first.end().is_at_or_before(seq))
        {
            self.runs.pop_front();
        }
        if let Some(first) = self
            .runs
            .front_mut()
            .filter(|first| first.seq.is_before(seq))
        {
            first.cut_front(seq.distance_from(first.seq) as u32);
        }
    }

    /// Removes all data.
    pub fn clear(&mut self) {
        self.runs.clear();
    }

    /// Returns the `len` bytes from the sequence number `seq` on, with their offset in the stream.
    /// They must belong to one segment.
    pub fn slice(&self, seq: SeqNr, len: u32) -> Chunk {
        if len == 0 {
            return Chunk::default();
        }
        let run = self.run_with(seq);
        let from = seq.distance_from(run.seq) as u32;
        Chunk {
            offset: run.chunk.offset + u64::from(from),
            payload: run.chunk.payload.slice(from..from + len),
        }
    }

    /// Returns the offset in the stream of the byte with the sequence number `seq`.
    pub fn offset(&self, seq: SeqNr) -> u64 {
        let run = self.run_with(seq);
        run.chunk.offset + seq.distance_from(run.seq) as u64
    }

    /// Returns the sequence number of the byte at `offset` of the stream, or `None` if it is not
    /// held. If the byte was sent several times, returns the first sequence number.
    pub fn seq_of(&self, offset: u64) -> Option<SeqNr> {
        let has_it = |run: &&Run| run.chunk.offset <= offset && offset < run.chunk.end();
        let run = match self.is_mixed {
            true => self.runs.iter().find(has_it)?,
            false => {
                let after = self.runs.partition_point(|run| run.chunk.offset <= offset);
                self.runs.get(after.checked_sub(1)?).filter(has_it)?
            }
        };
        Some(run.seq + (offset - run.chunk.offset) as u32)
    }

    fn run_with(&self, seq: SeqNr) -> &Run {
        let after = self
            .runs
            .partition_point(|run| run.seq.is_at_or_before(seq));
        &self.runs[after - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Payload;

    fn chunk(offset: u64, len: u32) -> Chunk {
        let payload = Payload::stream(1, offset, len);
        Chunk { offset, payload }
    }

    #[test]
    fn neighbours_are_one_run_and_every_segment_is_found_again() {
        let mut data = SentData::default();
        let first = SeqNr(u32::MAX - 15);
        let sent = [
            chunk(100, 10),
            chunk(110, 10),
            chunk(500, 10),
            chunk(120, 10),
        ];
        for (index, chunk) in (0..).zip(&sent) {
            data.push(first + 10 * index, chunk);
        }
        assert_eq!(data.runs.len(), 3);
        for (index, chunk) in (0..).zip(&sent) {
            assert_eq!(data.slice(first + 10 * index, 10), *chunk);
        }
        assert_eq!(data.seq_of(505), Some(first + 25));
        assert_eq!(data.seq_of(99), None);
        assert_eq!(data.seq_of(200), None);
        data.forget_before(first + 10);
        assert_eq!(data.slice(first + 10, 10), sent[1]);
        assert_eq!(data.seq_of(105), None, "it is acknowledged");
        data.forget_before(first + 30);
        assert_eq!(data.runs.len(), 1);
    }
    #[test]
    fn what_is_sent_again_is_found_where_it_came_first() {
        let mut data = SentData::default();
        for (seq, offset) in [(0, 100), (10, 300), (20, 200), (30, 100)] {
            data.push(SeqNr(seq), &chunk(offset, 10));
        }
        assert_eq!(data.seq_of(305), Some(SeqNr(15)));
        assert_eq!(data.seq_of(205), Some(SeqNr(25)));
        assert_eq!(data.seq_of(105), Some(SeqNr(5)));
        data.forget_before(SeqNr(10));
        assert_eq!(data.seq_of(105), Some(SeqNr(35)));
    }
}
