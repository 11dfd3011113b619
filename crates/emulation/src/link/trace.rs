//! Traces in virtual time: delivery opportunities, and delay and loss over time.

use experiment::resolved::{self, DelayStep, RateStep, Trace, TraceStart};
use experiment::rng::Generator;
use experiment::time::{NANOS_PER_SECOND, Nanos};

use super::train::Trains;

/// Returns the instant of a trace at which the run with `seed` begins.
pub(super) fn start_ns(trace: &Trace, seed: u64) -> Nanos {
    match &trace.start {
        TraceStart::At { at_ns } => *at_ns,
        TraceStart::Drawn {
            recording,
            below_ns,
        } => Generator::new(seed, &format!("trace/start/{recording}")).below(*below_ns),
    }
}

/// Delivery opportunities of a fixed number of bytes. Small packets share one, a large packet takes
/// several, and unused bytes are lost.
#[derive(Debug)]
pub(super) struct TraceSerializer {
    opportunities: RunOpportunities,
    opportunity_bytes: u32,
    /// Number of the current opportunity, counted over all periods. `free_bytes` is what it has
    /// left.
    current: u64,
    free_bytes: u32,
    trains: Option<Trains>,
}

impl TraceSerializer {
    /// Returns the serializer of a trace with a capacity, of which `start_ns` is the start of the
    /// run.
    pub(super) fn new(trace: &Trace, start_ns: Nanos) -> Self {
        Self {
            opportunities: RunOpportunities::new(trace, start_ns),
            opportunity_bytes: trace.opportunity_bytes,
            current: 0,
            free_bytes: trace.opportunity_bytes,
            trains: Trains::new(trace, start_ns),
        }
    }

    /// Records that a packet comes to an empty queue at `now`.
    pub(super) fn record_arrival(&mut self, now: Nanos) {
        if let Some(trains) = &mut self.trains {
            trains.record_arrival(now);
        }
    }

    pub(super) fn earliest_start(&self, ready: Nanos) -> Nanos {
        let in_train = self.trains.as_ref();
        if let Some(start) = in_train.and_then(|trains| trains.earliest_start(ready)) {
            return start;
        }
        let first = self.opportunities.first_from(ready, self.current);
        self.opportunities.instant(first)
    }

    pub(super) fn transmit(&mut self, start: Nanos, bytes: u32) -> Nanos {
        let Some(trains) = &mut self.trains else {
            return self.transmit_under_load(start, bytes);
        };
        let (mut finish, unsent) = trains.transmit(start, bytes);
        if unsent > 0 {
            finish = self.transmit_under_load(finish, unsent);
        }
        if let Some(trains) = &mut self.trains {
            trains.record_departure(finish);
        }
        finish
    }

    fn transmit_under_load(&mut self, start: Nanos, bytes: u32) -> Nanos {
        let first = self.opportunities.first_from(start, self.current);
        if first != self.current {
            self.move_to(first);
        }
        let mut unsent = bytes;
        while unsent > self.free_bytes {
            unsent -= self.free_bytes;
            self.move_to(self.current.saturating_add(1));
        }
        self.free_bytes -= unsent;
        let finish = self.opportunities.instant(self.current);
        if self.free_bytes == 0 {
            self.move_to(self.current.saturating_add(1));
        }
        finish
    }

    fn move_to(&mut self, opportunity: u64) {
        self.current = opportunity;
        self.free_bytes = self.opportunity_bytes;
    }

    /// Returns the long-run rate in bit/s.
    pub(super) fn mean_rate_bps(&self) -> f64 {
        match &self.opportunities.all {
            Opportunities::Listed {
                instants_ns,
                period_ns,
            } => {
                let bits = instants_ns.len() as f64 * f64::from(self.opportunity_bytes) * 8.0;
                bits * NANOS_PER_SECOND as f64 / *period_ns as f64
            }
            Opportunities::Even(even) => even.mean_rate_bps(),
        }
    }
}

