//! Wi-Fi (IEEE 802.11).

use schemars::JsonSchema;
use serde::Deserialize;

use crate::resolved::HopDirection;
use crate::time::Nanos;

/// The air of one Wi-Fi network, which all links on a medium share. The direction of a link that
/// leads to the access point has the queue of the station, the other one the queue of that station
/// at the access point. Rates and overheads of the directions have no effect.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wifi {
    /// Id of the medium.
    pub medium: String,
    /// The standard of the access point and of other networks on the channel.
    pub standard: WifiStandard,
    /// The band of the channel.
    pub band: WifiBand,
    /// Size in bytes at or above which a transmission is preceded by RTS and CTS. `None` sends
    /// none.
    #[serde(deserialize_with = "Option::deserialize")]
    pub rts_bytes: Option<u32>,
    /// Number of attempts after which a packet is dropped.
    pub retry_limit: u32,
    /// Access parameters of each category of the access point and of other networks, in the order
    /// of [`AccessCategory`].
    pub edca: [Edca; 4],
    /// How the access point queues packets for its stations.
    pub ap_queue: ApQueue,
    /// The stations, one for each link on the medium, in the order of the links.
    pub stations: Vec<WifiStation>,
    /// Stations of other networks on the same channel.
    pub neighbours: Vec<WifiNeighbours>,
}

/// The standards, by the letters that follow 802.11.
///
/// In each band a later one includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WifiStandard {
    /// DSSS and CCK at 2.4 GHz (HR/DSSS, clause 16), with the long preamble.
    B,
    /// OFDM at 2.4 GHz (ERP, clause 18).
    G,
    /// OFDM at 5 GHz (clause 17).
    A,
    /// HT (clause 19), mixed format.
    N,
    /// VHT (clause 21).
    Ac,
    /// HE (clause 27), single user.
    Ax,
}

/// The bands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum WifiBand {
    /// 2.4 GHz.
    #[serde(rename = "2.4ghz")]
    Ghz2,
    /// 5 GHz.
    #[serde(rename = "5ghz")]
    Ghz5,
}

/// Limits on one transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Aggregation {
    /// Packets in one A-MPDU. 1 aggregates none.
    pub max_mpdus: u32,
    /// Bytes of one A-MPDU.
    pub max_bytes: u32,
    /// Duration of one PPDU.
    pub max_ppdu_ns: Nanos,
}

/// Access categories of EDCA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AccessCategory {
    /// AC_BE.
    BestEffort,
    /// AC_BK.
    Background,
    /// AC_VI.
    Video,
    /// AC_VO.
    Voice,
}

/// The parameters by which a category contends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edca {
    /// Slots between SIFS and the backoff, at least 1.
    pub aifsn: u32,
    /// Smallest contention window, 2^n - 1.
    pub cw_min: u32,
    /// Largest contention window, 2^n - 1.
    pub cw_max: u32,
    /// Time for which a winner may send. 0 means one exchange.
    pub txop_limit_ns: Nanos,
}

/// How the access point queues packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ApQueue {
    /// One queue for all stations.
    Fifo(ApFifo),
    /// A queue for each station, served in turns of equal air time.
    Fq(ApFq),
}

/// One queue for all stations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApFifo {
    /// Largest number of packets queued for all stations.
    pub limit_packets: u64,
    /// Largest number of packets that the driver has taken from the queue.
    pub driver_packets: u64,
}

/// A queue for each station, served in turns of equal air time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApFq {
    /// Air time per turn.
    pub quantum_ns: Nanos,
    /// Air time that the driver holds for a station.
    pub aql_low_ns: Nanos,
    /// The same while the driver holds less than `aql_threshold_ns` for all stations.
    pub aql_high_ns: Nanos,
    /// See `aql_high_ns`.
    pub aql_threshold_ns: Nanos,
}

/// A station of a Wi-Fi network.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WifiStation {
    /// Id of the link between the station and the access point.
    pub link: String,
    /// The direction from the station to the access point.
    pub uplink: HopDirection,
    /// The standard of all frames from and to the station.
    pub standard: WifiStandard,
    /// Width of these frames in MHz.
    pub width_mhz: u32,
    /// Guard interval: 400 or 800 with `n` and `ac`, 800, 1600 or 3200 with `ax`, else 800.
    pub guard_interval_ns: Nanos,
    /// Spatial streams.
    pub streams: u32,
    /// Limits on one transmission from or to the station.
    pub aggregation: Aggregation,
    /// Category of all packets from and to the station.
    pub access_category: AccessCategory,
    /// Access parameters that the station uses to contend for the channel.
    pub edca: Edca,
    /// How the rate of transmissions is chosen, in both directions.
    pub rate: WifiRate,
    /// The signal in both directions.
    pub snr: Snr,
    /// Time without packets after which the station sleeps, so packets for it wait for a beacon.
    /// `None` means never.
    #[serde(deserialize_with = "Option::deserialize")]
    pub power_save_after_ns: Option<Nanos>,
    /// Absences from the channel in search of other networks.
    #[serde(deserialize_with = "Option::deserialize")]
    pub scan: Option<Scan>,
}

/// How a rate is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WifiRate {
    /// As Minstrel does, from the success of earlier transmissions.
    Auto {},
    /// The best rate for the signal 100 ms earlier.
    Ideal {},
    /// Always the same rate.
    Fixed {
        /// The MCS. With `b`, `g` and `a` the index of the rate among those of the standard in
        /// ascending order, from 0.
        mcs: u32,
    },
}

