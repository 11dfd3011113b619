//! Size of the receive buffer: dynamic right-sizing as in Linux (`mptcp_rcv_space_adjust`).
//!
//! The bytes that the application reads in a round trip equal the sender's window, unless the
//! buffer limits it. Twice as much leaves room for a window that doubles in slow start.

use super::{Buffer, Connection, Mode};
use crate::subflow::Owed;
use crate::time::Nanos;

/// Data assumed for the first round trip, in segments: the initial window of the peer.
const FIRST_ROUND_SEGMENTS: u64 = 10;

/// Margin for late acknowledgments, in segments.
const MARGIN_SEGMENTS: u64 = 16;

/// Largest window of a SYN, which is not scaled (RFC 7323, section 2.2).
const MOST_OF_SYN: u64 = u16::MAX as u64;

/// Smallest payload that raises the receive threshold. Smaller segments do not show how fast the
/// peer sends.
const LEAST_BYTES: u32 = 128;

/// Counts the bytes that the application reads in a round trip.
#[derive(Clone, Debug, Default)]
pub(super) struct Tuning {
    round_started_at: Nanos,
    read_bytes: u64,
}

impl Tuning {
    /// Records that the application has read `bytes` bytes.
    pub(super) fn read(&mut self, bytes: u32) {
        self.read_bytes += u64::from(bytes);
    }

    /// Returns whether the longest of `round_trips` has passed, if there is any. Usually the first
    /// one has not.
    pub(super) fn is_round_over(
        &self,
        now: Nanos,
        round_trips: impl Iterator<Item = Nanos>,
    ) -> bool {
        let age = now - self.round_started_at;
        let mut round_trips = round_trips.peekable();
        round_trips.peek().is_some() && round_trips.all(|round_trip| age >= round_trip)
    }

    /// Ends a round trip and returns the bytes read in it.
    pub(super) fn end_round(&mut self, now: Nanos) -> u64 {
        self.round_started_at = now;
        std::mem::take(&mut self.read_bytes)
    }
}

/// The most bytes read in one round trip. The connection keeps one, and so does each receive
/// threshold.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Most {
    bytes: u64,
}

impl Most {
    /// Returns the right size after a round trip in which more was read than in any before,
    /// otherwise `None`. The size includes extra room in proportion to the growth.
    pub(super) fn wanted_bytes(&mut self, read_bytes: u64, mss_bytes: u32) -> Option<u64> {
        let mss = u64::from(mss_bytes);
        let before = self.bytes.max(FIRST_ROUND_SEGMENTS * mss);
        if read_bytes <= before {
            return None;
        }
        self.bytes = read_bytes;
        let window = 2 * read_bytes + MARGIN_SEGMENTS * mss;
        let growth = u128::from(window) * u128::from(read_bytes - before) / u128::from(before);
        Some(window.saturating_add(u64::try_from(2 * growth).unwrap_or(u64::MAX)))
    }
}

/// A receive threshold: the upper limit of the receive window, however much room is free (Linux:
/// `rcv_ssthresh`).
///
/// It starts with the largest window of a SYN. Each segment raises it by two full-sized segments,
/// or by twice its own payload if that is more (`tcp_grow_window`). This is as fast as a window
/// grows in slow start. If each subflow has its own threshold, none of many slow subflows raises
/// its threshold much, and the connection has the window of the subflow that offers most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Threshold {
    bytes: u64,
    /// Upper limit of the threshold: the buffer of the subflow. It grows with the connection's
    /// buffer (`mptcp_rcv_space_adjust`). It keeps its first value on a subflow that is added after
    /// the connection's buffer has reached its full size.
    capacity_bytes: u64,
    /// Part of the buffer that is reserved for arriving data.
    reserved_bytes: u64,
    most: Most,
}

impl Threshold {
    /// Returns the threshold before any data has arrived. A buffer that grows reserves up to
    /// `reserved_bytes` for arriving data (`tcp_init_buffer_space`).
    pub(super) fn new(buffer: Buffer, reserved_bytes: u16) -> Self {
        let capacity_bytes = buffer.initial_bytes();
        let (bytes, reserved_bytes) = match buffer {
            Buffer::Fixed(_) => (capacity_bytes, 0),
            Buffer::Auto { .. } => {
                let reserved_bytes = u64::from(reserved_bytes).min(capacity_bytes / 2);
                let most = capacity_bytes - reserved_bytes;
                (most.min(MOST_OF_SYN), reserved_bytes)
            }
        };
        Self {
            bytes,
            capacity_bytes,
            reserved_bytes,
            most: Most::default(),
        }
    }

