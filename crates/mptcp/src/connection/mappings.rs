//! Mappings from subflows to the byte stream, on the receiving side (RFC 8684, section 3.3.1).

use std::collections::VecDeque;

use crate::payload::Payload;
use crate::queue;
use crate::seq::DataSeq;
use crate::wire::checksum::Sum;

/// Maximum number of mappings that wait for data, and of segments that wait for a mapping. A peer
/// needs no more than one mapping for each segment of a window.
const MAX_WAITING: usize = 8192;

/// A mapping received from the peer, in offsets of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReceivedMapping {
    /// Start on the subflow. The first byte has position 1, and positions do not wrap.
    pub(super) position: u64,
    /// Start in the stream.
    pub(super) offset: u64,
    /// Length in bytes, without a DATA_FIN; 0 if `is_infinite`.
    pub(super) len: u32,
    /// The checksum, with the header fields that it covers.
    pub(super) checksum: Option<MappedChecksum>,
    /// Whether the mapping covers everything from here on, so that the peer sends plain TCP
    /// (section 3.7).
    pub(super) is_infinite: bool,
}

/// A DSS checksum, and what it covers in addition to the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MappedChecksum {
    /// DSN of the first byte, 64 bits.
    pub(super) data_seq: DataSeq,
    /// SSN as it was sent.
    pub(super) subflow_seq: u32,
    /// Length as it was sent, including a DATA_FIN.
    pub(super) len: u16,
    /// The checksum.
    pub(super) value: u16,
}

/// The mappings of one subflow.
#[derive(Debug)]
pub(super) struct Mappings {
    /// Position of the next byte of the subflow.
    position: u64,
    /// Sorted by `position`, without overlaps.
    waiting: VecDeque<ReceivedMapping>,
    /// Bytes that could not be placed at once, if there ever were any.
    kept: Option<Box<Kept>>,
}

/// Bytes that wait for more data or for a mapping.
#[derive(Debug, Default)]
struct Kept {
    /// Bytes of the first mapping that wait for the rest of it, because its checksum covers all of
    /// it.
    held: Payload,
    /// Bytes from `position` on that wait for a mapping.
    unmapped: Payload,
    /// Number of segments that carried them.
    unmapped_segments: usize,
}

/// Why received bytes cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MappingError {
    /// A mapping of later bytes has arrived before the mapping of these, or too many segments wait
    /// for one.
    Missing,
    /// The checksum of a mapping is wrong.
    Checksum {
        /// Start of the mapping in the stream.
        offset: u64,
        /// The data of the mapping.
        payload: Payload,
    },
}

/// Bytes with their place in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    pub(super) offset: u64,
    pub(super) payload: Payload,
    /// Whether a DATA_FIN follows them that the checksum has verified.
    pub(super) ends_stream: bool,
}

impl Mappings {
    pub(super) fn new() -> Self {
        Self {
            position: 1,
            waiting: VecDeque::new(),
            kept: None,
        }
    }

    /// Returns the number of bytes that wait for a mapping.
    pub(super) fn unmapped_bytes(&self) -> u32 {
        self.kept.as_ref().map_or(0, |kept| kept.unmapped.len())
    }

    /// Returns the position closest to the next byte for an SSN, which wraps. Returns `None` if it
    /// is before the first byte.
    pub(super) fn position_of(&self, subflow_seq: u32) -> Option<u64> {
        let position = DataSeq(self.position).expand(subflow_seq);
        u64::try_from(position.distance_from(DataSeq(0))).ok()
    }

    /// Maps everything from the next byte on to the stream from `offset` on, as in plain TCP.
    pub(super) fn map_infinitely(&mut self, offset: u64) {
        self.waiting.clear();
        self.waiting.push_back(ReceivedMapping {
            position: self.position,
            offset,
            len: 0,
            checksum: None,
            is_infinite: true,
        });
    }

