//! `cubic-rfc9438`: the window is a cubic function of the time since the last loss (RFC 9438). The
//! subflows are independent. Linux's CUBIC differs: see [`cubic`](super::cubic).
//!
//! As in Linux, a loss reduces cwnd and not the amount in flight, and idle times do not count.

use super::Control;
use super::fluid;
use super::hystart::{Pace, Watch};
use super::parameters::{self, Parameters};
use super::{Acked, Congestion, CongestionControl, Context, reno, slow_start};
use crate::algorithm::Description;
use crate::time::{Nanos, seconds};

/// Its name, parameters and constructor.
pub(in crate::cc) const ROW: Control = Control {
    description: Description {
        name: "cubic-rfc9438",
        aliases: &[],
        summary: "Grows the window as a function of the time since the last loss, computed as in the RFC, separately for each subflow",
        source: "RFC 9438",
        parameters: parameters::CUBIC,
    },
    make: control,
    fluid: Err(fluid::GROWS_WITH_TIME),
};

/// Returns K, the seconds that the curve takes to rise from `cwnd_epoch` to `w_max`, both in
/// packets (RFC 9438, equation 2). Returns 0 if the curve does not have to rise. `c` is the
/// steepness in packets per cubic second.
pub fn time_to_w_max(w_max: f64, cwnd_epoch: f64, c: f64) -> f64 {
    libm::cbrt((w_max - cwnd_epoch).max(0.0) / c)
}

/// Returns W_cubic(t), the window of the curve in packets, `t` seconds after the start of the epoch
/// (RFC 9438, equation 1). `k` is K in seconds, `w_max` is W_max in packets, and `c` is the
/// steepness in packets per cubic second.
pub fn window(t: f64, k: f64, w_max: f64, c: f64) -> f64 {
    let since_k = t - k;
    c * (since_k * since_k * since_k) + w_max
}

/// Returns the target window in packets: `window_after_rtt`, but at least `cwnd` and at most 1.5
/// times `cwnd` (RFC 9438, section 4.2). `window_after_rtt` is W_cubic one round-trip time later.
/// Both arguments are in packets.
pub fn target(window_after_rtt: f64, cwnd: f64) -> f64 {
    window_after_rtt.clamp(cwnd, 1.5 * cwnd)
}

/// Returns the number of packets by which the window grows per acknowledged packet, from `cwnd`
/// towards `target`, both in packets (RFC 9438, sections 4.4 and 4.5).
pub fn increase(target: f64, cwnd: f64) -> f64 {
    (target - cwnd) / cwnd
}

/// Returns the additive increase, in packets per round trip, that has the same mean window as Reno
/// if a loss reduces the window to the fraction `beta` (RFC 9438, section 4.3).
pub fn friendly_alpha(beta: f64) -> f64 {
    3.0 * (1.0 - beta) / (1.0 + beta)
}

/// Returns W_est, the estimate of Reno's window in packets, after `acked_packets` were acknowledged
/// (RFC 9438, equation 4). `w_est` is W_est before, and `cwnd` the congestion window, both in
/// packets. `alpha` is the additive increase in packets per round trip.
pub fn friendly_window(w_est: f64, acked_packets: f64, cwnd: f64, alpha: f64) -> f64 {
    w_est + alpha * acked_packets / cwnd
}

/// Returns W_max in packets after a loss at a congestion window of `cwnd` packets. W_max is `cwnd`,
/// or less with `fast_convergence` if `cwnd` is below `last_w_max`, the W_max before the loss (RFC
/// 9438, section 4.7). `beta` is the fraction of the window that remains after a loss.
pub fn w_max_after_loss(cwnd: f64, last_w_max: f64, beta: f64, fast_convergence: bool) -> f64 {
    if fast_convergence && cwnd < last_w_max {
        cwnd * (1.0 + beta) / 2.0
    } else {
        cwnd
    }
}

/// Returns ssthresh after a loss in packets: the fraction `beta` of `window`, but at least `floor`,
/// both in packets (RFC 9438, section 4.6).
pub fn ssthresh_after_loss(window: f64, beta: f64, floor: f64) -> f64 {
    (window * beta).max(floor)
}

/// The period since congestion avoidance started.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Nanos,
    /// K in seconds.
    time_to_origin_s: f64,
    /// W_max of the curve in packets.
    origin: f64,
    w_est: f64,
}

/// State that a loss changes and a spurious loss restores.
#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    /// W_max in packets. 0 before the first loss and after a timeout (RFC 9438, section 4.8).
    w_max: f64,
    /// The window at the last loss, in packets.
    cwnd_prior: f64,
    epoch: Option<Epoch>,
}

#[derive(Debug)]
struct Flow {
    memory: Memory,
    before_congestion: Memory,
    last_sent: Option<Nanos>,
    watch: Watch,
}

/// CUBIC on every subflow.
#[derive(Debug)]
pub(super) struct Cubic {
    parameters: Parameters,
    flows: Vec<Flow>,
}

impl Cubic {
    pub fn new(parameters: &Parameters) -> Self {
        Self {
            parameters: *parameters,
            flows: Vec::new(),
        }
    }

