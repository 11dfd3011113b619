//! `fixed_cwnd`: a constant window, to study a network or a scheduler without congestion control.

use super::Control;
use super::parameters::Parameters;
use super::{Acked, Congestion, CongestionControl, Context};
use crate::algorithm::{Description, Parameter, Value};

const PACKETS: Parameter<Parameters> = Parameter {
    name: "packets",
    unit: "packets",
    meaning: "the window of each subflow",
    computed_default: None,
    value: Value::Number {
        least: 1.0,
        most: 100_000.0,
        get: |given| Some(given.fixed_cwnd.packets),
        set: |given, value| given.fixed_cwnd.packets = value,
    },
};

/// Its name, parameters and constructor.
pub(in crate::cc) const ROW: Control = Control {
    description: Description {
        name: "fixed_cwnd",
        aliases: &[],
        summary: "Keeps the window constant, to study a network or a scheduler without congestion control",
        source: "mptcplab",
        parameters: &[PACKETS],
    },
    make: control,
    fluid: Err("its windows are constant"),
};

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
        // Restores the window, because a scheduler may have penalized the subflow.
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
