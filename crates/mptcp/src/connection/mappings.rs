//! Where the bytes that arrive on a subflow belong in the stream (RFC 8684, section 3.3.1).

use std::collections::VecDeque;

use crate::payload::Payload;
use crate::seq::DataSeq;
use crate::wire::checksum::Sum;

/// How many mappings may wait for their data. A peer needs no more than one for each segment of a window.
const MAX_WAITING: usize = 8192;

/// A mapping that the peer sent, in offsets of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReceivedMapping {
    /// Where it starts on the subflow: 1 is the first byte, and it never wraps.
    pub(super) position: u64,
    /// Where it belongs in the stream.
    pub(super) offset: u64,
    /// Bytes, without a DATA_FIN; 0 with `is_infinite`.
    pub(super) len: u32,
    /// Number of the first byte as it counts for the checksum, the length there, and the checksum itself.
    pub(super) checksum: Option<MappedChecksum>,
    /// Everything from here on, and the peer speaks plain TCP (section 3.7).
    pub(super) is_infinite: bool,
}

/// What a DSS checksum covers beside the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MappedChecksum {
    /// The full number of the first byte.
    pub(super) data_seq: DataSeq,
    /// The relative number as it was sent.
    pub(super) subflow_seq: u32,
    /// The length as it was sent, DATA_FIN included.
    pub(super) len: u16,
    /// The sum.
    pub(super) value: u16,
}

/// The mappings of one subflow.
#[derive(Debug)]
pub(super) struct Mappings {
    /// Where the next byte of the subflow stands on it.
    position: u64,
    /// By `position`, without overlaps.
    waiting: VecDeque<ReceivedMapping>,
    /// Bytes of the first mapping that wait for the rest, as its checksum is over all of it.
    held: Payload,
}

/// What a mapping does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MappingError {
    /// Bytes came that no mapping covers.
    Missing,
    /// The checksum over a mapping is wrong.
    Checksum {
        /// Where the mapping starts in the stream.
        offset: u64,
        /// What came in it, and behind it in the same segment.
        payload: Payload,
    },
}

/// Bytes with their place in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    pub(super) offset: u64,
    pub(super) payload: Payload,
}

impl Mappings {
    pub(super) fn new() -> Self {
        Self {
            position: 1,
            waiting: VecDeque::new(),
            held: Payload::EMPTY,
        }
    }

    /// The position with that relative number, which wraps, near the next byte.
    pub(super) fn position_of(&self, subflow_seq: u32) -> u64 {
        DataSeq(self.position).expand(subflow_seq).0
    }

    /// Everything from the next byte on belongs to the stream from `offset` on, as in plain TCP.
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

    /// Notes a mapping. One that says again what is known changes nothing; one that contradicts is ignored (section 3.3.1).
    pub(super) fn add(&mut self, mapping: ReceivedMapping) {
        if !mapping.is_infinite && mapping.end() <= self.position {
            return;
        }
        let start = mapping.position;
        let index = self.waiting.partition_point(|known| known.position < start);
        let previous = index.checked_sub(1).map(|previous| self.waiting[previous]);
        let next = self.waiting.get(index);
        let overlaps = previous.is_some_and(|previous| previous.covers(start))
            || next.is_some_and(|next| mapping.covers(next.position));
        if !overlaps && self.waiting.len() < MAX_WAITING {
            self.waiting.insert(index, mapping);
        }
    }

    /// Takes the next bytes of the subflow and gives those that can be placed. An error leaves what follows it in `payload`.
    pub(super) fn place(
        &mut self,
        payload: &mut Payload,
        placed: &mut Vec<Mapped>,
    ) -> Result<(), MappingError> {
        while !payload.is_empty() {
            self.forget_past();
            let first = self.waiting.front().copied();
            let mapping = first
                .filter(|mapping| mapping.covers(self.position))
                .ok_or(MappingError::Missing)?;
            let len = match mapping.is_infinite {
                true => payload.len(),
                false => u64::from(payload.len()).min(mapping.end() - self.position) as u32,
            };
            let part = payload.slice(0..len);
            *payload = payload.slice(len..payload.len());
            self.take(mapping, part, placed)?;
        }
        Ok(())
    }

    /// Takes out the bytes that wait for the rest of their mapping.
    pub(super) fn take_held(&mut self) -> Payload {
        std::mem::take(&mut self.held)
    }

    fn forget_past(&mut self) {
        let position = self.position;
        let is_past = |mapping: &ReceivedMapping| !mapping.is_infinite && mapping.end() <= position;
        while self.waiting.front().is_some_and(is_past) {
            self.waiting.pop_front();
        }
    }

    /// `payload` is the next of the subflow, and of the mapping.
    fn take(
        &mut self,
        mapping: ReceivedMapping,
        payload: Payload,
        placed: &mut Vec<Mapped>,
    ) -> Result<(), MappingError> {
        let into = self.position - mapping.position;
        self.position += u64::from(payload.len());
        let Some(checksum) = mapping.checksum else {
            let offset = mapping.offset + into;
            placed.push(Mapped { offset, payload });
            return Ok(());
        };
        self.held.append(payload);
        if self.held.len() < mapping.len {
            return Ok(());
        }
        let payload = std::mem::take(&mut self.held);
        let offset = mapping.offset;
        if checksum.is_right(&payload) {
            placed.push(Mapped { offset, payload });
            Ok(())
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
    fn is_right(&self, payload: &Payload) -> bool {
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
        let mut placed = Vec::new();
        let stream = Payload::stream(1, 0, 20);
        mappings
            .place(&mut stream.slice(0..15), &mut placed)
            .unwrap();
        mappings
            .place(&mut stream.slice(15..20), &mut placed)
            .unwrap();
        let places: Vec<_> = placed
            .iter()
            .map(|mapped| (mapped.offset, mapped.payload.len()))
            .collect();
        assert_eq!(
            places,
            [(100, 10), (500, 5), (505, 5)],
            "what contradicts is ignored"
        );
        let error = mappings
            .place(&mut stream.clone(), &mut placed)
            .unwrap_err();
        assert_eq!(error, MappingError::Missing);
    }

    #[test]
    fn positions_go_on_where_relative_numbers_wrap() {
        let mut mappings = Mappings::new();
        mappings.position = (1 << 32) - 5;
        assert_eq!(mappings.position_of(3), (1 << 32) + 3);
        assert_eq!(mappings.position_of(u32::MAX), (1 << 32) - 1);
    }

    #[test]
    fn an_infinite_mapping_has_no_end() {
        let mut mappings = Mappings::new();
        mappings.map_infinitely(7);
        let mut placed = Vec::new();
        for _ in 0..3 {
            mappings
                .place(&mut Payload::stream(1, 0, 1000), &mut placed)
                .unwrap();
        }
        assert_eq!(placed[2].offset, 2007);
    }
}
