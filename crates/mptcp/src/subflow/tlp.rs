//! Tail loss probes (RFC 8985, section 7).

use crate::seq::SeqNr;
use crate::time::{MILLISECOND, Nanos, SECOND};

/// The assumed time in nanoseconds by which a peer delays the acknowledgment of a single segment.
pub const MAX_ACK_DELAY: Nanos = 200 * MILLISECOND;

/// The probe timeout before the first RTT sample.
const UNMEASURED: Nanos = SECOND;

/// Returns the probe timeout in nanoseconds (RFC 8985, section 7.2): twice `srtt`, or 1 s without a
/// sample, plus `max_ack_delay` if a single segment is in flight. The caller limits it by the
/// retransmission timer.
pub fn probe_timeout(srtt: Option<Nanos>, is_single_segment: bool, max_ack_delay: Nanos) -> Nanos {
    let twice = srtt.map_or(UNMEASURED, |srtt| 2 * srtt);
    if is_single_segment {
        twice + max_ack_delay
    } else {
        twice
    }
}

/// Describes a tail loss probe that has not been acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    /// TLP.end_seq: SND.NXT after the probe was sent.
    pub end: SeqNr,
    /// TLP.is_retrans: whether the probe repeated the last segment.
    pub is_retransmission: bool,
}

/// What an acknowledgment shows about a tail loss probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The acknowledgment shows nothing yet.
    Open,
    /// No segment was lost.
    NoLoss,
    /// The probe repaired a loss, which is a sign of congestion (RFC 8985, section 7.4.2).
    Repaired,
}

impl Probe {
    /// Returns what an acknowledgment shows about this tail loss probe (RFC 8985, section 7.4.2).
    /// `ack` is SND.UNA after the acknowledgment. `has_dsack` means that it carried a DSACK block,
    /// and `is_duplicate` that it was a pure duplicate, without any new information.
    pub fn judge(&self, ack: SeqNr, has_dsack: bool, is_duplicate: bool) -> Verdict {
        if ack.is_before(self.end) {
            Verdict::Open
        } else if !self.is_retransmission || has_dsack {
            Verdict::NoLoss
        } else if ack.is_after(self.end) {
            Verdict::Repaired
        } else if is_duplicate {
            Verdict::NoLoss
        } else {
            Verdict::Open
        }
    }
}
