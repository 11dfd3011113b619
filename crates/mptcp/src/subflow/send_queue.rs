//! The send queue: data assigned to the subflow and not yet sent.

use std::collections::VecDeque;
use std::mem;

use super::Chunk;
use crate::queue;
use crate::sched::Range;

/// Holds chunks in the order in which they will be sent.
#[derive(Clone, Debug, Default)]
pub(super) struct SendQueue {
    chunks: VecDeque<Chunk>,
    bytes: u32,
    /// Bytes before a forced segment boundary; 0 without one.
    boundary: u32,
}

impl SendQueue {
    pub fn push(&mut self, chunk: Chunk) {
        if chunk.payload.is_empty() {
            return;
        }
        self.bytes += chunk.payload.len();
        queue::push(&mut self.chunks, chunk);
    }

    /// Forces a segment boundary after the first `bytes` bytes of the queue.
    pub fn end_segment_after(&mut self, bytes: u32) {
        self.boundary = bytes;
    }

    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub fn ranges(&self) -> impl Iterator<Item = Range> {
        self.chunks.iter().map(|chunk| Range {
            start: chunk.offset,
            len: u64::from(chunk.payload.len()),
        })
    }

    /// Returns the stream offset after the last byte of the first chunk that contains the byte at
    /// `offset` of the stream.
    pub fn end_of_chunk_with(&self, offset: u64) -> Option<u64> {
        let has_it = |chunk: &&Chunk| chunk.offset <= offset && offset < chunk.end();
        self.chunks.iter().find(has_it).map(Chunk::end)
    }

    /// Removes the data after the forced segment boundary, or all data without a boundary, and
    /// returns its stream ranges.
    pub fn take_back(&mut self) -> Vec<Range> {
        let mut kept = Self::default();
        while self.boundary > 0 && self.bytes > 0 {
            kept.push(self.take_from_first(self.boundary));
        }
        kept.boundary = kept.bytes;
        let taken = mem::replace(self, kept);
        taken.ranges().collect()
    }

    /// Returns the length of the next segment in bytes, at most `limit`. Chunks that are contiguous
    /// in the stream count as one. Returns 0 if the queue is empty.
    pub fn next_len(&self, limit: u32) -> u32 {
        if self.bytes == 0 {
            return 0;
        }
        let limit = match self.boundary {
            0 => limit,
            boundary => limit.min(boundary),
        };
        let mut len = 0;
        let mut end = None;
        for chunk in &self.chunks {
            if len >= limit || end.is_some_and(|end| end != chunk.offset) {
                break;
            }
            len += chunk.payload.len();
            end = Some(chunk.offset + u64::from(chunk.payload.len()));
        }
        len.min(limit)
    }

    /// Removes and returns the next `len` bytes. `len` must not exceed [`SendQueue::next_len`].
    pub fn take(&mut self, len: u32) -> Chunk {
        let mut taken = self.take_from_first(len);
        while taken.payload.len() < len {
            let more = self.take_from_first(len - taken.payload.len());
            taken.payload.append(more.payload);
        }
        taken
    }

    fn take_from_first(&mut self, limit: u32) -> Chunk {
        let first = self.chunks.front_mut().expect("less is asked than queued");
        let whole = first.payload.len();
        let len = whole.min(limit);
        self.bytes -= len;
        self.boundary = self.boundary.saturating_sub(len);
        if len == whole {
            return self.chunks.pop_front().expect("the first");
        }
        let taken = Chunk {
            offset: first.offset,
            payload: first.payload.slice(0..len),
        };
        first.offset += u64::from(len);
        first.payload.cut_front(len);
        taken
    }
}
