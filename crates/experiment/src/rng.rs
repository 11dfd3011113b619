//! Random generators, one per label, all derived from the seed of the run.
//!
//! A label names the user of the numbers, such as "loss/wifi/forward". Adding a host or link
//! therefore never changes the numbers of another.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sha2::{Digest, Sha256};

use crate::time::Nanos;

/// A stream of random numbers that depends only on the seed and the label.
#[derive(Clone, Debug)]
pub struct Generator(Xoshiro256PlusPlus);

impl Generator {
    /// Returns the generator of `label` in the run with `seed`.
    pub fn new(seed: u64, label: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(seed.to_le_bytes());
        hash.update(label.as_bytes());
        Self(Xoshiro256PlusPlus::from_seed(hash.finalize().into()))
    }

    /// Returns 64 uniform bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns the stream itself, for use through the traits of `rand_core`.
    pub fn into_bits(self) -> impl Rng + Send + 'static {
        self.0
    }

    /// Returns a uniform number in [0, 1) with 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns true with the given probability: never for 0, always for 1.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Returns a uniform integer in [0, bound), or 0 if the bound is 0.
    pub fn below(&mut self, bound: Nanos) -> Nanos {
        // The high half of the product is uniform up to 2^-64 x bound, far below what any
        // experiment resolves.
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as Nanos
    }

    /// Returns an exponentially distributed number with the given mean.
    pub fn exponential(&mut self, mean: Nanos) -> Nanos {
        (-libm::log(1.0 - self.unit()) * mean as f64) as Nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_independent_and_repeatable() {
        let draw = |seed, label| Generator::new(seed, label).bits();
        assert_eq!(draw(1, "loss/a"), draw(1, "loss/a"));
        assert_ne!(draw(1, "loss/a"), draw(1, "loss/b"));
        assert_ne!(draw(1, "loss/a"), draw(2, "loss/a"));
    }

    #[test]
    fn draws_stay_in_their_range() {
        let mut generator = Generator::new(7, "range");
        for _ in 0..1000 {
            assert!(generator.unit() < 1.0);
            assert!(generator.below(10) < 10);
        }
        assert_eq!(generator.below(0), 0);
        assert!(!generator.chance(0.0));
        assert!(generator.chance(1.0));
    }

    #[test]
    fn exponential_has_its_mean() {
        let mut generator = Generator::new(7, "mean");
        let sum: u64 = (0..100_000).map(|_| generator.exponential(1_000_000)).sum();
        let mean = sum / 100_000;
        assert!((990_000..1_010_000).contains(&mean), "{mean}");
    }
}
