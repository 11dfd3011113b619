//! Congestion controls: how the windows of a connection's subflows grow and shrink.
//!
//! Each *connection* has one controller, which sees all of its subflows. Plain TCP is a connection
//! with one subflow. The engine owns the windows ([`Window`]) and does what all controllers share:
//! PRR during recovery, the smallest window, fractions of a byte. Each hook of a controller
//! concerns one subflow and can change only that subflow's window, through [`Context`].
//!
//! The engine guarantees the following:
//!
//! 1. Subflows are numbered 0, 1, .. in the order in which they were added.
//!    [`CongestionControl::subflow_added`] is the first hook of a subflow, which then has the
//!    highest number. [`CongestionControl::subflow_removed`] is the last; the numbers of later
//!    subflows then decrease by one.
//! 2. A subflow is added when its first packet is about to be sent or answered. It is not usable
//!    until its handshake is complete.
//! 3. [`CongestionControl::congestion`] is called once per episode: for loss and ECN at most once
//!    per window, for a timeout at the first expiry of a segment. Every episode ends with
//!    [`CongestionControl::recovery_exited`] or [`CongestionControl::undone`], unless another
//!    episode replaces it, such as a timeout after a loss.
//! 4. During fast recovery and after ECN, [`CongestionControl::acked`] is not called. PRR sets
//!    cwnd (RFC 9937), which ends at ssthresh if that is finite. After a timeout,
//!    [`CongestionControl::acked`] is called, because recovery then uses slow start. A controller
//!    that [owns its windows](CongestionControl::owns_window) receives every acknowledgment; apart
//!    from it, only a scheduler that penalizes a subflow changes its windows.
//! 5. Byte counts are real numbers. The results of formulas are not rounded; only sending rounds
//!    down.

pub mod balia;
pub mod bbr;
pub mod coupled;
pub mod cubic;
pub mod cubic_rfc9438;
pub mod dwc;
pub mod ewtcp;
mod fixed_cwnd;
mod hystart;
pub mod lia;
pub mod mpcubic;
pub mod olia;
pub mod oot;
pub mod parameters;
pub mod paths;
pub mod reno;
mod rounds;
pub mod semicoupled;
pub mod slow_start;
mod whole_packets;
mod window_rule;
pub mod wvegas;

pub mod fluid;

use std::fmt::Debug;

use crate::algorithm::Description;
use crate::time::Nanos;

pub use fluid::Fluid;
pub use parameters::Parameters;

/// The state of a subflow that congestion control uses.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Congestion window in bytes.
    pub cwnd_bytes: f64,
    /// Slow start threshold in bytes. Infinite until the first congestion.
    pub ssthresh_bytes: f64,
    /// Payload of a full-sized segment in bytes.
    pub mss_bytes: u32,
    /// Smoothed round-trip time (RFC 6298, section 2). `None` before the first sample.
    pub srtt: Option<Nanos>,
    /// Smallest round-trip time sample.
    pub min_rtt: Option<Nanos>,
    /// Bytes in flight: sent, and neither acknowledged nor marked lost.
    pub in_flight_bytes: u32,
    /// Whether the subflow is in fast recovery, in the reduction after ECN, or in recovery after a
    /// timeout.
    pub in_recovery: bool,
    /// Whether the subflow can carry data: established, and neither closing nor stale.
    pub is_usable: bool,
    /// Bytes acknowledged since the last congestion.
    pub acked_since_loss_bytes: u64,
    /// Bytes acknowledged between the last two congestion events.
    pub acked_between_losses_bytes: u64,
}

impl Window {
    /// Creates the state of a new subflow, with an initial window of `initial_bytes`.
    pub fn new(mss_bytes: u32, initial_bytes: u32) -> Self {
        Self {
            cwnd_bytes: f64::from(initial_bytes),
            ssthresh_bytes: f64::INFINITY,
            mss_bytes,
            srtt: None,
            min_rtt: None,
            in_flight_bytes: 0,
            in_recovery: false,
            is_usable: true,
            acked_since_loss_bytes: 0,
            acked_between_losses_bytes: 0,
        }
    }

