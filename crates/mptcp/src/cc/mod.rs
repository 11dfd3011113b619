//! Congestion controls: how fast the windows of a connection's subflows grow and shrink.
//!
//! There is one controller per *connection*, so that it sees all subflows at once; plain TCP is a connection with one
//! subflow. The engine owns the windows ([`Window`]) and everything that is common: PRR within recovery, the floor,
//! the fraction of a byte. A controller is told what happens to one subflow and may change only that subflow's
//! window, through [`Context`].
//!
//! The engine keeps these promises:
//!
//! 1. Subflows are numbered 0, 1, .. in the order in which they came. [`CongestionControl::subflow_added`] is called
//!    before any other hook of a subflow, when its number is the highest; [`CongestionControl::subflow_removed`] is
//!    the last, and those after it move down by one.
//! 2. A subflow is added when its first packet is about to be sent or answered; until its handshake is complete it is
//!    not usable.
//! 3. [`CongestionControl::congestion`] is called once per episode: loss or ECN at most once per window, a timeout at
//!    the first expiry of a segment. Every episode ends with [`CongestionControl::recovery_exited`] or
//!    [`CongestionControl::undone`], unless a further one, a timeout after a loss, takes its place.
//! 4. During fast recovery and after ECN [`CongestionControl::acked`] is not called; cwnd is set by PRR (RFC 6937)
//!    and is ssthresh afterwards, if that is finite. After a timeout it is called: slow start is what repairs. A
//!    controller that [owns its windows](CongestionControl::owns_window) gets every acknowledgment, and nobody else
//!    changes them.
//! 5. Numbers of bytes are real: what a formula gives is added as it is, and only sending rounds down.

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

use crate::time::Nanos;

pub use parameters::Parameters;

/// A subflow as congestion control sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Congestion window in bytes.
    pub cwnd_bytes: f64,
    /// Slow start threshold in bytes; infinite until the first congestion.
    pub ssthresh_bytes: f64,
    /// Payload of a full-sized segment in bytes.
    pub mss_bytes: u32,
    /// Smoothed round-trip time (RFC 6298, section 2), if there was a sample.
    pub srtt: Option<Nanos>,
    /// The smallest sample.
    pub min_rtt: Option<Nanos>,
    /// Bytes sent and neither acknowledged nor counted as lost.
    pub in_flight_bytes: u32,
    /// Whether loss recovery or the repair after a timeout goes on.
    pub in_recovery: bool,
    /// Whether it may carry data now: established, and neither closing nor stale.
    pub is_usable: bool,
    /// Bytes acknowledged since the last congestion.
    pub acked_since_loss_bytes: u64,
    /// Bytes acknowledged between the last two congestions.
    pub acked_between_losses_bytes: u64,
}

impl Window {
    /// Before any acknowledgment, with the given initial window.
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

    /// The congestion window in full-sized segments, not rounded.
    pub fn cwnd_packets(&self) -> f64 {
        self.cwnd_bytes / f64::from(self.mss_bytes)
    }

    /// Whether the window grows exponentially (RFC 5681, section 3.1).
    pub fn in_slow_start(&self) -> bool {
        self.cwnd_bytes < self.ssthresh_bytes
    }

    /// Whether coupled formulas count it: it can send and has a round-trip time.
    pub fn counts(&self) -> bool {
        self.is_usable && self.srtt.is_some_and(|srtt| srtt > 0)
    }
}

/// All windows of a connection, and which of them a hook is about.
#[derive(Debug)]
pub struct Context<'a> {
    now: Nanos,
    windows: &'a mut [Window],
    which: usize,
}

impl<'a> Context<'a> {
    /// The hook is about `windows[which]`.
    pub fn new(now: Nanos, windows: &'a mut [Window], which: usize) -> Self {
        Self {
            now,
            windows,
            which,
        }
    }

    /// The instant of the hook.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// The number of the subflow that the hook is about.
    pub fn which(&self) -> usize {
        self.which
    }

    /// The subflow that the hook is about.
    pub fn this(&self) -> &Window {
        &self.windows[self.which]
    }

    /// All subflows in the order in which they came, this one included.
    pub fn all(&self) -> &[Window] {
        self.windows
    }

    /// Changes the window by so many bytes; it stays at one segment or above.
    pub fn grow(&mut self, bytes: f64) {
        self.set_cwnd(self.this().cwnd_bytes + bytes);
    }

    /// Sets the window; it stays at one segment or above.
    pub fn set_cwnd(&mut self, bytes: f64) {
        let window = &mut self.windows[self.which];
        window.cwnd_bytes = bytes.max(f64::from(window.mss_bytes));
    }

    /// Sets the slow start threshold; it stays at `floor_packets` segments or above.
    pub fn set_ssthresh(&mut self, bytes: f64, floor_packets: f64) {
        let window = &mut self.windows[self.which];
        window.ssthresh_bytes = bytes.max(floor_packets * f64::from(window.mss_bytes));
    }