/// A signal-to-noise ratio over time, in thousandths of a dB: a mean and an autoregressive process
/// of the first order around it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Snr {
    /// The mean at some instants, in ascending order. In between it changes linearly.
    pub means: Vec<SnrPoint>,
    /// Standard deviation.
    pub sd_mdb: u64,
    /// Time after which the correlation has fallen to 1/e.
    pub correlation_ns: Nanos,
}

/// A mean signal-to-noise ratio at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SnrPoint {
    /// The instant.
    pub at_ns: Nanos,
    /// The mean.
    pub mean_mdb: i64,
}

/// Absences from the channel in search of other networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scan {
    /// Time between the starts of two absences.
    pub every_ns: Nanos,
    /// Shortest absence.
    pub shortest_ns: Nanos,
    /// Longest absence.
    pub longest_ns: Nanos,
}

/// Stations of other networks on the same channel, which send frames of one size at random times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WifiNeighbours {
    /// Their number.
    pub stations: u32,
    /// Total rate at which they send packets of `packet_bytes`, in bit/s.
    pub load_bps: u64,
    /// Rate of their frames in bit/s: OFDM, or DSSS with `b`.
    pub rate_bps: u64,
    /// Length of each IP packet.
    pub packet_bytes: u32,
}

/// Time between two beacons of an access point: 100 units of 1.024 ms (IEEE 802.11).
pub const BEACON_INTERVAL_NS: Nanos = 102_400_000;

/// Within this time a frame almost certainly wins the contention among some stations.
const CONTENTION_NS: Nanos = 50_000_000;

impl Wifi {
    /// Returns the time of contention, with the longest absence of a station.
    pub(super) fn longest_wait_ns(&self) -> Nanos {
        let absence_ns = |station: &WifiStation| {
            let asleep_ns = station
                .power_save_after_ns
                .map_or(0, |_| BEACON_INTERVAL_NS);
            asleep_ns + station.scan.map_or(0, |scan| scan.longest_ns)
        };
        let absences_ns = self.stations.iter().map(absence_ns);
        CONTENTION_NS + absences_ns.max().unwrap_or(0)
    }
}

/// Widths in MHz, MCS and numbers of streams that 802.11ac does not combine, because a code block
/// would not be a whole number of bits (IEEE Std 802.11-2020, section 21.5).
const MISSING_OF_AC: [(u32, u32, &[u32]); 4] = [
    (20, 9, &[1, 2, 4, 5, 7, 8]),
    (80, 6, &[3, 7]),
    (80, 9, &[6]),
    (160, 9, &[3]),
];

impl WifiStation {
    /// Returns the MCS of its standard at its width and with its streams, or the indices of the rates
    /// of a standard that has no MCS.
    pub fn mcs(&self) -> impl Iterator<Item = u32> {
        let of_standard = 0..self.standard.rates();
        of_standard.filter(|mcs| {
            let is_missing = |(width_mhz, missing, streams): &(u32, u32, &[u32])| {
                (self.width_mhz, *mcs) == (*width_mhz, *missing) && streams.contains(&self.streams)
            };
            self.standard != WifiStandard::Ac || !MISSING_OF_AC.iter().any(is_missing)
        })
    }
}

impl WifiBand {
    /// Returns its frequency, as descriptions write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ghz2 => "2.4ghz",
            Self::Ghz5 => "5ghz",
        }
    }
}

impl WifiStandard {
    /// All of them, in ascending order.
    pub const ALL: [Self; 6] = [Self::B, Self::G, Self::A, Self::N, Self::Ac, Self::Ax];

    /// Returns the letters of the standard.
    pub fn name(self) -> &'static str {
        match self {
            Self::B => "b",
            Self::G => "g",
            Self::A => "a",
            Self::N => "n",
            Self::Ac => "ac",
            Self::Ax => "ax",
        }
    }

    /// Returns whether a network of this standard in `band` has stations of another one.
    pub fn serves(self, station: Self, band: WifiBand) -> bool {
        station <= self && station.bands().contains(&band)
    }

    /// Returns the bands of its channels.
    pub fn bands(self) -> &'static [WifiBand] {
        match self {
            Self::B | Self::G => &[WifiBand::Ghz2],
            Self::A | Self::Ac => &[WifiBand::Ghz5],
            Self::N | Self::Ax => &[WifiBand::Ghz2, WifiBand::Ghz5],
        }
    }

    /// Returns the widths of its channels in a band, in MHz.
    pub fn widths_mhz(self, band: WifiBand) -> &'static [u32] {
        match (self, band) {
            (Self::B | Self::G | Self::A, _) => &[20],
            (Self::N, _) | (_, WifiBand::Ghz2) => &[20, 40],
            (Self::Ac | Self::Ax, WifiBand::Ghz5) => &[20, 40, 80, 160],
        }
    }

    /// Returns its guard intervals in ns.
    pub fn guard_intervals_ns(self) -> &'static [Nanos] {
        match self {
            Self::B | Self::G | Self::A => &[800],
            Self::N | Self::Ac => &[400, 800],
            Self::Ax => &[800, 1600, 3200],
        }
    }

    /// Returns the number of its MCS, or of its rates if it has no MCS.
    pub fn rates(self) -> u32 {
        match self {
            Self::B => 4,
            Self::G | Self::A | Self::N => 8,
            Self::Ac => 10,
            Self::Ax => 12,
        }
    }

    /// Returns the largest number of spatial streams.
    pub fn streams(self) -> u32 {
        match self {
            Self::B | Self::G | Self::A => 1,
            Self::N => 4,
            Self::Ac | Self::Ax => 8,
        }
    }

    /// Returns whether frames have the QoS field, and may be aggregated.
    pub fn has_qos(self) -> bool {
        matches!(self, Self::N | Self::Ac | Self::Ax)
    }
}
