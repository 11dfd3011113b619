//! Verifies the checksums of mappings over the payload in the capture (RFC 8684, section 3.3.1).
//!
//! A mapping may cover many segments. The sum is taken piece by piece, in any order, so no payload
//! is kept.

use std::collections::VecDeque;

use mptcp::wire::checksum::Sum;
use serde::Serialize;

/// The most mappings that wait for their payload. The oldest are removed first.
const MOST_OPEN: usize = 256;

/// The mappings of one direction of a subflow whose checksums were compared with the payload.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
pub struct ChecksumCounts {
    /// Mappings whose checksum is that of the payload.
    pub right: u64,
    /// Mappings whose checksum is not that of the payload.
    pub wrong: u64,
    /// The first of these.
    pub first_wrong: Option<WrongChecksum>,
}

/// A mapping whose checksum is not that of its payload.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
pub struct WrongChecksum {
    /// Number of the packet that carried the mapping.
    pub packet: u64,
    /// Offset of its first byte in the data of the sender, from 0 if the start was captured.
    pub data: i64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// A mapping whose payload was not captured completely so far.
#[derive(Debug)]
struct Open {
    start: u64,
    end: u64,
    sum: Sum,
    /// Whether an odd number of bytes was added to the sum.
    is_odd: bool,
    missing: u64,
    mapping: WrongChecksum,
}

impl Open {
    /// Adds payload that begins at `at`, within the mapping.
    fn add(&mut self, at: u64, bytes: &[u8]) {
        if self.is_odd != ((at - self.start) % 2 == 1) {
            self.sum.add_bytes(&[0]);
            self.is_odd = !self.is_odd;
        }
        self.sum.add_bytes(bytes);
        self.is_odd ^= bytes.len() % 2 == 1;
        self.missing -= bytes.len() as u64;
    }
}

/// The checksums of one direction of a subflow. Offsets are those of the subflow.
#[derive(Debug, Default)]
pub(super) struct Checksums {
    open: VecDeque<Open>,
    pub(super) counts: ChecksumCounts,
}

impl Checksums {
    /// Expects the payload from `start` on to have a checksum. `sum` has the pseudo-header and the
    /// checksum.
    pub(super) fn expect(&mut self, start: u64, sum: Sum, mapping: WrongChecksum) {
        let end = start.saturating_add(mapping.bytes);
        if self
            .open
            .iter()
            .any(|open| open.start < end && start < open.end)
        {
            return;
        }
        let open = Open {
            start,
            end,
            sum,
            is_odd: false,
            missing: mapping.bytes,
            mapping,
        };
        if open.missing == 0 {
            self.judge(&open);
            return;
        }
        self.open.push_back(open);
        if self.open.len() > MOST_OPEN {
            self.open.pop_front();
        }
    }

    /// Adds payload that the subflow sends for the first time, from `start` to `end`. `bytes` is
    /// what was captured of it.
    pub(super) fn add(&mut self, start: u64, end: u64, bytes: &[u8]) {
        let mut index = 0;
        while index < self.open.len() {
            let open = &mut self.open[index];
            let (from, to) = (start.max(open.start), end.min(open.end));
            if from >= to {
                index += 1;
                continue;
            }
            let part = bytes.get((from - start) as usize..(to - start) as usize);
            if let Some(part) = part {
                open.add(from, part);
            }
            if part.is_some() && open.missing > 0 {
                index += 1;
                continue;
            }
            let open = self.open.remove(index);
            if let Some(open) = open.filter(|_| part.is_some()) {
                self.judge(&open);
            }
        }
    }

    fn judge(&mut self, open: &Open) {
        if open.sum.is_right() {
            self.counts.right += 1;
        } else {
            self.counts.wrong += 1;
            self.counts.first_wrong.get_or_insert(open.mapping);
        }
    }
}

#[cfg(test)]
mod tests {
    use mptcp::seq::DataSeq;

    use super::*;

    const START: u64 = 100;

    /// Returns the counts after a mapping of these bytes, whose payload arrives as `pieces`.
    fn counts_of(sent: &[u8], pieces: &[(usize, &[u8])]) -> ChecksumCounts {
        let header = || Sum::of_mapping(DataSeq(7), 1, sent.len() as u16);
        let mut whole = header();
        whole.add_bytes(sent);
        let mut expected = header();
        expected.add_bytes(&whole.checksum().to_be_bytes());
        let mut checksums = Checksums::default();
        let mapping = WrongChecksum {
            packet: 3,
            data: 0,
            bytes: sent.len() as u64,
        };
        checksums.expect(START, expected, mapping);
        for (at, bytes) in pieces {
            let start = START + *at as u64;
            checksums.add(start, start + bytes.len() as u64, bytes);
        }
        checksums.counts
    }

    #[test]
    fn pieces_of_odd_length_in_any_order_have_the_sum_of_the_whole() {
        let counts = counts_of(b"abcdefg", &[(4, b"efg"), (1, b"bcd"), (0, b"a")]);
        assert_eq!((counts.right, counts.wrong), (1, 0));
    }

    #[test]
    fn one_changed_byte_is_wrong() {
        let counts = counts_of(b"abcdefg", &[(0, b"abc"), (3, b"dXfg")]);
        assert_eq!((counts.right, counts.wrong), (0, 1));
        assert_eq!(counts.first_wrong.map(|first| first.packet), Some(3));
    }

    #[test]
    fn nothing_is_said_about_a_mapping_that_was_not_captured_completely() {
        let counts = counts_of(b"abcdefg", &[(0, b"abc")]);
        assert_eq!((counts.right, counts.wrong), (0, 0));
    }
}
