//! Explicit congestion notification (RFC 3168, section 6.1).

use crate::wire::{Ecn, Flags};

/// The state of both directions.
#[derive(Clone, Debug, Default)]
pub(super) struct EcnState {
    /// Whether both sides take part.
    pub enabled: bool,
    /// A mark came, and the peer has not said that it reduced its window (section 6.1.3).
    echoes: bool,
    /// The window was reduced: the next new data says so (section 6.1.2).
    cwr_due: bool,
    /// The IP field of the segment that was sent last.
    pub last_sent: Ecn,
}

impl EcnState {
    /// Flags of a SYN that offers it (section 6.1.1).
    pub const OFFER: Flags = Flags(Flags::ECE.0 | Flags::CWR.0);

    /// A segment with data came.
    pub fn data_received(&mut self, ecn: Ecn, flags: Flags) {
        if !self.enabled {
            return;
        }
        if flags.contains(Flags::CWR) {
            self.echoes = false;
        }
        if ecn == Ecn::CongestionExperienced {
            self.echoes = true;
        }
    }

    /// Whether an acknowledgment reports a mark.
    pub fn is_echo(&self, flags: Flags) -> bool {
        self.enabled && flags.contains(Flags::ECE)
    }

    pub fn window_reduced(&mut self) {
        self.cwr_due = self.enabled;
    }

    /// Flags for a segment; new data only is marked as capable, and tells that the window was reduced (section 6.1.5).
    pub fn mark(&mut self, is_new_data: bool) -> Flags {
        let mut flags = Flags::NONE;
        if self.echoes {
            flags |= Flags::ECE;
        }
        if is_new_data && std::mem::take(&mut self.cwr_due) {
            flags |= Flags::CWR;
        }
        self.last_sent = if is_new_data && self.enabled {
            Ecn::Capable0
        } else {
            Ecn::NotCapable
        };
        flags
    }
}
