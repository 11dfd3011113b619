//! Random numbers that make sequence numbers start shortly before they wrap.

use std::convert::Infallible;

use rand_core::{Rng, TryRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Keys of client and server, found by trying. The low halves of their initial data sequence
/// numbers are 25510 and 21705 below 2^32.
const KEYS: [u64; 2] = [14_945, 34_703];

/// Draws those keys, and numbers of 32 bits that are 20,000 to 50,000 below 2^32.
pub struct BeforeWraps {
    pub random: Xoshiro256PlusPlus,
    pub side: usize,
}

impl TryRng for BeforeWraps {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let below = 20_000 + self.random.next_u32() % 30_000;
        Ok(below.wrapping_neg())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(KEYS[self.side])
    }

    fn try_fill_bytes(&mut self, _to: &mut [u8]) -> Result<(), Infallible> {
        unreachable!("the engine draws numbers")
    }
}
