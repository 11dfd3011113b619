//! Random numbers from a seed.

use std::convert::Infallible;

use rand_core::TryRng;

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub struct Generator(pub u64);

impl Generator {
    /// Returns the next word.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Returns a number below `limit`; 0 if `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.word() % limit.max(1) as u64) as usize
    }
}

impl TryRng for Generator {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.word() as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.word())
    }

    fn try_fill_bytes(&mut self, to: &mut [u8]) -> Result<(), Infallible> {
        to.fill_with(|| self.word() as u8);
        Ok(())
    }
}
