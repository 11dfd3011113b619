//! Cellular access (LTE and NR).

use schemars::JsonSchema;
use serde::Deserialize;

use crate::resolved::direction::{InvalidDirection, ensure};
use crate::resolved::{Direction, HopDirection};
use crate::time::Nanos;

/// The radio link of one cellular device. The directions of the link give mean rates (or traces),
/// the queues of the device and of the base station, and the delay behind the base station.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cellular {
    /// Id of the link between the device and the network.
    pub link: String,
    /// The direction from the device to the network.
    pub uplink: HopDirection,
    /// Length of a transmission time interval: 1 ms in LTE, 0.5 ms in NR.
    pub tti_ns: Nanos,
    /// Retransmissions below IP.
    pub harq: Harq,
    /// How the device asks for its first grant.
    pub requests: UplinkRequests,
    /// States of the radio.
    pub rrc: Rrc,
    /// Variation of the rate over time.
    pub signal: Signal,
    /// Other devices in the cell, which share its capacity.
    pub neighbours: BusyNeighbours,
    /// Handovers between cells. `None` if only events cause them.
    #[serde(deserialize_with = "Option::deserialize")]
    pub handovers: Option<Handovers>,
    /// The 5G leg that a device with a 4G core (NSA) adds and releases. `None` if it always has the
    /// same legs.
    #[serde(deserialize_with = "Option::deserialize")]
    pub nr_leg: Option<NrLeg>,
}

/// Retransmission of transport blocks (HARQ, 3GPP TS 36.321). Blocks are handed up in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Harq {
    /// Probability that the first transmission of a block fails, in millionths.
    pub first_error_ppm: u32,
    /// Probability that a retransmission fails, in millionths.
    pub repeat_error_ppm: u32,
    /// Time from a transmission to the next of the same block.
    pub round_trip_ns: Nanos,
    /// Number of transmissions of a block, including the first, at least 1.
    pub tries: u32,
    /// Time in which RLC recovers a block after all attempts have failed.
    pub rlc_ns: Nanos,
}

/// Requests for uplink grants. While packets wait, buffer reports travel with the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UplinkRequests {
    /// Time between two opportunities to send a scheduling request, at least 1 ns.
    pub period_ns: Nanos,
    /// Time from the request until the grant can be used.
    pub grant_ns: Nanos,
}

/// States of the radio (RRC, 3GPP TS 36.331) and discontinuous reception (DRX).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rrc {
    /// Time without data after which the device listens only once a cycle.
    pub drx_after_ns: Nanos,
    /// The cycle of a connected device, at least 1 ns.
    pub drx_cycle_ns: Nanos,
    /// Time without data after which the device is idle, at least `drx_after_ns`.
    pub inactivity_ns: Nanos,
    /// The cycle in which an idle device listens for paging, at least 1 ns.
    pub paging_cycle_ns: Nanos,
    /// Time from idle to connected.
    pub promotion_ns: Nanos,
}

/// The signal-to-noise ratio over time. Its logarithm is the sum of two stationary Gaussian
/// processes. The rate follows log(1 + ratio) (Shannon), with the mean of the direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Signal {
    /// Median of the ratio in thousandths of a dB, -20000 to 60000.
    pub median_mdb: i32,
    /// Standard deviation of the fast part in thousandths of a dB, at most 13000. If both are 0,
    /// the rate is constant.
    pub fast_sd_mdb: u32,
    /// Correlation time of the fast part, at least 1 ms.
    pub fast_ns: Nanos,
    /// Standard deviation of the slow part in thousandths of a dB, at most 13000.
    pub slow_sd_mdb: u32,
    /// Correlation time of the slow part, at least 1 ms.
    pub slow_ns: Nanos,
}

/// Devices that come and go, each of which takes an equal share of the cell while it is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BusyNeighbours {
    /// Mean number of busy devices, in millionths, at most 100000000.
    pub mean_ppm: u32,
    /// Mean time for which a device is busy, at least 1 ms.
    pub busy_ns: Nanos,
}

/// Gaps in service at random times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gaps {
    /// Mean time from the end of a gap to the next one, at least 1 ms. The times are exponential.
    pub interval_ns: Nanos,
    /// Median of the time for which the link carries nothing. The times are lognormal.
    pub gap_median_ns: Nanos,
    /// Standard deviation of the logarithm of that time, in millionths, at most 3000000.
    pub gap_sd_ppm: u32,
}

/// Handovers at random times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Handovers {
    /// When, and how long the link carries nothing.
    pub gaps: Gaps,
    /// Whether the queue of the old cell is forwarded to the new one. Otherwise it is lost.
    pub forward_queue: bool,
}

/// The 5G leg of an NSA device (EN-DC, 3GPP TS 37.340). The device starts with it, and then
/// alternately releases and adds it. Queues are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NrLeg {
    /// When it is released or added, and how long the link carries nothing.
    pub gaps: Gaps,
    /// The rate without it, in millionths of the rate with it, 1 to 1000000. A trace already
    /// includes it.
    pub rate_without_ppm: u32,
}

const MILLISECOND: Nanos = 1_000_000;
const MOST_PPM: u32 = 1_000_000;
const MOST_SD_PPM: u32 = 3_000_000;
const MOST_SD_MDB: u32 = 13_000;

