//! What a trace says of one direction of a link over time: capacity, delay, loss.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::direction::{InvalidDirection, ensure, ensure_probability};
use crate::time::Nanos;

/// A recording that repeats without end: delivery opportunities or rates, delays, losses. At least
/// one of the four lists has entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// Instants of delivery opportunities within a period, ascending, each at most `period_ns`.
    /// Several may coincide. Empty if the capacity is given by `rates` or by the rate of the
    /// direction.
    pub opportunities_ns: Vec<Nanos>,
    /// Rates over time, whose opportunities are spread evenly. Empty if the capacity is given by
    /// `opportunities_ns` or by the rate of the direction.
    pub rates: Vec<RateStep>,
    /// Delays over time, in addition to the delay of the direction. Empty if there are none.
    pub delays: Vec<DelayStep>,
    /// The conditions for packets that come after a pause (CellReplay). The opportunities above are
    /// then those under load, and delays change linearly from one step to the next. `None` if the
    /// conditions after a pause are the same.
    #[serde(deserialize_with = "Option::deserialize")]
    pub trains: Option<Trains>,
    /// Losses over time, in addition to the loss model of the direction. Empty if there are none.
    pub losses: Vec<LossStep>,
    /// Length of the period.
    pub period_ns: Nanos,
    /// Bytes, overhead included, that one opportunity carries.
    pub opportunity_bytes: u32,
    /// Instant of the trace at which the run begins.
    pub start: TraceStart,
}

/// A rate that applies from an instant until the next step or the end of the period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateStep {
    /// Instant within the period. That of the first step is 0.
    pub from_ns: Nanos,
    /// Rate in bit/s, overhead included. 0 is an outage.
    pub rate_bps: u64,
}

/// A delay that applies from an instant until the next step or the end of the period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelayStep {
    /// Instant within the period. That of the first step is 0.
    pub from_ns: Nanos,
    /// Delay of packets whose last bit leaves from then on.
    pub delay_ns: Nanos,
}

/// Trains of packets that begin after a pause. The packets of a train take its opportunities. Once
/// these are used up or have passed, packets take the opportunities under load until the next
/// pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trains {
    /// Time without packets after which the next one begins a train, at least 1 ns.
    pub pause_ns: Nanos,
    /// The conditions for trains, in ascending order of time. A train has the last conditions before
    /// its beginning, or the first.
    pub probes: Vec<Train>,
}

/// The conditions for one train of packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Train {
    /// Instant within the period.
    pub at_ns: Nanos,
    /// Instants of opportunities since the beginning of the train, ascending. Several may coincide.
    pub opportunities_ns: Vec<Nanos>,
}

/// A probability of loss that applies from an instant until the next step or the end of the period.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LossStep {
    /// Instant within the period. That of the first step is 0.
    pub from_ns: Nanos,
    /// Probability of loss, 0 to 1, for packets that reach the place of loss from then on.
    pub probability: f64,
}

/// Where in its trace a run begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum TraceStart {
    /// At an instant of the trace.
    At {
        /// The instant, less than the period.
        at_ns: Nanos,
    },
    /// At an instant drawn by the seed, the same for all traces of one recording.
    Drawn {
        /// Name of the recording.
        recording: String,
        /// Upper limit, at least 1, of the instant, which is uniform in [0, `below_ns`). The limit
        /// is the same for all traces of the recording.
        below_ns: Nanos,
    },
}

impl Trace {
    /// Returns whether the trace gives the capacity, in place of a rate.
    pub fn has_capacity(&self) -> bool {
        !self.opportunities_ns.is_empty() || !self.rates.is_empty()
    }

    /// Returns the least and the greatest delay; 0 without delays.
    pub fn delay_range_ns(&self) -> (Nanos, Nanos) {
        let delays = || self.delays.iter().map(|step| step.delay_ns);
        (delays().min().unwrap_or(0), delays().max().unwrap_or(0))
    }

    /// Returns the probability of loss, averaged over the period.
    pub fn mean_loss(&self) -> f64 {
        let ends = self.losses.iter().skip(1).map(|step| step.from_ns);
        let spans = self.losses.iter().zip(ends.chain([self.period_ns]));
        let lost = spans.map(|(step, end)| step.probability * (end - step.from_ns) as f64);
        lost.sum::<f64>() / self.period_ns as f64
    }

