//! Counters of a station.

use experiment::time::Nanos;

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DropReason {
    /// The queue was at its limit.
    QueueFull,
    /// Active queue management dropped the packet.
    Aqm,
    /// The loss model dropped the packet.
    Loss,
    /// The link was cut.
    LinkDown,
    /// An access network gave up sending the packet again.
    Retries,
}

impl DropReason {
    /// All reasons, in the order of the sample table.
    pub const ALL: [Self; 5] = [
        Self::QueueFull,
        Self::Aqm,
        Self::Loss,
        Self::LinkDown,
        Self::Retries,
    ];

    /// Returns the name used in metrics: `dropped_<name>`.
    pub fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Aqm => "aqm",
            Self::Loss => "loss",
            Self::LinkDown => "link_down",
            Self::Retries => "retries",
        }
    }
}

/// Counters of one station since the channel was created or reset.
///
/// At every instant, offered = delivered + dropped (all reasons) + queued + in flight. A packet
/// that has arrived but was not yet polled counts as in flight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets given to `enqueue`.
    pub offered_packets: u64,
    /// Packets whose last bit has left the serializer, including those then lost at egress.
    pub wire_packets: u64,
    /// Bytes of these packets, overhead included.
    pub wire_bytes: u64,
    /// Packets returned as delivered by `poll`.
    pub delivered_packets: u64,
    dropped: [u64; DropReason::ALL.len()],
}

impl Counters {
    /// Returns the number of packets dropped for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }

    /// Returns the number of packets dropped for all reasons.
    pub fn dropped_in_all(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Counts a packet whose last bit has left.
    #[inline]
    pub(super) fn count_sent(&mut self, wire_bytes: u32) {
        self.wire_packets += 1;
        self.wire_bytes += u64::from(wire_bytes);
    }

    pub(super) fn count_drop(&mut self, reason: DropReason) {
        self.add_drops(reason, 1);
    }

    pub(super) fn add_drops(&mut self, reason: DropReason, packets: u64) {
        self.dropped[reason as usize] += packets;
    }
}

/// Counters and gauges of one station of an access network. What a medium does not have stays 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessCounters {
    /// How long the station has occupied the channel, with acknowledgments and collisions.
    pub air_time: Nanos,
    /// Transmissions that the receiver acknowledged: exchanges of Wi-Fi, transport blocks of
    /// cellular, slots of satellite.
    pub exchanges: u64,
    /// Packets that these transmissions carried.
    pub aggregated_packets: u64,
    /// Times that a packet was sent again.
    pub retried_packets: u64,
    /// Packets that have left the queue and were neither delivered onward nor dropped.
    pub held_packets: u64,
    /// The state of the radio, a number that the medium defines. 0 is the normal state.
    pub radio_state: u8,
    /// Changes of access point, cell or satellite.
    pub handovers: u64,
}
