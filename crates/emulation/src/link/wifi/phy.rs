//! Timing of the physical layers, and their rates (IEEE Std 802.11-2020, clauses 16 to 21 and 27).

use experiment::resolved::{Wifi, WifiBand, WifiRate, WifiStandard, WifiStation};
use experiment::time::{NANOS_PER_SECOND, Nanos};

/// Bytes of the LLC and SNAP header, and of the frame check sequence.
const LLC_BYTES: u32 = 8;
const FCS_BYTES: u32 = 4;
/// Bytes of control frames.
const ACK_BYTES: u32 = 14;
const BLOCK_ACK_BYTES: u32 = 32;
const RTS_BYTES: u32 = 20;
/// Bits of the service field and the tail of an OFDM frame.
const SERVICE_AND_TAIL_BITS: u64 = 22;

/// Bits per subcarrier and symbol of each MCS, in twelfths.
const MCS_BITS: [u64; 12] = [6, 12, 18, 24, 36, 48, 54, 60, 72, 80, 90, 100];
/// Signal at which half of the frames of an MCS fail, at 20 MHz, in thousandths of a dB.
const MCS_SNR: [i64; 12] = [
    2000, 5000, 8000, 12_000, 17_000, 21_000, 22_500, 24_000, 28_500, 30_500, 33_000, 35_500,
];
/// The rates of OFDM without MCS in Mbit/s, and their signal.
const OFDM: [(u64, i64); 8] = [
    (6, 2000),
    (9, 3500),
    (12, 5000),
    (18, 8000),
    (24, 12_000),
    (36, 17_000),
    (48, 21_000),
    (54, 22_500),
];
/// The rates of DSSS in kbit/s, and their signal.
const DSSS: [(u64, i64); 4] = [(1000, -1000), (2000, 2000), (5500, 5000), (11_000, 8000)];
/// Rise of the signal needed with each doubling of the width.
const SNR_OF_DOUBLE_WIDTH: i64 = 3000;

/// The frames of a standard in a network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phy {
    standard: WifiStandard,
    pub(super) slot: Nanos,
    pub(super) sifs: Nanos,
    /// Silence after each OFDM frame at 2.4 GHz.
    signal_extension: Nanos,
    /// Whether the network has stations that understand DSSS alone.
    has_dsss_stations: bool,
}

/// A rate of data frames, and the frames that go with them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    modulation: Modulation,
    preamble: Nanos,
    signal_extension: Nanos,
    pub(super) bps: u64,
    /// Signal at which half of the frames fail, in thousandths of a dB.
    pub(super) snr50_mdb: i64,
    pub(super) ack: Nanos,
    pub(super) block_ack: Nanos,
    rts: Nanos,
    cts: Nanos,
    /// Whether some station hears only the frame before it.
    needs_protection: bool,
    sifs: Nanos,
}

/// What precedes a data frame, with the gap after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protection {
    Nothing,
    CtsToSelf { duration: Nanos },
    RtsAndCts { rts: Nanos, duration: Nanos },
}