    /// Returns the congestion window in full-sized segments, not rounded.
    pub fn cwnd_packets(&self) -> f64 {
        self.cwnd_bytes / f64::from(self.mss_bytes)
    }

    /// Returns whether the window is in slow start (RFC 5681, section 3.1).
    pub fn in_slow_start(&self) -> bool {
        self.cwnd_bytes < self.ssthresh_bytes
    }

    /// Returns whether coupled formulas include the subflow: it is usable and has a round-trip
    /// time.
    pub fn counts(&self) -> bool {
        self.is_usable && self.srtt.is_some_and(|srtt| srtt > 0)
    }
}

/// All windows of a connection, and the subflow that a hook concerns.
#[derive(Debug)]
pub struct Context<'a> {
    now: Nanos,
    windows: &'a mut [Window],
    subflow: usize,
}

impl<'a> Context<'a> {
    /// Creates the context of a hook that concerns `windows[which]`.
    pub fn new(now: Nanos, windows: &'a mut [Window], subflow: usize) -> Self {
        Self {
            now,
            windows,
            subflow,
        }
    }

    /// Returns the time of the hook.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Returns the number of the subflow that the hook concerns.
    pub fn subflow(&self) -> usize {
        self.subflow
    }

    /// Returns the window of the subflow that the hook concerns.
    pub fn this(&self) -> &Window {
        &self.windows[self.subflow]
    }

    /// Returns all windows in the order in which subflows were added, including this one.
    pub fn all(&self) -> &[Window] {
        self.windows
    }

    /// Changes the congestion window by `bytes`. It stays at least one segment.
    pub fn grow(&mut self, bytes: f64) {
        self.set_cwnd(self.this().cwnd_bytes + bytes);
    }

    /// Sets the congestion window to `bytes`, but at least to one segment.
    pub fn set_cwnd(&mut self, bytes: f64) {
        let window = &mut self.windows[self.subflow];
        window.cwnd_bytes = bytes.max(f64::from(window.mss_bytes));
    }

    /// Sets the slow start threshold to `bytes`, but at least to `floor_packets` segments.
    pub fn set_ssthresh(&mut self, bytes: f64, floor_packets: f64) {
        let window = &mut self.windows[self.subflow];
        window.ssthresh_bytes = bytes.max(floor_packets * f64::from(window.mss_bytes));
    }

    /// Sets the congestion window to one segment, as after a timeout (RFC 5681, section 3.1: the
    /// loss window).
    pub fn collapse(&mut self) {
        self.set_cwnd(0.0);
    }
}

/// The effect of an acknowledgment. `in_flight_bytes` of the window no longer counts what it
/// covers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Acked {
    /// Bytes newly acknowledged, cumulatively or selectively.
    pub bytes: u32,
    /// Bytes newly marked lost because of this acknowledgment.
    pub lost_bytes: u32,
    /// RTT sample of this acknowledgment, if it has one.
    pub rtt: Option<Nanos>,
    /// Whether the window was in use. If not, no controller may grow it (RFC 7661, section 4.1; RFC
    /// 9293 does not address this).
    pub is_window_limited: bool,
    /// Delivery rate sample, if one could be taken.
    pub delivery_rate: Option<DeliveryRate>,
    /// Bytes delivered on the subflow since it started.
    pub delivered_bytes: u64,
}

/// A delivery rate sample (draft-ietf-ccwg-bbr, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeliveryRate {
    /// Delivery rate in bytes per second, finite and above 0.
    pub bytes_per_second: f64,
    /// Whether the rate was limited by the application or the scheduler instead of the network.
    pub is_application_limited: bool,
    /// Bytes delivered when the sampled segment was sent. Used to detect rounds.
    pub delivered_before_bytes: u64,
}

/// Reasons why a window must shrink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// Segments were lost and fast recovery starts (RFC 6675, RFC 8985).
    Loss,
    /// A router marked packets (RFC 3168).
    Ecn,
    /// The retransmission timer expired (RFC 6298). The engine has not changed the window yet.
    Timeout,
}

