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
//!    highest index. [`CongestionControl::subflow_removed`] is the last; the indices of later
//!    subflows then decrease by one.
//! 2. A subflow is added when its first packet is about to be sent or answered. It is not usable
//!    until its handshake is complete.
//! 3. [`CongestionControl::congestion`] is called once per episode: for loss and ECN at most once
//!    per window, for a timeout at the first expiry of a segment. Every episode ends with
//!    [`CongestionControl::recovery_exited`] or [`CongestionControl::undone`], unless another
//!    episode replaces it, such as a timeout after a loss.
//! 4. During fast recovery and the reduction after an ECN mark, [`CongestionControl::acked`] is not
//!    called. PRR sets cwnd (RFC 9937), which ends at ssthresh if that is finite. After a timeout,
//!    [`CongestionControl::acked`] is called, because recovery then uses slow start. A controller
//!    that [owns its windows](CongestionControl::owns_window) receives every acknowledgment. Apart
//!    from this controller, only a scheduler that penalizes a subflow changes the windows.
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
    /// Smallest round-trip time sample. `None` before the first sample.
    pub min_rtt: Option<Nanos>,
    /// Bytes in flight: sent, and neither acknowledged nor marked lost.
    pub in_flight_bytes: u32,
    /// Whether the subflow is in fast recovery, in the reduction after an ECN mark, or in recovery
    /// after a timeout.
    pub in_recovery: bool,
    /// Whether the subflow can carry data: it is established, and neither closing nor stale.
    pub is_usable: bool,
    /// Bytes acknowledged since the last congestion event (loss, ECN or timeout).
    pub acked_since_loss_bytes: u64,
    /// Bytes acknowledged between the last two congestion events.
    pub acked_between_losses_bytes: u64,
}

impl Window {
    /// Creates the state of a new subflow with segments of `mss_bytes` and an initial congestion
    /// window of `initial_bytes`.
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

    /// Returns whether the subflow is in slow start: cwnd is below ssthresh (RFC 5681, section
    /// 3.1).
    pub fn in_slow_start(&self) -> bool {
        self.cwnd_bytes < self.ssthresh_bytes
    }

    /// Returns whether coupled formulas include the subflow: it is usable and has an RTT sample.
    pub fn counts(&self) -> bool {
        self.is_usable && self.srtt.is_some_and(|srtt| srtt > 0)
    }
}

/// The states of all subflows of a connection, the subflow that a hook concerns, and the time.
#[derive(Debug)]
pub struct Context<'a> {
    now: Nanos,
    windows: &'a mut [Window],
    subflow: usize,
}

impl<'a> Context<'a> {
    /// Creates the context of a hook at the time `now` that concerns `windows[subflow]`.
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

    /// Returns the index of the subflow that the hook concerns, as in [`Context::all`].
    pub fn subflow(&self) -> usize {
        self.subflow
    }

    /// Returns the state of the subflow that the hook concerns.
    pub fn this(&self) -> &Window {
        &self.windows[self.subflow]
    }

    /// Returns the states of all subflows in the order in which they were added, including the one
    /// that the hook concerns.
    pub fn all(&self) -> &[Window] {
        self.windows
    }

    /// Changes the congestion window of the subflow that the hook concerns by `bytes`, which can be
    /// negative. The window stays at least one segment.
    pub fn grow(&mut self, bytes: f64) {
        self.set_cwnd(self.this().cwnd_bytes + bytes);
    }

    /// Sets the congestion window of the subflow that the hook concerns to `bytes`, but at least to
    /// one segment.
    pub fn set_cwnd(&mut self, bytes: f64) {
        let window = &mut self.windows[self.subflow];
        window.cwnd_bytes = bytes.max(f64::from(window.mss_bytes));
    }

    /// Sets the slow start threshold of the subflow that the hook concerns to `bytes`, but at least
    /// to `floor_packets` segments.
    pub fn set_ssthresh(&mut self, bytes: f64, floor_packets: f64) {
        let window = &mut self.windows[self.subflow];
        window.ssthresh_bytes = bytes.max(floor_packets * f64::from(window.mss_bytes));
    }

    /// Sets the congestion window of the subflow that the hook concerns to one segment, as after a
    /// timeout (RFC 5681, section 3.1: the loss window).
    pub fn collapse(&mut self) {
        self.set_cwnd(0.0);
    }
}

