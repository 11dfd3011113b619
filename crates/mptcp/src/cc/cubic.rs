//! `cubic`: CUBIC as in Linux (4.x to 6.18). The subflows are independent.
//! [`cubic_rfc9438`](super::cubic_rfc9438) is CUBIC as in the RFC.
//!
//! It differs from the RFC as follows:
//!
//! - Windows are whole packets. The window grows by one packet per n acknowledged packets, where n
//!   is rounded down.
//! - The clock has ticks of 4 ms.
//! - The target lies the smallest round-trip time ahead on the curve.
//! - The estimate of Reno's window always grows by 0.53 packets per round trip.
//! - Before the first loss and after a timeout, the window grows by at least 5 % per round trip.
//! - A spurious loss does not restore the state of the curve.

use super::Control;
use super::fluid;
use super::hystart::{Pace, Watch};
use super::parameters::{self, Parameters};
use super::whole_packets::{self, Counter};
use super::{Acked, Congestion, CongestionControl, Context, reno, slow_start};
use crate::algorithm::Description;
use crate::time::{MICROSECOND, Nanos, SECOND};
use crate::timer_wheel::TICK;

/// Its name, parameters and constructor.
pub(in crate::cc) const ROW: Control = Control {
    description: Description {
        name: "cubic",
        aliases: &[],
        summary: "Grows the window as a function of the time since the last loss, computed as in Linux, separately for each subflow",
        source: "Linux 4.x to 6.18",
        parameters: parameters::CUBIC,
    },
    make: control,
    fluid: Err(fluid::GROWS_WITH_TIME),
};

/// Ticks after which the curve is evaluated again for an unchanged window.
const UNCHANGED_TICKS: u64 = SECOND / TICK / 32;
/// Time after a loss in which delays are ignored, because the queue that it filled still drains.
const DELAYS_IGNORED: Nanos = SECOND;
/// Maximum number of acknowledged packets per packet of growth before the first loss: the window
/// grows by at least 5 % per round trip.
const UNTIL_FIRST_LOSS: u32 = 20;
/// Smallest number of acknowledged packets per packet of growth: the window grows by at most a half
/// per round trip.
const FASTEST: u32 = 2;
/// Acknowledged packets per packet of growth if the window is at or above the curve, as a multiple
/// of the window.
const ABOVE_CURVE: u32 = 100;

/// The parameters of CUBIC as the kernel represents them: in units of 1/1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scaled {
    /// Fraction of the window that remains after a loss, in 1024ths.
    pub beta: u32,
    /// Steepness C of the curve, in 1024ths of a packet per cubic second. A multiple of 10.
    pub steepness: u32,
}

impl Scaled {
    /// Converts the parameters `cubic` to units of 1/1024. `beta` is rounded to the nearest 1/1024.
    /// `c` is rounded to the nearest multiple of 10/1024, but is at least 10/1024.
    pub fn of(cubic: &parameters::Cubic) -> Self {
        Self {
            beta: libm::round(cubic.beta * 1024.0) as u32,
            steepness: 10 * (libm::round(cubic.c * 102.4) as u32).max(1),
        }
    }

    /// Returns ssthresh in packets after a loss at a congestion window of `window` packets. The
    /// lower limit of ssthresh is not applied.
    pub fn after_loss(self, window: u32) -> u32 {
        (u64::from(window) * u64::from(self.beta) / 1024) as u32
    }

    /// Returns W_max in packets after a loss at a congestion window of `window` packets. W_max is
    /// `window`, or less with `fast_convergence` if `window` is below `last_w_max`, the W_max
    /// before the loss.
    pub fn w_max_after_loss(self, window: u32, last_w_max: u32, fast_convergence: bool) -> u32 {
        if fast_convergence && window < last_w_max {
            (u64::from(window) * u64::from(1024 + self.beta) / 2048) as u32
        } else {
            window
        }
    }

    /// Returns K, the time that the curve takes to grow by `rise_packets` to its plateau (Linux:
    /// `bic_origin_point`), in 1024ths of a second.
    pub fn time_to_origin(self, rise_packets: u32) -> u64 {
        let cube = (1_u64 << 40) / u64::from(self.steepness) * u64::from(rise_packets);
        libm::cbrt(cube as f64) as u64
    }

