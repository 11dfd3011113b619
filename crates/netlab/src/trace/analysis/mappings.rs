//! Which data the bytes of a subflow are, as its data sequence signals said (RFC 8684, section 3.3.1).
//!
//! Linux repeats one signal on every segment of a super-segment: a mapping speaks of a range of the subflow, not of the segment
//! that carries it.

use std::collections::VecDeque;

/// Mappings that are kept at most; the oldest go first.
const MOST_MAPPINGS: usize = 1 << 14;

/// The bytes `start..end` of the subflow are those from `data` on of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) data: u64,
}

/// The mappings of one direction of a subflow, in order; none overlap.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    mappings: VecDeque<Mapping>,
    /// From where on it needs no more mappings: plain TCP, or after a fallback (section 3.7).
    infinite: Option<(u64, u64)>,
}

impl Mappings {
    /// Adds a mapping; one that contradicts an earlier one does not count.
    pub(super) fn add(&mut self, mapping: Mapping) {
        if self.mappings.back() == Some(&mapping) || mapping.start >= mapping.end {
            return;
        }
        let index = self
            .mappings
            .partition_point(|one| one.end <= mapping.start);
        if self
            .mappings
            .get(index)
            .is_some_and(|next| next.start < mapping.end)
        {
            return;
        }
        self.mappings.insert(index, mapping);
        if self.mappings.len() > MOST_MAPPINGS {
            self.mappings.pop_front();
        }
    }

    /// From `start` on all bytes follow on one another as the data from `data` on.
    pub(super) fn go_on_without(&mut self, start: u64, data: u64) {
        self.infinite.get_or_insert((start, data));
    }

    /// What follows the last mapping follows its data.
    pub(super) fn go_on_after_last(&mut self) {
        if let Some(last) = self.mappings.back() {
            self.infinite
                .get_or_insert((last.end, last.data + (last.end - last.start)));
        }
    }

    /// Behind the last byte that a mapping places.
    pub(super) fn last_end(&self) -> Option<u64> {
        self.mappings.back().map(|last| last.end)
    }

    pub(super) fn are_infinite(&self) -> bool {
        self.infinite.is_some()
    }

    /// Which data the byte at `offset` is, and up to where that is known. Without a mapping, up to where there is one again.
    pub(super) fn of(&self, offset: u64, end: u64) -> (Option<u64>, u64) {
        if let Some((start, data)) = self.infinite.filter(|(start, _)| *start <= offset) {
            return (Some(data + (offset - start)), end);
        }
        let index = match self.mappings.back() {
            Some(last) if last.start <= offset => self.mappings.len() - 1,
            _ => self.mappings.partition_point(|one| one.end <= offset),
        };
        match self.mappings.get(index) {
            Some(one) if one.start <= offset && offset < one.end => {
                (Some(one.data + (offset - one.start)), end.min(one.end))
            }
            Some(next) if offset < next.start => (None, end.min(next.start)),
            _ => (None, end),
        }
    }

    /// Forgets those of bytes before `offset`, but for the last of all.
    pub(super) fn forget_before(&mut self, offset: u64) {
        while self.mappings.len() > 1 && self.mappings[0].end <= offset {
            self.mappings.pop_front();
        }
    }
}
