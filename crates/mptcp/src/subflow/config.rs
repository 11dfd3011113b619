//! Parameters of a subflow; the defaults are Linux's, but timers are exact.

use crate::time::{MILLISECOND, Nanos, SECOND};
use crate::timer_wheel::TimerWheel;

/// Parameters of a subflow.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Bytes that fit into a packet of the path beyond the headers of IP and TCP without options: the MSS option.
    pub mss_bytes: u16,
    /// The initial window.
    pub initial_window: InitialWindow,
    /// Bytes that may be assigned to it and not acknowledged, at most.
    pub send_buffer_bytes: u32,
    /// Window scaling: the shift count we ask for (RFC 7323, section 2). Who reads keeps a buffer of one unit of the window, which
    /// is 2 to its power, or more: a smaller one can never be offered.
    pub window_scale: Option<u8>,
    /// Timestamps (RFC 7323, section 3).
    pub timestamps: bool,
    /// Selective acknowledgments (RFC 2018).
    pub sack: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// The retransmission timeout.
    pub rto: RtoConfig,
    /// The clock that all timers but pacing's round up to, as Linux's do; without it they are exact.
    pub timer_wheel: Option<TimerWheel>,
    /// How the SYN is repeated.
    pub syn_retries: SynRetries,
    /// How often data is sent again before the subflow is given up.
    pub retries: u32,
    /// How long an acknowledgment may wait for a second segment (RFC 1122, section 4.2.3.2).
    pub delayed_ack: Nanos,
    /// How many segments after the start, and after a pause, are acknowledged at once.
    pub quick_acks: u32,
    /// Whether a short segment waits for more data while others are not acknowledged (RFC 9293, section 3.7.4). Off, as with
    /// `TCP_NODELAY` on Linux, where it is on by default.
    pub nagle: bool,
    /// Whether cwnd decays in idle times (RFC 5681, section 4.1), and while it is not used (RFC 2861).
    pub restart_after_idle: bool,
    /// Probes on a silent connection, if wanted.
    pub keepalive: Option<Keepalive>,
    /// How long TIME-WAIT lasts.
    pub time_wait: Nanos,
    /// RACK and TLP (RFC 8985); without them three duplicates tell a loss (RFC 6675).
    pub rack: bool,
}

/// What may be sent before the first acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialWindow {
    /// So many segments, whatever their size, as in Linux.
    Segments(u32),
    /// Ten segments, and fewer of large ones (RFC 6928, section 2).
    Rfc6928,
}

impl InitialWindow {
    /// In bytes, for segments of that size.
    pub fn bytes(self, mss_bytes: u32) -> u32 {
        match self {
            Self::Segments(segments) => segments * mss_bytes,
            Self::Rfc6928 => (10 * mss_bytes).min(14_600.max(2 * mss_bytes)),
        }
    }
}

/// The retransmission timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoConfig {
    /// How it follows the round-trip time.
    pub estimator: RtoEstimator,
    /// Before the first sample.
    pub initial: Nanos,
    /// The floor: of the variation with Linux's estimator, of the whole with the RFC's.
    pub min: Nanos,
    /// The ceiling, back-off included.
    pub max: Nanos,
}

/// How the retransmission timeout follows the round-trip time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RtoEstimator {
    /// Linux's, in integers.
    #[default]
    Linux,
    /// RFC 6298's.
    Rfc6298,
}

/// How a SYN is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SynRetries {
    /// How often.
    pub count: u32,
    /// How many of these, those of a SYN/ACK not, come after the initial timeout each, before the interval doubles (Linux's
    /// tcp_syn_linear_timeouts).
    pub linear: u32,
}

/// Probes on a silent connection (RFC 9293, section 3.8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// How long it has to be silent.
    pub idle: Nanos,
    /// Between probes.
    pub interval: Nanos,
    /// Probes without an answer that end it.
    pub probes: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mss_bytes: 1460,
            initial_window: InitialWindow::Segments(10),
            send_buffer_bytes: 4 << 20,
            window_scale: Some(7),
            timestamps: true,
            sack: true,
            ecn: false,
            rto: RtoConfig::default(),
            timer_wheel: None,
            syn_retries: SynRetries::default(),
            retries: 15,
            delayed_ack: 40 * MILLISECOND,
            quick_acks: 16,
            nagle: false,
            restart_after_idle: true,
            keepalive: None,
            time_wait: 60 * SECOND,
            rack: true,
        }
    }
}

impl Default for RtoConfig {
    fn default() -> Self {
        Self {
            estimator: RtoEstimator::Linux,
            initial: SECOND,
            min: 200 * MILLISECOND,
            max: 120 * SECOND,
        }
    }
}

impl Default for SynRetries {
    fn default() -> Self {
        Self {
            count: 6,
            linear: 4,
        }
    }
}
