//! Random variation of a rate over time: stationary Gaussian processes.

use experiment::resolved;
use experiment::rng::Generator;
use experiment::time::Nanos;

/// The natural logarithm of a ratio of 0.001 dB.
const NEPER_PER_MDB: f64 = std::f64::consts::LN_10 / 10_000.0;

/// Returns a number that is close to normal with mean 0 and standard deviation 1: the sum of twelve
/// uniform numbers, less 6. Sums are equal on all machines, and a run takes few of them.
pub(super) fn standard_normal(generator: &mut Generator) -> f64 {
    const PARTS: u32 = 12;
    let mut sum = 0;
    for _ in 0..PARTS / 4 {
        let bits = generator.bits();
        sum += (0..4)
            .map(|part| (bits >> (16 * part)) & 0xffff)
            .sum::<u64>();
    }
    // The middle of each of the 65536 values.
    (sum as f64 + f64::from(PARTS) / 2.0) / 65536.0 - f64::from(PARTS) / 2.0
}

/// A stationary Gaussian process of first order with mean 0, seen at whole steps.
#[derive(Clone, Debug)]
struct Component {
    sd: f64,
    /// Steps of the correlation time.
    correlation_steps: f64,
    /// The correlation between two steps, and the standard deviation of what is new.
    one_step: (f64, f64),
    value: f64,
}

impl Component {
    fn new(sd: f64, correlation: Nanos, step: Nanos, generator: &mut Generator) -> Self {
        let correlation_steps = correlation as f64 / step as f64;
        let mut component = Self {
            sd,
            correlation_steps,
            one_step: weights(1, correlation_steps),
            value: 0.0,
        };
        component.redraw(generator);
        component
    }

    fn redraw(&mut self, generator: &mut Generator) {
        self.value = self.sd * standard_normal(generator);
    }

    fn advance(&mut self, steps: u64, generator: &mut Generator) {
        let (kept, new) = match steps {
            1 => self.one_step,
            _ => weights(steps, self.correlation_steps),
        };
        self.value = kept * self.value + new * self.sd * standard_normal(generator);
    }
}

/// Returns the correlation over `steps`, and the weight of what is new after them. `libm` is the
/// same code on all machines.
fn weights(steps: u64, correlation_steps: f64) -> (f64, f64) {
    let kept = libm::exp(-(steps as f64) / correlation_steps);
    (kept, libm::sqrt(1.0 - kept * kept))
}

/// How a factor follows from a Gaussian value. The mean of the factor is 1.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// The exponential of the value less `offset`.
    Lognormal { offset: f64 },
    /// log(1 + `ratio` times the exponential of the value), by `mean`.
    Shannon { ratio: f64, mean: f64 },
}

impl Shape {
    /// Returns the shape of a signal whose logarithm has the variance `variance`.
    fn of_signal(median_mdb: i32, variance: f64) -> Self {
        const STEPS: i32 = 600;
        let ratio = libm::exp(f64::from(median_mdb) * NEPER_PER_MDB);
        // The mean over a normal value from -6 to 6 standard deviations.
        let (mut sum, mut weights) = (0.0, 0.0);
        for place in -STEPS..=STEPS {
            let z = f64::from(place) * 6.0 / f64::from(STEPS);
            let weight = libm::exp(-z * z / 2.0);
            sum += weight * libm::log1p(ratio * libm::exp(z * libm::sqrt(variance)));
            weights += weight;
        }
        let mean = sum / weights;
        Self::Shannon { ratio, mean }
    }

    fn factor(self, value: f64) -> f64 {
        match self {
            Self::Lognormal { offset } => libm::exp(value - offset),
            Self::Shannon { ratio, mean } => libm::log1p(ratio * libm::exp(value)) / mean,
        }
    }
}

/// The factor of a rate over time, with mean 1.
#[derive(Clone, Debug)]
pub(super) struct Fading {
    step: Nanos,
    parts: Vec<Component>,
    shape: Shape,
    /// The number of the step for which `factor` is, and when the next one begins.
    number: u64,
    until: Nanos,
    factor: f64,
    generator: Generator,
}

impl Fading {
    /// Returns the factor of a satellite link at time 0. `None` if it does not vary.
    pub(super) fn of_satellite(
        fade: &resolved::Fade,
        step: Nanos,
        generator: Generator,
    ) -> Option<Self> {
        let sd = f64::from(fade.sd_ppm) * 1e-6;
        let offset = sd * sd / 2.0;
        let parts = [(sd, fade.correlation_ns)];
        Self::new(Shape::Lognormal { offset }, &parts, step, generator)
    }

    /// Returns the factor of a radio link at time 0. `None` if it does not vary.
    pub(super) fn of_signal(
        signal: &resolved::Signal,
        step: Nanos,
        generator: Generator,
    ) -> Option<Self> {
        let sd = |mdb| f64::from(mdb) * NEPER_PER_MDB;
        let (fast, slow) = (sd(signal.fast_sd_mdb), sd(signal.slow_sd_mdb));
        let shape = Shape::of_signal(signal.median_mdb, fast * fast + slow * slow);
        let parts = [(fast, signal.fast_ns), (slow, signal.slow_ns)];
        Self::new(shape, &parts, step, generator)
    }

    fn new(
        shape: Shape,
        parts: &[(f64, Nanos)],
        step: Nanos,
        mut generator: Generator,
    ) -> Option<Self> {
        let parts = parts.iter().filter(|(sd, _)| *sd > 0.0);
        let mut component =
            |(sd, time): &(f64, Nanos)| Component::new(*sd, *time, step, &mut generator);
        let parts: Vec<Component> = parts.map(&mut component).collect();
        if parts.is_empty() {
            return None;
        }
        let mut fading = Self {
            step,
            parts,
            shape,
            number: 0,
            until: step,
            factor: 1.0,
            generator,
        };
        fading.update();
        Some(fading)
    }

    /// Returns the factor at `now`, which never decreases.
    #[inline]
    pub(super) fn factor(&mut self, now: Nanos) -> f64 {
        if now >= self.until {
            self.advance(now);
        }
        self.factor
    }

    /// Returns until when the factor is that of the last call to [`Self::factor`].
    pub(super) fn until(&self) -> Nanos {
        self.until
    }

    fn advance(&mut self, now: Nanos) {
        let number = now / self.step;
        for part in &mut self.parts {
            part.advance(number - self.number, &mut self.generator);
        }
        self.number = number;
        self.until = (number + 1).saturating_mul(self.step);
        self.update();
    }

    /// Draws the process anew, as behind another antenna.
    pub(super) fn redraw(&mut self) {
        for part in &mut self.parts {
            part.redraw(&mut self.generator);
        }
        self.update();
    }

    fn update(&mut self) {
        let value = self.parts.iter().map(|part| part.value).sum();
        self.factor = self.shape.factor(value);
    }
}
