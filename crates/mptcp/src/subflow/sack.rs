//! When selective acknowledgments tell of a loss (RFC 6675).

/// Duplicates that tell of a loss (RFC 6675, section 2: DupThresh).
pub const DUP_THRESH: u32 = 3;

/// What the peer reported above a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackedAbove {
    bytes: u32,
    blocks: u32,
}

impl SackedAbove {
    /// Adds reported bytes; `continues` says that they adjoin those added last.
    pub fn add(&mut self, bytes: u32, continues: bool) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.blocks += u32::from(!continues);
    }

    /// IsLost (RFC 6675, section 4) for a segment below: three blocks, or more than two full-sized segments.
    pub fn is_lost(&self, smss_bytes: u32) -> bool {
        self.blocks >= DUP_THRESH || self.bytes > (DUP_THRESH - 1) * smss_bytes
    }
}