    /// Adds a mapping. Ignores one that repeats or contradicts a known mapping (section 3.3.1).
    pub(super) fn add(&mut self, mapping: ReceivedMapping) {
        if !mapping.is_infinite && mapping.end() <= self.position {
            return;
        }
        let start = mapping.position;
        if start >= self.position {
            self.forget_past();
        }
        // The new mapping is nearly always the last one.
        let is_last = self
            .waiting
            .back()
            .is_none_or(|last| !last.is_infinite && last.end() <= start);
        if is_last && self.waiting.len() < MAX_WAITING {
            queue::push(&mut self.waiting, mapping);
            return;
        }
        let index = self.waiting.partition_point(|known| known.position < start);
        let previous = index.checked_sub(1).map(|previous| self.waiting[previous]);
        let next = self.waiting.get(index);
        let overlaps = previous.is_some_and(|previous| previous.covers(start))
            || next.is_some_and(|next| mapping.covers(next.position));
        if !overlaps && self.waiting.len() < MAX_WAITING {
            self.waiting.insert(index, mapping);
        }
    }

    /// Takes the next bytes of the subflow from the front of `payload`, up to the end of their
    /// mapping, and returns what can be placed. Call it until `payload` is empty. A mapping may
    /// arrive after its bytes, but before any later mapping (section 3.3.1).
    pub(super) fn place(&mut self, payload: &mut Payload) -> Result<Option<Mapped>, MappingError> {
        if let Some(kept) = self.kept.as_mut().filter(|it| !it.unmapped.is_empty()) {
            let next = std::mem::replace(payload, std::mem::take(&mut kept.unmapped));
            payload.append(next);
        }
        if payload.is_empty() {
            return Ok(None);
        }
        self.forget_past();
        let end = self.position + u64::from(payload.len());
        match self.waiting.front().copied() {
            Some(mapping) if mapping.covers(self.position) => {
                let part = self.part_of(&mapping, payload);
                self.apply(mapping, part)
            }
            Some(mapping) if mapping.position < end => Err(MappingError::Missing),
            _ => self.keep_unmapped(std::mem::take(payload)),
        }
    }

    fn keep_unmapped(&mut self, payload: Payload) -> Result<Option<Mapped>, MappingError> {
        let kept = self.kept.get_or_insert_default();
        kept.unmapped = payload;
        kept.unmapped_segments += 1;
        match kept.unmapped_segments > MAX_WAITING {
            true => Err(MappingError::Missing),
            false => Ok(None),
        }
    }

    /// Removes from `payload` the part that the mapping covers, and returns it.
    fn part_of(&mut self, mapping: &ReceivedMapping, payload: &mut Payload) -> Payload {
        let len = match mapping.is_infinite {
            true => payload.len(),
            false => u64::from(payload.len()).min(mapping.end() - self.position) as u32,
        };
        if len == payload.len() {
            if let Some(kept) = &mut self.kept {
                kept.unmapped_segments = 0;
            }
            return std::mem::take(payload);
        }
        let part = payload.slice(0..len);
        payload.cut_front(len);
        part
    }

    /// Removes and returns the bytes that wait for the rest of their mapping.
    pub(super) fn take_held(&mut self) -> Payload {
        let kept = self.kept.as_mut();
        kept.map_or(Payload::EMPTY, |kept| std::mem::take(&mut kept.held))
    }

    fn forget_past(&mut self) {
        let position = self.position;
        let is_past = |mapping: &ReceivedMapping| !mapping.is_infinite && mapping.end() <= position;
        while self.waiting.front().is_some_and(is_past) {
            self.waiting.pop_front();
        }
    }

