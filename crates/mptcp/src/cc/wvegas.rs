//! `wvegas`: Weighted Vegas (Cao et al., ICNP 2012; draft-xu-mptcp-congestion-control). Each
//! subflow keeps some packets queued on its path. All subflows together keep a fixed number queued,
//! shared in proportion to their rates. Loss-based traffic in the same queue starves them.

use super::Control;
use super::fluid;
use super::parameters::{self, Parameters};
use super::rounds::Round;
use super::{Acked, Congestion, CongestionControl, Context, Window, reno, slow_start};
use crate::algorithm::{Description, Parameter, Value};
use crate::time::{Nanos, seconds};

pub(super) const TOTAL_ALPHA: Parameter<Parameters> = Parameter {
    name: "total_alpha_packets",
    unit: "packets",
    meaning: "the number of packets that all subflows together keep queued",
    computed_default: None,
    value: Value::Integer {
        least: 1,
        most: 1000,
        get: |given| Some(given.wvegas.total_alpha_packets),
        set: |given, value| given.wvegas.total_alpha_packets = value,
    },
};

pub(super) const INITIAL_ALPHA: Parameter<Parameters> = Parameter {
    name: "initial_alpha_packets",
    unit: "packets",
    meaning: "the number of packets that a subflow keeps queued until its weight is known",
    computed_default: None,
    value: Value::Integer {
        least: 1,
        most: 1000,
        get: |given| Some(given.wvegas.initial_alpha_packets),
        set: |given, value| given.wvegas.initial_alpha_packets = value,
    },
};

pub(super) const GAMMA: Parameter<Parameters> = Parameter {
    name: "gamma_packets",
    unit: "packets",
    meaning: "the number of queued packets at which slow start ends",
    computed_default: None,
    value: Value::Integer {
        least: 1,
        most: 1000,
        get: |given| Some(given.wvegas.gamma_packets),
        set: |given, value| given.wvegas.gamma_packets = value,
    },
};

/// Its name, parameters and constructor.
pub(in crate::cc) const ROW: Control = Control {
    description: Description {
        name: "wvegas",
        aliases: &[],
        summary: "Keeps a fixed total number of packets queued, divided among the subflows in proportion to their rates",
        source: "Cao et al., ICNP 2012; draft-xu-mptcp-congestion-control",
        parameters: &[
            parameters::SSTHRESH_FLOOR,
            parameters::SLOW_START_LIMIT,
            TOTAL_ALPHA,
            INITIAL_ALPHA,
            GAMMA,
        ],
    },
    make: control,
    fluid: Err(fluid::FOLLOWS_DELAYS),
};

/// Smallest window, and smallest number of packets that a subflow keeps queued.
const LEAST_PACKETS: f64 = 2.0;

/// RTT samples that a round needs. In a round with fewer, the delay is unknown and Reno is used.
pub(super) const SAMPLES: u32 = 3;

/// Returns the number of packets of a window that wait in queues: w (RTT - baseRTT) / RTT.
/// `window_packets` is w. `rtt_s` is the round-trip time and `base_rtt_s` the smallest one, both in
/// seconds.
pub fn queued_packets(window_packets: f64, base_rtt_s: f64, rtt_s: f64) -> f64 {
    window_packets * (rtt_s - base_rtt_s) / rtt_s
}

/// Returns the weight of a subflow: its share in the rate of the connection, from 0 to 1. `rate` is
/// the rate of the subflow, and `total_rate` the sum of all rates, both in the same unit.
pub fn weight(rate: f64, total_rate: f64) -> f64 {
    rate / total_rate
}

/// Returns the number of packets, at least 2, that a subflow with `weight` aims to keep queued, if
/// all subflows together aim for `total_alpha_packets`.
pub fn alpha_packets(weight: f64, total_alpha_packets: f64) -> f64 {
    (weight * total_alpha_packets).max(LEAST_PACKETS)
}

/// Returns the window in packets that drains queues: half of what the path holds without a queue.
/// `window_packets` is the current window. `rtt_s` is the round-trip time and `base_rtt_s` the
/// smallest one, both in seconds.
pub fn drained_window(window_packets: f64, base_rtt_s: f64, rtt_s: f64) -> f64 {
    window_packets * base_rtt_s / (2.0 * rtt_s)
}

