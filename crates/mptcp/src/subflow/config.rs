//! Parameters of a subflow. The defaults are Linux's, except that timers are exact.

use crate::time::{MILLISECOND, Nanos, SECOND};
use crate::timer_wheel::TimerWheel;

/// Parameters of a subflow.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The MSS that the subflow announces, in bytes: the length of the largest packet on the path
    /// without the headers of IP and TCP. Options count as part of the MSS.
    pub mss_bytes: u16,
    /// The initial congestion window.
    pub initial_window: InitialWindow,
    /// The largest memory of the send buffer, in bytes. It limits the data that is assigned to the
    /// subflow and not acknowledged. [`Segmentation`] determines what counts.
    pub send_buffer_bytes: u32,
    /// The shift count that the subflow offers for window scaling (RFC 7323, section 2); `None` to
    /// offer no window scaling. The reader's buffer must hold at least 2^shift bytes, because no
    /// smaller window can be offered.
    pub window_scale: Option<u8>,
    /// Whether to offer timestamps (RFC 7323, section 3).
    pub timestamps: bool,
    /// Whether to offer selective acknowledgments (RFC 2018).
    pub sack: bool,
    /// Whether to offer explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// The parameters of the retransmission timeout.
    pub rto: RtoConfig,
    /// The timer wheel that rounds all timers up, as in Linux, except the pacing timer. With
    /// `None`, timers are exact.
    pub timer_wheel: Option<TimerWheel>,
    /// How often and at which intervals the SYN or SYN/ACK is retransmitted.
    pub syn_retries: SynRetries,
    /// Maximum number of consecutive retransmission timeouts. The next one closes the subflow. The
    /// same limit holds for unanswered window probes.
    pub retries: u32,
    /// The longest time by which an acknowledgment is delayed in the hope of a second segment (RFC
    /// 1122, section 4.2.3.2).
    pub delayed_ack: Nanos,
    /// Maximum number of segments that are acknowledged without delay (quick ACKs) after the start
    /// and after each pause.
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
    /// The parameters of keepalive probes on an idle connection; `None` to send none.
    pub keepalive: Option<Keepalive>,
    /// How long the subflow stays in TIME-WAIT.
    pub time_wait: Nanos,
    /// Whether RACK and TLP detect losses (RFC 8985). If false, three duplicate acknowledgments
    /// indicate a loss (RFC 6675).
    pub rack: bool,
}

/// The initial congestion window, which limits the data sent before the first acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialWindow {
    /// A number of segments, whatever their size, as in Linux.
    Segments(u32),
    /// The limit of RFC 6928, section 2: ten segments, at most 14600 bytes, but at least two
    /// segments.
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

/// Parameters of the retransmission timeout (RTO).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoConfig {
    /// The estimator that computes the RTO from RTT samples.
    pub estimator: RtoEstimator,
    /// The RTO before the first RTT sample.
    pub initial: Nanos,
    /// The lower limit. With Linux's estimator, this limits the variation that is added to the
    /// smoothed RTT; with that of RFC 6298, the whole RTO.
    pub min: Nanos,
    /// The upper limit of the RTO, including back-off.
    pub max: Nanos,
}

/// Estimators that compute the RTO from RTT samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RtoEstimator {
    /// Linux's estimator ([`rtt::LinuxEstimator`](super::rtt::LinuxEstimator)), which computes in
    /// integers.
    #[default]
    Linux,
    /// The estimator of RFC 6298 ([`rtt::RfcEstimator`](super::rtt::RfcEstimator)).
    Rfc6298,
}

/// Parameters for the retransmission of a SYN or SYN/ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SynRetries {
    /// Maximum number of retransmissions. If the last one is not answered either, the subflow is
    /// closed.
    pub count: u32,
    /// The number of retransmissions of a SYN before the timeout starts to double. Until then, it
    /// stays [`RtoConfig::initial`] (Linux's `tcp_syn_linear_timeouts`). Does not apply to a
    /// SYN/ACK, whose timeout doubles with each retransmission.
    pub linear: u32,
}

/// Parameters of keepalive probes on an idle connection (RFC 9293, section 3.8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// How long the subflow must neither receive nor send before the first probe.
    pub idle: Nanos,
    /// The time between probes.
    pub interval: Nanos,
    /// Maximum number of unanswered probes. If none of them is answered, the subflow is closed.
    pub probes: u32,
}

/// How the subflow makes segments from the data in the send buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Segmentation {
    /// Segments are made one by one. Only their payload counts towards the send buffer.
    #[default]
    Single,
    /// Segments are made one by one, as on Linux with `gso_max_segs` 1. Each has a socket buffer of
    /// its own, whose whole memory counts towards the send buffer.
    InSocketBuffers,
    /// Segments are made in super-packets, as with generic segmentation offload (GSO) in Linux. The
    /// last segment of each super-packet has PSH. The receiver acknowledges a full-sized segment
    /// with PSH at once, because it assumes that the application reads at once. Only payload counts
    /// towards the send buffer, because the memory of long socket buffers is hardly more.
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
