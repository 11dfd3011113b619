//! `wvegas-oot`: wVegas as in `mptcp_wvegas.c`.
//!
//! The number of queued packets is rounded down. A round without a queue counts as a round in which
//! the queue has doubled, and halves the window. The rate of a slow path is 0 instead of a small
//! number.

use super::super::Control;
use super::super::fluid;
use super::super::parameters::{self, Parameters};
use super::super::rounds::Round;
use super::super::wvegas::SAMPLES;
use super::super::{Acked, Congestion, CongestionControl, Context};
use super::Counter;
use crate::algorithm::Description;
use crate::time::{MICROSECOND, Nanos};

/// Its name, parameters and constructor.
pub(in crate::cc) const ROW: Control = Control {
    description: Description {
        name: "wvegas-oot",
        aliases: &[],
        summary: "Computes wvegas in the integer arithmetic of the out-of-tree kernel, to reproduce papers that used it",
        source: "multipath-tcp/mptcp v0.9x, mptcp_wvegas.c",
        parameters: &[
            super::super::wvegas::TOTAL_ALPHA,
            super::super::wvegas::INITIAL_ALPHA,
            super::super::wvegas::GAMMA,
        ],
    },
    make: control,
    fluid: Err(fluid::FOLLOWS_DELAYS),
};

const SHIFT: u32 = 16;
const LEAST_PACKETS: u32 = 2;

/// Returns the rate of `window_packets` per `rtt_us` microseconds: in packets per microsecond,
/// scaled by 2^16 and rounded down.
pub fn rate(window_packets: u32, rtt_us: u32) -> u64 {
    (u64::from(window_packets) << SHIFT) / u64::from(rtt_us)
}

/// Returns the share of `rate` in `total_rate`, scaled by 2^16, or `None` if `rate` is 0. Both
/// rates are as [`rate`] returns them.
pub fn weight(rate: u64, total_rate: u64) -> Option<u64> {
    (rate > 0).then(|| (rate << SHIFT) / total_rate)
}

/// Returns the number of packets, at least 2, that a subflow with `weight` (scaled by 2^16) aims to
/// keep queued, if all subflows together aim for `total_alpha_packets`.
pub fn alpha_packets(weight: u64, total_alpha_packets: u32) -> u32 {
    (((weight * u64::from(total_alpha_packets)) >> SHIFT) as u32).max(LEAST_PACKETS)
}

/// The state of a `wvegas-oot` subflow at the end of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundEnd {
    /// Congestion window in packets (`snd_cwnd`).
    pub window_packets: u32,
    /// Slow start threshold in packets (`snd_ssthresh`).
    pub ssthresh_packets: u32,
    /// Smallest RTT sample in microseconds. One microsecond is added to each sample.
    pub base_rtt_us: u32,
    /// Mean RTT of the round in microseconds.
    pub rtt_us: u32,
    /// Packets that the subflow should keep queued.
    pub alpha_packets: u32,
    /// Share of the subflow in the rates of all subflows, scaled by 2^16.
    pub weight: u64,
    /// Sum of the rates of the other subflows, in the same unit as [`Decision::rate`].
    pub other_rates: u64,
    /// Smallest queueing delay since queues were last drained, in microseconds. 0 if there is none.
    pub least_queueing_us: u32,
}

/// The rule by which `wvegas-oot` made a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// Slow start ends, because more packets are queued than
    /// [`Wvegas::gamma_packets`](parameters::Wvegas::gamma_packets).
    LeaveSlowStart,
    /// Slow start continues. The caller still has to add the acknowledged packets to the window.
    SlowStart,
    /// Congestion avoidance: the number of queued packets is compared with alpha, and long queues
    /// are drained.
    Vegas,
}

/// The decision of `wvegas-oot` at the end of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The rule that made the decision.
    pub branch: Branch,
    /// Estimated number of packets of the window that wait in queues, rounded down.
    pub queued_packets: u32,
    /// The window in packets that would keep none queued.
    pub target_packets: u64,
    /// The rate in packets per microsecond, scaled by 2^16, or `None` if it was not measured in
    /// this round.
    pub rate: Option<u64>,
    /// The state of the subflow after the decision.
    pub after: RoundEnd,
}

