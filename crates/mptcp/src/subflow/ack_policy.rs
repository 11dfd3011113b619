//! When acknowledgments are sent (RFC 9293, section 3.8.6.3; RFC 5681, section 4.2).

use crate::time::{MILLISECOND, Nanos};

/// The least time between two answers to segments that are not acceptable and bring nothing (RFC 5961, section 7; Linux's
/// tcp_invalid_ratelimit).
const CHALLENGE_INTERVAL: Nanos = 500 * MILLISECOND;

/// How urgent an acknowledgment is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// None is due.
    #[default]
    Nothing,
    /// With the next data, or when the timer expires.
    Delayed,
    /// At once, on data or alone.
    Now,
    /// At once and as a segment of its own, because of what its options say.
    Alone,
}

/// The policy and its state.
#[derive(Clone, Debug)]
pub(super) struct AckPolicy {
    pub due: Due,
    unacknowledged_bytes: u32,
    /// The longest payload so far: a full-sized segment of the peer.
    largest_bytes: u32,
    quick_acks: u32,
    quick_acks_left: u32,
    last_data_at: Option<Nanos>,
    last_challenge_at: Option<Nanos>,
}

impl AckPolicy {
    pub fn new(quick_acks: u32) -> Self {
        Self {
            due: Due::Nothing,
            unacknowledged_bytes: 0,
            largest_bytes: 0,
            quick_acks,
            quick_acks_left: quick_acks,
            last_data_at: None,
            last_challenge_at: None,
        }
    }

    pub fn ask(&mut self, due: Due) {
        self.due = self.due.max(due);
    }

    /// Data came in order. More than a full-sized segment is acknowledged at once; so is one after a pause of a timeout.
    pub fn data_in_order(&mut self, now: Nanos, bytes: u32, rto: Nanos) {
        if self.last_data_at.is_some_and(|last| now - last > rto) {
            self.quick_acks_left = self.quick_acks;
        }
        self.last_data_at = Some(now);
        self.unacknowledged_bytes = self.unacknowledged_bytes.saturating_add(bytes);
        let is_quick = self.quick_acks_left > 0;
        self.quick_acks_left = self.quick_acks_left.saturating_sub(1);
        self.largest_bytes = self.largest_bytes.max(bytes);
        let is_more = self.unacknowledged_bytes > self.largest_bytes;
        self.ask(if is_quick || is_more {
            Due::Now
        } else {
            Due::Delayed
        });
    }

    /// The segment that came let the window grow: it is acknowledged at once. Linux sets the lowest bit of the number of such
    /// acknowledgments that are left before it takes one off (`tcp_grow_window`), so that of an even number none goes.
    pub fn window_grew(&mut self) {
        self.quick_acks_left += self.quick_acks_left & 1;
        self.ask(Due::Now);
    }

    /// Whether the peer, as far as it has shown, sends no longer payloads.
    pub fn is_full_sized(&self, bytes: u32) -> bool {
        bytes >= self.largest_bytes
    }

    /// A segment that acknowledges was sent.
    pub fn sent(&mut self) {
        self.due = Due::Nothing;
        self.unacknowledged_bytes = 0;
    }

    /// A challenge acknowledgment, or one for a segment that brings nothing; not too often.
    pub fn challenge(&mut self, now: Nanos) {
        let last = self.last_challenge_at;
        if last.is_none_or(|last| now - last >= CHALLENGE_INTERVAL) {
            self.last_challenge_at = Some(now);
            self.ask(Due::Now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_that_let_the_window_grow_cost_no_quick_acknowledgment() {
        let mut policy = AckPolicy::new(16);
        let mut at_once = 0;
        for segment in 0..100 {
            policy.data_in_order(segment, 1400, MILLISECOND);
            if segment < 6 {
                policy.window_grew();
            }
            if policy.due == Due::Delayed {
                break;
            }
            at_once += 1;
            policy.sent();
        }
        // As a capture of Linux 6.18 has it: six that raise the window from 64,384 to 79,488 bytes, and sixteen.
        assert_eq!(at_once, 22);
    }

    #[test]
    fn what_lets_the_window_grow_is_acknowledged_at_once_when_no_quick_acknowledgment_is_left() {
        let mut policy = AckPolicy::new(0);
        policy.data_in_order(0, 1400, MILLISECOND);
        assert_eq!(policy.due, Due::Delayed);
        policy.window_grew();
        assert_eq!((policy.due, policy.quick_acks_left), (Due::Now, 0));
    }
}
