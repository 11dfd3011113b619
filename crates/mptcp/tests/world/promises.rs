//! Congestion controls that must keep the promises of their papers, at every acknowledgment.

use mptcp::cc::{Acked, Congestion, CongestionControl, Context, Parameters, Window, by_name};
use mptcp::time::{Nanos, seconds};

/// Returns the control of that name. With `lia` it panics as soon as a window grows by more than
/// `reno` would let it. With `olia` it panics as soon as what it takes from windows differs from
/// what it gives to others.
pub fn control(name: &str, parameters: &Parameters) -> Box<dyn CongestionControl> {
    let control = made(name, parameters);
    let promise = match name {
        "lia" => Promise::NoFasterThanReno,
        "olia" => Promise::MovesWithoutGain,
        _ => return control,
    };
    Box::new(Held {
        control,
        promise,
        parameters: *parameters,
    })
}

fn made(name: &str, parameters: &Parameters) -> Box<dyn CongestionControl> {
    by_name(name).expect("a congestion control")(parameters)
}

#[derive(Clone, Copy, Debug)]
enum Promise {
    /// RFC 6356, section 3: a subflow takes no more than a single TCP connection would on its path.
    NoFasterThanReno,
    /// draft-khalili-mptcp-congestion-control-05, section 3: the sum of alpha over all paths is 0.
    MovesWithoutGain,
}

/// A control under a promise.
#[derive(Debug)]
struct Held {
    control: Box<dyn CongestionControl>,
    promise: Promise,
    parameters: Parameters,
}

/// Returns a copy of the connection's windows, for trials.
fn copy(context: &Context<'_>) -> (Nanos, Vec<Window>, usize) {
    (context.now(), context.all().to_vec(), context.subflow())
}

impl Held {
    fn check_growth(&self, before: (Nanos, Vec<Window>, usize), acked: &Acked, after_bytes: f64) {
        let (now, mut windows, subflow) = before;
        let mut reno = made("reno", &self.parameters);
        reno.acked(&mut Context::new(now, &mut windows, subflow), acked);
        let of_reno = windows[subflow].cwnd_bytes;
        assert!(
            after_bytes <= of_reno,
            "lia makes {after_bytes} bytes of a window that is {of_reno} with reno: {windows:?}"
        );
    }

    /// Lets every subflow that counts take part in the same round: w times the increase per packet
    /// is w^2/rtt^2 / (sum of w/rtt)^2, plus alpha.
    fn check_sum(&self, (now, windows, _): (Nanos, Vec<Window>, usize)) {
        let windows: Vec<Window> = windows
            .iter()
            .filter(|it| it.counts())
            .map(avoiding_congestion)
            .collect();
        let rate =
            |window: &Window| window.cwnd_packets() / seconds(window.srtt.expect("it counts"));
        let total: f64 = windows.iter().map(rate).sum();
        let alphas = (0..windows.len()).map(|subflow| {
            let mut tried = windows.clone();
            let window = &windows[subflow];
            let mut context = Context::new(now, &mut tried, subflow);
            made("olia", &self.parameters).acked(&mut context, &one_packet(window));
            let grown_packets = tried[subflow].cwnd_packets() - window.cwnd_packets();
            window.cwnd_packets() * grown_packets - (rate(window) / total).powi(2)
        });
        let alphas: Vec<f64> = alphas.collect();
        let sum: f64 = alphas.iter().sum();
        assert!(
            sum.abs() < 1e-6,
            "the alphas {alphas:?} of olia make {sum}: {windows:?}"
        );
    }
}

/// Returns the window that formulas see, after slow start. A repair may leave less than a packet,
/// which no formula changes; the first acknowledgment makes it one packet.
fn avoiding_congestion(window: &Window) -> Window {
    let settled_bytes = match window.in_recovery {
        true => window.cwnd_bytes.min(window.ssthresh_bytes),
        false => window.cwnd_bytes,
    };
    Window {
        cwnd_bytes: settled_bytes.max(f64::from(window.mss_bytes)),
        ssthresh_bytes: 0.0,
        in_recovery: false,
        ..window.clone()
    }
}

fn one_packet(window: &Window) -> Acked {
    Acked {
        bytes: window.mss_bytes,
        lost_bytes: 0,
        rtt: None,
        is_window_limited: true,
        delivery_rate: None,
        delivered_bytes: 0,
    }
}

impl CongestionControl for Held {
    fn subflow_added(&mut self, context: &mut Context<'_>) {
        self.control.subflow_added(context);
    }

    fn subflow_removed(&mut self, subflow: usize) {
        self.control.subflow_removed(subflow);
    }

    fn segment_sent(&mut self, context: &mut Context<'_>, bytes: u32) {
        self.control.segment_sent(context, bytes);
    }

    fn acked(&mut self, context: &mut Context<'_>, acked: &Acked) {
        let before = copy(context);
        self.control.acked(context, acked);
        match self.promise {
            Promise::NoFasterThanReno => {
                self.check_growth(before, acked, context.this().cwnd_bytes)
            }
            Promise::MovesWithoutGain => self.check_sum(before),
        }
    }

    fn congestion(&mut self, context: &mut Context<'_>, congestion: Congestion) {
        self.control.congestion(context, congestion);
    }

    fn recovery_exited(&mut self, context: &mut Context<'_>) {
        self.control.recovery_exited(context);
    }

    fn undone(&mut self, context: &mut Context<'_>) {
        self.control.undone(context);
    }

    fn restarted_after_idle(&mut self, context: &mut Context<'_>, idle: Nanos) {
        self.control.restarted_after_idle(context, idle);
    }

    fn owns_window(&self) -> bool {
        self.control.owns_window()
    }

    fn pacing_rate(&self, context: &Context<'_>) -> Option<f64> {
        self.control.pacing_rate(context)
    }

    fn state(&self, subflow: usize) -> Vec<(&'static str, f64)> {
        self.control.state(subflow)
    }
}
