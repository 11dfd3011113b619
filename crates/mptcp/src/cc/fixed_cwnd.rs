//! `fixed_cwnd`: a window that nothing changes, to look at a network or a scheduler without congestion control.

use super::parameters::Parameters;
use super::{Acked, Congestion, CongestionControl, Context};

#[derive(Debug)]
struct FixedCwnd {
    packets: f64,
}

impl FixedCwnd {
    fn set(&self, context: &mut Context<'_>) {
        let bytes = self.packets * f64::from(context.this().mss_bytes);
        context.set_cwnd(bytes);
    }
}

impl CongestionControl for FixedCwnd {
    fn subflow_added(&mut self, context: &mut Context<'_>) {
        self.set(context);
    }

    fn acked(&mut self, context: &mut Context<'_>, _acked: &Acked) {
        // A scheduler may have penalized the subflow.
        self.set(context);
    }

    fn congestion(&mut self, _context: &mut Context<'_>, _congestion: Congestion) {}

    fn owns_window(&self) -> bool {
        true
    }
}

pub(super) fn control(parameters: &Parameters) -> Box<dyn CongestionControl> {
    let packets = parameters.fixed_cwnd.packets;
    Box::new(FixedCwnd { packets })
}
