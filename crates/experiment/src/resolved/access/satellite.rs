//! Satellite access.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::resolved::direction::{InvalidDirection, ensure};
use crate::resolved::{Direction, HopDirection};
use crate::time::Nanos;

/// The link of one dish to satellites in low Earth orbit. The directions of the link give median
/// rates, the queues, and the delay behind the ground station.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Leo {
    /// Id of the link between the dish and the network.
    pub link: String,
    /// The direction from the dish to the network.
    pub uplink: HopDirection,
    /// Time from one reassignment of satellites to the next, at least 1 ms.
    pub slot_ns: Nanos,
    /// The first reassignment, less than `slot_ns`. `None` if the seed draws it, once for all such
    /// links of a run.
    #[serde(deserialize_with = "Option::deserialize")]
    pub phase_ns: Option<Nanos>,
    /// The one-way delay over the satellite.
    pub bent_pipe: BentPipe,
    /// Variation of the rate from slot to slot.
    pub step: Step,
    /// Variation of the rate within a slot.
    pub fade: Fade,
    /// Time between two uplink frames; packets wait for the next one.
    pub uplink_frame_ns: Nanos,
    /// Stalls at the beginning of slots.
    pub stall: Stall,
    /// Losses.
    pub loss: LossInTime,
}

/// The delay over the satellite, which changes from slot to slot: normal, within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BentPipe {
    /// Mean.
    pub mean_ns: Nanos,
    /// Standard deviation.
    pub sd_ns: Nanos,
    /// Smallest delay.
    pub min_ns: Nanos,
    /// Largest delay, at least `min_ns`.
    pub max_ns: Nanos,
}

/// The logarithm of the factor of a slot's rate: normal with mean 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Standard deviation, in millionths, at most 3000000.
    pub sd_ppm: u32,
    /// Correlation with the slot before, in millionths, at most 1000000.
    pub correlation_ppm: u32,
}

/// A stationary Gaussian process that is the logarithm of a factor of the rate. The mean of the
/// factor is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fade {
    /// Standard deviation, in millionths, at most 3000000. If it is 0, nothing varies.
    pub sd_ppm: u32,
    /// Correlation time, at least 1 ms.
    pub correlation_ns: Nanos,
}

/// A period at the beginning of a slot in which packets are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// Probability that a slot begins with a stall, in millionths, at most 1000000.
    pub probability_ppm: u32,
    /// Shortest stall.
    pub min_ns: Nanos,
    /// Longest stall, at least `min_ns`, at most `slot_ns`.
    pub max_ns: Nanos,
}

/// Losses as periods in which everything in service is lost. They are independent of each other.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LossInTime {
    /// Mean time between two losses, at least 1 ms.
    pub interval_ns: Nanos,
    /// Quantiles of the duration, ascending from 0 to 1000000 millionths. Between them its
    /// logarithm is linear.
    pub durations: Vec<DurationQuantile>,
}

/// A quantile of a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DurationQuantile {
    /// Probability of a shorter duration, in millionths.
    pub below_ppm: u32,
    /// The duration, at least 1 ns.
    pub duration_ns: Nanos,
}

const MILLISECOND: Nanos = 1_000_000;
const MOST_PPM: u32 = 1_000_000;

impl Leo {
    /// Returns the longest bent pipe, with a stall.
    pub(super) fn longest_wait_ns(&self) -> Nanos {
        self.bent_pipe.max_ns + self.uplink_frame_ns + self.stall.max_ns
    }

    /// Checks the ranges that the types do not express.
    ///
    /// # Errors
    /// Returns the first field whose value is outside its range.
    pub fn validate(&self) -> Result<(), InvalidDirection> {
        let slot = self.slot_ns;
        ensure(slot >= MILLISECOND, "slot_ns", slot, "at least 1000000")?;
        let phase = self.phase_ns.unwrap_or(0);
        ensure(phase < slot, "phase_ns", phase, "less than slot_ns")?;
        let pipe = self.bent_pipe;
        let is_range = pipe.max_ns >= pipe.min_ns;
        ensure(is_range, "bent_pipe.max_ns", pipe.max_ns, "at least min_ns")?;
        let step = self.step;
        let is_possible = step.sd_ppm <= 3 * MOST_PPM;
        ensure(is_possible, "step.sd_ppm", step.sd_ppm, "at most 3000000")?;
        ensure_part("step.correlation_ppm", step.correlation_ppm)?;
        let fade = self.fade;
        let is_possible = fade.sd_ppm <= 3 * MOST_PPM;
        ensure(is_possible, "fade.sd_ppm", fade.sd_ppm, "at most 3000000")?;
        let time = fade.correlation_ns;
        let is_long = time >= MILLISECOND;
        ensure(is_long, "fade.correlation_ns", time, "at least 1000000")?;
        ensure_part("stall.probability_ppm", self.stall.probability_ppm)?;
        let (shortest, longest) = (self.stall.min_ns, self.stall.max_ns);
        let is_range = (shortest..=slot).contains(&longest);
        ensure(is_range, "stall.max_ns", longest, "min_ns to slot_ns")?;
        self.loss.validate()
    }
}

impl LossInTime {
    fn validate(&self) -> Result<(), InvalidDirection> {
        let interval = self.interval_ns;
        let is_long = interval >= MILLISECOND;
        ensure(is_long, "loss.interval_ns", interval, "at least 1000000")?;
        let ends = (self.durations.first(), self.durations.last());
        let (Some(first), Some(last)) = ends else {
            return ensure(false, "loss.durations", "[]", "at least two quantiles");
        };
        let is_whole = first.below_ppm == 0 && last.below_ppm == MOST_PPM;
        let mut pairs = self.durations.windows(2);
        let ascends = pairs.all(|pair| {
            pair[0].below_ppm < pair[1].below_ppm && pair[0].duration_ns <= pair[1].duration_ns
        });
        let is_right = is_whole && ascends && first.duration_ns > 0;
        let found = format!("{:?}", self.durations);
        ensure(
            is_right,
            "loss.durations",
            found,
            "ascending from 0 to 1000000 millionths",
        )
    }
}

/// Checks a direction of a link with this access network.
pub(super) fn validate_rate_only(direction: &Direction) -> Result<(), InvalidDirection> {
    let has_rate = direction.rate_bps.is_some();
    ensure(has_rate, "rate_bps", "null", "the median rate")
}

fn ensure_part(field: &'static str, ppm: u32) -> Result<(), InvalidDirection> {
    ensure(ppm <= MOST_PPM, field, ppm, "at most 1000000")
}
