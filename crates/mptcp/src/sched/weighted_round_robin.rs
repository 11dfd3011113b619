//! `weighted_round_robin`: the subflows take turns by weight, spread evenly (smooth weighted round
//! robin).
//!
//! Backup subflows take part only while no regular one is available. Data is reinjected as in
//! `min_rtt`.

use super::Entry;
use super::lowest_rtt::assign_lowest_rtt;
use super::per_subflow::PerSubflow;
use super::{Decision, Parameters, Reason, Scheduler, SubflowOrder, SubflowView, View};
use crate::algorithm::{Description, Parameter, Value};
use crate::time::{Nanos, SECOND, seconds};

/// Its name, parameters and constructor.
pub(super) const ROW: Entry = Entry {
    description: Description {
        name: "weighted_round_robin",
        aliases: &["wrr"],
        summary: "Takes the subflows in turn, in proportion to their weights",
        source: "smooth weighted round robin",
        parameters: &[
            super::round_robin::CWND_LIMITED,
            Parameter {
                name: "weights",
                unit: "",
                meaning: "the weights of the subflows, in order; subflows beyond the end of the list have weight 1",
                computed_default: Some(
                    "the rate of each subflow, cwnd / srtt, sampled once a second",
                ),
                value: Value::Integers {
                    least: 1,
                    most: 1000,
                    set: |given, weights| given.weights = Some(weights),
                },
            },
        ],
    },
    make: |given| Box::new(WeightedRoundRobin::new(given)),
};

/// How long weights derived from rates are used.
const REFRESH: Nanos = SECOND;

/// Returns the index of the subflow whose turn it is: the one with the largest sum of its credit
/// and its weight; ties go to the first. Subflows with weight `None` are skipped. Returns `None` if
/// no subflow remains.
pub fn heaviest(credits: &[f64], weights: &[Option<f64>]) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for (index, (credit, weight)) in credits.iter().zip(weights).enumerate() {
        if let Some(weight) = weight {
            let credit = credit + weight;
            if best.is_none_or(|(_, highest)| credit > highest) {
                best = Some((index, credit));
            }
        }
    }
    best.map(|(index, _)| index)
}

/// Updates `credits` after the turn of the subflow `index`: each subflow receives its weight, and
/// `index` pays the sum of all weights. Subflows with weight `None` receive nothing.
pub fn pass_turn(credits: &mut [f64], weights: &[Option<f64>], index: usize) {
    for (credit, weight) in credits.iter_mut().zip(weights) {
        *credit += weight.unwrap_or(0.0);
    }
    credits[index] -= weights.iter().flatten().sum::<f64>();
}

/// The scheduler `weighted_round_robin`: the subflows take turns of one segment, in proportion to
/// their weights ([`heaviest`]).
#[derive(Clone, Debug)]
pub struct WeightedRoundRobin {
    order: SubflowOrder,
    cwnd_limited: bool,
    fixed: Option<Vec<u32>>,
    credits: PerSubflow<f64>,
    /// Weights derived from rates, each with the time it was measured.
    rates: PerSubflow<Option<(Nanos, f64)>>,
}

impl WeightedRoundRobin {
    /// Creates the scheduler for a new connection. Uses only `order`, `cwnd_limited` and `weights`
    /// of `parameters`.
    pub fn new(parameters: &Parameters) -> Self {
        Self {
            order: parameters.order,
            cwnd_limited: parameters.cwnd_limited,
            fixed: parameters.weights.clone(),
            credits: PerSubflow::default(),
            rates: PerSubflow::default(),
        }
    }

    /// Returns the weights of the subflows that take part.
    fn weights(&mut self, view: &View<'_>) -> Vec<Option<f64>> {
        let uses_backups = view.uses_backups();
        let takes_part = |subflow: &SubflowView| {
            let is_free = !subflow.in_loss && (!self.cwnd_limited || subflow.has_window());
            subflow.is_available() && is_free && subflow.is_backup == uses_backups
        };
        let rates = self.rates.of(view.subflows);
        let weights = view.subflows.iter().zip(rates).map(|(subflow, rate)| {
            let weight = match &self.fixed {
                Some(fixed) => f64::from(fixed.get(subflow.id as usize).copied().unwrap_or(1)),
                None => refreshed(rate, subflow, view.now),
            };
            takes_part(subflow).then_some(weight)
        });
        weights.collect()
    }

    fn new_data(&mut self, view: &View<'_>) -> Decision {
        let weights = self.weights(view);
        let credits = self.credits.of(view.subflows);
        let Some(index) = heaviest(credits, &weights) else {
            return Decision::Wait;
        };
        let decision = view.assign(index, 1);
        if decision != Decision::Wait {
            pass_turn(credits, &weights, index);
        }
        decision
    }
}

fn refreshed(rate: &mut Option<(Nanos, f64)>, subflow: &SubflowView, now: Nanos) -> f64 {
    let held = rate.filter(|(taken, _)| now.saturating_sub(*taken) < REFRESH);
    rate.insert(held.unwrap_or((now, bytes_per_second(subflow))))
        .1
}

/// Returns the rate that the window allows, in bytes per second. Before the first RTT sample, a
/// round-trip time of one second is assumed (RFC 6298, section 2.1).
fn bytes_per_second(subflow: &SubflowView) -> f64 {
    let srtt = if subflow.srtt == 0 {
        SECOND
    } else {
        subflow.srtt
    };
    f64::from(subflow.cwnd_bytes) / seconds(srtt)
}

impl Scheduler for WeightedRoundRobin {
    fn next(&mut self, view: &View<'_>) -> Decision {
        match view.reason {
            Reason::NewData => self.new_data(view),
            Reason::Reinject | Reason::MetaTimeout => assign_lowest_rtt(view, self.order),
            Reason::WindowBlocked | Reason::BufferBlocked | Reason::NothingNew => Decision::Wait,
        }
    }
}
