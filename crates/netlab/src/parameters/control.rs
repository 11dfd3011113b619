//! Congestion controls.

use mptcp::cc::Parameters;
use mptcp::cc::parameters::{AckCounting, LiaForm, SlowStart};

use super::value::{flag, integer, number, word};
use super::{Parameter, Values, apply};
use crate::resolved::Algorithm;

/// Those that differ from Reno only in how windows grow and shrink.
const LIKE_RENO: &[&str] = &[
    "reno",
    "lia",
    "olia",
    "balia",
    "ewtcp",
    "coupled",
    "semicoupled",
    "x-dwc",
];
const LIKE_CUBIC: &[&str] = &["cubic", "cubic-rfc9438", "x-mpcubic"];
/// Those that leave slow start to the engine's rule.
const IN_SLOW_START: &[&str] = &[
    "reno",
    "lia",
    "olia",
    "balia",
    "ewtcp",
    "coupled",
    "semicoupled",
    "x-dwc",
    "cubic",
    "cubic-rfc9438",
    "x-mpcubic",
    "wvegas",
];
const LIKE_WVEGAS: &[&str] = &["wvegas", "wvegas-oot"];

/// The largest window or number of packets that can be asked for.
const MOST_PACKETS: u32 = 100_000;

/// The parameters of congestion controls.
pub const CONTROL: &[Parameter<Parameters>] = &[
    Parameter {
        algorithms: LIKE_RENO,
        name: "ack_counting",
        unit: "",
        values: Values::Choice(&["packets", "acks"]),
        default: "packets",
        meaning: "what congestion avoidance counts: the packets that are acknowledged, or the acknowledgments",
        set: |to, value| {
            to.ack_counting = match word(value) {
                "acks" => AckCounting::Acks,
                _ => AckCounting::Packets,
            }
        },
    },
    Parameter {
        algorithms: IN_SLOW_START,
        name: "ssthresh_floor_packets",
        unit: "packets",
        values: Values::Number {
            least: 1.0,
            most: 1000.0,
        },
        default: "2; of olia and balia 1 with several subflows",
        meaning: "the least slow start threshold",
        set: |to, value| to.ssthresh_floor_packets = Some(number(value)),
    },
    Parameter {
        algorithms: IN_SLOW_START,
        name: "slow_start_limit_packets",
        unit: "packets",
        values: Values::Number {
            least: 1.0,
            most: 1000.0,
        },
        default: "no limit",
        meaning: "by how much one acknowledgment grows the window in slow start: 1 in RFC 5681, 2 in RFC 3465",
        set: |to, value| to.slow_start_limit_packets = number(value),
    },
    Parameter {
        algorithms: LIKE_CUBIC,
        name: "c",
        unit: "packets/s^3",
        values: Values::Number {
            least: 0.001,
            most: 100.0,
        },
        default: "0.4",
        meaning: "how steep the curve is (RFC 9438, section 5); of cubic the nearest multiple of 10/1024, as in Linux",
        set: |to, value| to.cubic.c = number(value),
    },
    Parameter {
        algorithms: LIKE_CUBIC,
        name: "beta",
        unit: "",
        values: Values::Number {
            least: 0.1,
            most: 0.95,
        },
        default: "0.7",
        meaning: "what is left of the window after a loss (RFC 9438, section 4.6); of cubic the nearest multiple of 1/1024, as in Linux",
        set: |to, value| to.cubic.beta = number(value),
    },
    Parameter {
        algorithms: LIKE_CUBIC,
        name: "fast_convergence",
        unit: "",
        values: Values::Flag,
        default: "true",
        meaning: "whether a flow that lost below its former window gives way (RFC 9438, section 4.7)",
        set: |to, value| to.cubic.fast_convergence = flag(value),
    },
    Parameter {
        algorithms: LIKE_CUBIC,
        name: "slow_start",
        unit: "",
        values: Values::Choice(&["until_loss", "hystart", "hystart_plus_plus"]),
        default: "hystart",
        meaning: "how slow start ends: with the first loss, as in Linux, or by RFC 9406",
        set: |to, value| {
            to.cubic.slow_start = match word(value) {
                "until_loss" => SlowStart::UntilLoss,
                "hystart_plus_plus" => SlowStart::HyStartPlusPlus,
                _ => SlowStart::HyStart,
            }
        },
    },
    Parameter {
        algorithms: &["lia"],
        name: "form",
        unit: "",
        values: Values::Choice(&["real", "integer", "nsdi"]),
        default: "real",
        meaning: "RFC 6356 in real numbers, in the integers of its section 4.1, or the form of Wischik et al., NSDI 2011",
        set: |to, value| {
            to.lia.form = match word(value) {
                "integer" => LiaForm::Integer { alpha_scale: 512 },
                "nsdi" => LiaForm::Nsdi,
                _ => LiaForm::Real,
            }
        },
    },
    Parameter {
        algorithms: LIKE_WVEGAS,
        name: "total_alpha_packets",
        unit: "packets",
        values: Values::Integer {
            least: 1,
            most: 1000,
        },
        default: "10",
        meaning: "what all subflows together keep queued",
        set: |to, value| to.wvegas.total_alpha_packets = integer(value),
    },
    Parameter {
        algorithms: LIKE_WVEGAS,
        name: "initial_alpha_packets",
        unit: "packets",
        values: Values::Integer {
            least: 1,
            most: 1000,
        },
        default: "2",
        meaning: "what a subflow keeps queued before it knows its weight",
        set: |to, value| to.wvegas.initial_alpha_packets = integer(value),
    },
    Parameter {
        algorithms: LIKE_WVEGAS,
        name: "gamma_packets",
        unit: "packets",
        values: Values::Integer {
            least: 1,
            most: 1000,
        },
        default: "1",
        meaning: "what is queued when slow start ends",
        set: |to, value| to.wvegas.gamma_packets = integer(value),
    },
    Parameter {
        algorithms: &["ewtcp"],
        name: "a",
        unit: "",
        values: Values::Number {
            least: 0.001,
            most: 100.0,
        },
        default: "1/n^2 with n subflows",
        meaning: "the weight of each subflow",
        set: |to, value| to.ewtcp.a = Some(number(value)),
    },
    Parameter {
        algorithms: &["semicoupled"],
        name: "a",
        unit: "",
        values: Values::Number {
            least: 0.001,
            most: 100.0,
        },
        default: "1",
        meaning: "how aggressive all subflows together are",
        set: |to, value| to.semicoupled.a = number(value),
    },
    Parameter {
        algorithms: &["fixed_cwnd"],
        name: "packets",
        unit: "packets",
        values: Values::Number {
            least: 1.0,
            most: MOST_PACKETS as f64,
        },
        default: "10",
        meaning: "the window of each subflow",
        set: |to, value| to.fixed_cwnd.packets = number(value),
    },
    Parameter {
        algorithms: &["x-dwc"],
        name: "delay_fraction",
        unit: "",
        values: Values::Number {
            least: 0.01,
            most: 0.99,
        },
        default: "0.5",
        meaning: "where between its least and largest delay a subflow counts as congested",
        set: |to, value| to.dwc.delay_fraction = number(value),
    },
];

/// What a congestion control is given. `seed` is for those that draw.
pub fn control(algorithm: &Algorithm, seed: u64) -> Parameters {
    let mut parameters = Parameters::default();
    parameters.bbr.seed = seed;
    apply(
        CONTROL,
        &algorithm.name,
        &algorithm.parameters,
        &mut parameters,
    );
    parameters
}
