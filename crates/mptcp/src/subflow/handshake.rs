//! The three-way handshake (RFC 9293, sections 3.5 and 3.10.7.3) and the options that SYNs
//! negotiate.

use super::ecn::EcnState;
use super::timers::Timer;
use super::windows::MAX_SHIFT;
use super::{Arrival, CloseReason, Config, Control, State, Subflow};
use crate::seq::SeqNr;
use crate::time::{MILLISECOND, Nanos};
use crate::wire::{Flags, Segment, TcpOptions, Timestamps};

use super::ack_policy::Due;
use super::reassembly::Reassembly;
use super::{rtt, timestamps};

/// The MSS of a peer that sends no MSS option (RFC 9293, section 3.7.1).
const DEFAULT_MSS: u16 = 536;
/// The smallest MSS. Less leaves no room for data after the options (Linux's `TCP_MIN_SND_MSS`).
const MIN_MSS: u16 = 48;
/// Bytes of the timestamps option in a segment, with padding.
pub(super) const TIMESTAMPS_LEN: u32 = 12;

/// State of the local SYN or SYN/ACK.
#[derive(Clone, Debug)]
pub(super) struct Handshake {
    /// Whether the SYN or SYN/ACK is to be sent.
    pub is_due: bool,
    /// The number of times the SYN or SYN/ACK was sent.
    pub transmissions: u32,
    /// When the SYN or SYN/ACK was last sent.
    pub sent_at: Nanos,
}

impl Default for Handshake {
    fn default() -> Self {
        Self {
            is_due: true,
            transmissions: 0,
            sent_at: 0,
        }
    }
}

impl Handshake {
    /// Returns how long to wait for an answer to the last transmission, in nanoseconds. The time
    /// doubles with each retransmission. For a SYN, the first
    /// [`SynRetries::linear`](super::SynRetries::linear) retransmissions do not double it.
    pub fn timeout(&self, config: &Config, state: State) -> Nanos {
        let retries = self.transmissions.saturating_sub(1);
        let linear = match state {
            State::SynSent => config.syn_retries.linear,
            _ => 0,
        };
        let doublings = retries.saturating_sub(linear);
        rtt::backed_off(config.rto.initial, doublings, config.rto.max)
    }
}

impl Subflow {
    /// Returns the options of the local SYN, or of the local SYN/ACK if `is_answer`.
    pub(super) fn syn_options(&self, now: Nanos, is_answer: bool) -> TcpOptions {
        TcpOptions {
            mss: Some(self.config.mss_bytes),
            window_scale: self
                .config
                .window_scale
                .filter(|_| !is_answer || self.has_window_scale)
                .map(|shift| shift.min(MAX_SHIFT)),
            sack_permitted: if is_answer {
                self.has_sack
            } else {
                self.config.sack
            },
            timestamps: self.syn_timestamps(now, is_answer),
            ..TcpOptions::default()
        }
    }

    fn syn_timestamps(&self, now: Nanos, is_answer: bool) -> Option<Timestamps> {
        if is_answer {
            return self.timestamps.option(now);
        }
        self.config.timestamps.then_some(Timestamps {
            value: timestamps::clock(now),
            echo: 0,
        })
    }

    /// Applies `syn`, the peer's SYN or SYN/ACK. Options that one of the hosts does not offer are
    /// off.
    pub(super) fn negotiate(&mut self, now: Nanos, syn: &Segment) {
        self.received = Some(Reassembly::new(syn.seq));
        self.receive_window.start(syn.seq + 1);
        self.timestamps.last_ack_sent = syn.seq + 1;
        let options = &syn.options;
        self.has_sack = self.config.sack && options.sack_permitted;
        if let (Some(ours), Some(theirs)) = (self.config.window_scale, options.window_scale) {
            self.has_window_scale = true;
            self.receive_window.shift = ours.min(MAX_SHIFT);
            self.peer_window.shift = theirs.min(MAX_SHIFT);
        }
        if let Some(timestamps) = options.timestamps.filter(|_| self.config.timestamps) {
            self.timestamps.start(now, timestamps);
        }
        let theirs = options.mss.unwrap_or(DEFAULT_MSS).max(MIN_MSS);
        self.mss = self.config.mss_bytes.min(theirs);
        self.size_segments();
        self.negotiate_ecn(syn.flags);
    }