/// Returns the decision at the end of a round that had enough RTT samples. `end` is the state of
/// the subflow before the decision. `parameters` give the queue lengths to keep.
pub fn decide(end: &RoundEnd, parameters: &parameters::Wvegas) -> Decision {
    let (window, rtt) = (u64::from(end.window_packets), u64::from(end.rtt_us));
    let mut decision = Decision {
        branch: Branch::Vegas,
        queued_packets: (window * u64::from(end.queueing_us()) / rtt) as u32,
        target_packets: window * u64::from(end.base_rtt_us) / rtt,
        rate: None,
        after: *end,
    };
    if end.window_packets > end.ssthresh_packets {
        decision.avoid_congestion(parameters);
    } else if decision.queued_packets > parameters.gamma_packets {
        decision.branch = Branch::LeaveSlowStart;
        let target = decision.target_packets as u32 + 1;
        decision.after.window_packets = end.window_packets.min(target);
        decision.after.lower_ssthresh();
    } else {
        decision.branch = Branch::SlowStart;
    }
    let after = &mut decision.after;
    after.window_packets = after.window_packets.max(LEAST_PACKETS);
    decision
}

impl Decision {
    fn avoid_congestion(&mut self, parameters: &parameters::Wvegas) {
        let after = &mut self.after;
        if self.queued_packets >= after.alpha_packets {
            let rate = rate(after.window_packets, after.rtt_us);
            self.rate = Some(rate);
            after.weight = weight(rate, rate + after.other_rates).unwrap_or(after.weight);
            after.alpha_packets = alpha_packets(after.weight, parameters.total_alpha_packets);
        }
        if self.queued_packets > after.alpha_packets {
            after.window_packets -= 1;
            after.lower_ssthresh();
        } else if self.queued_packets < after.alpha_packets {
            after.window_packets += 1;
        }
        after.drain();
    }
}

impl RoundEnd {
    fn queueing_us(&self) -> u32 {
        self.rtt_us - self.base_rtt_us
    }

    fn lower_ssthresh(&mut self) {
        self.ssthresh_packets = self.ssthresh_packets.min(self.window_packets - 1);
    }

    /// Halves the amount that the path holds if the queueing delay is 0 or at least twice the
    /// smallest one.
    fn drain(&mut self) {
        let queueing = self.queueing_us();
        if self.least_queueing_us == 0 || self.least_queueing_us > queueing {
            self.least_queueing_us = queueing;
        }
        if queueing >= 2 * self.least_queueing_us {
            let factor = (u64::from(self.base_rtt_us) << SHIFT) / (2 * u64::from(self.rtt_us));
            self.window_packets = ((u64::from(self.window_packets) * factor) >> SHIFT) as u32;
            self.least_queueing_us = 0;
        }
    }
}

#[derive(Debug)]
struct Flow {
    is_enabled: bool,
    round: Round,
    base_rtt_us: u32,
    rtt_sum_us: u32,
    rtt_samples: u32,
    rate: u64,
    weight: u64,
    alpha_packets: u32,
    least_queueing_us: u32,
    counter: Counter,
}

impl Flow {
    fn new(parameters: &parameters::Wvegas) -> Self {
        Self {
            is_enabled: true,
            round: Round::default(),
            base_rtt_us: u32::MAX >> 1,
            rtt_sum_us: 0,
            rtt_samples: 0,
            rate: 0,
            weight: 1 << SHIFT,
            alpha_packets: parameters.initial_alpha_packets,
            least_queueing_us: 0,
            counter: Counter::default(),
        }
    }

    fn sample(&mut self, rtt: Nanos) {
        let rtt_us = u32::try_from(rtt / MICROSECOND).unwrap_or(u32::MAX >> 1) + 1;
        self.base_rtt_us = self.base_rtt_us.min(rtt_us);
        self.rtt_sum_us = self.rtt_sum_us.wrapping_add(rtt_us);
        self.rtt_samples += 1;
    }

    fn forget_samples(&mut self) {
        (self.rtt_sum_us, self.rtt_samples) = (0, 0);
    }