    /// Handles an acknowledgment. In congestion avoidance, the window grows by the result of
    /// `couple`. `couple` gets the context, the growth that CUBIC alone would give, and the
    /// acknowledged bytes that count. All three amounts are in bytes.
    pub fn acked_coupled(
        &mut self,
        context: &mut Context<'_>,
        acked: &Acked,
        couple: impl FnOnce(&Context<'_>, f64, f64) -> f64,
    ) {
        let left = self.slow_start(context, acked);
        if left > 0.0 {
            let counted = self.parameters.growth().counted_bytes(left, context);
            let increase = self.increase_bytes(context, counted);
            context.grow(couple(context, increase, counted));
        }
    }

    /// Grows the window in slow start. Returns the bytes left for congestion avoidance.
    fn slow_start(&mut self, context: &mut Context<'_>, acked: &Acked) -> f64 {
        let mut bytes = f64::from(acked.bytes);
        if context.this().in_slow_start() {
            match self.flows[context.subflow()].watch.acked(context, acked) {
                Pace::Full => {}
                Pace::Quarter => bytes /= 4.0,
                Pace::Over => context.set_ssthresh(context.this().cwnd_bytes, 0.0),
            }
        }
        if !acked.is_window_limited {
            return 0.0;
        }
        slow_start::grow(context, bytes, self.parameters.slow_start_limit_packets)
    }

    fn increase_bytes(&mut self, context: &Context<'_>, acked_bytes: f64) -> f64 {
        let mss = f64::from(context.this().mss_bytes);
        let cwnd = context.this().cwnd_packets();
        let rtt = context.this().srtt.map_or(0.0, seconds);
        let Parameters { cubic, .. } = self.parameters;
        let memory = &mut self.flows[context.subflow()].memory;
        let epoch = memory.epoch(context.now(), cwnd, &cubic);
        let t = seconds(context.now() - epoch.start);
        let curve = |t: f64| window(t, epoch.time_to_origin_s, epoch.origin, cubic.c);
        let (now, after_rtt) = (curve(t), curve(t + rtt));
        let w_est = memory.friendly_window(acked_bytes / mss, cwnd, cubic.beta);
        if now < w_est {
            (w_est - cwnd).max(0.0) * mss
        } else {
            increase(target(after_rtt, cwnd), cwnd) * acked_bytes
        }
    }
}

impl Memory {
    /// Returns the epoch. Starts one now if there is none.
    fn epoch(&mut self, now: Nanos, cwnd: f64, cubic: &parameters::Cubic) -> Epoch {
        let origin = self.w_max.max(cwnd);
        *self.epoch.get_or_insert_with(|| Epoch {
            start: now,
            time_to_origin_s: time_to_w_max(origin, cwnd, cubic.c),
            origin,
            w_est: cwnd,
        })
    }

    /// Returns W_est after `acked_packets` were acknowledged. Once it has reached the window of the
    /// last loss, it grows as Reno does.
    fn friendly_window(&mut self, acked_packets: f64, cwnd: f64, beta: f64) -> f64 {
        let Some(epoch) = &mut self.epoch else {
            return cwnd;
        };
        let is_past = epoch.w_est >= self.cwnd_prior;
        let alpha = if is_past { 1.0 } else { friendly_alpha(beta) };
        epoch.w_est = friendly_window(epoch.w_est, acked_packets, cwnd, alpha);
        epoch.w_est
    }
}

impl CongestionControl for Cubic {
    fn subflow_added(&mut self, _context: &mut Context<'_>) {
        self.flows.push(Flow {
            memory: Memory::default(),
            before_congestion: Memory::default(),
            last_sent: None,
            watch: Watch::new(self.parameters.cubic.slow_start),
        });
    }

    fn subflow_removed(&mut self, subflow: usize) {
        self.flows.remove(subflow);
    }

    fn segment_sent(&mut self, context: &mut Context<'_>, bytes: u32) {
        let now = context.now();
        let flow = &mut self.flows[context.subflow()];
        let was_idle = context.this().in_flight_bytes <= bytes;
        let last_sent = flow.last_sent.replace(now);
        if let (true, Some(last_sent), Some(epoch)) = (was_idle, last_sent, &mut flow.memory.epoch)
        {
            epoch.start = (epoch.start + (now - last_sent)).min(now);
        }
    }

    fn acked(&mut self, context: &mut Context<'_>, acked: &Acked) {
        self.acked_coupled(context, acked, |_, increase, _| increase);
    }

    fn congestion(&mut self, context: &mut Context<'_>, congestion: Congestion) {
        let Parameters { cubic, .. } = self.parameters;
        let floor = self.parameters.ssthresh_floor_packets;
        let flow = &mut self.flows[context.subflow()];
        let cwnd = context.this().cwnd_packets();
        flow.before_congestion = flow.memory;
        let last_w_max = flow.memory.w_max;
        flow.memory = Memory {
            w_max: w_max_after_loss(cwnd, last_w_max, cubic.beta, cubic.fast_convergence),
            cwnd_prior: cwnd,
            epoch: None,
        };
        let floor = floor.unwrap_or(reno::SSTHRESH_FLOOR_PACKETS);
        let ssthresh = ssthresh_after_loss(cwnd, cubic.beta, floor);
        context.set_ssthresh(ssthresh * f64::from(context.this().mss_bytes), 0.0);
        if congestion == Congestion::Timeout {
            flow.memory.w_max = 0.0;
            flow.watch.after_timeout();
            context.collapse();
        }
    }

    fn undone(&mut self, context: &mut Context<'_>) {
        let flow = &mut self.flows[context.subflow()];
        flow.memory = flow.before_congestion;
    }

    fn state(&self, subflow: usize) -> Vec<(&'static str, f64)> {
        let memory = &self.flows[subflow].memory;
        let mut state = vec![("w_max_packets", memory.w_max)];
        if let Some(epoch) = memory.epoch {
            state.push(("k_s", epoch.time_to_origin_s));
            state.push(("w_est_packets", epoch.w_est));
        }
        state
    }
}

pub(super) fn control(parameters: &Parameters) -> Box<dyn CongestionControl> {
    Box::new(Cubic::new(parameters))
}
