//! What ICMP says of what is under way: it was too long for a link (RFC 9293, section 3.7.5), or nobody takes it.

use super::{CloseReason, Rest, State, Subflow};
use crate::cc::Window;
use crate::seq::SeqNr;

impl Subflow {
    /// Whether the byte with that number was sent and is not acknowledged: who does not see the packets would have to guess it.
    pub fn has_under_way(&self, seq: SeqNr) -> bool {
        seq.is_at_or_after(self.una) && seq.is_before(self.nxt)
    }

    /// Full-sized segments are to be no longer than so many bytes beyond the headers of IP and TCP without options. What went out
    /// longer did not arrive: it goes again at once, in parts, and the window stays, as nothing tells of congestion (Linux:
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

    /// Nobody takes our SYN. Later such a message ends nothing, as anybody could have sent it (RFC 5927, section 6.1).
    pub fn refuse(&mut self) {
        if self.state == State::SynSent {
            self.end(CloseReason::Refused);
        }
    }
}
