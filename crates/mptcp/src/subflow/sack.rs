//! Loss detection by selective acknowledgments (RFC 6675).

/// The number of duplicate acknowledgments or SACK blocks that indicates a loss (DupThresh of RFC
/// 6675, section 2).
pub const DUP_THRESH: u32 = 3;

/// Counts the SACKed data that follows a segment in sequence space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackedAbove {
    bytes: u32,
    blocks: u32,
}

impl SackedAbove {
    /// Adds `bytes` of SACKed data. `continues` means that they adjoin the bytes added last, so no
    /// new block begins.
    pub fn add(&mut self, bytes: u32, continues: bool) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.blocks += u32::from(!continues);
    }

    /// Returns IsLost (RFC 6675, section 4) for a segment below the added data: whether at least
    /// three blocks or more than two segments of `smss_bytes` have been SACKed above it.
    pub fn is_lost(&self, smss_bytes: u32) -> bool {
        self.blocks >= DUP_THRESH || self.bytes > (DUP_THRESH - 1) * smss_bytes
    }
}
