//! The Internet checksum (RFC 1071), over headers, pseudo-headers, payloads and mappings.
//!
//! A checksum is the complement of the ones' complement sum of all 16-bit words. Such sums may be added in any order and in
//! any byte order (RFC 1071, section 2), so a [`Sum`] is gathered from parts: a pseudo-header, a header, pieces of a payload.

use std::net::IpAddr;

use crate::payload::Payload;
use crate::seq::DataSeq;

/// Words are added in this many independent lanes, so that the compiler can take vector instructions.
const LANES: usize = 8;
/// Bytes that are added at once.
const WORD_BYTES: usize = size_of::<u32>();

/// The ones' complement sum of what was added so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// Words in this machine's byte order, carries not yet added: 2^32 words of 32 bits have room.
    total: u64,
    /// Whether the number of bytes so far is odd.
    is_odd: bool,
}

impl Sum {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The pseudo-header of a transport over IPv4 (RFC 9293, section 3.1) or IPv6 (RFC 8200, section 8.1); `len` counts the
    /// bytes of the transport's header and payload.
    pub fn of_pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, len: usize) -> Self {
        let mut sum = Self::new();
        for address in [source, destination] {
            match address {
                IpAddr::V4(address) => sum.add_word(address.octets()),
                IpAddr::V6(address) => sum.add_bytes(&address.octets()),
            }
        }
        // IPv4 has 16 bits for the length: as the upper half is zero, the sum is the same.
        sum.add_word((len as u32).to_be_bytes());
        sum.add_word(u32::from(protocol).to_be_bytes());
        sum
    }

    /// The pseudo-header of a mapping (RFC 8684, section 3.3.1). The data comes after it; a DATA_FIN is counted in `len`
    /// but is no byte of the data.
    pub fn of_mapping(data_seq: DataSeq, subflow_seq: u32, len: u16) -> Self {
        let mut sum = Self::new();
        sum.add_bytes(&data_seq.0.to_be_bytes());
        sum.add_bytes(&subflow_seq.to_be_bytes());
        sum.add_bytes(&len.to_be_bytes());
        sum
    }

    /// Adds a word of a pseudo-header, before which there are only such.
    fn add_word(&mut self, word: [u8; WORD_BYTES]) {
        self.total += u64::from(u32::from_ne_bytes(word));
    }

    /// Adds bytes that follow those before.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        let words = sum_of_words(bytes);
        // After an odd number of bytes, every byte stands in the other half of its word.
        self.total += if self.is_odd {
            u64::from(fold(words).swap_bytes())
        } else {
            words
        };
        self.is_odd ^= bytes.len() % 2 == 1;
    }

    /// Adds a payload that follows the bytes before.
    pub fn add_payload(&mut self, payload: &Payload) {
        payload.for_each_chunk(|chunk| self.add_bytes(chunk));
    }

    /// The checksum to send; the field it goes to counts as zero.
    pub fn checksum(self) -> u16 {
        !fold(self.total).to_be()
    }

    /// Whether what was added is unharmed, if the checksum in it was added too.
    pub fn is_right(self) -> bool {
        self.checksum() == 0
    }
}

/// The sum of the 16-bit words, the last padded with zero. Words of 32 bits give the same when folded: 2^16 is 1 modulo
/// 2^16 - 1.
fn sum_of_words(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<{ LANES * WORD_BYTES }>();
    let mut lanes = [0; LANES];
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<WORD_BYTES>().0) {
            *lane += u64::from(u32::from_ne_bytes(*word));
        }
    }
    let (words, tail) = rest.as_chunks::<WORD_BYTES>();
    let mut last = [0; WORD_BYTES];
    last[..tail.len()].copy_from_slice(tail);
    let words = words.iter().chain([&last]);
    let rest: u64 = words.map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    lanes.iter().sum::<u64>() + rest
}

/// Adds the carries until 16 bits are left.
fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As RFC 1071, section 4.1 has it, word by word.
    fn by_the_book(bytes: &[u8]) -> u16 {
        let words = bytes
            .chunks(2)
            .map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
        let mut sum: u32 = words.sum();
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !sum as u16
    }

    proptest! {
        #[test]
        fn parts_of_any_length_add_up_to_the_whole(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..5),
        ) {
            let mut sum = Sum::new();
            parts.iter().for_each(|part| sum.add_bytes(part));
            prop_assert_eq!(sum.checksum(), by_the_book(&parts.concat()));
        }

        #[test]
        fn a_payload_adds_what_its_bytes_add(seed: u32, offset in 0..1000u64, len in 0..3000u32, odd: bool) {
            let payload = Payload::stream(seed, offset, len);
            let mut sum = Sum::new();
            sum.add_bytes(if odd { &[7] } else { &[] });
            let mut bytes = sum;
            sum.add_payload(&payload);
            bytes.add_bytes(&payload.to_vec());
            prop_assert_eq!(sum.checksum(), bytes.checksum());
        }
    }

    #[test]
    fn the_example_of_rfc_1071() {
        let mut sum = Sum::new();
        sum.add_bytes(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.checksum(), !0xddf2);
    }

    #[test]
    fn all_ones_are_folded_to_the_end() {
        let mut sum = Sum::new();
        sum.add_bytes(&[0xff; 4096]);
        assert_eq!(sum.checksum(), 0);
    }
}
