//! ICMP errors about packets in flight: too long for a link (RFC 9293, section 3.7.5), or not
//! accepted at the destination.

use super::{CloseReason, Rest, State, Subflow};
use crate::cc::Window;
use crate::seq::SeqNr;

impl Subflow {
    /// Returns whether the byte at `seq` was sent and is not acknowledged. ICMP errors about other
    /// sequence numbers are ignored, because an attacker who does not see the packets would have to
    /// guess a valid one.
    pub fn is_outstanding(&self, seq: SeqNr) -> bool {
        seq.is_at_or_after(self.una) && seq.is_before(self.nxt)
    }

    /// Lowers the MSS to `mss_bytes`, the bytes of payload and options in a full-sized segment, and
    /// stores the new payload in `window`. Has no effect if the MSS is not larger than `mss_bytes`.
    ///
    /// Longer segments in flight did not arrive, so they are marked as lost and retransmitted in
    /// parts. cwnd stays as it is, because nothing indicates congestion (Linux:
    /// `tcp_simple_retransmit`).
    pub fn lower_mss(&mut self, mss_bytes: u32, window: &mut Window) {
        if mss_bytes >= u32::from(self.mss) {
            return;
        }
        self.rest = Rest::Unknown;
        self.mss = mss_bytes as u16;
        self.size_segments();
        window.mss_bytes = self.segment_bytes;
        self.flight.divide(self.segment_bytes);
        self.report_to(window);
    }

    /// Closes the subflow with [`CloseReason::Refused`], because an ICMP error reports that the
    /// destination refused the SYN. Has no effect after SYN-SENT, because an attacker could have
    /// sent the error (RFC 5927, section 6.1).
    pub fn refuse(&mut self) {
        if self.state == State::SynSent {
            self.end(CloseReason::Refused);
        }
    }
}
