//! `x-dwc`: couples subflows that seem to share a bottleneck. The idea is Dynamic Window Coupling
//! (Hassayoun et al., ICNP 2011). The rules are mptcplab's own, because only the abstract could be
//! read.
//!
//! Each subflow starts in a group of its own. When a subflow has a loss, the subflows that are
//! delayed or had a loss within a round-trip time join its group, and the others leave it. Windows
//! in a group grow by LIA; a subflow alone in its group grows by Reno.

use super::Control;
use super::parameters;
use super::parameters::Parameters;
use super::paths::Path;
use super::window_rule::{WindowBased, WindowRule};
use super::{CongestionControl, Context, lia};
use crate::algorithm::{Description, Parameter, Value};
use crate::time::{Nanos, seconds};

const DELAY_FRACTION: Parameter<Parameters> = Parameter {
    name: "delay_fraction",
    unit: "",
    meaning: "the fraction of the way from the smallest to the largest delay beyond which a subflow counts as congested",
    computed_default: None,
    value: Value::Number {
        least: 0.01,
        most: 0.99,
        get: |given| Some(given.dwc.delay_fraction),
        set: |given, value| given.dwc.delay_fraction = value,
    },
};

/// Its name, parameters and constructor.
pub(in crate::cc) const ROW: Control = Control {
    description: Description {
        name: "x-dwc",
        aliases: &[],
        summary: "Couples only the subflows that seem to share a bottleneck",
        source: "mptcplab, after the abstract of Hassayoun et al., ICNP 2011",
        parameters: &[
            parameters::ACK_COUNTING,
            parameters::SSTHRESH_FLOOR,
            parameters::SLOW_START_LIMIT,
            DELAY_FRACTION,
        ],
    },
    make: control,
    fluid: Err("the set of coupled subflows changes constantly"),
};

/// Returns the smoothed round-trip time in seconds above which a subflow counts as congested:
/// `fraction` of the way from its smallest smoothed round-trip time, `least_s`, to its largest,
/// `largest_s`.
pub fn delay_threshold(least_s: f64, largest_s: f64, fraction: f64) -> f64 {
    least_s + fraction * (largest_s - least_s)
}

/// Returns whether a subflow with a smoothed round-trip time of `delay_s` seconds counts as
/// congested and therefore joins the group of a subflow that had a loss. The other arguments have
/// the same meaning as in [`delay_threshold`].
pub fn is_delayed(delay_s: f64, least_s: f64, largest_s: f64, fraction: f64) -> bool {
    delay_s > delay_threshold(least_s, largest_s, fraction)
}

/// State of a subflow.
#[derive(Debug)]
struct Member {
    group: u32,
    least_srtt: Nanos,
    largest_srtt: Nanos,
    lost_at: Option<Nanos>,
}

#[derive(Debug)]
struct Dwc {
    delay_fraction: f64,
    members: Vec<Member>,
    next_group: u32,
}

impl Dwc {
    fn new_group(&mut self) -> u32 {
        self.next_group += 1;
        self.next_group
    }

    fn joins(&self, subflow: usize, context: &Context<'_>) -> bool {
        let (member, now) = (&self.members[subflow], context.now());
        let srtt = context.all()[subflow].srtt;
        let is_delayed = srtt.is_some_and(|srtt| {
            let (least, largest) = (seconds(member.least_srtt), seconds(member.largest_srtt));
            is_delayed(seconds(srtt), least, largest, self.delay_fraction)
        });
        let round_trip = context.this().srtt.unwrap_or(0);
        is_delayed || member.lost_at.is_some_and(|at| now - at <= round_trip)
    }
}

impl WindowRule for Dwc {
    fn increase_bytes(&self, paths: &[Path], this: usize, acked_bytes: f64) -> f64 {
        let group_of = |path: &Path| self.members[path.subflow].group;
        let mine = paths[this];
        let is_mine = |path: &&Path| group_of(path) == group_of(&mine);
        let group: Vec<Path> = paths.iter().filter(is_mine).copied().collect();
        let this = group.partition_point(|path| path.subflow < mine.subflow);
        lia::increase(&group, this) * acked_bytes
    }

    fn subflow_added(&mut self) {
        let group = self.new_group();
        self.members.push(Member {
            group,
            least_srtt: Nanos::MAX,
            largest_srtt: 0,
            lost_at: None,
        });
    }

    fn subflow_removed(&mut self, subflow: usize) {
        self.members.remove(subflow);
    }

    fn observe_ack(&mut self, context: &Context<'_>) {
        let member = &mut self.members[context.subflow()];
        if let Some(srtt) = context.this().srtt {
            member.least_srtt = member.least_srtt.min(srtt);
            member.largest_srtt = member.largest_srtt.max(srtt);
        }
    }

    fn observe_congestion(&mut self, context: &Context<'_>) {
        let group = self.new_group();
        for subflow in 0..self.members.len() {
            if subflow == context.subflow() || self.joins(subflow, context) {
                self.members[subflow].group = group;
            }
        }
        self.members[context.subflow()].lost_at = Some(context.now());
    }

    fn state(&self, subflow: usize) -> Vec<(&'static str, f64)> {
        vec![("group", f64::from(self.members[subflow].group))]
    }
}

pub(super) fn control(parameters: &Parameters) -> Box<dyn CongestionControl> {
    let rule = Dwc {
        delay_fraction: parameters.dwc.delay_fraction,
        members: Vec::new(),
        next_group: 0,
    };
    Box::new(WindowBased::new(rule, parameters))
}
