//! Additive increase, multiplicative decrease (Chiu and Jain, 1989), each subflow by itself.

use experiment::resolved::Parameters;
use mptcp::cc::{Acked, Congestion, CongestionControl, Context};

#[derive(Debug)]
struct Aimd {
    /// Packets that a window gains in a round trip.
    add_packets: f64,
    /// What is left of a window after a loss.
    keep: f64,
}

/// What a description gives: `cc: {crate:aimd: {add_packets: 2, keep: 0.7}}`.
pub fn control(given: &Parameters) -> Box<dyn CongestionControl> {
    let number = |name: &str, otherwise| {
        given
            .get(name)
            .and_then(|value| value.as_f64())
            .unwrap_or(otherwise)
    };
    Box::new(Aimd {
        add_packets: number("add_packets", 1.0),
        keep: number("keep", 0.5),
    })
}

impl CongestionControl for Aimd {
    fn acked(&mut self, context: &mut Context<'_>, acked: &Acked) {
        if !acked.is_window_limited {
            return;
        }
        let window = context.this();
        let bytes = f64::from(acked.bytes);
        let share = match window.in_slow_start() {
            true => 1.0,
            false => self.add_packets * f64::from(window.mss_bytes) / window.cwnd_bytes,
        };
        context.grow(share * bytes);
    }

    fn congestion(&mut self, context: &mut Context<'_>, congestion: Congestion) {
        let ssthresh = self.keep * context.this().cwnd_bytes;
        context.set_ssthresh(ssthresh, 2.0);
        if congestion == Congestion::Timeout {
            context.collapse();
        }
    }
}