    /// Returns the distance in packets between the curve and its plateau: `C |t - K|^3`. `away` is
    /// `|t - K|`, the time until or since the curve reaches the plateau, in 1024ths of a second.
    pub fn rise(self, away: u64) -> u32 {
        let away = u128::from(away);
        u32::try_from((u128::from(self.steepness) * away * away * away) >> 40).unwrap_or(u32::MAX)
    }

    /// Returns the acknowledged packets per packet of growth of Reno's estimated window.
    fn reno_interval(self, window: u32) -> u32 {
        let eighths = 8 * (1024 + self.beta) / 3 / (1024 - self.beta);
        ((u64::from(window) * u64::from(eighths)) >> 3).max(1) as u32
    }
}

/// The period since congestion avoidance started.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// Start of the epoch, in ticks.
    start: u64,
    /// K in 1024ths of a second.
    time_to_origin: u64,
    origin: u32,
    /// Estimate of Reno's window in packets.
    reno_window: u32,
    /// Acknowledged packets that the estimate has not grown by yet.
    acked: u32,
}

#[derive(Debug, Default)]
struct Memory {
    /// W_max in packets. 0 before the first loss and after a timeout.
    w_max: u32,
    epoch: Option<Epoch>,
    least_rtt: Nanos,
    /// Acknowledged packets per packet of growth.
    interval: u32,
    /// The window and the tick for which `interval` was computed.
    worked_out: (u32, u64),
}

#[derive(Debug)]
struct Flow {
    memory: Memory,
    counter: Counter,
    last_sent: Option<Nanos>,
    watch: Watch,
}

#[derive(Debug)]
struct Cubic {
    parameters: Parameters,
    scaled: Scaled,
    flows: Vec<Flow>,
}

impl Memory {
    /// Returns the acknowledged packets per packet of growth, after `acked` packets were
    /// acknowledged.
    fn interval(&mut self, scaled: Scaled, now: Nanos, window: u32, acked: u32) -> u32 {
        let tick = now / TICK;
        if let Some(epoch) = &mut self.epoch {
            epoch.acked = epoch.acked.saturating_add(acked);
        }
        let (last_window, last_tick) = self.worked_out;
        if last_window == window && tick - last_tick <= UNCHANGED_TICKS && self.interval > 0 {
            return self.interval;
        }
        if self.epoch.is_none() || tick != last_tick {
            self.worked_out = (window, tick);
            self.interval = self.by_curve(scaled, tick, window, acked);
        }
        self.interval = self.interval.min(self.by_reno(scaled, window)).max(FASTEST);
        self.interval
    }

    fn by_curve(&mut self, scaled: Scaled, tick: u64, window: u32, acked: u32) -> u32 {
        let origin = self.w_max.max(window);
        let epoch = *self.epoch.get_or_insert_with(|| Epoch {
            start: tick,
            time_to_origin: scaled.time_to_origin(origin - window),
            origin,
            reno_window: window,
            acked,
        });
        let ahead = self.least_rtt.div_ceil(TICK);
        let t = 1024 * (tick - epoch.start + ahead) / (SECOND / TICK);
        let rise = scaled.rise(t.abs_diff(epoch.time_to_origin));
        let target = if t < epoch.time_to_origin {
            epoch.origin.saturating_sub(rise)
        } else {
            epoch.origin.saturating_add(rise)
        };
        let interval = match target.checked_sub(window) {
            None | Some(0) => ABOVE_CURVE.saturating_mul(window),
            Some(missing) => window / missing,
        };
        if self.w_max == 0 {
            interval.min(UNTIL_FIRST_LOSS)
        } else {
            interval
        }
    }

    /// Returns the acknowledged packets per packet of growth that lets the window reach Reno's
    /// estimate.
    fn by_reno(&mut self, scaled: Scaled, window: u32) -> u32 {
        let Some(epoch) = &mut self.epoch else {
            return u32::MAX;
        };
        let interval = scaled.reno_interval(window);
        let steps = epoch.acked.saturating_sub(1) / interval;
        epoch.acked -= steps * interval;
        epoch.reno_window = epoch.reno_window.saturating_add(steps);
        match epoch.reno_window.checked_sub(window) {
            None | Some(0) => u32::MAX,
            Some(ahead) => window / ahead,
        }
    }
}

