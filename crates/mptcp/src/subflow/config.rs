//! Parameters of a subflow. The defaults are Linux's, except that timers are exact.

use crate::time::{MILLISECOND, Nanos, SECOND};
use crate::timer_wheel::TimerWheel;

/// Parameters of a subflow.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The MSS option: the bytes of a packet on the path after the IP and TCP headers without
    /// options.
    pub mss_bytes: u16,
    /// The initial congestion window.
    pub initial_window: InitialWindow,
    /// The largest number of bytes assigned to the subflow and not acknowledged.
    pub send_buffer_bytes: u32,
    /// Window scaling: the shift count that the subflow offers (RFC 7323, section 2). The reader's
    /// buffer must hold at least one unit of the window, which is 2 to the power of the shift
    /// count, because a smaller window cannot be offered.
    pub window_scale: Option<u8>,
    /// Whether to offer timestamps (RFC 7323, section 3).
    pub timestamps: bool,
    /// Whether to offer selective acknowledgments (RFC 2018).
    pub sack: bool,
    /// Whether to offer explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// The retransmission timeout.
    pub rto: RtoConfig,
    /// The clock to which all timers except the pacing timer are rounded up, as in Linux. Without
    /// it timers are exact.
    pub timer_wheel: Option<TimerWheel>,
    /// How the SYN is retransmitted.
    pub syn_retries: SynRetries,
    /// Retransmissions of the same data before the subflow is closed.
    pub retries: u32,
    /// The longest time for which an acknowledgment waits for a second segment (RFC 1122, section
    /// 4.2.3.2).
    pub delayed_ack: Nanos,
    /// Segments that are acknowledged at once after the start and after a pause.
    pub quick_acks: u32,
    /// Whether a short segment waits for more data while others are not acknowledged (RFC 9293,
    /// section 3.7.4). The default is off, as with `TCP_NODELAY` on Linux; without that option
    /// Linux has it on.
    pub nagle: bool,
    /// Whether cwnd decays in idle times (RFC 5681, section 4.1) and while it is not used (RFC
    /// 2861).
    pub restart_after_idle: bool,
    /// How segments are made from the send buffer.
    pub segmentation: Segmentation,
    /// Keepalive probes on an idle connection; `None` for none.
    pub keepalive: Option<Keepalive>,
    /// The duration of TIME-WAIT.
    pub time_wait: Nanos,
    /// Whether RACK and TLP detect losses (RFC 8985). Otherwise three duplicate acknowledgments
    /// indicate a loss (RFC 6675).
    pub rack: bool,
}

/// The initial congestion window (the data that may be sent before the first acknowledgment).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialWindow {
    /// A number of segments, whatever their size, as in Linux.
    Segments(u32),
    /// Ten segments, and fewer if segments are large (RFC 6928, section 2).
    Rfc6928,
}

impl InitialWindow {
    /// Returns the initial window in bytes for segments of `mss_bytes`.
    pub fn bytes(self, mss_bytes: u32) -> u32 {
        match self {
            Self::Segments(segments) => segments * mss_bytes,
            Self::Rfc6928 => (10 * mss_bytes).min(14_600.max(2 * mss_bytes)),
        }
    }
}

/// The retransmission timeout (RTO).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoConfig {
    /// How the RTO follows the RTT.
    pub estimator: RtoEstimator,
    /// The RTO before the first RTT sample.
    pub initial: Nanos,
    /// The lower limit: of the variation with Linux's estimator, of the whole RTO with RFC 6298's.
    pub min: Nanos,
    /// The upper limit, including back-off.
    pub max: Nanos,
}

/// How the RTO follows the RTT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RtoEstimator {
    /// Linux's estimator, in integers.
    #[default]
    Linux,
    /// The estimator of RFC 6298.
    Rfc6298,
}

/// How a SYN is retransmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SynRetries {
    /// The number of retransmissions.
    pub count: u32,
    /// The number of retransmissions that each follow after the initial timeout, before the
    /// interval doubles (Linux's `tcp_syn_linear_timeouts`). Does not apply to a SYN/ACK.
    pub linear: u32,
}

/// Keepalive probes on an idle connection (RFC 9293, section 3.8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// The time without received segments and sent data before the first probe.
    pub idle: Nanos,
    /// The time between probes.
    pub interval: Nanos,
    /// Unanswered probes after which the subflow is closed.
    pub probes: u32,
}

/// How segments are made from the send buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Segmentation {
    /// One by one. The send buffer counts their payload only.
    #[default]
    Single,
    /// One by one, as on Linux with `gso_max_segs` 1: each has a socket buffer of its own, and the
    /// memory of it counts.
    InSocketBuffers,
    /// In super-packets, as with Linux's segmentation offload. The last segment of each has PSH, and
    /// a full-sized segment with PSH is acknowledged at once, because the application is assumed to
    /// read at once. Socket buffers are so long that their memory is hardly more than their payload.
    Offload,
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
            segmentation: Segmentation::default(),
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
