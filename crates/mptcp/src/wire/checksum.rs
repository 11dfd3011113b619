//! The Internet checksum (RFC 1071) of headers, pseudo-headers, payloads and mappings.
//!
//! The checksum is the complement of the ones' complement sum of all 16-bit words. The words can be
//! added in any order and in any byte order (RFC 1071, section 2). A [`Sum`] is therefore built
//! from parts: a pseudo-header, a header and the pieces of a payload.

use std::net::IpAddr;

use super::fields::Reader;
use crate::payload::Payload;
use crate::seq::DataSeq;

/// Holds the ones' complement sum of the bytes added so far, from which the Internet checksum is
/// computed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// The sum of 64-bit words in this machine's byte order.
    total: u64,
    /// Whether the number of bytes added so far is odd.
    is_odd: bool,
}

impl Sum {
    /// Creates an empty sum.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the sum of the pseudo-header of a transport over IPv4 (RFC 9293, section 3.1) or
    /// IPv6 (RFC 8200, section 8.1), between `source` and `destination`.
    ///
    /// `protocol` is the transport's protocol number. `len` is the length of its header and payload
    /// in bytes.
    #[inline]
    pub fn of_pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, len: usize) -> Self {
        let mut sum = Self::new();
        sum.add_address(source);
        sum.add_address(destination);
        // The length field of IPv4 has only 16 bits. The upper half is zero, so the sum is the
        // same.
        sum.add_bytes(&(len as u32).to_be_bytes());
        sum.add_bytes(&u32::from(protocol).to_be_bytes());
        sum
    }

    /// Creates the sum of the pseudo-header of a mapping (RFC 8684, section 3.3.1).
    ///
    /// `data_seq` and `subflow_seq` are the DSN and the SSN of its first byte. `len` is its length
    /// in bytes, including a DATA_FIN, although that is not a byte of the data. Add the data of the
    /// mapping afterwards.
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

    /// Adds `bytes`, which follow the bytes added before. Each call can add an odd number of bytes.
    #[inline]
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        let words = sum_of_words(bytes);
        // After an odd number of bytes, each byte belongs to the other half of its word.
        let words = if self.is_odd {
            u64::from(fold(words).swap_bytes())
        } else {
            words
        };
        self.total = add(self.total, words);
        self.is_odd ^= bytes.len() % 2 == 1;
    }

    /// Adds `payload`, which follows the bytes added before.
    pub fn add_payload(&mut self, payload: &Payload) {
        payload.for_each_chunk(|chunk| self.add_bytes(chunk));
    }

    /// Returns the checksum of the added bytes, to be stored in the checksum field. The field must
    /// be zero in the added bytes.
    pub fn checksum(self) -> u16 {
        !fold(self.total).to_be()
    }

    /// Returns whether the added bytes, which include a checksum field, have the correct checksum.
    pub fn is_right(self) -> bool {
        self.checksum() == 0
    }
}

/// Returns the sum of the 16-bit words; the last one is padded with zero. Adding longer words gives
/// the same folded sum, because 2^16 and its powers are 1 modulo 2^16 - 1.
#[inline]
fn sum_of_words(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks();
    add(sum_of_blocks(blocks), sum_of_rest(rest))
}

/// Adds blocks of sixteen bytes. The carries are counted and added at the end.
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

/// Adds the last, incomplete block: fewer than sixteen bytes.
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

/// Returns the ones' complement sum of two words. A carry is added at the lowest bit.
#[inline]
fn add(one: u64, other: u64) -> u64 {
    let (sum, has_carry) = one.overflowing_add(other);
    sum + u64::from(has_carry)
}

/// Adds the halves of the sum until 16 bits are left.
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

    /// The checksum word by word, as in RFC 1071, section 4.1.
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