    /// Handles a segment with `payload_bytes` bytes of payload. Returns whether the threshold rose.
    fn raise(&mut self, payload_bytes: u32, mss_bytes: u16) -> bool {
        let before = self.bytes;
        if payload_bytes >= LEAST_BYTES {
            let raised = before + 2 * u64::from(payload_bytes.max(mss_bytes.into()));
            let most = self.capacity_bytes - self.reserved_bytes;
            self.bytes = raised.min(most).max(before);
        }
        self.bytes > before
    }

    /// Raises the limit after the connection's buffer grew, because `read_bytes` were read in a
    /// round trip.
    fn follow(&mut self, buffer: Buffer, read_bytes: u64, mss_bytes: u32) {
        if let Some(wanted) = self.most.wanted_bytes(read_bytes, mss_bytes) {
            self.capacity_bytes = buffer.grown(self.capacity_bytes, wanted);
        }
    }
}

impl Connection {
    /// Returns the receive window that a subflow offers, in bytes beyond the data received in
    /// order. Unless windows of subflows may shrink, it includes what the peer may still send on
    /// the subflow (`tcp_select_window`).
    pub(super) fn window_offered_on(&self, subflow: usize) -> u64 {
        let threshold = self.threshold_of(subflow);
        let window = self.receive.window_bytes_within(threshold.bytes);
        match self.config.behaviour.narrows_subflow_window {
            true => window,
            false => window.max(self.subflows[subflow].tcp.offered_window_bytes().into()),
        }
    }

    /// Returns whether the connection sends window updates in place of its subflows.
    pub(super) fn tells_doubled_window(&self) -> bool {
        self.config.behaviour.tells_doubled_window && self.session.mode == Mode::Multipath
    }

    /// Acknowledges more than a full-sized segment that arrived in order on a subflow, unless that
    /// waits for the application (`__tcp_ack_snd_check`).
    pub(super) fn acknowledge_arrival(&mut self, subflow: usize) {
        let tcp = &self.subflows[subflow].tcp;
        let is_due = tcp.owed() == Owed::Segments
            && (self.receive.ready_bytes() == 0 || tcp.keeps_window(self.room_on(subflow)));
        if is_due {
            self.subflows[subflow].tcp.acknowledge_now();
        }
    }

    /// Ends the quick ACKs of a subflow that has just offered less than half the buffer
    /// (`__tcp_select_window`).
    pub(super) fn record_sent_window(&mut self, subflow: usize) {
        let is_scarce = self.receive.free_bytes() < self.receive.capacity_bytes() / 2;
        if self.config.behaviour.acks_wait_for_reader && is_scarce {
            self.subflows[subflow].tcp.end_quick_acks();
        }
    }

    /// Returns the room for data on a subflow, in bytes, regardless of the offered window.
    fn room_on(&self, subflow: usize) -> u64 {
        let free = self.receive.free_bytes();
        free.min(self.threshold_of(subflow).bytes)
    }

    /// Sends the acknowledgments and window updates that are due once the application has read.
    pub(super) fn acknowledge_reading(&mut self) {
        if !self.receive.take_was_read() {
            return;
        }
        if self.config.behaviour.acks_wait_for_reader {
            self.acknowledge_what_waited();
        }
        if self.tells_doubled_window() && self.receive.has_doubled() {
            self.announce_doubled_window();
        }
    }

    /// Acknowledges what waited for the application to read: more than a full-sized segment, or,
    /// if the buffer is empty now, the end of a super-packet (`mptcp_subflow_could_cleanup`).
    fn acknowledge_what_waited(&mut self) {
        for subflow in 0..self.subflows.len() {
            let is_due = match self.subflows[subflow].tcp.owed() {
                Owed::Nothing => false,
                Owed::Packet => self.receive.is_empty(),
                Owed::Segments => true,
            };
            if is_due {
                self.subflows[subflow].tcp.acknowledge_now();
            }
        }
    }

    /// Sends window updates on the subflows that last offered half of the window or less.
    fn announce_doubled_window(&mut self) {
        for subflow in 0..self.subflows.len() {
            let context = &self.subflows[subflow];
            let room = self.room_on(subflow);
            if context.can_send() && context.tcp.is_window_update_due(room) {
                self.subflows[subflow].tcp.acknowledge_now();
            }
        }
    }

    fn threshold_of(&self, subflow: usize) -> Threshold {
        match self.config.behaviour.shares_receive_threshold {
            true => self.receive_threshold,
            false => self.subflows[subflow].receive_threshold,
        }
    }

    /// Raises the receive threshold for a segment with `payload_bytes` bytes of payload. Each rise
    /// is acknowledged at once, as in Linux. A subflow that carries little and never offers the
    /// whole buffer therefore acknowledges every segment.
    pub(super) fn raise_receive_threshold(&mut self, subflow: usize, payload_bytes: u32) {
        let threshold = match self.config.behaviour.shares_receive_threshold {
            true => &mut self.receive_threshold,
            false => &mut self.subflows[subflow].receive_threshold,
        };
        let mss = self.config.subflow.mss_bytes;
        if threshold.raise(payload_bytes, mss) {
            self.subflows[subflow].tcp.receive_window_grew();
        }
    }

