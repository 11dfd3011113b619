//! Sequence numbers of a subflow (32 bits, RFC 9293, section 3.4) and of a connection (64 bits, RFC 8684, section 3.3).

use std::cmp::Ordering;
use std::ops::{Add, AddAssign, Sub};

/// A subflow's sequence number. Comparison is modulo 2^32 and means anything only for numbers less than 2^31 apart, so there is
/// no `Ord`: ask [`SeqNr::is_before`] and its kin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SeqNr(pub u32);

impl SeqNr {
    /// How far `self` lies after `other`; negative if before.
    pub fn distance_from(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// `self < other`.
    pub fn is_before(self, other: Self) -> bool {
        self.distance_from(other) < 0
    }

    /// `self > other`.
    pub fn is_after(self, other: Self) -> bool {
        self.distance_from(other) > 0
    }

    /// `self <= other`.
    pub fn is_at_or_before(self, other: Self) -> bool {
        self.distance_from(other) <= 0
    }

    /// `self >= other`.
    pub fn is_at_or_after(self, other: Self) -> bool {
        self.distance_from(other) >= 0
    }

    /// The later of the two.
    pub fn max(self, other: Self) -> Self {
        if self.is_after(other) { self } else { other }
    }

    /// The earlier of the two.
    pub fn min(self, other: Self) -> Self {
        if self.is_before(other) { self } else { other }
    }

    /// The order of two numbers less than 2^31 apart.
    pub fn compare(self, other: Self) -> Ordering {
        self.distance_from(other).cmp(&0)
    }
}

impl Add<u32> for SeqNr {
    type Output = Self;

    fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for SeqNr {
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

impl Sub<u32> for SeqNr {
    type Output = Self;

    fn sub(self, bytes: u32) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }
}

/// A data sequence number, full length. It starts at a random value and wraps like a subflow's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DataSeq(pub u64);

impl DataSeq {
    /// How far `self` lies after `other`; negative if before.
    pub fn distance_from(self, other: Self) -> i64 {
        self.0.wrapping_sub(other.0) as i64
    }

    /// `self < other`.
    pub fn is_before(self, other: Self) -> bool {
        self.distance_from(other) < 0
    }

    /// `self > other`.
    pub fn is_after(self, other: Self) -> bool {
        self.distance_from(other) > 0
    }

    /// `self <= other`.
    pub fn is_at_or_before(self, other: Self) -> bool {
        self.distance_from(other) <= 0
    }

    /// `self >= other`.
    pub fn is_at_or_after(self, other: Self) -> bool {
        self.distance_from(other) >= 0
    }

    /// The full number whose low half is `low` and which is nearest to `self` (RFC 8684, section 3.3.1).
    pub fn expand(self, low: u32) -> Self {
        let ahead = low.wrapping_sub(self.0 as u32) as i32;
        Self(self.0.wrapping_add_signed(i64::from(ahead)))
    }

    /// The low half, as it is sent in the short form.
    pub fn low(self) -> u32 {
        self.0 as u32
    }
}

impl Add<u64> for DataSeq {
    type Output = Self;

    fn add(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u64> for DataSeq {
    fn add_assign(&mut self, bytes: u64) {
        *self = *self + bytes;
    }
}

impl Sub<u64> for DataSeq {
    type Output = Self;

    fn sub(self, bytes: u64) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_wraps() {
        let before = SeqNr(u32::MAX - 1);
        assert!(before.is_before(before + 5));
        assert_eq!((before + 5).distance_from(before), 5);
        assert_eq!(before.max(SeqNr(3)), SeqNr(3));
    }

    #[test]
    fn short_numbers_expand_to_the_nearest() {
        let base = DataSeq(0x1_ffff_fff0);
        assert_eq!(base.expand(0xffff_fff8), base + 8);
        assert_eq!(base.expand(0x10), base + 0x20);
        assert_eq!(base.expand(0xffff_ff00), base - 0xf0);
        assert_eq!(DataSeq(5).expand(0xffff_ffff), DataSeq(u64::MAX));
    }
}
