//! The windows of a connection and the engine's promises, without an engine.

use mptcp::cc::parameters::Parameters;
use mptcp::cc::{Acked, Congestion, CongestionControl, Context, DeliveryRate, Window};
use mptcp::time::Nanos;

use crate::promises;

pub const MSS_BYTES: u32 = 1000;

/// The driver's state of a subflow.
#[derive(Clone, Debug, Default)]
struct Subflow {
    delivered_bytes: u64,
    repair: Option<Repair>,
}

/// A repair after a congestion event.
#[derive(Clone, Debug)]
struct Repair {
    congestion: Congestion,
    cwnd_bytes: f64,
    ssthresh_bytes: f64,
}

/// A connection that a test drives.
#[derive(Debug)]
pub struct Connection {
    pub control: Box<dyn CongestionControl>,
    pub windows: Vec<Window>,
    pub now: Nanos,
    subflows: Vec<Subflow>,
}

impl Connection {
    pub fn new(name: &str, parameters: &Parameters) -> Self {
        Self {
            control: promises::control(name, parameters),
            windows: Vec::new(),
            now: 0,
            subflows: Vec::new(),
        }
    }

    pub fn context(&mut self, subflow: usize) -> (&mut Box<dyn CongestionControl>, Context<'_>) {
        let context = Context::new(self.now, &mut self.windows, subflow);
        (&mut self.control, context)
    }

    pub fn add(&mut self, srtt: Option<Nanos>) {
        self.windows.push(Window {
            srtt,
            min_rtt: srtt,
            ..Window::new(MSS_BYTES, 10 * MSS_BYTES)
        });
        self.subflows.push(Subflow::default());
        let (control, mut context) = self.context(self.windows.len() - 1);
        control.subflow_added(&mut context);
    }

    pub fn remove(&mut self, subflow: usize) {
        self.control.subflow_removed(subflow);
        self.windows.remove(subflow);
        self.subflows.remove(subflow);
    }

    pub fn sent(&mut self, subflow: usize, packets: u32) {
        let bytes = packets * MSS_BYTES;
        self.windows[subflow].in_flight_bytes += bytes;
        let (control, mut context) = self.context(subflow);
        control.segment_sent(&mut context, bytes);
    }

    /// Acknowledges packets in flight. A given round-trip time becomes the SRTT.
    pub fn acked(&mut self, subflow: usize, packets: u32, rtt: Option<Nanos>, is_limited: bool) {
        let window = &mut self.windows[subflow];
        let bytes = (packets * MSS_BYTES).min(window.in_flight_bytes);
        window.in_flight_bytes -= bytes;
        window.srtt = rtt.or(window.srtt);
        window.acked_since_loss_bytes += u64::from(bytes);
        let delivered_bytes = &mut self.subflows[subflow].delivered_bytes;
        let delivered_before_bytes = *delivered_bytes;
        *delivered_bytes += u64::from(bytes);
        let acked = Acked {
            bytes,
            lost_bytes: 0,
            rtt,
            is_window_limited: is_limited,
            delivery_rate: rtt.filter(|rtt| *rtt > 0).map(|rtt| DeliveryRate {
                bytes_per_second: f64::from(bytes) * 1e9 / rtt as f64,
                is_application_limited: !is_limited,
                delivered_before_bytes,
            }),
            delivered_bytes: *delivered_bytes,
        };
        self.pass_acked(subflow, &acked);
    }

    /// Passes on an acknowledgment if the control is to see it.
    pub fn pass_acked(&mut self, subflow: usize, acked: &Acked) {
        let repair = &self.subflows[subflow].repair;
        let in_fast_recovery = repair
            .as_ref()
            .is_some_and(|it| it.congestion != Congestion::Timeout);
        if acked.bytes > 0 && (!in_fast_recovery || self.control.owns_window()) {
            let (control, mut context) = self.context(subflow);
            control.acked(&mut context, acked);
        }
    }

    /// Reports a congestion event. During a repair only a timeout that follows another kind of
    /// event counts as a further one.
    pub fn congested(&mut self, subflow: usize, congestion: Congestion) {
        let is_timeout = congestion == Congestion::Timeout;
        let of_repair = self.subflows[subflow]
            .repair
            .as_ref()
            .map(|repair| repair.congestion);
        if of_repair.is_some_and(|before| !is_timeout || before == Congestion::Timeout) {
            return;
        }
        let window = &self.windows[subflow];
        self.subflows[subflow].repair = Some(Repair {
            congestion,
            cwnd_bytes: window.cwnd_bytes,
            ssthresh_bytes: window.ssthresh_bytes,
        });
        let (control, mut context) = self.context(subflow);
        control.congestion(&mut context, congestion);
        let window = &mut self.windows[subflow];
        window.in_recovery = true;
        window.acked_between_losses_bytes = std::mem::take(&mut window.acked_since_loss_bytes);
    }

    pub fn repaired(&mut self, subflow: usize) {
        let Some(repair) = self.subflows[subflow].repair.take() else {
            return;
        };
        let owns_window = self.control.owns_window();
        let window = &mut self.windows[subflow];
        window.in_recovery = false;
        if repair.congestion != Congestion::Timeout
            && !owns_window
            && window.ssthresh_bytes.is_finite()
        {
            window.cwnd_bytes = window.ssthresh_bytes;
        }
        let (control, mut context) = self.context(subflow);
        control.recovery_exited(&mut context);
    }

    pub fn undone(&mut self, subflow: usize) {
        let Some(repair) = self.subflows[subflow].repair.take() else {
            return;
        };
        let window = &mut self.windows[subflow];
        window.in_recovery = false;
        window.cwnd_bytes = window.cwnd_bytes.max(repair.cwnd_bytes);
        window.ssthresh_bytes = window.ssthresh_bytes.max(repair.ssthresh_bytes);
        let (control, mut context) = self.context(subflow);
        control.undone(&mut context);
    }

    /// Lets time pass without sending.
    pub fn idle(&mut self, subflow: usize, idle: Nanos) {
        self.now += idle;
        if !self.control.owns_window() {
            let window = &mut self.windows[subflow];
            let initial = f64::from(10 * MSS_BYTES);
            window.cwnd_bytes = window.cwnd_bytes.min(initial.max(window.cwnd_bytes / 2.0));
        }
        let (control, mut context) = self.context(subflow);
        control.restarted_after_idle(&mut context, idle);
    }

    pub fn cwnd_packets(&self, subflow: usize) -> f64 {
        self.windows[subflow].cwnd_packets()
    }

    /// Acknowledges the packets in the window one by one within one round-trip time, while further
    /// packets are sent.
    pub fn round(&mut self, subflow: usize, rtt: Nanos) {
        self.fill(subflow);
        let packets = self.cwnd_packets(subflow) as u32;
        for _ in 0..packets {
            self.now += rtt / u64::from(packets);
            self.acked(subflow, 1, Some(rtt), true);
            self.fill(subflow);
        }
    }

    /// Acknowledges the packets in flight, while no others are sent.
    pub fn drain(&mut self, subflow: usize, rtt: Nanos) {
        self.now += rtt;
        let packets = self.windows[subflow].in_flight_bytes / MSS_BYTES;
        (0..packets).for_each(|_| self.acked(subflow, 1, Some(rtt), false));
    }

    /// Sends what the window allows.
    fn fill(&mut self, subflow: usize) {
        let window = &self.windows[subflow];
        let free = (window.cwnd_bytes as u32).saturating_sub(window.in_flight_bytes);
        if free >= MSS_BYTES {
            self.sent(subflow, free / MSS_BYTES);
        }
    }
}
