//! The signal of a station, and how a sender chooses its rate.

use experiment::resolved::{Snr, SnrPoint, WifiRate};
use experiment::rng::Generator;
use experiment::time::Nanos;

use super::phy::Rate;

/// Distance between signals at which the share of failed frames changes by a factor of e.
const SLOPE_MDB: i64 = 500;
/// From this distance on, all frames fail or none does.
const CERTAIN_MDB: i64 = 8000;
const STEP_MDB: i64 = 100;
/// Step of the signal over time.
const STEP: Nanos = 1_000_000;
/// Age of the signal by which the ideal rate is chosen.
const IDEAL_AGE: Nanos = 100_000_000;

/// Probability with which an MPDU fails, by how far the signal is above that at which half of them
/// fail: `1 / (1 + exp(distance / 0.5 dB))`.
pub(super) struct ErrorTable {
    /// In units of 2^-64.
    probabilities: Vec<u64>,
}

impl ErrorTable {
    pub(super) fn new() -> Self {
        let steps = 2 * CERTAIN_MDB / STEP_MDB;
        let probability = |step: i64| {
            let distance = (step * STEP_MDB - CERTAIN_MDB) as f64;
            let share = 1.0 / (1.0 + libm::exp(distance / SLOPE_MDB as f64));
            (share * (u64::MAX as f64)) as u64
        };
        Self {
            probabilities: (0..=steps).map(probability).collect(),
        }
    }

    /// Returns the probability in units of 2^-64.
    pub(super) fn failure(&self, rate: &Rate, signal_mdb: i64) -> u64 {
        let distance = signal_mdb.saturating_sub(rate.snr50_mdb);
        if distance >= CERTAIN_MDB {
            return 0;
        }
        if distance <= -CERTAIN_MDB {
            return u64::MAX;
        }
        self.probabilities[((distance + CERTAIN_MDB) / STEP_MDB) as usize]
    }
}

/// The signal of a station over time: a mean, and an autoregressive process of the first order in
/// steps of 1 ms.
pub(super) struct Signal {
    means: Vec<SnrPoint>,
    /// The last of `means` that is over, or the first one.
    point: usize,
    sd_mdb: f64,
    /// Correlation of two values 1 ms apart.
    decay: f64,
    deviation: f64,
    /// The step of `deviation`.
    step: u64,
    /// An earlier value, and the latest of those that will follow it.
    older: (Nanos, i64),
    newer: (Nanos, i64),
    generator: Generator,
}

impl Signal {
    pub(super) fn new(snr: &Snr, generator: Generator) -> Self {
        let steps = snr.correlation_ns as f64 / STEP as f64;
        Self {
            means: snr.means.clone(),
            point: 0,
            sd_mdb: snr.sd_mdb as f64,
            decay: libm::exp(-1.0 / steps),
            deviation: 0.0,
            step: 0,
            older: (0, snr.means[0].mean_mdb),
            newer: (0, snr.means[0].mean_mdb),
            generator,
        }
    }

    /// Replaces the mean, for all times to come.
    pub(super) fn set_mean(&mut self, mean_mdb: i64) {
        self.means = vec![SnrPoint { at_ns: 0, mean_mdb }];
        self.point = 0;
    }

    fn mean_at(&mut self, now: Nanos) -> i64 {
        let is_over = |point: &SnrPoint| point.at_ns <= now;
        while self.means.get(self.point + 1).is_some_and(is_over) {
            self.point += 1;
        }
        let from = self.means[self.point];
        let Some(to) = self.means.get(self.point + 1).filter(|_| from.at_ns <= now) else {
            return from.mean_mdb;
        };
        let (passed, length) = (now - from.at_ns, to.at_ns - from.at_ns);
        let change = i128::from(to.mean_mdb - from.mean_mdb) * i128::from(passed);
        from.mean_mdb + (change / i128::from(length)) as i64
    }

    /// Returns the signal at `now`, which never decreases.
    pub(super) fn at(&mut self, now: Nanos) -> i64 {
        let step = now / STEP;
        if self.sd_mdb > 0.0 && step > self.step {
            let kept = power(self.decay, step - self.step);
            let fresh = self.sd_mdb * (1.0 - kept * kept).max(0.0).sqrt();
            self.deviation = kept * self.deviation + fresh * normal(&mut self.generator);
            self.step = step;
        }
        let signal = self.mean_at(now) + self.deviation as i64;
        if now >= self.newer.0 + IDEAL_AGE {
            self.older = self.newer;
            self.newer = (now, signal);
        }
        signal
    }

    /// Returns a signal that is at least 100 ms old. Call [`Self::at`] before.
    fn before(&self) -> i64 {
        self.older.1
    }
}

/// Returns `base` to the power of `exponent`, with the same bits on all machines.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 && result > 0.0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}

/// Returns a draw of mean 0 and variance 1 that is nearly normal: the sum of 12 uniform numbers.
fn normal(generator: &mut Generator) -> f64 {
    let mut sum = 0u64;
    for _ in 0..3 {
        let bits = generator.bits();
        sum += (0..4).map(|part| bits >> (16 * part) & 0xffff).sum::<u64>();
    }
    (sum as f64 + 6.0) / 65_536.0 - 6.0
}

/// A rate for a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) rate: usize,
    /// Whether it is tried to learn its success. It then carries one packet.
    pub(super) is_probe: bool,
}

/// Chooses the rates of one direction, by their indices. A fixed rate is the only one.
pub(super) enum RateControl {
    Fixed,
    Ideal,
    Auto(Minstrel),
}

