//! Schedulers.

use mptcp::sched::{Arithmetic, Lambda, Parameters, SubflowOrder};

use super::value::{flag, integer, list, word};
use super::{Parameter, Values, apply};
use crate::resolved::Algorithm;

const BLEST: &[&str] = &["blest", "blest-oot"];

/// The parameters of schedulers.
pub const SCHEDULER: &[Parameter<Parameters>] = &[
    Parameter {
        algorithms: &["round_robin"],
        name: "num_segments",
        unit: "segments",
        values: Values::Integer {
            least: 1,
            most: 255,
        },
        default: "1",
        meaning: "how many a subflow carries before the next one's turn",
        set: |to, value| to.num_segments = integer(value),
    },
    Parameter {
        algorithms: &["round_robin", "weighted_round_robin"],
        name: "cwnd_limited",
        unit: "",
        values: Values::Flag,
        default: "true",
        meaning: "whether a subflow without window is passed over; else all wait for it",
        set: |to, value| to.cwnd_limited = flag(value),
    },
    Parameter {
        algorithms: &["weighted_round_robin"],
        name: "weights",
        unit: "",
        values: Values::Integers {
            least: 1,
            most: 1000,
        },
        default: "each subflow's rate, cwnd by srtt, taken once a second",
        meaning: "weights by the number of the subflow, 1 for those beyond the list",
        set: |to, value| to.weights = Some(list(value).iter().map(integer).collect()),
    },
    Parameter {
        algorithms: BLEST,
        name: "lambda_start",
        unit: "thousandths",
        values: Values::Integer {
            least: 1,
            most: 10_000,
        },
        default: "1000; of blest-oot 1200",
        meaning: "the factor of the forecast at the start",
        set: |to, value| lambda(to).start = integer(value),
    },
    Parameter {
        algorithms: BLEST,
        name: "lambda_min",
        unit: "thousandths",
        values: Values::Integer {
            least: 1,
            most: 1000,
        },
        default: "1000",
        meaning: "the least factor",
        set: |to, value| lambda(to).min = integer(value),
    },
    Parameter {
        algorithms: BLEST,
        name: "lambda_max",
        unit: "thousandths",
        values: Values::Integer {
            least: 1000,
            most: 10_000,
        },
        default: "1300",
        meaning: "the largest factor",
        set: |to, value| lambda(to).max = integer(value),
    },
    Parameter {
        algorithms: BLEST,
        name: "lambda_up",
        unit: "thousandths",
        values: Values::Integer {
            least: 0,
            most: 1000,
        },
        default: "40",
        meaning: "by how much the factor grows",
        set: |to, value| lambda(to).up = integer(value),
    },
    Parameter {
        algorithms: BLEST,
        name: "lambda_down",
        unit: "thousandths",
        values: Values::Integer {
            least: 0,
            most: 1000,
        },
        default: "10",
        meaning: "by how much the factor shrinks",
        set: |to, value| lambda(to).down = integer(value),
    },
    Parameter {
        algorithms: &["ecf", "ecf-oot"],
        name: "inverse_beta",
        unit: "",
        values: Values::Integer {
            least: 1,
            most: 1000,
        },
        default: "4",
        meaning: "the reciprocal of beta, the advantage of waiting on",
        set: |to, value| to.inverse_beta = integer(value),
    },
    Parameter {
        algorithms: &["ecf-oot"],
        name: "arithmetic",
        unit: "",
        values: Values::Choice(&["wrapping", "wide"]),
        default: "wrapping",
        meaning: "whether products wrap at 32 bits, as they did in the kernel",
        set: |to, value| {
            to.arithmetic = match word(value) {
                "wide" => Arithmetic::Wide,
                _ => Arithmetic::Wrapping,
            }
        },
    },
];

/// What a factor of BLEST's changes; `scheduler` has put the algorithm's own there.
fn lambda(parameters: &mut Parameters) -> &mut Lambda {
    parameters.lambda.get_or_insert(Lambda::PAPER)
}

/// What a scheduler is given, and the order in which its host takes equal subflows.
pub fn scheduler(algorithm: &Algorithm, order: SubflowOrder) -> Parameters {
    let mut parameters = Parameters {
        order,
        lambda: (algorithm.name == "blest-oot").then_some(Lambda::KERNEL),
        ..Parameters::default()
    };
    apply(
        SCHEDULER,
        &algorithm.name,
        &algorithm.parameters,
        &mut parameters,
    );
    parameters
}
