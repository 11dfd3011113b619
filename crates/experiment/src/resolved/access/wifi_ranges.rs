//! Ranges of the values of a Wi-Fi network that the types do not express.

use std::fmt::{self, Display, Formatter};
use std::ops::RangeInclusive;

use super::wifi::{
    Aggregation, ApQueue, Edca, Snr, Wifi, WifiBand, WifiNeighbours, WifiRate, WifiStandard,
    WifiStation,
};
use crate::resolved::LARGEST;
use crate::resolved::direction::{InvalidDirection, ensure};

const TIME: RangeInclusive<u64> = 0..=LARGEST;

impl Wifi {
    /// Checks the ranges that the types do not express.
    ///
    /// # Errors
    /// Returns the first field whose value is outside its range.
    pub(super) fn validate(&self) -> Validity {
        ensure_among("band", self.band, self.standard.bands())?;
        ensure_range("retry_limit", self.retry_limit, 1..=255)?;
        self.edca.iter().try_for_each(Edca::validate)?;
        self.ap_queue.validate()?;
        let mut stations = self.stations.iter();
        stations.try_for_each(|station| station.validate(self))?;
        self.neighbours
            .iter()
            .try_for_each(WifiNeighbours::validate)
    }
}

type Validity = Result<(), InvalidDirection>;

fn ensure_range<T: PartialOrd + Display>(
    field: &'static str,
    found: T,
    allowed: RangeInclusive<T>,
) -> Validity {
    if allowed.contains(&found) {
        return Ok(());
    }
    let range = format!("{} to {}", allowed.start(), allowed.end());
    ensure(false, field, found, range)
}

fn ensure_among<T: PartialEq + Display>(field: &'static str, found: T, allowed: &[T]) -> Validity {
    if allowed.contains(&found) {
        return Ok(());
    }
    let list: Vec<_> = allowed.iter().map(T::to_string).collect();
    ensure(false, field, found, list.join(", "))
}

impl Aggregation {
    fn validate(&self, standard: WifiStandard) -> Validity {
        let most = if standard.has_qos() { 256 } else { 1 };
        let mpdus = 1..=most;
        ensure_range("stations.aggregation.max_mpdus", self.max_mpdus, mpdus)?;
        let bytes = 1..=6_500_631;
        ensure_range("stations.aggregation.max_bytes", self.max_bytes, bytes)?;
        let ppdu = 1..=1_000_000_000;
        ensure_range("stations.aggregation.max_ppdu_ns", self.max_ppdu_ns, ppdu)
    }
}

impl Edca {
    fn validate(&self) -> Validity {
        ensure_range("edca.aifsn", self.aifsn, 1..=15)?;
        ensure_range("edca.cw_min", self.cw_min, 0..=32_767)?;
        ensure_range("edca.cw_max", self.cw_max, self.cw_min..=32_767)?;
        ensure_range("edca.txop_limit_ns", self.txop_limit_ns, 0..=1_000_000_000)
    }
}

impl ApQueue {
    fn validate(&self) -> Validity {
        match self {
            Self::Fifo(fifo) => {
                ensure_range("ap_queue.limit_packets", fifo.limit_packets, 1..=1 << 32)?;
                let driver = fifo.driver_packets;
                ensure_range("ap_queue.driver_packets", driver, 1..=1 << 32)
            }
            Self::Fq(fq) => {
                ensure_range("ap_queue.quantum_ns", fq.quantum_ns, 1000..=1_000_000_000)?;
                ensure_range("ap_queue.aql_low_ns", fq.aql_low_ns, 1..=1_000_000_000)?;
                let high = fq.aql_low_ns..=1_000_000_000;
                ensure_range("ap_queue.aql_high_ns", fq.aql_high_ns, high)?;
                ensure_range("ap_queue.aql_threshold_ns", fq.aql_threshold_ns, TIME)
            }
        }
    }
}

impl WifiStation {
    fn validate(&self, network: &Wifi) -> Validity {
        let standard = self.standard;
        let is_served = |one: &WifiStandard| network.standard.serves(*one, network.band);
        let served: Vec<_> = WifiStandard::ALL.into_iter().filter(is_served).collect();
        ensure_among("stations.standard", standard, &served)?;
        let widths = standard.widths_mhz(network.band);
        ensure_among("stations.width_mhz", self.width_mhz, widths)?;
        let intervals = standard.guard_intervals_ns();
        let interval = self.guard_interval_ns;
        ensure_among("stations.guard_interval_ns", interval, intervals)?;
        self.aggregation.validate(standard)?;
        self.edca.validate()?;
        ensure_range("stations.streams", self.streams, 1..=standard.streams())?;
        if let WifiRate::Fixed { mcs } = self.rate {
            let allowed: Vec<_> = self.mcs().collect();
            ensure_among("stations.rate.mcs", mcs, &allowed)?;
        }
        self.snr.validate()?;
        let idle = self.power_save_after_ns.unwrap_or(0);
        ensure_range("stations.power_save_after_ns", idle, TIME)?;
        let time = 1_000_000..=3_600_000_000_000;
        let Some(scan) = self.scan else { return Ok(()) };
        ensure_range("stations.scan.every_ns", scan.every_ns, time)?;
        let absence = 1..=scan.every_ns - 1;
        ensure_range("stations.scan.longest_ns", scan.longest_ns, absence)?;
        let shortest = 0..=scan.longest_ns;
        ensure_range("stations.scan.shortest_ns", scan.shortest_ns, shortest)
    }
}

impl Display for WifiStandard {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Display for WifiBand {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Snr {
    fn validate(&self) -> Validity {
        ensure_range("stations.snr.sd_mdb", self.sd_mdb, 0..=100_000)?;
        let time = 1_000_000..=3_600_000_000_000;
        ensure_range("stations.snr.correlation_ns", self.correlation_ns, time)?;
        ensure_range("stations.snr.means", self.means.len(), 1..=1_000_000)?;
        let mut earliest = 0;
        for point in &self.means {
            ensure_range("stations.snr.means.at_ns", point.at_ns, earliest..=LARGEST)?;
            Self::validate_mean("stations.snr.means.mean_mdb", point.mean_mdb)?;
            earliest = point.at_ns;
        }
        Ok(())
    }

    /// Checks a mean signal.
    pub(in crate::resolved) fn validate_mean(field: &'static str, mean_mdb: i64) -> Validity {
        ensure_range(field, mean_mdb, -100_000..=100_000)
    }
}

impl WifiNeighbours {
    fn validate(&self) -> Validity {
        ensure_range("neighbours.stations", self.stations, 1..=1000)?;
        ensure_range("neighbours.load_bps", self.load_bps, 1..=1 << 40)?;
        ensure_range("neighbours.rate_bps", self.rate_bps, 100_000..=1 << 40)?;
        ensure_range("neighbours.packet_bytes", self.packet_bytes, 1..=65_535)
    }
}