    /// Applies `mapping` to `payload`, the next bytes of the subflow, which it covers.
    fn apply(
        &mut self,
        mapping: ReceivedMapping,
        payload: Payload,
    ) -> Result<Option<Mapped>, MappingError> {
        let into = self.position - mapping.position;
        self.position += u64::from(payload.len());
        let Some(checksum) = mapping.checksum else {
            let offset = mapping.offset + into;
            return Ok(Some(Mapped {
                offset,
                payload,
                ends_stream: false,
            }));
        };
        let held = &mut self.kept.get_or_insert_default().held;
        held.append(payload);
        if held.len() < mapping.len {
            return Ok(None);
        }
        let payload = std::mem::take(held);
        let offset = mapping.offset;
        if checksum.is_right(&payload) {
            Ok(Some(Mapped {
                offset,
                payload,
                ends_stream: u32::from(checksum.len) > mapping.len,
            }))
        } else {
            Err(MappingError::Checksum { offset, payload })
        }
    }
}

impl ReceivedMapping {
    fn end(&self) -> u64 {
        self.position + u64::from(self.len)
    }

    fn covers(&self, position: u64) -> bool {
        position >= self.position && (self.is_infinite || position < self.end())
    }
}

impl MappedChecksum {
    /// Returns whether the checksum matches `payload`.
    pub(super) fn is_right(&self, payload: &Payload) -> bool {
        let mut sum = Sum::of_mapping(self.data_seq, self.subflow_seq, self.len);
        sum.add_payload(payload);
        sum.checksum() == self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(position: u64, offset: u64, len: u32) -> ReceivedMapping {
        ReceivedMapping {
            position,
            offset,
            len,
            checksum: None,
            is_infinite: false,
        }
    }

    #[test]
    fn bytes_go_where_their_mapping_says() {
        let mut mappings = Mappings::new();
        mappings.add(mapping(11, 500, 10));
        mappings.add(mapping(1, 100, 10));
        mappings.add(mapping(5, 900, 10));
        let stream = Payload::stream(1, 0, 20);
        let (mut first, mut last) = (stream.slice(0..15), stream.slice(15..20));
        let mut place = |payload: &mut Payload| {
            let mapped = mappings.place(payload).unwrap().expect("it is not summed");
            (mapped.offset, mapped.payload.len())
        };
        let places = [place(&mut first), place(&mut first), place(&mut last)];
        assert_eq!(
            places,
            [(100, 10), (500, 5), (505, 5)],
            "what contradicts is ignored"
        );
    }

    #[test]
    fn bytes_wait_for_their_mapping_until_a_later_one_comes() {
        let mut mappings = Mappings::new();
        let stream = Payload::stream(1, 0, 30);
        assert_eq!(mappings.place(&mut stream.slice(0..10)), Ok(None));
        assert_eq!(mappings.unmapped_bytes(), 10);
        mappings.add(mapping(1, 100, 10));
        let mut next = stream.slice(10..20);
        let placed = mappings.place(&mut next).unwrap();
        assert_eq!(placed.map(|mapped| mapped.offset), Some(100));
        assert_eq!(mappings.place(&mut next), Ok(None));
        assert_eq!(mappings.unmapped_bytes(), 10);
        mappings.add(mapping(21, 300, 10));
        let error = mappings.place(&mut stream.slice(20..30)).unwrap_err();
        assert_eq!(error, MappingError::Missing);
    }

    #[test]
    fn positions_go_on_where_relative_numbers_wrap() {
        let mut mappings = Mappings::new();
        mappings.position = (1 << 32) - 5;
        assert_eq!(mappings.position_of(3), Some((1 << 32) + 3));
        assert_eq!(mappings.position_of(u32::MAX), Some((1 << 32) - 1));
        assert_eq!(Mappings::new().position_of(u32::MAX), None);
    }

    #[test]
    fn an_infinite_mapping_has_no_end() {
        let mut mappings = Mappings::new();
        mappings.map_infinitely(7);
        let payload = Payload::stream(1, 0, 1000);
        for offset in [7, 1007, 2007] {
            let placed = mappings.place(&mut payload.clone()).unwrap();
            assert_eq!(placed.expect("it is not summed").offset, offset);
        }
    }
}
