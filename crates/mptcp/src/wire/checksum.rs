//! The Internet checksum (RFC 1071), over headers, pseudo-headers, payloads and mappings.
//!
//! A checksum is the complement of the ones' complement sum of all 16-bit words. Such sums may be added in any order and in
//! any byte order (RFC 1071, section 2), so a [`Sum`] is gathered from parts: a pseudo-header, a header, pieces of a payload.

use std::net::IpAddr;

use super::fields::Reader;
use crate::payload::Payload;
use crate::seq::DataSeq;

/// The ones' complement sum of what was added so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// Of words of 64 bits in this machine's byte order.
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
    #[inline]
    pub fn of_pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, len: usize) -> Self {
        let mut sum = Self::new();
        sum.add_address(source);
        sum.add_address(destination);
        // IPv4 has 16 bits for the length: as the upper half is zero, the sum is the same.
        sum.add_bytes(&(len as u32).to_be_bytes());
        sum.add_bytes(&u32::from(protocol).to_be_bytes());
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

    #[inline]
    fn add_address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.add_bytes(&address.octets()),
            IpAddr::V6(address) => self.add_bytes(&address.octets()),
        }
    }

    /// Adds bytes that follow those before.
    #[inline]
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        let words = sum_of_words(bytes);
        // After an odd number of bytes, every byte stands in the other half of its word.
        let words = if self.is_odd {
            u64::from(fold(words).swap_bytes())
        } else {
            words
        };
        self.total = add(self.total, words);
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

/// The sum of the 16-bit words, the last padded with zero. Longer words give the same when folded: 2^16 is 1 modulo
/// 2^16 - 1, and so are its powers.
#[inline]
fn sum_of_words(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks();
    add(sum_of_blocks(blocks), sum_of_rest(rest))
}

/// Sixteen bytes at once, their carries counted and added in the end.
#[inline]
fn sum_of_blocks(blocks: &[[u8; 16]]) -> u64 {
    let (mut sum, mut carries) = (0u128, 0);
    for block in blocks {
        let (next, has_carry) = sum.overflowing_add(u128::from_ne_bytes(*block));
        sum = next;
        carries += u64::from(has_carry);
    }
    add(add(sum as u64, (sum >> 64) as u64), carries)
}

/// What is no whole block: fewer than sixteen bytes.
#[inline]
fn sum_of_rest(bytes: &[u8]) -> u64 {
    let mut rest = Reader(bytes);
    let eight = rest.octets().map_or(0, u64::from_ne_bytes);
    let four = rest.octets().map_or(0, u32::from_ne_bytes);
    let two = rest.octets().map_or(0, u16::from_ne_bytes);
    let one = rest
        .octets()
        .map_or(0, |[last]| u16::from_ne_bytes([last, 0]));
    add(eight, u64::from(four) + u64::from(two) + u64::from(one))
}

/// The ones' complement sum of two words: a carry comes in again at the other end.
#[inline]
fn add(one: u64, other: u64) -> u64 {
    let (sum, has_carry) = one.overflowing_add(other);
    sum + u64::from(has_carry)
}

/// Adds the halves until 16 bits are left.
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