/// The congestion control of a connection. Hooks do nothing by default.
pub trait CongestionControl: Debug + Send {
    /// Called when a subflow was added. It has the highest number.
    fn subflow_added(&mut self, _context: &mut Context<'_>) {}

    /// Called when subflow `subflow` is removed. The numbers of later subflows decrease by one.
    fn subflow_removed(&mut self, _subflow: usize) {}

    /// Called when data was sent or retransmitted. `in_flight_bytes` of the window already counts
    /// it.
    fn segment_sent(&mut self, _context: &mut Context<'_>, _bytes: u32) {}

    /// Called when data was newly acknowledged. Not called during fast recovery and after ECN,
    /// unless the controller owns its windows.
    fn acked(&mut self, context: &mut Context<'_>, acked: &Acked);

    /// Called on congestion. Sets ssthresh and, after a timeout, cwnd. Otherwise PRR reduces cwnd
    /// to ssthresh.
    fn congestion(&mut self, context: &mut Context<'_>, congestion: Congestion);

    /// Called when recovery or the reduction after ECN ended. cwnd is ssthresh, except after a
    /// timeout.
    fn recovery_exited(&mut self, _context: &mut Context<'_>) {}

    /// Called when the last congestion turned out to be spurious (RFC 4015, RFC 3522). cwnd and
    /// ssthresh have been restored.
    fn undone(&mut self, _context: &mut Context<'_>) {}

    /// Called when sending resumes after an idle time of `_idle` nanoseconds (RFC 5681, section
    /// 4.1). cwnd has been reduced, unless the controller owns its windows.
    fn restarted_after_idle(&mut self, _context: &mut Context<'_>, _idle: Nanos) {}

    /// Returns whether this controller alone sets cwnd, without PRR and without reduction after
    /// idle times (`cong_control` of Linux).
    fn owns_window(&self) -> bool {
        false
    }

    /// Returns the pacing rate of a subflow in bytes per second, or `None` if the controller sets
    /// none.
    fn pacing_rate(&self, _context: &Context<'_>) -> Option<f64> {
        None
    }

    /// Returns the controller's state of subflow `_which` as named values, for traces.
    fn state(&self, _subflow: usize) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// Creates a congestion control for a connection.
pub type Constructor = fn(&Parameters) -> Box<dyn CongestionControl>;

/// A congestion control: its name and parameters, its constructor, and its equilibrium in the fluid
/// model.
#[derive(Debug)]
pub struct Control {
    /// Its name and parameters.
    pub description: Description<Parameters>,
    /// Makes one for a connection.
    pub make: Constructor,
    /// Its equilibrium windows, or why there are none.
    pub fluid: Result<Fluid, &'static str>,
}

/// All congestion controls. Names that end in `-oot` compute with the integers of the out-of-tree
/// kernel. Names that begin with `x-` are defined by this laboratory, because the published
/// definitions could not be read.
pub const CONGESTION_CONTROLS: &[Control] = &[
    reno::ROW,
    cubic::ROW,
    cubic_rfc9438::ROW,
    bbr::ROW,
    lia::ROW,
    olia::ROW,
    balia::ROW,
    wvegas::ROW,
    ewtcp::ROW,
    coupled::ROW,
    semicoupled::ROW,
    fixed_cwnd::ROW,
    oot::lia::ROW,
    oot::olia::ROW,
    oot::balia::ROW,
    oot::wvegas::ROW,
    dwc::ROW,
    mpcubic::ROW,
];

/// Returns the names of all congestion controls.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> {
    CONGESTION_CONTROLS.iter().map(|one| one.description.name)
}

/// Returns the constructor of the congestion control named `name`.
pub fn by_name(name: &str) -> Option<Constructor> {
    let mut controls = CONGESTION_CONTROLS.iter();
    let found = controls.find(|control| control.description.name == name);
    found.map(|control| control.make)
}
