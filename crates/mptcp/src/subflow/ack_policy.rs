//! The acknowledgment policy (RFC 9293, section 3.8.6.3; RFC 5681, section 4.2).

use crate::time::{MILLISECOND, Nanos};

/// The shortest time between two acknowledgments of unacceptable segments that bring nothing (RFC
/// 5961, section 7; Linux's `tcp_invalid_ratelimit`).
const CHALLENGE_INTERVAL: Nanos = 500 * MILLISECOND;

/// How urgent an acknowledgment is, in ascending order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// No acknowledgment is due.
    #[default]
    Nothing,
    /// An acknowledgment is due with the next data or when the timer expires.
    Delayed,
    /// An acknowledgment is due at once, with data or alone.
    Now,
    /// An acknowledgment is due at once as a segment of its own, because the connection has options
    /// to send.
    Alone,
}

/// Describes data that arrived in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data {
    pub bytes: u32,
    /// Whether the data ends a super-packet of the peer.
    pub ends_packet: bool,
    /// The size of the receive window that was offered last.
    pub window_bytes: u32,
}

/// What was received in order since the last acknowledgment and may be acknowledged before the
/// timer expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owed {
    /// Nothing that has to be acknowledged before the timer expires.
    Nothing,
    /// At least one full-sized segment that ends a super-packet of the peer.
    Packet,
    /// More than a full-sized segment (RFC 9293, section 3.8.6.3).
    Segments,
}

/// The acknowledgment policy and its state.
#[derive(Clone, Debug)]
pub(super) struct AckPolicy {
    pub due: Due,
    unacknowledged_bytes: u32,
    /// Whether a full-sized segment ended a super-packet since the last acknowledgment.
    has_packet_end: bool,
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
            has_packet_end: false,
            largest_bytes: 0,
            quick_acks,
            quick_acks_left: 0,
            last_data_at: None,
            last_challenge_at: None,
        }
    }

    /// Requests an ACK. The more urgent of several requests counts.
    pub fn request(&mut self, due: Due) {
        self.due = self.due.max(due);
    }

    /// Records `data` that arrived in order at `now`. The first data, and data after a pause of
    /// more than `rto`, start quick ACKs.
    ///
    /// Data is acknowledged at once during quick ACKs, and otherwise when the timer expires.
    /// [`AckPolicy::owed`] states what can be acknowledged earlier.
    pub fn data_in_order(&mut self, now: Nanos, data: Data, rto: Nanos) {
        let bytes = data.bytes;
        if self.last_data_at.is_none_or(|last| now - last > rto) {
            self.begin_quick_acks(data);
        }
        self.last_data_at = Some(now);
        self.unacknowledged_bytes = self.unacknowledged_bytes.saturating_add(bytes);
        let is_quick = self.quick_acks_left > 0;
        self.quick_acks_left = self.quick_acks_left.saturating_sub(1);
        self.has_packet_end |= data.ends_packet && self.is_full_sized(bytes);
        self.largest_bytes = self.largest_bytes.max(bytes);
        self.request(if is_quick { Due::Now } else { Due::Delayed });
    }

    /// Starts quick ACKs: acknowledges the next segments at once, as many as half the window holds,
    /// but at least two (`tcp_incr_quickack`).
    fn begin_quick_acks(&mut self, data: Data) {
        let segment_bytes = self.largest_bytes.max(data.bytes).max(1);
        let fitting = data.window_bytes / (2 * segment_bytes);
        let count = fitting.max(2).min(self.quick_acks);
        self.quick_acks_left = self.quick_acks_left.max(count);
    }

    /// Ends quick ACKs. The next pause starts them again.
    pub fn end_quick_acks(&mut self) {
        self.quick_acks_left = 0;
    }

    /// Returns what waits for the timer and may be acknowledged earlier.
    pub fn owed(&self) -> Owed {
        if self.due != Due::Delayed {
            Owed::Nothing
        } else if self.unacknowledged_bytes > self.largest_bytes {
            Owed::Segments
        } else if self.has_packet_end {
            Owed::Packet
        } else {
            Owed::Nothing
        }
    }

    /// Makes an acknowledgment due at once because the receive window grew. Linux sets the lowest
    /// bit of the number of remaining quick ACKs before it subtracts one (`tcp_grow_window`), so an
    /// even number is not reduced.
    pub fn window_grew(&mut self) {
        self.quick_acks_left += self.quick_acks_left & 1;
        self.request(Due::Now);
    }

    /// Returns whether a payload of `bytes` is at least as long as the longest that the peer has
    /// sent so far.
    pub fn is_full_sized(&self, bytes: u32) -> bool {
        bytes >= self.largest_bytes
    }

    /// Records that a segment with an acknowledgment was sent. No acknowledgment is due afterwards.
    pub fn sent(&mut self) {
        self.due = Due::Nothing;
        self.unacknowledged_bytes = 0;
        self.has_packet_end = false;
    }

    /// Makes an acknowledgment due at once, in answer to a segment that is not acceptable. At most
    /// one such answer is sent in 500 ms.
    pub fn challenge(&mut self, now: Nanos) {
        let last = self.last_challenge_at;
        if last.is_none_or(|last| now - last >= CHALLENGE_INTERVAL) {
            self.last_challenge_at = Some(now);
            self.request(Due::Now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL_SIZED: Data = Data {
        bytes: 1400,
        ends_packet: false,
        window_bytes: 65_536,
    };

    #[test]
    fn the_first_segments_are_acknowledged_at_once_while_half_the_window_holds_them() {
        for (window_bytes, count) in [(39_040, 13), (1400, 2), (65_536, 16)] {
            let mut policy = AckPolicy::new(16);
            let data = Data {
                window_bytes,
                ..FULL_SIZED
            };
            let at_once = (0..100).take_while(|segment| {
                policy.data_in_order(*segment, data, MILLISECOND);
                let is_at_once = policy.due == Due::Now;
                policy.sent();
                is_at_once
            });
            assert_eq!(at_once.count(), count);
        }
    }

    #[test]
    fn segments_that_let_the_window_grow_cost_no_quick_acknowledgment() {
        let mut policy = AckPolicy::new(16);
        let mut at_once = 0;
        for segment in 0..100 {
            policy.data_in_order(segment, FULL_SIZED, MILLISECOND);
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
        policy.data_in_order(0, FULL_SIZED, MILLISECOND);
        assert_eq!(policy.due, Due::Delayed);
        policy.window_grew();
        assert_eq!((policy.due, policy.quick_acks_left), (Due::Now, 0));
    }
}
