//! Constant bit rate.

use crate::time::{NANOS_PER_SECOND, Nanos};

/// Equal datagrams at a constant payload rate.
pub(in crate::sim) struct Cbr {
    pub(in crate::sim) rate_bps: u64,
}

impl Cbr {
    /// When datagram `number` is sent, counted from the start. Rounded down, but the error does not add up.
    pub(super) fn send_time(&self, number: u64, size_bytes: u32) -> Nanos {
        let bits_before = u128::from(number) * u128::from(size_bytes) * 8;
        let after = bits_before * u128::from(NANOS_PER_SECOND) / u128::from(self.rate_bps);
        Nanos::try_from(after).unwrap_or(Nanos::MAX)
    }
}