    pub(super) fn validate(&self) -> Result<(), InvalidDirection> {
        ensure(self.period_ns > 0, "trace.period_ns", 0, "at least 1")?;
        ensure(
            self.opportunity_bytes > 0,
            "trace.opportunity_bytes",
            0,
            "at least 1",
        )?;
        self.validate_contents()?;
        self.validate_opportunities()?;
        self.validate_rates()?;
        self.validate_trains()?;
        let instants = self.delays.iter().map(|step| step.from_ns);
        self.validate_steps("trace.delays", instants)?;
        let instants = self.losses.iter().map(|step| step.from_ns);
        self.validate_steps("trace.losses", instants)?;
        for step in &self.losses {
            ensure_probability("trace.losses", step.probability)?;
        }
        self.validate_start()
    }

    fn validate_contents(&self) -> Result<(), InvalidDirection> {
        const FIELD: &str = "trace.opportunities_ns";
        let is_empty = !self.has_capacity() && self.delays.is_empty() && self.losses.is_empty();
        ensure(
            !is_empty,
            FIELD,
            "an empty list",
            "at least one instant, or rates, delays or losses",
        )?;
        let is_twice = !self.opportunities_ns.is_empty() && !self.rates.is_empty();
        ensure(!is_twice, "trace.rates", "opportunities too", "one of both")
    }

    fn validate_opportunities(&self) -> Result<(), InvalidDirection> {
        const FIELD: &str = "trace.opportunities_ns";
        let last = self.opportunities_ns.last().copied().unwrap_or(0);
        ensure(
            last <= self.period_ns,
            FIELD,
            last,
            "instants of at most period_ns",
        )?;
        let mut pairs = self.opportunities_ns.windows(2);
        match pairs.find(|pair| pair[0] > pair[1]) {
            Some(pair) => ensure(false, FIELD, format!("{pair:?}"), "ascending instants"),
            None => Ok(()),
        }
    }

    fn validate_rates(&self) -> Result<(), InvalidDirection> {
        let instants = self.rates.iter().map(|step| step.from_ns);
        self.validate_steps("trace.rates", instants)?;
        let carries = self.rates.iter().any(|step| step.rate_bps > 0);
        let allowed = "at least one rate above 0";
        ensure(
            carries || self.rates.is_empty(),
            "trace.rates",
            "only outages",
            allowed,
        )
    }

    fn validate_trains(&self) -> Result<(), InvalidDirection> {
        const FIELD: &str = "trace.trains";
        let Some(trains) = &self.trains else {
            return Ok(());
        };
        ensure(
            trains.pause_ns > 0,
            "trace.trains.pause_ns",
            0,
            "at least 1",
        )?;
        let has_load = !self.opportunities_ns.is_empty();
        let allowed = "opportunities under load too";
        ensure(has_load, FIELD, "no trace.opportunities_ns", allowed)?;
        ensure(
            !trains.probes.is_empty(),
            FIELD,
            "no probes",
            "at least one",
        )?;
        let instants = trains.probes.iter().map(|probe| probe.at_ns);
        let is_ascending = instants.clone().is_sorted_by(|one, next| one < next);
        let allowed = "probes in ascending order, before period_ns";
        let are_within = instants.clone().all(|instant| instant < self.period_ns);
        let last = trains.probes.last().map_or(0, |probe| probe.at_ns);
        ensure(
            is_ascending && are_within,
            FIELD,
            format!("a probe at {last}"),
            allowed,
        )?;
        let mut probes = trains.probes.iter();
        let is_ascending = probes.all(|probe| probe.opportunities_ns.is_sorted());
        ensure(
            is_ascending,
            FIELD,
            "opportunities in another order",
            "ascending instants",
        )
    }

    fn validate_steps(
        &self,
        field: &'static str,
        instants: impl Iterator<Item = Nanos>,
    ) -> Result<(), InvalidDirection> {
        let mut before = None;
        for instant in instants {
            let follows = before.map_or(instant == 0, |before| instant > before);
            ensure(
                follows && instant < self.period_ns,
                field,
                format!("a step at {instant}"),
                "steps in ascending order, the first at 0, the last before period_ns",
            )?;
            before = Some(instant);
        }
        Ok(())
    }

    fn validate_start(&self) -> Result<(), InvalidDirection> {
        let (field, instant, is_allowed) = match &self.start {
            TraceStart::At { at_ns } => ("trace.start.at_ns", *at_ns, *at_ns < self.period_ns),
            TraceStart::Drawn { below_ns, .. } => {
                let is_allowed = (1..=self.period_ns).contains(below_ns);
                ("trace.start.below_ns", *below_ns, is_allowed)
            }
        };
        ensure(is_allowed, field, instant, "an instant within the period")
    }
}
