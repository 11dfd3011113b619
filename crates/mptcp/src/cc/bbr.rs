//! `bbr`: BBR version 1 (Cardwell et al., ACM Queue 2016;
//! draft-cardwell-iccrg-bbr-congestion-control-00). The subflows are independent. BBR sends at the
//! measured delivery rate of the path and periodically probes for more bandwidth and for a shorter
//! round-trip time.
//!
//! Linux's additions to the draft are missing: the detection of token-bucket policers, and the
//! allowance for aggregated acknowledgments. Methods are named after the draft's functions.

use super::Control;
use crate::algorithm::Description;
use std::collections::VecDeque;
use std::f64::consts::LN_2;

use super::parameters::Parameters;
use super::{Acked, Congestion, CongestionControl, Context, Window};
use crate::time::{MILLISECOND, Nanos, SECOND, seconds};

/// Its name, parameters and constructor.
pub(in crate::cc) const ROW: Control = Control {
    description: Description {
        name: "bbr",
        aliases: &[],
        summary: "Sends at the measured delivery rate, separately for each subflow",
        source: "Cardwell et al., ACM Queue 2016; draft-cardwell-iccrg-bbr-congestion-control-00",
        parameters: &[],
    },
    make: control,
    fluid: Err("its windows follow rates, not losses"),
};

/// The pacing gain in Startup, which doubles the delivery rate each round
/// (draft-cardwell-iccrg-bbr-congestion-control-00, section 4.3.2.1).
pub const STARTUP_GAIN: f64 = 2.0 / LN_2;
/// The pacing gain in Drain, which empties the queue that Startup built within one round.
pub const DRAIN_GAIN: f64 = LN_2 / 2.0;
/// The congestion window in ProbeBW, as a multiple of the bandwidth-delay product. It leaves room
/// for delayed and aggregated acknowledgments.
pub const CWND_GAIN: f64 = 2.0;

const PROBE_BW_GAINS: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const BANDWIDTH_ROUNDS: u64 = 10;
const MIN_RTT_LIFETIME: Nanos = 10 * SECOND;
const PROBE_RTT_DURATION: Nanos = 200 * MILLISECOND;
const LEAST_WINDOW_PACKETS: f64 = 4.0;
/// The pipe is full if the bandwidth has not grown by a quarter in three rounds (draft, section
/// 4.3.2.2).
const FULL_PIPE_GROWTH: f64 = 1.25;
const FULL_PIPE_ROUNDS: u32 = 3;

/// Returns `gain` bandwidth-delay products in bytes. The product is the bandwidth in bytes per
/// second, `bytes_per_second`, times the smallest round-trip time in seconds, `min_rtt_s`.
pub fn inflight_bytes(bytes_per_second: f64, min_rtt_s: f64, gain: f64) -> f64 {
    gain * (bytes_per_second * min_rtt_s)
}

/// Returns the bytes that the host can send in one burst (draft, section 4.2.2): about one
/// millisecond at the pacing rate.
fn send_quantum_bytes(pacing_rate: f64, mss: f64) -> f64 {
    if pacing_rate < 1.2e6 / 8.0 {
        mss
    } else if pacing_rate < 24e6 / 8.0 {
        2.0 * mss
    } else {
        (pacing_rate / 1e3).min(65_536.0)
    }
}

/// The largest delivery rate of the last rounds.
#[derive(Clone, Debug, Default)]
struct BandwidthFilter {
    /// Rounds and rates. Each rate is larger than all that follow it.
    samples: VecDeque<(u64, f64)>,
}

impl BandwidthFilter {
    fn update(&mut self, round: u64, bytes_per_second: f64) {
        while self
            .samples
            .back()
            .is_some_and(|(_, rate)| *rate <= bytes_per_second)
        {
            self.samples.pop_back();
        }
        self.samples.push_back((round, bytes_per_second));
        while self
            .samples
            .front()
            .is_some_and(|(at, _)| at + BANDWIDTH_ROUNDS <= round)
        {
            self.samples.pop_front();
        }
    }

    fn max(&self) -> f64 {
        self.samples.front().map_or(0.0, |(_, rate)| *rate)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Startup,
    Drain,
    ProbeBw {
        phase: usize,
        since: Nanos,
    },
    ProbeRtt {
        /// Until when the window stays small. `None` until enough of the data in flight was
        /// acknowledged.
        until: Option<Nanos>,
        has_round_passed: bool,
    },
}

impl State {
    fn pacing_gain(self) -> f64 {
        match self {
            Self::Startup => STARTUP_GAIN,
            Self::Drain => DRAIN_GAIN,
            Self::ProbeBw { phase, .. } => PROBE_BW_GAINS[phase],
            Self::ProbeRtt { .. } => 1.0,
        }
    }

