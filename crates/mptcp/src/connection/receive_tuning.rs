//! How large the receive buffer should be: dynamic right-sizing as in Linux (`mptcp_rcv_space_adjust`).
//!
//! What the application reads in a round trip is what the sender's window carries, if the buffer does not hold it up. Twice as
//! much leaves room for a window that doubles in slow start.

use super::Connection;
use crate::time::Nanos;

/// What a first round trip is thought to bring, in segments: the initial window of the peer.
const FIRST_ROUND_SEGMENTS: u64 = 10;

/// Room for what is acknowledged late, in segments.
const MARGIN_SEGMENTS: u64 = 16;

/// What the application reads in a round trip.
#[derive(Clone, Debug, Default)]
pub(super) struct Tuning {
    round_started_at: Nanos,
    read_bytes: u64,
    /// The most that was read in one round trip.
    most_bytes: u64,
}

impl Tuning {
    /// The application has read something.
    pub(super) fn read(&mut self, bytes: u32) {
        self.read_bytes += u64::from(bytes);
    }

    /// At the end of a round trip in which more was read than in any before, the size that is right for it. The faster that
    /// grows, the more room it gets.
    pub(super) fn wanted_bytes(
        &mut self,
        now: Nanos,
        round_trip: Nanos,
        mss_bytes: u32,
    ) -> Option<u64> {
        if now - self.round_started_at < round_trip {
            return None;
        }
        self.round_started_at = now;
        let mss = u64::from(mss_bytes);
        let before = self.most_bytes.max(FIRST_ROUND_SEGMENTS * mss);
        let read = std::mem::take(&mut self.read_bytes);
        if read <= before {
            return None;
        }
        self.most_bytes = read;
        let window = 2 * read + MARGIN_SEGMENTS * mss;
        let growth = u128::from(window) * u128::from(read - before) / u128::from(before);
        Some(window.saturating_add(u64::try_from(2 * growth).unwrap_or(u64::MAX)))
    }
}

impl Connection {
    /// The round trip is the longest of those on which data comes.
    pub(super) fn tune_receive_buffer(&mut self, now: Nanos) {
        if !self.receive.is_tunable() {
            return;
        }
        let round_trip = self.paths.receive_rtt();
        let sizes = self.paths.windows().iter().map(|window| window.mss_bytes);
        if let (Some(round_trip), Some(mss)) = (round_trip, sizes.max()) {
            self.receive.tune(now, round_trip, mss);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::MILLISECOND;

    const ROUND_TRIP: Nanos = 20 * MILLISECOND;

    /// What is right after each of these rounds, with segments of 1000 bytes.
    fn after(rounds: &[u32]) -> Vec<Option<u64>> {
        let mut tuning = Tuning::default();
        let rounds = rounds.iter().zip(1u64..);
        let wanted = rounds.map(|(bytes, round)| {
            tuning.read(*bytes);
            tuning.wanted_bytes(round * ROUND_TRIP, ROUND_TRIP, 1000)
        });
        wanted.collect()
    }

    #[test]
    fn rounds_that_bring_more_ask_for_more() {
        // 2 * 15,000 + 16,000 = 46,000, and twice the half by which the round has grown.
        let wanted = [None, Some(92_000), None];
        assert_eq!(after(&[10_000, 15_000, 15_000]), wanted);
        // 2 * 30,000 + 16,000 = 76,000, and twice that, as it doubled.
        assert_eq!(after(&[15_000, 30_000])[1], Some(228_000));
    }

    #[test]
    fn a_round_ends_after_a_round_trip() {
        let mut tuning = Tuning::default();
        tuning.read(50_000);
        assert_eq!(tuning.wanted_bytes(ROUND_TRIP - 1, ROUND_TRIP, 1000), None);
        assert!(tuning.wanted_bytes(ROUND_TRIP, ROUND_TRIP, 1000).is_some());
        assert_eq!(tuning.wanted_bytes(2 * ROUND_TRIP, ROUND_TRIP, 1000), None);
    }
}