impl RateControl {
    pub(super) fn new(rate: &WifiRate, rates: usize, generator: Generator) -> Self {
        match rate {
            WifiRate::Fixed { .. } => Self::Fixed,
            WifiRate::Ideal {} => Self::Ideal,
            WifiRate::Auto {} => Self::Auto(Minstrel::new(rates, generator)),
        }
    }

    pub(super) fn choose(
        &mut self,
        now: Nanos,
        rates: &[Rate],
        signal: &Signal,
        errors: &ErrorTable,
    ) -> Choice {
        let always = |rate| Choice {
            rate,
            is_probe: false,
        };
        match self {
            Self::Fixed => always(0),
            Self::Ideal => always(best_for(signal.before(), rates, errors)),
            Self::Auto(minstrel) => minstrel.choose(now, rates),
        }
    }

    /// Returns the rate that is most likely chosen next.
    pub(super) fn expected(&self, rates: &[Rate], signal: &Signal, errors: &ErrorTable) -> usize {
        match self {
            Self::Fixed => 0,
            Self::Ideal => best_for(signal.before(), rates, errors),
            Self::Auto(minstrel) => minstrel.best,
        }
    }

    pub(super) fn report(&mut self, choice: Choice, received: u32, failed: u32) {
        if let Self::Auto(minstrel) = self {
            minstrel.report(choice, received, failed);
        }
    }
}

/// Returns the rate at which most arrives with a signal.
fn best_for(signal_mdb: i64, rates: &[Rate], errors: &ErrorTable) -> usize {
    let goodput = |rate: &Rate| {
        let failure = errors.failure(rate, signal_mdb);
        (u128::from(rate.bps) * u128::from(u64::MAX - failure)) >> 64
    };
    let best = rates
        .iter()
        .enumerate()
        .max_by_key(|(_, rate)| goodput(rate));
    best.filter(|(_, rate)| goodput(rate) > 0)
        .map_or(0, |(index, _)| index)
}

/// Minstrel in small: the success of each rate as a moving average, the best product of rate and
/// success, and one transmission in ten to learn about another rate.
pub(super) struct Minstrel {
    rates: Vec<Success>,
    best: usize,
    /// The rate with the most success, for repeated failures.
    safest: usize,
    next_update: Nanos,
    failures_in_a_row: u32,
    generator: Generator,
}

#[derive(Clone, Copy, Debug, Default)]
struct Success {
    received: u32,
    tried: u32,
    /// `None` before the first update.
    average: Option<f64>,
}

/// Time between two updates of the averages.
const UPDATE: Nanos = 100_000_000;
/// Weight of the past in the average.
const PAST: f64 = 0.75;
/// Success below which a rate is not used.
const USELESS: f64 = 0.1;
/// One transmission in this many is a probe.
const PROBES: u64 = 10;

impl Minstrel {
    fn new(rates: usize, generator: Generator) -> Self {
        Self {
            rates: vec![Success::default(); rates],
            best: 0,
            safest: 0,
            next_update: UPDATE,
            failures_in_a_row: 0,
            generator,
        }
    }

    fn choose(&mut self, now: Nanos, rates: &[Rate]) -> Choice {
        if now >= self.next_update {
            self.update(rates);
            self.next_update = now + UPDATE;
        }
        if self.failures_in_a_row >= 2 {
            return Choice {
                rate: self.safest,
                is_probe: false,
            };
        }
        self.probe().unwrap_or(Choice {
            rate: self.best,
            is_probe: false,
        })
    }

    /// Returns a rate to learn about, if it is time: the next faster one that is unknown, else any.
    fn probe(&mut self) -> Option<Choice> {
        let is_unknown = |one: &Success| one.average.is_none() && one.tried < 3;
        let unknown = self.rates.iter().skip(self.best + 1).position(is_unknown);
        if let Some(distance) = unknown {
            let is_due = self.generator.bits() & 1 == 0;
            return is_due.then_some(Choice {
                rate: self.best + 1 + distance,
                is_probe: true,
            });
        }
        if self.generator.below(PROBES) > 0 {
            return None;
        }
        let rate = self.generator.below(self.rates.len() as u64) as usize;
        (rate != self.best).then_some(Choice {
            rate,
            is_probe: true,
        })
    }

    fn update(&mut self, rates: &[Rate]) {
        for one in self.rates.iter_mut().filter(|one| one.tried > 0) {
            let success = f64::from(one.received) / f64::from(one.tried);
            let before = one.average.unwrap_or(success);
            one.average = Some(PAST * before + (1.0 - PAST) * success);
            (one.received, one.tried) = (0, 0);
        }
        let success = |index: usize| self.rates[index].average.unwrap_or(0.0);
        let goodput = |index: usize| match success(index) {
            useless if useless < USELESS => 0.0,
            useful => useful * rates[index].bps as f64,
        };
        // At a tie the slower rate stays.
        let better = |of: &dyn Fn(usize) -> f64| {
            (1..self.rates.len()).fold(
                0,
                |best, index| if of(index) > of(best) { index } else { best },
            )
        };
        let (best, safest) = (better(&goodput), better(&success));
        (self.best, self.safest) = (best, safest);
    }

    fn report(&mut self, choice: Choice, received: u32, failed: u32) {
        let one = &mut self.rates[choice.rate];
        one.received += received;
        one.tried += received + failed;
        if received > 0 {
            self.failures_in_a_row = 0;
        } else if !choice.is_probe {
            self.failures_in_a_row += 1;
        }
    }
}