/// Returns the longest time that a packet of `bytes` alone waits for the capacity of a trace. Up to
/// one opportunity more than it needs may pass.
pub fn longest_wait_ns(trace: &Trace, bytes: u32) -> Nanos {
    let opportunities = Opportunities::new(trace);
    let needed = u64::from(bytes.div_ceil(trace.opportunity_bytes));
    let steps = trace.rates.iter().map(|step| step.from_ns);
    let instants = trace.opportunities_ns.iter().copied().chain(steps);
    let waits = instants.map(|instant| {
        let first = opportunities.first_from(instant.saturating_add(1));
        let last = opportunities.instant(first.saturating_add(needed));
        last.saturating_sub(instant)
    });
    waits.max().unwrap_or(0)
}

/// The opportunities of a trace in the time of a run.
#[derive(Debug)]
pub(super) struct RunOpportunities {
    all: Opportunities,
    /// Instant of the trace at which the run begins.
    start_ns: Nanos,
}

impl RunOpportunities {
    /// Returns the opportunities of a trace, of which `start_ns` is the start of the run.
    pub(super) fn new(trace: &Trace, start_ns: Nanos) -> Self {
        let all = Opportunities::new(trace);
        Self { all, start_ns }
    }

    /// Returns the number of the first opportunity at or after `ready`, but not before number
    /// `least`.
    pub(super) fn first_from(&self, ready: Nanos, least: u64) -> u64 {
        let ready = ready.saturating_add(self.start_ns);
        if self.all.instant(least) >= ready {
            return least;
        }
        self.all.first_from(ready)
    }

    /// Returns the instant of an opportunity that is not before the start of the run.
    pub(super) fn instant(&self, opportunity: u64) -> Nanos {
        let instant = self.all.instant(opportunity);
        // The end of time stays there.
        if instant == Nanos::MAX {
            return instant;
        }
        instant.saturating_sub(self.start_ns)
    }
}

/// The instants of opportunities, numbered from 0 over all periods.
#[derive(Debug)]
enum Opportunities {
    Listed {
        instants_ns: Vec<Nanos>,
        period_ns: Nanos,
    },
    Even(EvenOpportunities),
}

impl Opportunities {
    fn new(trace: &Trace) -> Self {
        if trace.rates.is_empty() {
            return Self::Listed {
                instants_ns: trace.opportunities_ns.clone(),
                period_ns: trace.period_ns,
            };
        }
        Self::Even(EvenOpportunities::new(trace))
    }

    fn instant(&self, opportunity: u64) -> Nanos {
        match self {
            Self::Listed {
                instants_ns,
                period_ns,
            } => {
                let per_period = instants_ns.len() as u64;
                let offset = instants_ns[(opportunity % per_period) as usize];
                (opportunity / per_period)
                    .saturating_mul(*period_ns)
                    .saturating_add(offset)
            }
            Self::Even(even) => even.instant(opportunity),
        }
    }

    /// Returns the first opportunity at or after `ready`, which is more than 0.
    fn first_from(&self, ready: Nanos) -> u64 {
        match self {
            Self::Listed {
                instants_ns,
                period_ns,
            } => {
                // The subtraction of 1 keeps an opportunity at the very end of a period in that
                // period.
                let period = ready.saturating_sub(1) / period_ns;
                let offset = ready - period * period_ns;
                let index = instants_ns.partition_point(|instant| *instant < offset);
                period
                    .saturating_mul(instants_ns.len() as u64)
                    .saturating_add(index as u64)
            }
            Self::Even(even) => even.first_from(ready),
        }
    }
}

/// Opportunities at the instants at which a rate that changes over time has carried the bytes of
/// one more. What is left of an opportunity at a step or at the end of a period counts for the
/// next.
///
/// Amounts are in bits x 10^-9, so that a rate in bit/s carries itself in a nanosecond.
#[derive(Debug)]
struct EvenOpportunities {
    steps: Vec<RateStep>,
    /// What was carried in the period before each step.
    before: Vec<u128>,
    per_period: u128,
    per_opportunity: u128,
    period_ns: Nanos,
}

