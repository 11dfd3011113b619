//! Explicit congestion notification (RFC 3168, section 6.1).

use crate::wire::{Ecn, Flags};

/// The ECN state of both directions of a subflow.
#[derive(Clone, Debug, Default)]
pub(super) struct EcnState {
    /// Whether both hosts use ECN.
    pub enabled: bool,
    /// Whether a CE mark arrived and the peer has not yet reported with CWR that it reduced its
    /// window (section 6.1.3).
    echoes: bool,
    /// Whether the window was reduced and the next new data has to report this with CWR (section
    /// 6.1.2).
    cwr_due: bool,
    /// The ECN field of the last segment sent.
    pub last_sent: Ecn,
}

impl EcnState {
    /// Flags of a SYN that offers ECN (RFC 3168, section 6.1.1).
    pub const OFFER: Flags = Flags(Flags::ECE.0 | Flags::CWR.0);

    /// Records `ecn`, the ECN field of a received segment with data, and the CWR bit of its
    /// `flags`.
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

    /// Returns whether ECN is in use and `flags`, the flags of a received acknowledgment, report a
    /// CE mark (ECE).
    pub fn is_echo(&self, flags: Flags) -> bool {
        self.enabled && flags.contains(Flags::ECE)
    }

    pub fn window_reduced(&mut self) {
        self.cwr_due = self.enabled;
    }

    /// Returns the flags ECE and CWR for the next segment, and sets its ECN field in `last_sent`.
    /// Only new data is marked as ECN-capable and reports a reduced window (RFC 3168, section
    /// 6.1.5).
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
