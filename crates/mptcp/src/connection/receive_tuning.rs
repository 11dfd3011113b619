//! How large the receive buffer should be: dynamic right-sizing as in Linux (`mptcp_rcv_space_adjust`).
//!
//! What the application reads in a round trip is what the sender's window carries, if the buffer does not hold it up. Twice as
//! much leaves room for a window that doubles in slow start.

use super::{Buffer, Connection};
use crate::time::Nanos;

/// What a first round trip is thought to bring, in segments: the initial window of the peer.
const FIRST_ROUND_SEGMENTS: u64 = 10;

/// Room for what is acknowledged late, in segments.
const MARGIN_SEGMENTS: u64 = 16;

/// The window of a SYN is not scaled (RFC 7323, section 2.2).
const MOST_OF_SYN: u64 = u16::MAX as u64;

/// Smaller segments say nothing of how fast the peer sends.
const LEAST_BYTES: u32 = 128;

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

    /// Whether the longest of these round trips has passed, if there is any. Most often the first one has not.
    pub(super) fn is_round_over(
        &self,
        now: Nanos,
        round_trips: impl Iterator<Item = Nanos>,
    ) -> bool {
        let age = now - self.round_started_at;
        let mut round_trips = round_trips.peekable();
        round_trips.peek().is_some() && round_trips.all(|round_trip| age >= round_trip)
    }

    /// At the end of a round trip in which more was read than in any before, the size that is right for it. The faster that
    /// grows, the more room it gets.
    pub(super) fn wanted_bytes(&mut self, now: Nanos, mss_bytes: u32) -> Option<u64> {
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

/// What is offered at most, however much room there is (`rcv_ssthresh` of Linux). It begins with what a SYN can offer, and each segment that
/// comes raises it by two full-sized ones, or twice its own length (`tcp_grow_window`): as fast as a window grows in slow start. Where each path has its
/// own, of many slow ones none brings much, and the connection has the window of the one that offers most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Threshold {
    bytes: u64,
}

impl Threshold {
    /// Before anything has come.
    pub(super) fn new(buffer: Buffer) -> Self {
        let bytes = buffer.initial_bytes();
        Self {
            bytes: match buffer {
                Buffer::Fixed(_) => bytes,
                Buffer::Auto { .. } => bytes.min(MOST_OF_SYN),
            },
        }
    }

    /// A segment with so much payload came, and the buffer is that large now. Says whether that raised it.
    fn raise(&mut self, payload_bytes: u32, mss_bytes: u16, capacity_bytes: u64) -> bool {
        let before = self.bytes;
        if payload_bytes >= LEAST_BYTES {
            let raised = before + 2 * u64::from(payload_bytes.max(mss_bytes.into()));
            self.bytes = raised.min(capacity_bytes).max(before);
        }
        self.bytes > before
    }
}

impl Connection {
    /// What a path offers, in bytes beyond what of the stream has arrived.
    pub(super) fn window_offered_on(&self, which: usize) -> u64 {
        let threshold = match self.config.behaviour.shares_receive_threshold {
            true => self.receive_threshold,
            false => self.paths[which].receive_threshold,
        };
        self.receive.window_bytes_within(threshold.bytes)
    }

    /// A segment with so much payload came on a path. Each one that raises what is offered is acknowledged at once, as in Linux:
    /// on a path that carries little, which never offers all of the buffer, that is every one.
    pub(super) fn raise_receive_threshold(&mut self, which: usize, payload_bytes: u32) {
        let threshold = match self.config.behaviour.shares_receive_threshold {
            true => &mut self.receive_threshold,
            false => &mut self.paths[which].receive_threshold,
        };
        let mss = self.config.subflow.mss_bytes;
        if threshold.raise(payload_bytes, mss, self.receive.capacity_bytes()) {
            self.paths[which].subflow.receive_window_grew();
        }
    }

    /// The round trip is the longest of those on which data comes.
    pub(super) fn tune_receive_buffer(&mut self, now: Nanos) {
        if !self
            .receive
            .is_due_for_tuning(now, self.paths.receive_rtts())
        {
            return;
        }
        let sizes = self.paths.windows().iter().map(|window| window.mss_bytes);
        if let Some(mss) = sizes.max() {
            self.receive.tune(now, mss);
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
            tuning.wanted_bytes(round * ROUND_TRIP, 1000)
        });
        wanted.collect()
    }

    #[test]
    fn each_segment_raises_what_is_offered_as_far_as_the_buffer_goes() {
        let mut threshold = Threshold::new(Buffer::Auto {
            initial_bytes: 10_000,
            max_bytes: 50_000,
        });
        let raised = [100, 128, 1400, 1400].map(|payload_bytes| {
            let is_raised = threshold.raise(payload_bytes, 1460, 15_000);
            (is_raised, threshold.bytes)
        });
        let expected = [
            (false, 10_000),
            (true, 12_920),
            (true, 15_000),
            (false, 15_000),
        ];
        assert_eq!(raised, expected);
        let mut whole = Threshold::new(Buffer::Fixed(15_000));
        assert!(!whole.raise(1400, 1460, 15_000));
        assert_eq!(whole.bytes, 15_000);
        let large = Threshold::new(Buffer::Auto {
            initial_bytes: 80_000,
            max_bytes: 500_000,
        });
        assert_eq!(large.bytes, 65_535);
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
    fn a_round_ends_after_the_longest_round_trip() {
        let mut tuning = Tuning::default();
        let is_over = |tuning: &Tuning, now| {
            tuning.is_round_over(now, [ROUND_TRIP / 2, ROUND_TRIP].into_iter())
        };
        assert!(!is_over(&tuning, ROUND_TRIP - 1));
        assert!(is_over(&tuning, ROUND_TRIP));
        tuning.wanted_bytes(ROUND_TRIP, 1000);
        assert!(!is_over(&tuning, 2 * ROUND_TRIP - 1));
        assert!(!tuning.is_round_over(9 * ROUND_TRIP, std::iter::empty()));
    }
}