impl EvenOpportunities {
    fn new(trace: &Trace) -> Self {
        let mut before = Vec::with_capacity(trace.rates.len());
        let mut carried: u128 = 0;
        let ends = trace.rates.iter().skip(1).map(|step| step.from_ns);
        for (step, end) in trace.rates.iter().zip(ends.chain([trace.period_ns])) {
            before.push(carried);
            carried += u128::from(step.rate_bps) * u128::from(end - step.from_ns);
        }
        Self {
            steps: trace.rates.clone(),
            before,
            per_period: carried,
            per_opportunity: u128::from(trace.opportunity_bytes) * 8 * u128::from(NANOS_PER_SECOND),
            period_ns: trace.period_ns,
        }
    }

    fn instant(&self, opportunity: u64) -> Nanos {
        let wanted = (u128::from(opportunity) + 1) * self.per_opportunity;
        // The subtraction of 1 keeps an opportunity at the very end of a period in that period.
        let periods = (wanted - 1) / self.per_period;
        let within = wanted - periods * self.per_period;
        let step = self.before.partition_point(|before| *before < within) - 1;
        let RateStep { from_ns, rate_bps } = self.steps[step];
        let since = (within - self.before[step]).div_ceil(u128::from(rate_bps));
        let instant = periods * u128::from(self.period_ns) + u128::from(from_ns) + since;
        Nanos::try_from(instant).unwrap_or(Nanos::MAX)
    }

    fn first_from(&self, ready: Nanos) -> u64 {
        let earlier = ready.saturating_sub(1);
        let period = earlier / self.period_ns;
        let offset = earlier % self.period_ns;
        let step = self.steps.partition_point(|step| step.from_ns <= offset) - 1;
        let RateStep { from_ns, rate_bps } = self.steps[step];
        let within = self.before[step] + u128::from(rate_bps) * u128::from(offset - from_ns);
        let carried = u128::from(period) * self.per_period + within;
        u64::try_from(carried / self.per_opportunity).unwrap_or(u64::MAX)
    }

    fn mean_rate_bps(&self) -> f64 {
        self.per_period as f64 / self.period_ns as f64
    }
}

/// Returns the delay at an instant between two steps from which it changes linearly.
fn between(from: DelayStep, to: DelayStep, instant: Nanos) -> Nanos {
    let (passed, length) = (instant - from.from_ns, to.from_ns - from.from_ns);
    let change = i128::from(to.delay_ns) - i128::from(from.delay_ns);
    let delay = i128::from(from.delay_ns) + change * i128::from(passed) / i128::from(length);
    delay as Nanos
}

/// Delay and loss of a trace, in the time of the run.
#[derive(Debug)]
pub(super) struct Variation {
    trace: Trace,
    start_ns: Nanos,
}

impl Variation {
    /// Returns the variation of a trace, of which `start_ns` is the start of the run. `None` if it
    /// has neither delays nor losses.
    pub(super) fn new(trace: &Trace, start_ns: Nanos) -> Option<Self> {
        let varies = !trace.delays.is_empty() || !trace.losses.is_empty();
        varies.then(|| Self {
            trace: Trace {
                opportunities_ns: Vec::new(),
                rates: Vec::new(),
                // They only say that delays change linearly.
                trains: trace.trains.as_ref().map(|trains| resolved::Trains {
                    probes: Vec::new(),
                    ..*trains
                }),
                ..trace.clone()
            },
            start_ns,
        })
    }

    /// Returns the delay in addition to that of the direction for a packet that has left at `now`.
    pub(super) fn delay_ns(&self, now: Nanos) -> Nanos {
        let instant = self.instant(now);
        let delays = &self.trace.delays;
        let later = delays.partition_point(|step| step.from_ns <= instant);
        let Some(step) = later.checked_sub(1).map(|step| delays[step]) else {
            return 0;
        };
        match delays.get(later).filter(|_| self.trace.trains.is_some()) {
            Some(next) => between(step, *next, instant),
            None => step.delay_ns,
        }
    }

    /// Returns the probability of loss at `now`.
    pub(super) fn loss(&self, now: Nanos) -> f64 {
        let instant = self.instant(now);
        let losses = &self.trace.losses;
        let later = losses.partition_point(|step| step.from_ns <= instant);
        later
            .checked_sub(1)
            .map_or(0.0, |step| losses[step].probability)
    }

    fn instant(&self, now: Nanos) -> Nanos {
        now.saturating_add(self.start_ns) % self.trace.period_ns
    }
}
