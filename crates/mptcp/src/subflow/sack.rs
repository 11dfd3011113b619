//! Loss detection by selective acknowledgments (RFC 6675).

/// Duplicates that indicate a loss (RFC 6675, section 2: DupThresh).
pub const DUP_THRESH: u32 = 3;

/// Data that the peer reported above a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackedAbove {
    bytes: u32,
    blocks: u32,
}

impl SackedAbove {
    /// Adds `bytes` that were reported. `continues` means that they adjoin the bytes added last.
    pub fn add(&mut self, bytes: u32, continues: bool) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.blocks += u32::from(!continues);
    }

    /// Returns IsLost (RFC 6675, section 4) of a segment below: three blocks or more than two
    /// full-sized segments are reported above it.
    pub fn is_lost(&self, smss_bytes: u32) -> bool {
        self.blocks >= DUP_THRESH || self.bytes > (DUP_THRESH - 1) * smss_bytes
    }
}