    fn cwnd_gain(self) -> f64 {
        match self {
            Self::Startup | Self::Drain => STARTUP_GAIN,
            Self::ProbeBw { .. } => CWND_GAIN,
            Self::ProbeRtt { .. } => 1.0,
        }
    }

    fn number(self) -> f64 {
        match self {
            Self::Startup => 0.0,
            Self::Drain => 1.0,
            Self::ProbeBw { .. } => 2.0,
            Self::ProbeRtt { .. } => 3.0,
        }
    }
}

/// Detects whether the pipe is full.
#[derive(Clone, Copy, Debug, Default)]
struct FullPipe {
    is_full: bool,
    bandwidth: f64,
    rounds: u32,
}

impl FullPipe {
    fn check(&mut self, bandwidth: f64) {
        if self.is_full {
            return;
        }
        if bandwidth >= self.bandwidth * FULL_PIPE_GROWTH {
            (self.bandwidth, self.rounds) = (bandwidth, 0);
            return;
        }
        self.rounds += 1;
        self.is_full = self.rounds >= FULL_PIPE_ROUNDS;
    }

    /// Forgets the measured growth after a spurious loss or a timeout, so that it cannot end
    /// Startup.
    fn forget(&mut self) {
        (self.bandwidth, self.rounds) = (0.0, 0);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recovery {
    None,
    /// First round of recovery: one segment is sent for each one delivered.
    Conserving,
    Growing,
}

#[derive(Debug)]
struct Flow {
    state: State,
    bandwidth: BandwidthFilter,
    full_pipe: FullPipe,
    round: u64,
    next_round_delivered: u64,
    delivered: u64,
    is_round_start: bool,
    min_rtt: Option<Nanos>,
    min_rtt_at: Nanos,
    initial_cwnd_bytes: f64,
    pacing_rate: f64,
    prior_cwnd_bytes: f64,
    recovery: Recovery,
    has_restarted: bool,
    /// State of the random number generator for phases.
    random: u64,
}

impl Flow {
    fn new(now: Nanos, window: &Window, seed: u64) -> Self {
        let rtt = window.srtt.filter(|srtt| *srtt > 0).unwrap_or(MILLISECOND);
        Self {
            state: State::Startup,
            bandwidth: BandwidthFilter::default(),
            full_pipe: FullPipe::default(),
            round: 0,
            next_round_delivered: 0,
            delivered: 0,
            is_round_start: false,
            min_rtt: window.srtt,
            min_rtt_at: now,
            initial_cwnd_bytes: window.cwnd_bytes,
            pacing_rate: STARTUP_GAIN * window.cwnd_bytes / seconds(rtt),
            prior_cwnd_bytes: 0.0,
            recovery: Recovery::None,
            has_restarted: false,
            random: seed,
        }
    }

    fn update_round(&mut self, acked: &Acked) {
        self.delivered = acked.delivered_bytes;
        let before = acked.delivery_rate.map(|rate| rate.delivered_before_bytes);
        self.is_round_start = before.is_some_and(|before| before >= self.next_round_delivered);
        if self.is_round_start {
            self.next_round_delivered = self.delivered;
            self.round += 1;
            if self.recovery == Recovery::Conserving {
                self.recovery = Recovery::Growing;
            }
        }
    }

    fn update_bandwidth(&mut self, acked: &Acked) {
        let Some(sample) = acked.delivery_rate else {
            return;
        };
        if sample.bytes_per_second >= self.bandwidth.max() || !sample.is_application_limited {
            self.bandwidth.update(self.round, sample.bytes_per_second);
        }
        if self.is_round_start && !sample.is_application_limited {
            self.full_pipe.check(self.bandwidth.max());
        }
    }

    /// Returns the bytes in flight for a gain, plus an allowance for data inside the hosts.
    fn inflight(&self, gain: f64, mss: f64) -> f64 {
        match self.min_rtt {
            Some(min_rtt) if self.bandwidth.max() > 0.0 => {
                let quantum = send_quantum_bytes(self.pacing_rate, mss);
                inflight_bytes(self.bandwidth.max(), seconds(min_rtt), gain) + 3.0 * quantum
            }
            _ => self.initial_cwnd_bytes,
        }
    }

    fn enter_probe_bw(&mut self, now: Nanos) {
        // Chooses any phase except the draining one. The cycle starts with the phase after
        // `chosen`.
        let chosen = PROBE_BW_GAINS.len() - 1 - self.next_random(7);
        let phase = (chosen + 1) % PROBE_BW_GAINS.len();
        self.state = State::ProbeBw { phase, since: now };
    }

    /// Returns a random number below `bound` (splitmix64).
    fn next_random(&mut self, bound: u64) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound) as usize
    }

