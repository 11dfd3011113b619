//! `semicoupled`: windows are inversely proportional to loss, and every path is probed (Wischik et
//! al., NSDI 2011).

use super::CongestionControl;
use super::Control;
use super::fluid;
use super::parameters;
use super::parameters::Parameters;
use super::paths::{Path, total_packets};
use super::window_rule::{WindowBased, WindowRule};
use crate::algorithm::{Description, Parameter, Value};

const AGGRESSIVENESS: Parameter<Parameters> = Parameter {
    name: "a",
    unit: "",
    meaning: "the aggressiveness of all subflows together",
    computed_default: None,
    value: Value::Number {
        least: 0.001,
        most: 100.0,
        get: |given| Some(given.semicoupled.a),
        set: |given, value| given.semicoupled.a = value,
    },
};

/// Its name, parameters and constructor.
pub(in crate::cc) const ROW: Control = Control {
    description: Description {
        name: "semicoupled",
        aliases: &[],
        summary: "Sets windows in inverse proportion to loss",
        source: "Wischik et al., NSDI 2011",
        parameters: &[
            parameters::ACK_COUNTING,
            parameters::SSTHRESH_FLOOR,
            parameters::SLOW_START_LIMIT,
            AGGRESSIVENESS,
        ],
    },
    make: control,
    fluid: Ok(|paths, given| fluid::semicoupled(&fluid::losses(paths), given.semicoupled.a)),
};

/// Returns the number of packets by which any window grows per acknowledged packet, if all windows
/// together are `total_packets`. `a` is the aggressiveness of all subflows together.
pub fn increase(total_packets: f64, a: f64) -> f64 {
    a / total_packets
}

#[derive(Debug)]
struct Semicoupled {
    a: f64,
}

impl WindowRule for Semicoupled {
    fn increase_bytes(&self, paths: &[Path], _this: usize, acked_bytes: f64) -> f64 {
        increase(total_packets(paths), self.a) * acked_bytes
    }
}

pub(super) fn control(parameters: &Parameters) -> Box<dyn CongestionControl> {
    let rule = Semicoupled {
        a: parameters.semicoupled.a,
    };
    Box::new(WindowBased::new(rule, parameters))
}
