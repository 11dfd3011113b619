//! Silences of a host that had data to send, as a capture at the receiver shows them.
//!
//! All data in such a capture is acknowledged before the silence, so none waits. Two signs
//! distinguish the silence from that of an idle application: the host retransmits data that the
//! capture shows as acknowledged, because the acknowledgment did not reach it; or the last segment
//! before the silence has no PSH, although the last one queued has it (RFC 9293, section 3.9.1.2).

use experiment::time::{Nanos, seconds};
use serde::Serialize;

use super::Stamp;
use super::sender::LEAST_TIMEOUT;

/// The shortest silence that is recorded.
const LEAST_SILENCE: Nanos = LEAST_TIMEOUT;
/// The most silences kept.
const MOST_SILENCES: usize = 1000;

/// The sign that a host had data to send during a silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SilenceSign {
    /// A retransmission of data that was acknowledged before the silence.
    Retransmission,
    /// A segment without PSH before the silence.
    NoPush,
}

/// A time in which no new data of a host that had data to send was captured.
#[derive(Clone, Copy, Debug, Serialize, PartialEq)]
pub struct Silence {
    /// When it began, since the start of the capture.
    pub at_s: f64,
    /// How long it lasted: until new data, or until the last retransmission of acknowledged data.
    pub seconds: f64,
    /// The sign that the host had data to send.
    pub sign: SilenceSign,
    /// Number of the packet that is the sign.
    pub packet: u64,
}

/// A segment with payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) stamp: Stamp,
    pub(super) payload_len: u32,
    /// Whether some of the payload was captured for the first time.
    pub(super) is_new: bool,
    /// Whether the payload ends after all payload before.
    pub(super) is_highest: bool,
    /// Whether it has PSH or FIN, so that no more data need be queued.
    pub(super) is_pushed: bool,
}

/// The silences of one end of a subflow.
#[derive(Debug, Default)]
pub(super) struct Silences {
    kept: Vec<Silence>,
    /// When the last of `kept` began.
    last_since: Option<Nanos>,
    /// When payload was captured last.
    last_at: Nanos,
    /// When new payload was captured last.
    newest_at: Option<Nanos>,
    /// The time between the last two segments with new payload.
    interval: Option<Nanos>,
    /// Payload of the segment with the highest sequence number.
    highest_len: u32,
    /// The packet with the highest sequence number, if it shows that more data was queued.
    unpushed: Option<u64>,
    /// Whether the receive window had no room for a segment since the last new payload.
    lacked_room: bool,
}

impl Silences {
    /// Returns the silences so far.
    pub(super) fn kept(&self) -> &[Silence] {
        &self.kept
    }

    /// Records that the receive window has no room for another segment.
    pub(super) fn lack_room(&mut self) {
        self.lacked_room = true;
    }

    /// Adds a segment. `acknowledged_at` is the time at which all payload before was acknowledged,
    /// if it was.
    pub(super) fn add(&mut self, segment: Segment, acknowledged_at: Option<Nanos>) {
        let now = segment.stamp.at;
        if let (Some(newest_at), Some(acknowledged_at)) = (self.newest_at, acknowledged_at)
            && let Some((sign, packet)) = self.sign(segment)
        {
            self.record(newest_at.max(acknowledged_at), now, sign, packet);
        }
        if segment.is_new {
            self.interval = self.newest_at.map(|at| now.saturating_sub(at));
            self.newest_at = Some(now);
            self.lacked_room = false;
        }
        if segment.is_highest {
            // A partial segment without PSH is the last one of a sender that waits for more data to
            // fill it (TCP_CORK, MSG_MORE).
            let is_full = segment.payload_len >= self.highest_len;
            self.unpushed = (is_full && !segment.is_pushed).then_some(segment.stamp.packet);
            self.highest_len = segment.payload_len;
        }
        self.last_at = now;
    }

    /// Returns what shows that the sender of `segment` had data to send before it, and the packet
    /// that does.
    fn sign(&self, segment: Segment) -> Option<(SilenceSign, u64)> {
        let silent_for = segment.stamp.at.saturating_sub(self.last_at);
        // Segments that leave the queue of a slow link are farther apart, but not late.
        if self.lacked_room || silent_for < LEAST_SILENCE.max(2 * self.interval.unwrap_or(0)) {
            return None;
        }
        if segment.is_new {
            // Such a sender also sends without PSH when it has waited for an RTO.
            let is_fast = self.interval.is_some_and(|time| time < LEAST_SILENCE);
            let unpushed = self.unpushed.filter(|_| is_fast);
            return unpushed.map(|packet| (SilenceSign::NoPush, packet));
        }
        // A single byte may be a keepalive probe (RFC 9293, section 3.8.4).
        let is_probe = segment.payload_len == 1;
        (!is_probe).then_some((SilenceSign::Retransmission, segment.stamp.packet))
    }

    fn record(&mut self, since: Nanos, until: Nanos, sign: SilenceSign, packet: u64) {
        let lasted = until.saturating_sub(since);
        if lasted < LEAST_SILENCE {
            return;
        }
        if self.last_since == Some(since)
            && let Some(last) = self.kept.last_mut()
        {
            last.seconds = seconds(lasted);
        } else if self.kept.len() < MOST_SILENCES {
            self.last_since = Some(since);
            self.kept.push(Silence {
                at_s: seconds(since),
                seconds: seconds(lasted),
                sign,
                packet,
            });
        }
    }
}