impl Protection {
    pub(super) fn duration(self) -> Nanos {
        match self {
            Self::Nothing => 0,
            Self::CtsToSelf { duration } | Self::RtsAndCts { duration, .. } => duration,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Modulation {
    Dsss { bps: u64 },
    Ofdm { bits_per_symbol: u64, symbol: Nanos },
}

impl Phy {
    /// Returns the frames of the access point of a network.
    pub(super) fn new(wifi: &Wifi) -> Self {
        let mut standards = wifi.stations.iter().map(|station| station.standard);
        let has_dsss_stations = standards.any(|standard| standard == WifiStandard::B);
        // Stations of `b` have the long slot alone (clauses 16 and 18 of the standard).
        let has_long_slots = has_dsss_stations || wifi.standard == WifiStandard::B;
        let (sifs, signal_extension) = match wifi.band {
            WifiBand::Ghz2 => (10_000, 6_000),
            WifiBand::Ghz5 => (16_000, 0),
        };
        Self {
            standard: wifi.standard,
            slot: if has_long_slots { 20_000 } else { 9_000 },
            sifs,
            signal_extension,
            has_dsss_stations,
        }
    }

    /// Returns the frames from and to a station of the network.
    pub(super) fn of_station(self, station: &WifiStation) -> Self {
        Self {
            standard: station.standard,
            ..self
        }
    }

    /// Returns the length of the MPDU that carries an IP packet.
    pub(super) fn mpdu_bytes(&self, ip_bytes: u32) -> u32 {
        let header = if self.standard.has_qos() { 26 } else { 24 };
        ip_bytes.saturating_add(LLC_BYTES + header + FCS_BYTES)
    }

    /// Returns the rates that a station may choose, in ascending order of their MCS. A fixed rate is
    /// the only one.
    pub(super) fn rates(&self, station: &WifiStation) -> Vec<Rate> {
        let is_allowed = |mcs: &u32| match station.rate {
            WifiRate::Fixed { mcs: fixed } => *mcs == fixed,
            WifiRate::Auto {} | WifiRate::Ideal {} => true,
        };
        let mcs = station.mcs().filter(is_allowed);
        mcs.map(|mcs| self.rate_of(mcs as usize, station)).collect()
    }

    fn rate_of(&self, mcs: usize, station: &WifiStation) -> Rate {
        match self.standard {
            WifiStandard::B => {
                let (kbps, snr50_mdb) = DSSS[mcs];
                self.dsss(kbps * 1000, snr50_mdb)
            }
            WifiStandard::G | WifiStandard::A => {
                let (mbps, snr50_mdb) = OFDM[mcs];
                self.ofdm(mbps * 1_000_000, snr50_mdb)
            }
            WifiStandard::N | WifiStandard::Ac | WifiStandard::Ax => {
                self.mcs(MCS_BITS[mcs], MCS_SNR[mcs], station)
            }
        }
    }

    /// Returns the rate of a frame without MCS, at any speed.
    pub(super) fn legacy(&self, bps: u64) -> Rate {
        match self.standard {
            WifiStandard::B => self.dsss(bps, i64::MIN),
            _ => self.ofdm(bps, i64::MIN),
        }
    }

    fn dsss(&self, bps: u64, snr50_mdb: i64) -> Rate {
        let modulation = Modulation::Dsss { bps };
        self.rate(modulation, 192_000, bps, snr50_mdb)
    }

    fn ofdm(&self, bps: u64, snr50_mdb: i64) -> Rate {
        let modulation = Modulation::Ofdm {
            bits_per_symbol: (bps / 250_000).max(1),
            symbol: 4_000,
        };
        self.rate(modulation, 20_000, bps, snr50_mdb)
    }

    fn mcs(&self, bits: u64, snr50_mdb: i64, station: &WifiStation) -> Rate {
        let (width_mhz, streams) = (station.width_mhz, station.streams);
        // Training fields come in pairs from two streams on.
        let trainings = u64::from(streams).next_multiple_of(2).max(1) - u64::from(streams == 1);
        let is_he = self.standard == WifiStandard::Ax;
        let (symbol, preamble) = match self.standard {
            WifiStandard::N => (3_200, 32_000 + 4_000 * trainings),
            WifiStandard::Ac => (3_200, 36_000 + 4_000 * trainings),
            _ => (12_800, 36_800 + 7_200 * trainings),
        };
        let symbol = symbol + station.guard_interval_ns;
        let subcarriers = data_subcarriers(is_he, width_mhz);
        let bits_per_symbol = subcarriers * bits * u64::from(streams) / 12;
        let doublings = i64::from((width_mhz / 20).ilog2());
        let modulation = Modulation::Ofdm {
            bits_per_symbol,
            symbol,
        };
        let bps = bits_per_symbol * NANOS_PER_SECOND / symbol;
        let snr50_mdb = snr50_mdb + SNR_OF_DOUBLE_WIDTH * doublings;
        self.rate(modulation, preamble, bps, snr50_mdb)
    }

    fn rate(&self, modulation: Modulation, preamble: Nanos, bps: u64, snr50_mdb: i64) -> Rate {
        let is_ofdm = matches!(modulation, Modulation::Ofdm { .. });
        let needs_protection = is_ofdm && self.has_dsss_stations;
        let control = |bytes| self.control(bps, bytes);
        let before = |bytes| match needs_protection {
            true => dsss_control(bps, bytes),
            false => control(bytes),
        };
        Rate {
            modulation,
            preamble,
            signal_extension: match modulation {
                Modulation::Dsss { .. } => 0,
                Modulation::Ofdm { .. } => self.signal_extension,
            },
            bps,
            snr50_mdb,
            ack: control(ACK_BYTES),
            block_ack: control(BLOCK_ACK_BYTES),
            rts: before(RTS_BYTES),
            cts: before(ACK_BYTES),
            needs_protection,
            sifs: self.sifs,
        }
    }

    /// Returns the duration of a control frame, at the highest basic rate not above `data_bps`.
    fn control(&self, data_bps: u64, bytes: u32) -> Nanos {
        if self.standard == WifiStandard::B {
            return dsss_control(data_bps, bytes);
        }
        let basic = [24_000_000, 12_000_000];
        let bps = basic
            .into_iter()
            .find(|bps| *bps <= data_bps)
            .unwrap_or(6_000_000);
        20_000 + 4_000 * ofdm_symbols(bytes, bps / 250_000) + self.signal_extension
    }
}

impl Rate {
    /// Returns what precedes a transmission of `bytes`, of those from `rts_bytes` on RTS and CTS.
    ///
    /// Stations of `b` defer to no OFDM frame, so that each is announced to them by a frame in
    /// DSSS (section 10.27.2 of the standard). Stations of `g` and `a` read the length of a
    /// mixed-format frame in its preamble (section 10.27.3).
    pub(super) fn protection(&self, bytes: u32, rts_bytes: Option<u32>) -> Protection {
        let (rts, cts) = (self.rts + self.sifs, self.cts + self.sifs);
        if rts_bytes.is_some_and(|limit| bytes >= limit) {
            return Protection::RtsAndCts {
                rts: self.rts,
                duration: rts + cts,
            };
        }
        match self.needs_protection {
            true => Protection::CtsToSelf { duration: cts },
            false => Protection::Nothing,
        }
    }

    /// Returns the duration of a PPDU with `bytes`.
    pub(super) fn ppdu(&self, bytes: u32) -> Nanos {
        let payload = match self.modulation {
            Modulation::Dsss { bps } => dsss_payload(bytes, bps),
            Modulation::Ofdm {
                bits_per_symbol,
                symbol,
            } => symbol * ofdm_symbols(bytes, bits_per_symbol),
        };
        self.preamble + payload + self.signal_extension
    }

    /// Returns the most bytes that a PPDU of at most `longest` carries.
    pub(super) fn most_bytes(&self, longest: Nanos) -> u32 {
        let payload = longest.saturating_sub(self.preamble + self.signal_extension);
        let bytes = match self.modulation {
            Modulation::Dsss { bps } => payload.saturating_mul(bps) / (8 * NANOS_PER_SECOND),
            Modulation::Ofdm {
                bits_per_symbol,
                symbol,
            } => (payload / symbol * bits_per_symbol).saturating_sub(SERVICE_AND_TAIL_BITS) / 8,
        };
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }
}

fn ofdm_symbols(bytes: u32, bits_per_symbol: u64) -> u64 {
    (SERVICE_AND_TAIL_BITS + 8 * u64::from(bytes)).div_ceil(bits_per_symbol)
}

/// Returns the duration of a control frame in DSSS, at the highest basic rate not above `data_bps`.
fn dsss_control(data_bps: u64, bytes: u32) -> Nanos {
    let bps = if data_bps >= 2_000_000 {
        2_000_000
    } else {
        1_000_000
    };
    192_000 + dsss_payload(bytes, bps)
}

fn dsss_payload(bytes: u32, bps: u64) -> Nanos {
    (8 * u64::from(bytes) * NANOS_PER_SECOND).div_ceil(bps)
}

fn data_subcarriers(is_he: bool, width_mhz: u32) -> u64 {
    match (is_he, width_mhz) {
        (false, 20) => 52,
        (false, 40) => 108,
        (false, 80) => 234,
        (false, _) => 468,
        (true, 20) => 234,
        (true, 40) => 468,
        (true, 80) => 980,
        (true, _) => 1960,
    }
}
