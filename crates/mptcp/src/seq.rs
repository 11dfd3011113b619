//! Sequence numbers of subflows (32 bits, RFC 9293, section 3.4) and of connections (64 bits, RFC
//! 8684, section 3.3).

use std::ops::{Add, AddAssign, Sub};

/// Defines a number of `$bits` bits that is compared modulo 2^`$bits`. Comparison is meaningful
/// only for numbers less than half of that apart, so the type has no `Ord`.
macro_rules! sequence_number {
    ($(#[$doc:meta])* $name:ident, $bits:ty, $distance:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub $bits);

        impl $name {
            /// Returns how far `self` is after `other`, modulo the size of the number space. The
            /// result is negative if `self` is before `other`.
            pub fn distance_from(self, other: Self) -> $distance {
                self.0.wrapping_sub(other.0) as $distance
            }

            /// Returns whether `self` is before `other` in the wrapping order.
            pub fn is_before(self, other: Self) -> bool {
                self.distance_from(other) < 0
            }

            /// Returns whether `self` is after `other` in the wrapping order.
            pub fn is_after(self, other: Self) -> bool {
                self.distance_from(other) > 0
            }

            /// Returns whether `self` equals `other` or is before it in the wrapping order.
            pub fn is_at_or_before(self, other: Self) -> bool {
                self.distance_from(other) <= 0
            }

            /// Returns whether `self` equals `other` or is after it in the wrapping order.
            pub fn is_at_or_after(self, other: Self) -> bool {
                self.distance_from(other) >= 0
            }

            /// Returns the later of the two numbers in the wrapping order.
            pub fn max(self, other: Self) -> Self {
                if self.is_after(other) { self } else { other }
            }

            /// Returns the earlier of the two numbers in the wrapping order.
            pub fn min(self, other: Self) -> Self {
                if self.is_before(other) { self } else { other }
            }
        }

        impl Add<$bits> for $name {
            type Output = Self;

            fn add(self, bytes: $bits) -> Self {
                Self(self.0.wrapping_add(bytes))
            }
        }

        impl AddAssign<$bits> for $name {
            fn add_assign(&mut self, bytes: $bits) {
                *self = *self + bytes;
            }
        }

        impl Sub<$bits> for $name {
            type Output = Self;

            fn sub(self, bytes: $bits) -> Self {
                Self(self.0.wrapping_sub(bytes))
            }
        }
    };
}

sequence_number!(
    /// A sequence number of a subflow (RFC 9293, section 3.4). It wraps around at 2^32. Compare
    /// numbers with [`SeqNr::is_before`] and the related methods, which are correct for numbers
    /// less than 2^31 apart.
    SeqNr,
    u32,
    i32
);

sequence_number!(
    /// A full 64-bit data sequence number (RFC 8684, section 3.3). It starts at a random value and
    /// wraps around at 2^64. Compare numbers with [`DataSeq::is_before`] and the related methods.
    DataSeq,
    u64,
    i64
);

impl DataSeq {
    /// Returns the full number whose lower 32 bits are `low` and that is closest to `self` (RFC
    /// 8684, section 3.3.1).
    pub fn expand(self, low: u32) -> Self {
        let ahead = low.wrapping_sub(self.0 as u32) as i32;
        Self(self.0.wrapping_add_signed(i64::from(ahead)))
    }

    /// Returns the lower 32 bits, which options carry in place of the full number to save space
    /// (RFC 8684, section 3.3.1).
    pub fn low(self) -> u32 {
        self.0 as u32
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