impl Cellular {
    /// Returns the time from idle to connected, with requests and repetitions of a block.
    pub(super) fn longest_wait_ns(&self) -> Nanos {
        let Self {
            rrc,
            requests,
            harq,
            ..
        } = self;
        let connecting_ns = rrc.paging_cycle_ns.max(rrc.drx_cycle_ns) + rrc.promotion_ns;
        let repeating_ns = Nanos::from(harq.tries) * harq.round_trip_ns + harq.rlc_ns;
        connecting_ns + requests.period_ns + requests.grant_ns + repeating_ns
    }

    /// Checks the ranges that the types do not express.
    ///
    /// # Errors
    /// Returns the first field whose value is outside its range.
    pub fn validate(&self) -> Result<(), InvalidDirection> {
        let tti = self.tti_ns;
        let is_possible = (100_000..=100 * MILLISECOND).contains(&tti);
        ensure(is_possible, "tti_ns", tti, "100000 to 100000000")?;
        self.harq.validate()?;
        let period = self.requests.period_ns;
        ensure(period > 0, "requests.period_ns", period, "at least 1")?;
        self.rrc.validate()?;
        self.signal.validate()?;
        self.neighbours.validate()?;
        let handovers = self.handovers.map(|handovers| handovers.gaps);
        handovers.map_or(Ok(()), |gaps| gaps.validate("handovers.gaps"))?;
        self.nr_leg.map_or(Ok(()), NrLeg::validate)
    }
}

/// Checks a direction of a link with an access network whose rate the direction gives.
pub(super) fn validate_has_rate(direction: &Direction) -> Result<(), InvalidDirection> {
    let has_rate = direction.rate_bps.is_some() || direction.trace.is_some();
    ensure(has_rate, "rate_bps", "null", "a rate, or a trace")?;
    let trains = direction
        .trace
        .as_ref()
        .and_then(|trace| trace.trains.as_ref());
    let allowed = "null, because they have the states of the radio in them";
    ensure(trains.is_none(), "trace.trains", "trains", allowed)
}

impl Harq {
    fn validate(&self) -> Result<(), InvalidDirection> {
        for (field, ppm) in [
            ("harq.first_error_ppm", self.first_error_ppm),
            ("harq.repeat_error_ppm", self.repeat_error_ppm),
        ] {
            ensure(ppm <= MOST_PPM, field, ppm, "0 to 1000000")?;
        }
        let tries = self.tries;
        ensure((1..=16).contains(&tries), "harq.tries", tries, "1 to 16")
    }
}

impl Rrc {
    fn validate(&self) -> Result<(), InvalidDirection> {
        for (field, cycle) in [
            ("rrc.drx_cycle_ns", self.drx_cycle_ns),
            ("rrc.paging_cycle_ns", self.paging_cycle_ns),
        ] {
            ensure(cycle > 0, field, cycle, "at least 1")?;
        }
        let inactivity = self.inactivity_ns;
        let is_later = inactivity >= self.drx_after_ns;
        ensure(
            is_later,
            "rrc.inactivity_ns",
            inactivity,
            "at least drx_after_ns",
        )
    }
}

impl Signal {
    fn validate(&self) -> Result<(), InvalidDirection> {
        let median = self.median_mdb;
        let is_possible = (-20_000..=60_000).contains(&median);
        ensure(is_possible, "signal.median_mdb", median, "-20000 to 60000")?;
        for (field, sd) in [
            ("signal.fast_sd_mdb", self.fast_sd_mdb),
            ("signal.slow_sd_mdb", self.slow_sd_mdb),
        ] {
            ensure(sd <= MOST_SD_MDB, field, sd, "at most 13000")?;
        }
        ensure_millisecond("signal.fast_ns", self.fast_ns)?;
        ensure_millisecond("signal.slow_ns", self.slow_ns)
    }
}

impl BusyNeighbours {
    fn validate(&self) -> Result<(), InvalidDirection> {
        let mean = self.mean_ppm;
        let is_possible = mean <= 100 * MOST_PPM;
        ensure(
            is_possible,
            "neighbours.mean_ppm",
            mean,
            "at most 100000000",
        )?;
        ensure_millisecond("neighbours.busy_ns", self.busy_ns)
    }
}

impl Gaps {
    fn validate(self, of: &'static str) -> Result<(), InvalidDirection> {
        let interval = self.interval_ns;
        let allowed = "an interval_ns of at least 1000000, 1 ms";
        ensure(interval >= MILLISECOND, of, interval, allowed)?;
        let sd = self.gap_sd_ppm;
        let allowed = "a gap_sd_ppm of at most 3000000";
        ensure(sd <= MOST_SD_PPM, of, sd, allowed)
    }
}

impl NrLeg {
    fn validate(self) -> Result<(), InvalidDirection> {
        self.gaps.validate("nr_leg.gaps")?;
        let rate = self.rate_without_ppm;
        let is_possible = (1..=MOST_PPM).contains(&rate);
        ensure(is_possible, "nr_leg.rate_without_ppm", rate, "1 to 1000000")
    }
}

fn ensure_millisecond(field: &'static str, time: Nanos) -> Result<(), InvalidDirection> {
    ensure(time >= MILLISECOND, field, time, "at least 1000000, 1 ms")
}