    /// Adjusts the receive buffer once in a round trip: the longest of the subflows that receive
    /// data.
    pub(super) fn tune_receive_buffer(&mut self, now: Nanos) {
        if !self
            .receive
            .is_due_for_tuning(now, self.subflows.receive_rtts())
        {
            return;
        }
        let sizes = self
            .subflows
            .windows()
            .iter()
            .map(|window| window.mss_bytes);
        let Some(mss) = sizes.max() else {
            return;
        };
        if let Some(read_bytes) = self.receive.tune(now, mss) {
            let buffer = self.config.receive_buffer;
            self.receive_threshold.follow(buffer, read_bytes, mss);
            for (context, _) in self.subflows.iter_mut() {
                context.receive_threshold.follow(buffer, read_bytes, mss);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::receive_buffer::{ReceiveBuffer, Rules};
    use super::*;
    use crate::payload::Payload;
    use crate::time::MILLISECOND;

    const ROUND_TRIP: Nanos = 20 * MILLISECOND;
    const COUNTING: Rules = Rules {
        counts_out_of_order: true,
        prunes_out_of_order: false,
    };

    /// Returns the sizes wanted after each of these rounds, with segments of 1000 bytes.
    fn after(rounds: &[u32]) -> Vec<Option<u64>> {
        let mut tuning = Tuning::default();
        let mut most = Most::default();
        let rounds = rounds.iter().zip(1u64..);
        let wanted = rounds.map(|(bytes, round)| {
            tuning.read(*bytes);
            most.wanted_bytes(tuning.end_round(round * ROUND_TRIP), 1000)
        });
        wanted.collect()
    }

    #[test]
    fn each_segment_raises_what_is_offered_as_far_as_the_buffer_goes() {
        let growing = Buffer::Auto {
            initial_bytes: 10_000,
            max_bytes: 50_000,
        };
        assert_eq!(Threshold::new(growing, 1460).bytes, 8_540);
        let mut threshold = Threshold::new(growing, 0);
        threshold.capacity_bytes = 15_000;
        let raised = [100, 128, 1400, 1400].map(|payload_bytes| {
            let is_raised = threshold.raise(payload_bytes, 1460);
            (is_raised, threshold.bytes)
        });
        let expected = [
            (false, 10_000),
            (true, 12_920),
            (true, 15_000),
            (false, 15_000),
        ];
        assert_eq!(raised, expected);
        let mut whole = Threshold::new(Buffer::Fixed(15_000), 1460);
        assert!(!whole.raise(1400, 1460));
        assert_eq!(whole.bytes, 15_000);
        let large = Buffer::Auto {
            initial_bytes: 80_000,
            max_bytes: 500_000,
        };
        assert_eq!(Threshold::new(large, 1460).bytes, 65_535);
    }

    #[test]
    fn a_subflow_that_comes_when_the_buffer_has_its_full_size_keeps_the_first() {
        let buffer = Buffer::Auto {
            initial_bytes: 64 << 10,
            max_bytes: 160 << 10,
        };
        let mut connection = ReceiveBuffer::new(buffer, COUNTING);
        let mut early = Threshold::new(buffer, 1460);
        let mut round = |threshold: &mut Threshold, index: u32| {
            connection.offer(1 << 20);
            let payload = Payload::stream(1, connection.next(), 60_000 * index);
            connection.insert(connection.next(), payload);
            while connection.read().is_some() {}
            if let Some(read) = connection.tune(u64::from(index) * ROUND_TRIP, 1460) {
                threshold.follow(buffer, read, 1460);
            }
            (connection.capacity_bytes(), threshold.capacity_bytes)
        };
        assert_eq!(round(&mut early, 1), (160 << 10, 160 << 10));
        let mut late = Threshold::new(buffer, 1460);
        assert_eq!(round(&mut late, 2), (160 << 10, 64 << 10));
    }

    #[test]
    fn rounds_that_bring_more_ask_for_more() {
        // 2 * 15,000 + 16,000 = 46,000, plus twice the half by which the round has grown.
        let wanted = [None, Some(92_000), None];
        assert_eq!(after(&[10_000, 15_000, 15_000]), wanted);
        // 2 * 30,000 + 16,000 = 76,000, plus twice that, because the round doubled.
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
        tuning.end_round(ROUND_TRIP);
        assert!(!is_over(&tuning, 2 * ROUND_TRIP - 1));
        assert!(!tuning.is_round_over(9 * ROUND_TRIP, std::iter::empty()));
    }
}
