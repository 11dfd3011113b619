//! `ewtcp`: each subflow is a TCP with a fixed weight, so all together are as aggressive as one TCP
//! at a shared bottleneck (Honda et al., PFLDNeT 2009). No load moves to better paths.

use super::CongestionControl;
use super::Control;
use super::fluid;
use super::parameters;
use super::parameters::Parameters;
use super::paths::Path;
use super::window_rule::{WindowBased, WindowRule};
use crate::algorithm::{Description, Parameter, Value};

const WEIGHT: Parameter<Parameters> = Parameter {
    name: "a",
    unit: "",
    meaning: "the weight of each subflow",
    computed_default: Some("1/n^2 with n subflows"),
    value: Value::Number {
        least: 0.001,
        most: 100.0,
        get: |given| given.ewtcp.a,
        set: |given, value| given.ewtcp.a = Some(value),
    },
};

/// Its name, parameters and constructor.
pub(in crate::cc) const ROW: Control = Control {
    description: Description {
        name: "ewtcp",
        aliases: &[],
        summary: "Gives all subflows together the share of one TCP connection at a shared bottleneck, but does not move load between paths",
        source: "Honda et al., PFLDNeT 2009",
        parameters: &[
            parameters::ACK_COUNTING,
            parameters::SSTHRESH_FLOOR,
            parameters::SLOW_START_LIMIT,
            WEIGHT,
        ],
    },
    make: control,
    fluid: Ok(|paths, given| {
        let a = given.ewtcp.a.unwrap_or_else(|| weight(paths.len()));
        fluid::each(paths, |p| fluid::ewtcp(p, a))
    }),
};

/// Returns the weight a at which n subflows with equal loss rates p together have the window of one
/// TCP. Each window is w = sqrt(2a/p), so n sqrt(a) = 1. `subflows` is n.
///
/// Wischik et al. (NSDI 2011) state 1/sqrt(n), which with the same increase gives n^(3/4) TCPs.
pub fn weight(subflows: usize) -> f64 {
    let n = subflows as f64;
    1.0 / (n * n)
}

/// Returns the number of packets by which a window of `window_packets` grows per acknowledged
/// packet, with weight `a`.
pub fn increase(window_packets: f64, a: f64) -> f64 {
    a / window_packets
}

#[derive(Debug)]
struct Ewtcp {
    a: Option<f64>,
}

impl WindowRule for Ewtcp {
    fn increase_bytes(&self, paths: &[Path], this: usize, acked_bytes: f64) -> f64 {
        let a = self.a.unwrap_or_else(|| weight(paths.len()));
        increase(paths[this].window_packets, a) * acked_bytes
    }
}

pub(super) fn control(parameters: &Parameters) -> Box<dyn CongestionControl> {
    let rule = Ewtcp {
        a: parameters.ewtcp.a,
    };
    Box::new(WindowBased::new(rule, parameters))
}
