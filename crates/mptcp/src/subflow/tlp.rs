//! Tail loss probes (RFC 8985, section 7).

use crate::seq::SeqNr;
use crate::time::{MILLISECOND, Nanos, SECOND};

/// How long a peer is thought to delay the acknowledgment of a single segment.
pub const MAX_ACK_DELAY: Nanos = 200 * MILLISECOND;

/// The probe timeout before the first sample of the round-trip time.
const UNMEASURED: Nanos = SECOND;

/// The probe timeout (section 7.2), not yet bounded by the retransmission timer.
pub fn probe_timeout(srtt: Option<Nanos>, is_single_segment: bool, max_ack_delay: Nanos) -> Nanos {
    let twice = srtt.map_or(UNMEASURED, |srtt| 2 * srtt);
    if is_single_segment {
        twice + max_ack_delay
    } else {
        twice
    }
}

/// A probe whose acknowledgment is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    /// TLP.end_seq: SND.NXT after it was sent.
    pub end: SeqNr,
    /// TLP.is_retrans: it repeated the last segment.
    pub is_retransmission: bool,
}

/// What an acknowledgment says of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing yet.
    Open,
    /// Nothing was lost.
    NoLoss,
    /// The probe repaired a loss: congestion (section 7.4.2).
    Repaired,
}

impl Probe {
    /// `is_duplicate`: the acknowledgment brought nothing new at all.
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