    fn advance_state(&mut self, now: Nanos, window: &Window, acked: &Acked) {
        let mss = f64::from(window.mss_bytes);
        let in_flight = f64::from(window.in_flight_bytes);
        if self.state == State::Startup && self.full_pipe.is_full {
            self.state = State::Drain;
        }
        if self.state == State::Drain && in_flight <= self.inflight(1.0, mss) {
            self.enter_probe_bw(now);
        }
        if let State::ProbeBw { phase, since } = self.state
            && self.is_phase_over(phase, now - since, window, acked)
        {
            let phase = (phase + 1) % PROBE_BW_GAINS.len();
            self.state = State::ProbeBw { phase, since: now };
        }
    }

    fn is_phase_over(&self, phase: usize, elapsed: Nanos, window: &Window, acked: &Acked) -> bool {
        let mss = f64::from(window.mss_bytes);
        let before = u64::from(window.in_flight_bytes)
            + u64::from(acked.bytes)
            + u64::from(acked.lost_bytes);
        let (before, gain) = (before as f64, PROBE_BW_GAINS[phase]);
        let is_full_length = elapsed > self.min_rtt.unwrap_or(0);
        if gain > 1.0 {
            is_full_length && (acked.lost_bytes > 0 || before >= self.inflight(gain, mss))
        } else if gain < 1.0 {
            is_full_length || before <= self.inflight(1.0, mss)
        } else {
            is_full_length
        }
    }

    /// Records an RTT sample. Returns whether the min RTT has expired and must be probed.
    fn update_min_rtt(&mut self, now: Nanos, acked: &Acked) -> bool {
        let is_expired = now > self.min_rtt_at + MIN_RTT_LIFETIME;
        if let Some(rtt) = acked.rtt
            && (is_expired || self.min_rtt.is_none_or(|min_rtt| rtt <= min_rtt))
        {
            (self.min_rtt, self.min_rtt_at) = (Some(rtt), now);
        }
        is_expired
    }

    fn check_probe_rtt(&mut self, is_expired: bool, window: &Window) {
        let is_probing = matches!(self.state, State::ProbeRtt { .. });
        if !is_probing && is_expired && !self.has_restarted {
            self.save_cwnd(window);
            self.state = State::ProbeRtt {
                until: None,
                has_round_passed: false,
            };
        }
        self.has_restarted = false;
    }

    /// Keeps the window small for a minimum time and a round. Returns whether that is done.
    fn probe_rtt(&mut self, now: Nanos, window: &Window) -> bool {
        let State::ProbeRtt {
            until,
            has_round_passed,
        } = &mut self.state
        else {
            return false;
        };
        let least = LEAST_WINDOW_PACKETS * f64::from(window.mss_bytes);
        match *until {
            None if f64::from(window.in_flight_bytes) <= least => {
                *until = Some(now + PROBE_RTT_DURATION);
                self.next_round_delivered = self.delivered;
                false
            }
            None => false,
            Some(until) => {
                *has_round_passed |= self.is_round_start;
                *has_round_passed && now > until
            }
        }
    }

    fn exit_probe_rtt(&mut self, context: &mut Context<'_>) {
        self.min_rtt_at = context.now();
        self.restore_cwnd(context);
        if self.full_pipe.is_full {
            self.enter_probe_bw(context.now());
        } else {
            self.state = State::Startup;
        }
    }

