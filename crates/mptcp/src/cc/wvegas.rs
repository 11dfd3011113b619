//! `wvegas`: Weighted Vegas (Cao et al., ICNP 2012; draft-xu-mptcp-congestion-control). Each subflow keeps some
//! packets queued on its path, and all together a fixed number, shared by their rates. Loss-based traffic in the same
//! queue starves it.

use super::parameters::{self, Parameters};
use super::rounds::Round;
use super::{Acked, Congestion, CongestionControl, Context, Window, reno, slow_start};
use crate::time::{Nanos, seconds};

/// The least window, and the least number of packets that a subflow keeps queued.
const LEAST_PACKETS: f64 = 2.0;

/// With fewer samples in a round the delay is not known, and the round is Reno's.
pub(super) const SAMPLES: u32 = 3;

/// Packets of a window that wait in queues: w (RTT - baseRTT) / RTT.
pub fn queued_packets(window_packets: f64, base_rtt_s: f64, rtt_s: f64) -> f64 {
    window_packets * (rtt_s - base_rtt_s) / rtt_s
}

/// The part of a subflow in the rate of the connection.
pub fn weight(rate: f64, total_rate: f64) -> f64 {
    rate / total_rate
}

/// Packets that a subflow of that weight keeps queued.
pub fn alpha_packets(weight: f64, total_alpha_packets: f64) -> f64 {
    (weight * total_alpha_packets).max(LEAST_PACKETS)
}

/// What is left of a window when queues are drained: half of what the path holds without a queue.
pub fn drained_window(window_packets: f64, base_rtt_s: f64, rtt_s: f64) -> f64 {
    window_packets * base_rtt_s / (2.0 * rtt_s)
}

#[derive(Debug)]
struct Flow {
    /// False from a congestion to the end of its repair.
    is_enabled: bool,
    round: Round,
    base_rtt: Option<Nanos>,
    rtt_sum: Nanos,
    rtt_samples: u32,
    /// Packets per second when it last had enough packets queued; 0 before, and after a timeout.
    rate: f64,
    weight: f64,
    alpha_packets: f64,
    /// The least queueing delay since queues were last drained.
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

    /// baseRTT and the mean of the round that ended, if there were enough samples.
    fn take_round(&mut self) -> Option<(f64, f64)> {
        let (sum, samples) = (
            std::mem::take(&mut self.rtt_sum),
            std::mem::take(&mut self.rtt_samples),
        );
        let base = self.base_rtt.filter(|_| samples >= SAMPLES)?;
        Some((seconds(base), seconds(sum) / f64::from(samples)))
    }

    /// Whether the queueing delay is twice the least one. A queue must be there: without one nothing is to be drained.
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

    fn enable(&mut self, which: usize) {
        let fresh = self.fresh();
        let flow = &mut self.flows[which];
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
        if queued >= self.flows[context.which()].alpha_packets {
            self.weigh(context, window / rtt);
        }
        let flow = &mut self.flows[context.which()];
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

    /// Takes the rate of a subflow, its part of all rates and with it what it keeps queued.
    fn weigh(&mut self, context: &Context<'_>, rate: f64) {
        self.flows[context.which()].rate = rate;
        let all = self.flows.iter().zip(context.all());
        let counted = all.filter(|(_, window)| Window::counts(window));
        let total: f64 = counted.map(|(flow, _)| flow.rate).sum();
        let flow = &mut self.flows[context.which()];
        flow.weight = weight(rate, total.max(rate));
        let total_alpha = f64::from(self.parameters.wvegas.total_alpha_packets);
        flow.alpha_packets = alpha_packets(flow.weight, total_alpha);
    }
}

fn set_window(context: &mut Context<'_>, packets: f64) {
    context.set_cwnd(packets.max(LEAST_PACKETS) * f64::from(context.this().mss_bytes));
}

/// The window is past slow start from now on.
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

    fn subflow_removed(&mut self, which: usize) {
        self.flows.remove(which);
    }

    fn acked(&mut self, context: &mut Context<'_>, acked: &Acked) {
        let flow = &mut self.flows[context.which()];
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
        let flow = &mut self.flows[context.which()];
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
        self.enable(context.which());
    }

    fn undone(&mut self, context: &mut Context<'_>) {
        self.enable(context.which());
    }

    fn restarted_after_idle(&mut self, context: &mut Context<'_>, _idle: Nanos) {
        self.flows[context.which()] = self.fresh();
    }

    fn state(&self, which: usize) -> Vec<(&'static str, f64)> {
        let flow = &self.flows[which];
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