#[derive(Debug)]
struct Flow {
    /// Whether Vegas is in use. False from a congestion event to the end of its recovery.
    is_enabled: bool,
    round: Round,
    base_rtt: Option<Nanos>,
    rtt_sum: Nanos,
    rtt_samples: u32,
    /// Packets per second when enough packets were last queued. 0 before that, and after a timeout.
    rate: f64,
    weight: f64,
    alpha_packets: f64,
    /// Smallest queueing delay since queues were last drained.
    least_queueing_s: Option<f64>,
}

impl Flow {
    fn new(parameters: &parameters::Wvegas) -> Self {
        Self {
            is_enabled: true,
            round: Round::default(),
            base_rtt: None,
            rtt_sum: 0,
            rtt_samples: 0,
            rate: 0.0,
            weight: 1.0,
            alpha_packets: f64::from(parameters.initial_alpha_packets),
            least_queueing_s: None,
        }
    }

    fn sample(&mut self, rtt: Nanos) {
        self.base_rtt = Some(self.base_rtt.map_or(rtt, |base| base.min(rtt)));
        self.rtt_sum += rtt;
        self.rtt_samples += 1;
    }

    /// Returns baseRTT and the mean RTT of the round that ended, in seconds, if it had enough
    /// samples.
    fn take_round(&mut self) -> Option<(f64, f64)> {
        let (sum, samples) = (
            std::mem::take(&mut self.rtt_sum),
            std::mem::take(&mut self.rtt_samples),
        );
        let base = self.base_rtt.filter(|_| samples >= SAMPLES)?;
        Some((seconds(base), seconds(sum) / f64::from(samples)))
    }

    /// Returns whether the queueing delay is at least twice the smallest one. False without a
    /// queue, because there is nothing to drain.
    fn has_queue_doubled(&mut self, queueing_s: f64) -> bool {
        let least = self
            .least_queueing_s
            .map_or(queueing_s, |least| least.min(queueing_s));
        let has_doubled = queueing_s > 0.0 && queueing_s >= 2.0 * least;
        self.least_queueing_s = if has_doubled { None } else { Some(least) };
        has_doubled
    }
}

#[derive(Debug)]
struct Wvegas {
    parameters: Parameters,
    flows: Vec<Flow>,
}

impl Wvegas {
    fn fresh(&self) -> Flow {
        Flow::new(&self.parameters.wvegas)
    }

    fn enable(&mut self, subflow: usize) {
        let fresh = self.fresh();
        let flow = &mut self.flows[subflow];
        let (base_rtt, round) = (flow.base_rtt, flow.round);
        *flow = Flow {
            base_rtt,
            round,
            ..fresh
        };
    }

    fn reno(&self, context: &mut Context<'_>, acked: &Acked) {
        let left = self.slow_start(context, acked);
        let bytes = self.parameters.growth().counted_bytes(left, context);
        if left > 0.0 {
            context.grow(reno::increase(context.this().cwnd_packets()) * bytes);
        }
    }

    fn slow_start(&self, context: &mut Context<'_>, acked: &Acked) -> f64 {
        if !acked.is_window_limited {
            return 0.0;
        }
        let limit = self.parameters.slow_start_limit_packets;
        slow_start::grow(context, f64::from(acked.bytes), limit)
    }

    fn end_round(&mut self, context: &mut Context<'_>, acked: &Acked, base: f64, rtt: f64) {
        let window = context.this().cwnd_packets();
        let queued = queued_packets(window, base, rtt);
        if !context.this().in_slow_start() {
            self.avoid_congestion(context, acked, base, rtt);
        } else if queued > f64::from(self.parameters.wvegas.gamma_packets) {
            set_window(context, window.min(window * base / rtt + 1.0));
            lower_ssthresh(context);
        } else {
            self.slow_start(context, acked);
        }
    }

