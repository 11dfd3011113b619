//! The acknowledgment policy (RFC 9293, section 3.8.6.3; RFC 5681, section 4.2).

use crate::time::{MILLISECOND, Nanos};

/// The shortest time between two acknowledgments of unacceptable segments that bring nothing (RFC
/// 5961, section 7; Linux's `tcp_invalid_ratelimit`).
const CHALLENGE_INTERVAL: Nanos = 500 * MILLISECOND;

/// The urgency of an acknowledgment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// No acknowledgment is due.
    #[default]
    Nothing,
    /// Due with the next data or when the timer expires.
    Delayed,
    /// Due at once, with data or alone.
    Now,
    /// Due at once as a segment of its own, because of its options.
    Alone,
}

/// The acknowledgment policy and its state.
#[derive(Clone, Debug)]
pub(super) struct AckPolicy {
    pub due: Due,
    unacknowledged_bytes: u32,
    /// The longest payload so far, which is taken as the peer's full-sized segment.
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

    /// Records data that arrived in order. More than a full-sized segment is acknowledged at once,
    /// as is the data after a pause of an RTO.
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

    /// Acknowledges at once a segment that let the receive window grow. Linux sets the lowest bit
    /// of the number of remaining quick acknowledgments before it subtracts one
    /// (`tcp_grow_window`), so that an even number is not reduced.
    pub fn window_grew(&mut self) {
        self.quick_acks_left += self.quick_acks_left & 1;
        self.ask(Due::Now);
    }

    /// Returns whether `bytes` is the longest payload that the peer has sent so far, or longer.
    pub fn is_full_sized(&self, bytes: u32) -> bool {
        bytes >= self.largest_bytes
    }

    /// Records that a segment with an acknowledgment was sent.
    pub fn sent(&mut self) {
        self.due = Due::Nothing;
        self.unacknowledged_bytes = 0;
    }

    /// Requests a challenge acknowledgment or one for a segment that brings nothing, limited in
    /// rate.
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
        // A capture of Linux 6.18 shows six that raise the window from 64,384 to 79,488 bytes, and
        // sixteen more.
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