impl Cubic {
    /// Checks delays and grows the window in slow start. Returns the bytes left for congestion
    /// avoidance.
    fn slow_start(&mut self, context: &mut Context<'_>, acked: &Acked) -> f64 {
        let mut bytes = f64::from(acked.bytes);
        match self.flows[context.subflow()].look_at_delay(context, acked) {
            Pace::Full => {}
            Pace::Quarter => bytes /= 4.0,
            Pace::Over => context.set_ssthresh(context.this().cwnd_bytes, 0.0),
        }
        if !acked.is_window_limited {
            return 0.0;
        }
        slow_start::grow(context, bytes, self.parameters.slow_start_limit_packets)
    }
}

impl Flow {
    fn look_at_delay(&mut self, context: &Context<'_>, acked: &Acked) -> Pace {
        let Some(rtt) = acked.rtt.map(|rtt| rtt.max(MICROSECOND)) else {
            return Pace::Full;
        };
        let memory = &mut self.memory;
        let since = |epoch: Epoch| context.now() - (epoch.start * TICK).min(context.now());
        if memory
            .epoch
            .is_some_and(|epoch| since(epoch) < DELAYS_IGNORED)
        {
            return Pace::Full;
        }
        if memory.least_rtt == 0 || rtt < memory.least_rtt {
            memory.least_rtt = rtt;
        }
        if context.this().in_slow_start() {
            self.watch.acked(context, acked)
        } else {
            Pace::Full
        }
    }
}

impl CongestionControl for Cubic {
    fn subflow_added(&mut self, _context: &mut Context<'_>) {
        self.flows.push(Flow {
            memory: Memory::default(),
            counter: Counter::default(),
            last_sent: None,
            watch: Watch::new(self.parameters.cubic.slow_start),
        });
    }

    fn subflow_removed(&mut self, subflow: usize) {
        self.flows.remove(subflow);
    }

    fn segment_sent(&mut self, context: &mut Context<'_>, bytes: u32) {
        let tick = context.now() / TICK;
        let flow = &mut self.flows[context.subflow()];
        let was_idle = context.this().in_flight_bytes <= bytes;
        let last_sent = flow.last_sent.replace(context.now());
        if let (true, Some(last_sent), Some(epoch)) = (was_idle, last_sent, &mut flow.memory.epoch)
        {
            epoch.start = (epoch.start + (tick - last_sent / TICK)).min(tick);
        }
    }

    fn acked(&mut self, context: &mut Context<'_>, acked: &Acked) {
        let left = self.slow_start(context, acked);
        if left <= 0.0 {
            return;
        }
        let acked = libm::ceil(left / f64::from(context.this().mss_bytes)) as u32;
        let window = whole_packets::packets(context.this());
        let flow = &mut self.flows[context.subflow()];
        let interval = flow
            .memory
            .interval(self.scaled, context.now(), window, acked);
        flow.counter.grow(context, interval, acked);
    }

    fn congestion(&mut self, context: &mut Context<'_>, congestion: Congestion) {
        let Parameters { cubic, .. } = self.parameters;
        let floor = self.parameters.ssthresh_floor_packets;
        let window = whole_packets::packets(context.this());
        let memory = &mut self.flows[context.subflow()].memory;
        memory.epoch = None;
        memory.w_max = self
            .scaled
            .w_max_after_loss(window, memory.w_max, cubic.fast_convergence);
        let mss = f64::from(context.this().mss_bytes);
        let ssthresh = f64::from(self.scaled.after_loss(window)) * mss;
        context.set_ssthresh(ssthresh, floor.unwrap_or(reno::SSTHRESH_FLOOR_PACKETS));
        if congestion == Congestion::Timeout {
            let flow = &mut self.flows[context.subflow()];
            flow.memory = Memory::default();
            flow.watch.after_timeout();
            context.collapse();
        }
    }

    fn state(&self, subflow: usize) -> Vec<(&'static str, f64)> {
        let memory = &self.flows[subflow].memory;
        let mut state = vec![("w_max_packets", f64::from(memory.w_max))];
        if let Some(epoch) = memory.epoch {
            state.push(("k_s", epoch.time_to_origin as f64 / 1024.0));
            state.push(("w_est_packets", f64::from(epoch.reno_window)));
        }
        state
    }
}

pub(super) fn control(parameters: &Parameters) -> Box<dyn CongestionControl> {
    Box::new(Cubic {
        parameters: *parameters,
        scaled: Scaled::of(&parameters.cubic),
        flows: Vec::new(),
    })
}