    /// Negotiates ECN: a SYN offers it with both flags, a SYN/ACK accepts it with ECE alone (RFC
    /// 3168, section 6.1.1).
    fn negotiate_ecn(&mut self, flags: Flags) {
        let expected = if flags.contains(Flags::ACK) {
            Flags::ECE
        } else {
            EcnState::OFFER
        };
        let offered = Flags(flags.0 & EcnState::OFFER.0);
        self.ecn.enabled = self.config.ecn && offered == expected;
    }

    /// Processes a segment in SYN-SENT (RFC 9293, section 3.10.7.3).
    pub(super) fn arrives_in_syn_sent(
        &mut self,
        now: Nanos,
        segment: &Segment,
        control: &mut Control<'_>,
        arrival: &mut Arrival,
    ) {
        let has_ack = segment.flags.contains(Flags::ACK);
        let is_reset = segment.flags.contains(Flags::RST);
        if has_ack && segment.ack != self.nxt {
            if !is_reset {
                self.reset_reply = Some(segment.ack);
            }
            return;
        }
        if is_reset {
            if has_ack {
                self.end(CloseReason::Refused);
            }
            return;
        }
        if !segment.flags.contains(Flags::SYN) {
            return;
        }
        self.answer_syn(now, segment, control, arrival);
    }

    fn answer_syn(
        &mut self,
        now: Nanos,
        segment: &Segment,
        control: &mut Control<'_>,
        arrival: &mut Arrival,
    ) {
        arrival.is_acceptable = true;
        self.last_received_at = now;
        self.negotiate(now, segment);
        self.peer_window.set(segment);
        if segment.flags.contains(Flags::ACK) {
            self.establish(now, segment, control, arrival);
            self.acks.request(Due::Alone);
            return;
        }
        // Both hosts have opened at the same time (section 3.5, figure 8).
        self.state = State::SynReceived;
        self.handshake = Handshake::default();
    }

    /// Completes the handshake when `segment` acknowledges the local SYN: enters ESTABLISHED,
    /// measures the RTT, and sets the initial window.
    pub(super) fn establish(
        &mut self,
        now: Nanos,
        segment: &Segment,
        control: &mut Control<'_>,
        arrival: &mut Arrival,
    ) {
        self.state = State::Established;
        self.una = self.iss + 1;
        arrival.established = true;
        self.peer_window.set(segment);
        self.timers.cancel(Timer::Retransmission);
        self.backoff = 0;
        self.last_sent_at = now;
        self.measure_handshake(now, segment);
        self.start_window(control);
        if let Some(keepalive) = self.config.keepalive {
            self.timers.arm(Timer::Keepalive, now, now + keepalive.idle);
        }
    }

    fn measure_handshake(&mut self, now: Nanos, segment: &Segment) {
        if self.handshake.transmissions <= 1 {
            let rtt = now - self.handshake.sent_at;
            self.rtt.sample(rtt, self.una, self.nxt);
            self.rtt.record_min(rtt);
        } else if let Some(echo) = self.timestamps.echo(segment) {
            self.sample_rtt_of_echo(now, echo);
        } else {
            self.rtt.distrust();
        }
    }

    /// Sets the initial window (RFC 6928), or one segment after more than one lost SYN, as in Linux
    /// (RFC 5681, section 3.1).
    fn start_window(&mut self, control: &mut Control<'_>) {
        let mss = self.segment_bytes;
        let bytes = match self.handshake.transmissions {
            0..=2 => self.config.initial_window.bytes(mss),
            _ => mss,
        };
        let window = control.window_mut();
        window.mss_bytes = mss;
        window.cwnd_bytes = f64::from(bytes);
        self.report_to(window);
    }

    pub(super) fn sample_rtt_of_echo(&mut self, now: Nanos, echo: u32) {
        let elapsed = timestamps::clock(now).wrapping_sub(echo);
        if elapsed as i32 >= 0 {
            let rtt = (u64::from(elapsed) * MILLISECOND).max(MILLISECOND);
            self.rtt.sample(rtt, self.una, self.nxt);
        }
    }

    /// Returns whether `segment` is a retransmission of the peer's SYN.
    pub(super) fn is_peers_syn(&self, segment: &Segment) -> bool {
        let irs: Option<SeqNr> = self.received.as_ref().map(Reassembly::irs);
        segment.flags.contains(Flags::SYN) && irs == Some(segment.seq)
    }
}