/// What an acknowledgment covers, and what was measured with it. [`Window::in_flight_bytes`] no
/// longer counts the covered bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Acked {
    /// Bytes newly acknowledged, cumulatively or selectively.
    pub bytes: u32,
    /// Bytes newly marked lost because of this acknowledgment.
    pub lost_bytes: u32,
    /// RTT sample of this acknowledgment, if it has one.
    pub rtt: Option<Nanos>,
    /// Whether the congestion window was full or, in slow start, more than half of it was used. If
    /// false, no controller may grow the window (RFC 7661, section 4.1).
    pub is_window_limited: bool,
    /// Delivery rate sample, if one could be taken.
    pub delivery_rate: Option<DeliveryRate>,
    /// Bytes delivered on the subflow since it started, including these.
    pub delivered_bytes: u64,
}

/// A delivery rate sample (draft-ietf-ccwg-bbr, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeliveryRate {
    /// Delivery rate in bytes per second, finite and above 0.
    pub bytes_per_second: f64,
    /// Whether the rate was limited by the application or the scheduler instead of the network.
    pub is_application_limited: bool,
    /// Bytes that had been delivered when the sampled segment was sent. Used to detect rounds.
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

/// The congestion control of one connection, which the engine calls through hooks. Optional hooks
/// do nothing by default.
pub trait CongestionControl: Debug + Send {
    /// Called after a subflow was added. It is the subflow of `_context` and has the highest index.
    fn subflow_added(&mut self, _context: &mut Context<'_>) {}

    /// Called when the subflow with the index `_subflow` is removed. The indices of later subflows
    /// decrease by one.
    fn subflow_removed(&mut self, _subflow: usize) {}

    /// Called after a segment with `_bytes` bytes of data was sent or retransmitted.
    /// [`Window::in_flight_bytes`] already counts them.
    fn segment_sent(&mut self, _context: &mut Context<'_>, _bytes: u32) {}

    /// Called when data was newly acknowledged, as `acked` describes. Not called during fast
    /// recovery or the reduction after an ECN mark, unless [`CongestionControl::owns_window`] is
    /// true.
    fn acked(&mut self, context: &mut Context<'_>, acked: &Acked);

    /// Called on congestion of the kind `congestion`. The controller sets ssthresh and, after a
    /// timeout, cwnd. After a loss or an ECN mark, PRR reduces cwnd to ssthresh.
    fn congestion(&mut self, context: &mut Context<'_>, congestion: Congestion);

    /// Called when recovery or the reduction after an ECN mark has ended. cwnd is ssthresh, except
    /// after a timeout.
    fn recovery_exited(&mut self, _context: &mut Context<'_>) {}

    /// Called when the last congestion turned out to be spurious (RFC 4015, RFC 3522). cwnd and
    /// ssthresh have been restored.
    fn undone(&mut self, _context: &mut Context<'_>) {}

    /// Called when sending resumes after an idle time of `_idle` nanoseconds (RFC 5681, section
    /// 4.1). cwnd has been reduced, unless [`CongestionControl::owns_window`] is true.
    fn restarted_after_idle(&mut self, _context: &mut Context<'_>, _idle: Nanos) {}

    /// Returns whether this controller alone sets cwnd, without PRR and without a reduction after
    /// idle times (`cong_control` of Linux).
    fn owns_window(&self) -> bool {
        false
    }

    /// Returns the pacing rate of the subflow of `_context` in bytes per second, or `None` if the
    /// controller sets none.
    fn pacing_rate(&self, _context: &Context<'_>) -> Option<f64> {
        None
    }

    /// Returns the state that the controller keeps for the subflow with the index `_subflow`, as
    /// named values for traces.
    fn state(&self, _subflow: usize) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// A function that creates a congestion control for one connection. It takes the [`Parameters`] of
/// all congestion controls and uses only those of its own.
pub type Constructor = fn(&Parameters) -> Box<dyn CongestionControl>;

/// A row of [`CONGESTION_CONTROLS`]: the description of a congestion control, its constructor, and
/// its fluid model.
#[derive(Debug)]
pub struct Control {
    /// The name, the source and the parameters of the congestion control.
    pub description: Description<Parameters>,
    /// The function that creates the congestion control for a connection.
    pub make: Constructor,
    /// The fluid model, which computes equilibrium windows; or the reason why there is none.
    pub fluid: Result<Fluid, &'static str>,
}

/// All congestion controls of the engine. Those with names ending in `-oot` use the integer
/// arithmetic of the out-of-tree kernel. Those with names starting with `x-` are mptcplab's own
/// definitions, because the published definitions were not accessible.
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

/// Returns the names of all congestion controls in the order of [`CONGESTION_CONTROLS`], without
/// their aliases.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> {
    CONGESTION_CONTROLS.iter().map(|one| one.description.name)
}

/// Returns the constructor of the congestion control named `name`, or `None` if there is none.
/// Aliases are not accepted.
pub fn by_name(name: &str) -> Option<Constructor> {
    let mut controls = CONGESTION_CONTROLS.iter();
    let found = controls.find(|control| control.description.name == name);
    found.map(|control| control.make)
}