    fn round_end(&self, context: &Context<'_>, other_rates: u64) -> RoundEnd {
        RoundEnd {
            window_packets: super::packets(context.this()),
            ssthresh_packets: super::ssthresh_packets(context.this()),
            base_rtt_us: self.base_rtt_us,
            // A sum that has wrapped can be below the smallest sample.
            rtt_us: (self.rtt_sum_us / self.rtt_samples).max(self.base_rtt_us),
            alpha_packets: self.alpha_packets,
            weight: self.weight,
            other_rates,
            least_queueing_us: self.least_queueing_us,
        }
    }

    fn adopt(&mut self, decision: &Decision) {
        self.rate = decision.rate.unwrap_or(self.rate);
        self.weight = decision.after.weight;
        self.alpha_packets = decision.after.alpha_packets;
        self.least_queueing_us = decision.after.least_queueing_us;
    }
}

#[derive(Debug)]
struct Wvegas {
    parameters: parameters::Wvegas,
    flows: Vec<Flow>,
}

impl Wvegas {
    fn enable(&mut self, subflow: usize) {
        let flow = &mut self.flows[subflow];
        let (base_rtt_us, round, counter) = (flow.base_rtt_us, flow.round, flow.counter);
        *flow = Flow {
            base_rtt_us,
            round,
            counter,
            ..Flow::new(&self.parameters)
        };
    }

    /// Returns the sum of the rates of the other subflows that have samples in the current round.
    fn other_rates(&self, context: &Context<'_>) -> u64 {
        let all = self.flows.iter().zip(context.all()).enumerate();
        let others = all.filter(|(index, (flow, window))| {
            *index != context.subflow() && window.is_usable && flow.rtt_samples > 0
        });
        others.map(|(_, (flow, _))| flow.rate).sum()
    }

    fn end_round(&mut self, context: &mut Context<'_>, acked: &Acked) {
        let other_rates = self.other_rates(context);
        let flow = &mut self.flows[context.subflow()];
        if flow.rtt_samples < SAMPLES {
            flow.counter.reno(context, acked);
        } else {
            let decision = decide(&flow.round_end(context, other_rates), &self.parameters);
            flow.adopt(&decision);
            apply(context, acked, &decision);
        }
        flow.forget_samples();
    }
}

/// Applies a decision. Finally raises ssthresh to at least three quarters of the window
/// (`tcp_current_ssthresh`).
fn apply(context: &mut Context<'_>, acked: &Acked, decision: &Decision) {
    super::set_packets(context, decision.after.window_packets);
    if decision.branch == Branch::SlowStart {
        super::slow_start(context, acked);
    }
    let window = super::packets(context.this());
    let least = window / 2 + window / 4;
    super::set_ssthresh_packets(context, decision.after.ssthresh_packets.max(least));
}

impl CongestionControl for Wvegas {
    fn subflow_added(&mut self, _context: &mut Context<'_>) {
        self.flows.push(Flow::new(&self.parameters));
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
            flow.counter.reno(context, acked);
        } else if flow.round.is_over(context, acked) {
            self.end_round(context, acked);
        } else {
            super::slow_start(context, acked);
        }
    }

    fn congestion(&mut self, context: &mut Context<'_>, congestion: Congestion) {
        let flow = &mut self.flows[context.subflow()];
        flow.is_enabled = false;
        flow.counter = Counter::default();
        if congestion == Congestion::Timeout {
            flow.rate = 0;
        }
        let ssthresh = super::reno_ssthresh(super::packets(context.this()));
        super::reduce(context, congestion, ssthresh);
    }

    fn recovery_exited(&mut self, context: &mut Context<'_>) {
        self.enable(context.subflow());
    }

    fn undone(&mut self, context: &mut Context<'_>) {
        self.enable(context.subflow());
    }

    fn restarted_after_idle(&mut self, context: &mut Context<'_>, _idle: Nanos) {
        self.flows[context.subflow()] = Flow::new(&self.parameters);
    }

    fn state(&self, subflow: usize) -> Vec<(&'static str, f64)> {
        let flow = &self.flows[subflow];
        vec![
            ("base_rtt_us", f64::from(flow.base_rtt_us)),
            ("weight_scaled", flow.weight as f64),
            ("alpha_packets", f64::from(flow.alpha_packets)),
        ]
    }
}

pub(in super::super) fn control(parameters: &Parameters) -> Box<dyn CongestionControl> {
    Box::new(Wvegas {
        parameters: parameters.wvegas,
        flows: Vec::new(),
    })
}