    fn set_pacing_rate(&mut self, gain: f64) {
        let rate = gain * self.bandwidth.max();
        if rate > 0.0 && (self.full_pipe.is_full || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    fn set_cwnd(&self, context: &mut Context<'_>, acked: &Acked) {
        let window = context.this();
        let (mss, bytes) = (f64::from(window.mss_bytes), f64::from(acked.bytes));
        let mut cwnd = window.cwnd_bytes;
        if self.recovery != Recovery::None {
            cwnd = (cwnd - f64::from(acked.lost_bytes)).max(mss);
        }
        if self.recovery == Recovery::Conserving {
            cwnd = cwnd.max(f64::from(window.in_flight_bytes) + bytes);
        } else {
            cwnd = self.grown(cwnd, bytes, mss).max(LEAST_WINDOW_PACKETS * mss);
        }
        if matches!(self.state, State::ProbeRtt { .. }) {
            cwnd = cwnd.min(LEAST_WINDOW_PACKETS * mss);
        }
        context.set_cwnd(cwnd);
    }

    fn grown(&self, cwnd: f64, acked_bytes: f64, mss: f64) -> f64 {
        let target = self.inflight(self.state.cwnd_gain(), mss);
        if self.full_pipe.is_full {
            (cwnd + acked_bytes).min(target)
        } else if cwnd < target || (self.delivered as f64) < self.initial_cwnd_bytes {
            cwnd + acked_bytes
        } else {
            cwnd
        }
    }

    fn save_cwnd(&mut self, window: &Window) {
        let is_reduced =
            self.recovery != Recovery::None || matches!(self.state, State::ProbeRtt { .. });
        let before = if is_reduced {
            self.prior_cwnd_bytes
        } else {
            0.0
        };
        self.prior_cwnd_bytes = window.cwnd_bytes.max(before);
    }

    fn restore_cwnd(&self, context: &mut Context<'_>) {
        context.set_cwnd(context.this().cwnd_bytes.max(self.prior_cwnd_bytes));
    }
}

#[derive(Debug)]
struct Bbr {
    seed: u64,
    subflows: u64,
    flows: Vec<Flow>,
}

impl CongestionControl for Bbr {
    fn subflow_added(&mut self, context: &mut Context<'_>) {
        self.subflows += 1;
        let seed = self.seed ^ self.subflows.rotate_left(32);
        self.flows
            .push(Flow::new(context.now(), context.this(), seed));
    }

    fn subflow_removed(&mut self, subflow: usize) {
        self.flows.remove(subflow);
    }

    fn segment_sent(&mut self, context: &mut Context<'_>, bytes: u32) {
        let flow = &mut self.flows[context.subflow()];
        if context.this().in_flight_bytes <= bytes && flow.delivered > 0 {
            flow.has_restarted = true;
            if matches!(flow.state, State::ProbeBw { .. }) {
                flow.set_pacing_rate(1.0);
            }
        }
    }

    fn acked(&mut self, context: &mut Context<'_>, acked: &Acked) {
        let (now, flow) = (context.now(), &mut self.flows[context.subflow()]);
        flow.update_round(acked);
        flow.update_bandwidth(acked);
        flow.advance_state(now, context.this(), acked);
        let is_expired = flow.update_min_rtt(now, acked);
        flow.check_probe_rtt(is_expired, context.this());
        if flow.probe_rtt(now, context.this()) {
            flow.exit_probe_rtt(context);
        }
        flow.set_pacing_rate(flow.state.pacing_gain());
        flow.set_cwnd(context, acked);
    }

    fn congestion(&mut self, context: &mut Context<'_>, congestion: Congestion) {
        let flow = &mut self.flows[context.subflow()];
        let window = context.this();
        if congestion == Congestion::Ecn {
            return;
        }
        flow.save_cwnd(window);
        if congestion == Congestion::Timeout {
            flow.recovery = Recovery::Growing;
            flow.full_pipe.forget();
            context.collapse();
        } else {
            flow.recovery = Recovery::Conserving;
            flow.next_round_delivered = flow.delivered;
            context.set_cwnd(f64::from(window.in_flight_bytes + window.mss_bytes));
        }
    }

    fn recovery_exited(&mut self, context: &mut Context<'_>) {
        let flow = &mut self.flows[context.subflow()];
        if std::mem::replace(&mut flow.recovery, Recovery::None) != Recovery::None {
            flow.restore_cwnd(context);
        }
    }

    fn undone(&mut self, context: &mut Context<'_>) {
        self.flows[context.subflow()].full_pipe.forget();
        self.recovery_exited(context);
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn pacing_rate(&self, context: &Context<'_>) -> Option<f64> {
        Some(self.flows[context.subflow()].pacing_rate)
    }

    fn state(&self, subflow: usize) -> Vec<(&'static str, f64)> {
        let flow = &self.flows[subflow];
        vec![
            ("bandwidth_bytes_per_s", flow.bandwidth.max()),
            ("min_rtt_s", flow.min_rtt.map_or(0.0, seconds)),
            ("pacing_gain", flow.state.pacing_gain()),
            ("state", flow.state.number()),
        ]
    }
}

pub(super) fn control(parameters: &Parameters) -> Box<dyn CongestionControl> {
    Box::new(Bbr {
        seed: parameters.bbr.seed,
        subflows: 0,
        flows: Vec::new(),
    })
}