    /// After a timeout the window is one segment (RFC 5681, section 3.1: the loss window).
    pub fn collapse(&mut self) {
        self.set_cwnd(0.0);
    }
}

/// What an acknowledgment brought. The window's `in_flight_bytes` no longer counts what it covers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Acked {
    /// Bytes newly acknowledged, cumulatively or selectively.
    pub bytes: u32,
    /// Bytes that were newly counted as lost because of it.
    pub lost_bytes: u32,
    /// The round-trip time it measured.
    pub rtt: Option<Nanos>,
    /// Whether the window was in use: without that no controller may let it grow (RFC 9293 says nothing; RFC 7661,
    /// section 4.1).
    pub is_window_limited: bool,
    /// The rate at which data arrived, in bytes per second, if a sample could be taken.
    pub delivery_rate: Option<DeliveryRate>,
    /// Bytes delivered on the subflow since it began.
    pub delivered_bytes: u64,
}

/// A sample of the rate of delivery (draft-ietf-ccwg-bbr, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeliveryRate {
    /// Bytes per second, finite and more than 0.
    pub bytes_per_second: f64,
    /// Whether the application, or the scheduler, gave too little to send.
    pub is_application_limited: bool,
    /// Bytes delivered when the segment that measured it was sent: tells rounds.
    pub delivered_before_bytes: u64,
}

/// Why a window has to shrink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// Segments were lost, and recovery begins (RFC 6675, RFC 8985).
    Loss,
    /// A router marked packets (RFC 3168).
    Ecn,
    /// The retransmission timer expired (RFC 6298). The engine has not yet changed the window.
    Timeout,
}

/// How a connection's windows behave. Hooks without a body of their own do nothing.
pub trait CongestionControl: Debug + Send {
    /// A subflow came; its number is the highest.
    fn subflow_added(&mut self, _context: &mut Context<'_>) {}

    /// A subflow goes; those after it move down by one.
    fn subflow_removed(&mut self, _which: usize) {}

    /// Data was sent, for the first time or again; the window's `in_flight_bytes` counts it already.
    fn segment_sent(&mut self, _context: &mut Context<'_>, _bytes: u32) {}

    /// New data was acknowledged, outside fast recovery unless the controller owns its windows.
    fn acked(&mut self, context: &mut Context<'_>, acked: &Acked);

    /// Sets ssthresh, and after a timeout cwnd; PRR brings cwnd down to ssthresh otherwise.
    fn congestion(&mut self, context: &mut Context<'_>, congestion: Congestion);

    /// The repair of what was lost ended, or the window after ECN; cwnd is ssthresh, except after a timeout.
    fn recovery_exited(&mut self, _context: &mut Context<'_>) {}

    /// The last congestion was none (RFC 4015, RFC 3522): cwnd and ssthresh have been set back to what they were.
    fn undone(&mut self, _context: &mut Context<'_>) {}

    /// Nothing was sent for a while (RFC 5681, section 4.1); cwnd has been reduced already, unless the controller
    /// owns it.
    fn restarted_after_idle(&mut self, _context: &mut Context<'_>, _idle: Nanos) {}

    /// Whether only this controller changes cwnd: no PRR, no reduction after idle times (`cong_control` of Linux).
    fn owns_window(&self) -> bool {
        false
    }

    /// Bytes per second at which a subflow is to be paced, if the controller says so itself; else it is not paced.
    fn pacing_rate(&self, _context: &Context<'_>) -> Option<f64> {
        None
    }

    /// What it remembers of a subflow, by name, for traces.
    fn state(&self, _which: usize) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// Makes a control for a connection.
pub type Constructor = fn(&Parameters) -> Box<dyn CongestionControl>;

/// All controls, by name. `cubic` is Linux's, [`cubic-rfc9438`](cubic_rfc9438) the one that the RFC specifies. Those in `-oot` compute with the integers of the out-of-tree kernel, and those in `x-` are
/// this laboratory's own definitions, because the published ones could not be read.
pub const CONGESTION_CONTROLS: &[(&str, Constructor)] = &[
    ("reno", reno::control),
    ("cubic", cubic::control),
    ("cubic-rfc9438", cubic_rfc9438::control),
    ("bbr", bbr::control),
    ("lia", lia::control),
    ("olia", olia::control),
    ("balia", balia::control),
    ("wvegas", wvegas::control),
    ("ewtcp", ewtcp::control),
    ("coupled", coupled::control),
    ("semicoupled", semicoupled::control),
    ("fixed_cwnd", fixed_cwnd::control),
    ("lia-oot", oot::lia::control),
    ("olia-oot", oot::olia::control),
    ("balia-oot", oot::balia::control),
    ("wvegas-oot", oot::wvegas::control),
    ("x-dwc", dwc::control),
    ("x-mpcubic", mpcubic::control),
];

/// The constructor of the control of that name.
pub fn by_name(name: &str) -> Option<Constructor> {
    let found = CONGESTION_CONTROLS
        .iter()
        .find(|(its_name, _)| *its_name == name);
    found.map(|(_, constructor)| *constructor)
}
