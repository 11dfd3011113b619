//! Constant bit rate.

use crate::time::{NANOS_PER_SECOND, Nanos};

/// Equal datagrams at a constant payload rate.
pub(in crate::sim) struct Cbr {
    pub(in crate::sim) rate_bps: u64,
}

impl Cbr {
    /// When datagram `number` is sent, counted from the start. Rounded down, but the error does not add up.
    pub(super) fn send_time(&self, number: u64, size_bytes: u32) -> Nanos {
        let work_per_datagram = u64::from(size_bytes) * 8 * NANOS_PER_SECOND;
        // Divisions of 128 bits are slow, and seldom needed.
        match number.checked_mul(work_per_datagram) {
            Some(work) => work / self.rate_bps,
            None => {
                let work = u128::from(number) * u128::from(work_per_datagram);
                Nanos::try_from(work / u128::from(self.rate_bps)).unwrap_or(Nanos::MAX)
            }
        }
    }
}
