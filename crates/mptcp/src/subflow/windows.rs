//! The receive windows of both hosts (RFC 9293, section 3.8.6; RFC 7323, section 2).

use crate::seq::SeqNr;
use crate::wire::{Flags, Segment};

/// The largest shift count (RFC 7323, section 2.3).
pub(super) const MAX_SHIFT: u8 = 14;

/// The receive window that the local host offers.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceiveWindow {
    /// The end of the window that was offered last.
    offered: SeqNr,
    /// The furthest end of any window offered. Data up to there is accepted.
    edge: SeqNr,
    /// The size of the window that was offered last, in bytes.
    size: u32,
    /// The largest window so far, in bytes.
    largest: u32,
    /// The shift count that the local host applies to the window field.
    pub shift: u8,
}

impl ReceiveWindow {
    /// Starts the window at `next`, the first expected sequence number. Its end is `next` plus the
    /// largest window so far.
    pub fn start(&mut self, next: SeqNr) {
        (self.offered, self.edge) = (next + self.largest, next + self.largest);
        self.size = self.largest;
    }

    /// Returns the furthest end of any window that was offered to the peer. Data up to there is
    /// accepted.
    pub fn edge(&self) -> SeqNr {
        self.edge
    }

    /// Returns the window field of a SYN, which is never scaled (RFC 7323, section 2.2), and starts
    /// the window at `next`. `available` is the room in the receive buffer in bytes.
    pub fn syn_field(&mut self, next: SeqNr, available: u64) -> u16 {
        let field = u16::try_from(available).unwrap_or(u16::MAX);
        self.largest = u32::from(field);
        self.start(next);
        field
    }

    /// Returns the window field of a segment that acknowledges `next`, and records the window as
    /// offered. `available` is the room in the receive buffer in bytes.
    ///
    /// The end of the window moves only by at least a segment of `mss` bytes or half the largest
    /// window, whichever is less (RFC 9293, section 3.8.6.2.2). Rounding does not move it back.
    pub fn field(&mut self, next: SeqNr, available: u64, mss: u32) -> u16 {
        let unit = 1 << self.shift;
        let available = self.limited(available);
        let remaining = self.remaining(next);
        let stays = remaining < available + unit;
        let step = self.step(mss);
        let window = if stays && available < remaining.saturating_add(step) {
            remaining
        } else {
            available
        };
        let least = if stays { remaining.div_ceil(unit) } else { 0 };
        let field = (window / unit).max(least).min(u32::from(u16::MAX));
        self.offered = next + field * unit;
        self.edge = self.edge.max(self.offered);
        self.size = field * unit;
        self.largest = self.largest.max(self.size);
        field as u16
    }

    /// Returns the size of the window that was offered last, in bytes.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns whether a window of `available` bytes is, up to rounding, at least as large as the
    /// one offered last.
    pub fn is_kept(&self, available: u64) -> bool {
        let unit = 1 << self.shift;
        self.limited(available).next_multiple_of(unit) >= self.size
    }

    /// Returns whether to send a window update when `next` is expected and the receive buffer has
    /// room for `available` bytes.
    ///
    /// Three conditions must hold: the window that the peer knows is at most half of the available
    /// window, as in Linux; it is at most half of the largest window; and the available window
    /// exceeds it by a segment of `mss` bytes or by half the largest window, whichever is less.
    /// Bytes that scaling rounds away do not count.
    pub fn is_update_due(&self, next: SeqNr, available: u64, mss: u32) -> bool {
        let available = self.limited(available) >> self.shift << self.shift;
        let remaining = self.remaining(next);
        remaining <= self.largest / 2
            && available / 2 >= remaining
            && available - remaining >= self.step(mss)
    }

    fn limited(&self, available: u64) -> u32 {
        available.min(u64::from(u16::MAX) << self.shift) as u32
    }

    /// Returns how many bytes the peer may still send from `next` on within the window that was
    /// offered last.
    pub fn remaining(&self, next: SeqNr) -> u32 {
        self.offered.distance_from(next).max(0) as u32
    }

    fn step(&self, mss: u32) -> u32 {
        mss.min(self.largest / 2).max(1)
    }
}

/// The receive window that the peer offers.
#[derive(Clone, Debug, Default)]
pub(super) struct PeerWindow {
    /// SND.WND: the size of the window in bytes.
    pub bytes: u32,
    /// The largest window so far in bytes (Max(SND.WND) of RFC 9293, section 3.8.6.2.1).
    pub largest: u32,
    /// SND.WL1 and SND.WL2: the numbers of the segment of the last update.
    updated_by: (SeqNr, SeqNr),
    /// The shift count that the peer applies to its window field.
    pub shift: u8,
}

impl PeerWindow {
    /// Takes the window from `segment`, unless a newer segment has set it (RFC 9293, section
    /// 3.10.7.4). `una` is SND.UNA. Returns whether the size changed.
    pub fn update(&mut self, segment: &Segment, una: SeqNr) -> bool {
        let (seq, ack) = self.updated_by;
        let is_newer =
            segment.seq.is_after(seq) || (segment.seq == seq && segment.ack.is_at_or_after(ack));
        if !is_newer || segment.ack.is_before(una) {
            return false;
        }
        let before = self.bytes;
        self.set(segment);
        self.bytes != before
    }

    /// Returns the size of the window that `segment` offers, in bytes. The window of a SYN is not
    /// scaled (RFC 7323, section 2.2).
    pub fn of(&self, segment: &Segment) -> u32 {
        let is_syn = segment.flags.contains(Flags::SYN);
        let shift = if is_syn { 0 } else { self.shift };
        u32::from(segment.window) << shift
    }

    /// Sets the window to that of `segment`.
    pub fn set(&mut self, segment: &Segment) {
        self.bytes = self.of(segment);
        self.largest = self.largest.max(self.bytes);
        self.updated_by = (segment.seq, segment.ack);
    }
}