    fn avoid_congestion(&mut self, context: &mut Context<'_>, acked: &Acked, base: f64, rtt: f64) {
        let window = context.this().cwnd_packets();
        let queued = queued_packets(window, base, rtt);
        if queued >= self.flows[context.subflow()].alpha_packets {
            self.weigh(context, window / rtt);
        }
        let flow = &mut self.flows[context.subflow()];
        if queued > flow.alpha_packets {
            set_window(context, window - 1.0);
            lower_ssthresh(context);
        } else if queued < flow.alpha_packets && acked.is_window_limited {
            set_window(context, window + 1.0);
        }
        if flow.has_queue_doubled(rtt - base) {
            set_window(
                context,
                drained_window(context.this().cwnd_packets(), base, rtt),
            );
        }
    }

    /// Records the rate of a subflow and updates its weight and the packets that it keeps queued.
    fn weigh(&mut self, context: &Context<'_>, rate: f64) {
        self.flows[context.subflow()].rate = rate;
        let all = self.flows.iter().zip(context.all());
        let counted = all.filter(|(_, window)| Window::counts(window));
        let total: f64 = counted.map(|(flow, _)| flow.rate).sum();
        let flow = &mut self.flows[context.subflow()];
        flow.weight = weight(rate, total.max(rate));
        let total_alpha = f64::from(self.parameters.wvegas.total_alpha_packets);
        flow.alpha_packets = alpha_packets(flow.weight, total_alpha);
    }
}

fn set_window(context: &mut Context<'_>, packets: f64) {
    context.set_cwnd(packets.max(LEAST_PACKETS) * f64::from(context.this().mss_bytes));
}

/// Lowers ssthresh below the window, which ends slow start.
fn lower_ssthresh(context: &mut Context<'_>) {
    let window = context.this();
    let below = window.cwnd_bytes - f64::from(window.mss_bytes);
    context.set_ssthresh(window.ssthresh_bytes.min(below), 0.0);
}

impl CongestionControl for Wvegas {
    fn subflow_added(&mut self, _context: &mut Context<'_>) {
        let flow = self.fresh();
        self.flows.push(flow);
    }

    fn subflow_removed(&mut self, subflow: usize) {
        self.flows.remove(subflow);
    }

    fn acked(&mut self, context: &mut Context<'_>, acked: &Acked) {
        let flow = &mut self.flows[context.subflow()];
        if let Some(rtt) = acked.rtt {
            flow.sample(rtt);
        }
        if !flow.is_enabled {
            self.reno(context, acked);
        } else if flow.round.is_over(context, acked) {
            match flow.take_round() {
                Some((base, rtt)) => self.end_round(context, acked, base, rtt),
                None => self.reno(context, acked),
            }
        } else if context.this().in_slow_start() {
            self.slow_start(context, acked);
        }
    }

    fn congestion(&mut self, context: &mut Context<'_>, congestion: Congestion) {
        let flow = &mut self.flows[context.subflow()];
        flow.is_enabled = false;
        let floor = self.parameters.ssthresh_floor_packets;
        let floor = floor.unwrap_or(reno::SSTHRESH_FLOOR_PACKETS);
        context.set_ssthresh(reno::after_loss(context.this().cwnd_bytes), floor);
        if congestion == Congestion::Timeout {
            flow.rate = 0.0;
            context.collapse();
        }
    }

    fn recovery_exited(&mut self, context: &mut Context<'_>) {
        self.enable(context.subflow());
    }

    fn undone(&mut self, context: &mut Context<'_>) {
        self.enable(context.subflow());
    }

    fn restarted_after_idle(&mut self, context: &mut Context<'_>, _idle: Nanos) {
        self.flows[context.subflow()] = self.fresh();
    }

    fn state(&self, subflow: usize) -> Vec<(&'static str, f64)> {
        let flow = &self.flows[subflow];
        vec![
            ("base_rtt_s", flow.base_rtt.map_or(0.0, seconds)),
            ("weight", flow.weight),
            ("alpha_packets", flow.alpha_packets),
        ]
    }
}

pub(super) fn control(parameters: &Parameters) -> Box<dyn CongestionControl> {
    Box::new(Wvegas {
        parameters: *parameters,
        flows: Vec::new(),
    })
}
