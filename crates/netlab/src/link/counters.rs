//! What a station counts.

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DropReason {
    /// The queue was at its limit.
    QueueFull,
    /// Active queue management decided so.
    Aqm,
    /// The loss model decided so.
    Loss,
    /// The link was cut.
    LinkDown,
}

impl DropReason {
    /// Every reason, in the order of the sample table.
    pub const ALL: [Self; 4] = [Self::QueueFull, Self::Aqm, Self::Loss, Self::LinkDown];

    /// The name used in metrics: `dropped_<name>`.
    pub fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Aqm => "aqm",
            Self::Loss => "loss",
            Self::LinkDown => "link_down",
        }
    }
}

/// Counters of one station since the channel was made or reset.
///
/// offered = delivered + dropped (all reasons) + queued + in flight, at every instant.
/// What arrived but was not yet polled is still in flight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets given to `enqueue`.
    pub offered_packets: u64,
    /// Packets whose last bit has left the serializer, those lost at egress included.
    pub wire_packets: u64,
    /// Their bytes, overhead counted.
    pub wire_bytes: u64,
    /// Packets handed out at the far end.
    pub delivered_packets: u64,
    dropped: [u64; DropReason::ALL.len()],
}

impl Counters {
    /// Packets dropped for this reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }

    /// Packets dropped for any reason.
    pub fn dropped_in_all(&self) -> u64 {
        self.dropped.iter().sum()
    }

    pub(super) fn count_drop(&mut self, reason: DropReason) {
        self.add_drops(reason, 1);
    }

    pub(super) fn add_drops(&mut self, reason: DropReason, packets: u64) {
        self.dropped[reason as usize] += packets;
    }
}
