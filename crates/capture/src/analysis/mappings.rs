//! Maps the bytes of a subflow to data, as its DSS options define (RFC 8684, section 3.3.1).
//!
//! Linux repeats one DSS option on every segment of a super-segment. A mapping therefore describes
//! a range of the subflow, not the segment that carries it.

use std::collections::VecDeque;

/// The most mappings kept. The oldest are removed first.
const MOST_MAPPINGS: usize = 1 << 14;

/// The bytes `start..end` of the subflow are those of the connection from `data` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) data: u64,
}

/// The mappings of one direction of a subflow, in order and without overlaps.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    mappings: VecDeque<Mapping>,
    /// SSN and DSN from which no mappings are needed: plain TCP, or after a fallback (section 3.7).
    infinite: Option<(u64, u64)>,
}

impl Mappings {
    /// Adds a mapping. Ignores one that contradicts an earlier mapping.
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

    /// Maps all bytes from `start` on to the data from `data` on.
    pub(super) fn go_on_without(&mut self, start: u64, data: u64) {
        self.infinite.get_or_insert((start, data));
    }

    /// Maps all bytes after the last mapping to the data after it.
    pub(super) fn go_on_after_last(&mut self) {
        if let Some(last) = self.mappings.back() {
            self.infinite
                .get_or_insert((last.end, last.data + (last.end - last.start)));
        }
    }

    /// Returns the end of the last mapping.
    pub(super) fn last_end(&self) -> Option<u64> {
        self.mappings.back().map(|last| last.end)
    }

    pub(super) fn are_infinite(&self) -> bool {
        self.infinite.is_some()
    }

    /// Returns the data position of the byte at `offset`, if it is mapped, and the end of the range
    /// for which this holds, at most `end`.
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

    /// Removes mappings of bytes before `offset`, but always keeps the last one.
    pub(super) fn forget_before(&mut self, offset: u64) {
        while self.mappings.len() > 1 && self.mappings[0].end <= offset {
            self.mappings.pop_front();
        }
    }
}
