//! `round_robin`: the subflows take turns of a fixed number of segments, like `roundrobin` of the
//! out-of-tree kernel.
//!
//! With `cwnd_limited`, subflows without window are skipped. Under saturation, all windows are then
//! full and the turns have no effect. Without it, all subflows wait for the one whose turn it is.
//! Backup subflows take turns like all others.

use super::Entry;
use super::per_subflow::PerSubflow;
use super::{Decision, Parameters, Reason, Scheduler, SubflowOrder, SubflowView, View};
use crate::algorithm::{Description, Parameter, Value};

/// Whether a subflow without window is passed over.
pub(super) const CWND_LIMITED: Parameter<Parameters> = Parameter {
    name: "cwnd_limited",
    unit: "",
    meaning: "whether a subflow with a full window is skipped; otherwise all subflows wait for it",
    computed_default: None,
    value: Value::Flag {
        get: |given| given.cwnd_limited,
        set: |given, is_limited| given.cwnd_limited = is_limited,
    },
};

/// Its name, parameters and constructor.
pub(super) const ROW: Entry = Entry {
    description: Description {
        name: "round_robin",
        aliases: &["rr"],
        summary: "Takes the subflows in turn, num_segments at a time",
        source: "roundrobin of the out-of-tree kernel",
        parameters: &[
            Parameter {
                name: "num_segments",
                unit: "segments",
                meaning: "the number of segments that a subflow carries before it is the next one's turn",
                computed_default: None,
                value: Value::Integer {
                    least: 1,
                    most: 255,
                    get: |given| Some(given.num_segments),
                    set: |given, value| given.num_segments = value,
                },
            },
            CWND_LIMITED,
        ],
    },
    make: |given| Box::new(RoundRobin::new(given)),
};

/// A turn of `round_robin`: a subflow, and how much it may still carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Index of the subflow whose turn it is.
    pub subflow: usize,
    /// Segments that the subflow may still carry in this turn.
    pub segments: u32,
}

/// Returns the next turn, or `None` if no subflow is available. `carried` is the number of segments
/// that each subflow has carried in this round. `is_available` returns whether the subflow with the
/// given index can take a turn. A full turn has `num_segments` segments.
///
/// A subflow that has started its turn continues. Otherwise the turn goes to the last subflow in
/// `order` that has carried nothing in this round. If every available subflow has had its turn, a
/// new round starts: the function sets `carried` of all available subflows to 0.
pub fn next_turn(
    carried: &mut [u32],
    is_available: impl Fn(usize) -> bool,
    order: SubflowOrder,
    num_segments: u32,
) -> Option<Turn> {
    let available = order
        .indices(carried.len())
        .filter(|&index| is_available(index));
    turn_in_round(carried, available.clone(), num_segments).or_else(|| {
        available.clone().for_each(|index| carried[index] = 0);
        turn_in_round(carried, available, num_segments)
    })
}

fn turn_in_round(
    carried: &[u32],
    available: impl Iterator<Item = usize>,
    num_segments: u32,
) -> Option<Turn> {
    let mut untouched = None;
    for subflow in available {
        match carried[subflow] {
            0 => untouched = Some(subflow),
            some if some < num_segments => {
                let segments = num_segments - some;
                return Some(Turn { subflow, segments });
            }
            _ => {}
        }
    }
    untouched.map(|subflow| Turn {
        subflow,
        segments: num_segments,
    })
}

/// The scheduler `round_robin`: the subflows take turns of a fixed number of segments. See
/// [`next_turn`] for the rule.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    order: SubflowOrder,
    num_segments: u32,
    cwnd_limited: bool,
    carried: PerSubflow<u32>,
}

impl RoundRobin {
    /// Creates the scheduler for a new connection. Uses only `order`, `num_segments` and
    /// `cwnd_limited` of `parameters`.
    pub fn new(parameters: &Parameters) -> Self {
        Self {
            order: parameters.order,
            num_segments: parameters.num_segments.max(1),
            cwnd_limited: parameters.cwnd_limited,
            carried: PerSubflow::default(),
        }
    }

    fn is_available(&self, subflow: &SubflowView) -> bool {
        let has_window = !self.cwnd_limited || subflow.has_window();
        subflow.is_available() && !subflow.in_loss && has_window
    }

    fn new_data(&mut self, view: &View<'_>) -> Decision {
        let available: Vec<bool> = view
            .subflows
            .iter()
            .map(|one| self.is_available(one))
            .collect();
        let carried = self.carried.of(view.subflows);
        let turn = next_turn(
            carried,
            |index| available[index],
            self.order,
            self.num_segments,
        );
        let Some(Turn { subflow, segments }) = turn else {
            return Decision::Wait;
        };
        let decision = view.assign(subflow, segments);
        if let Decision::Assign { bytes, .. } = decision {
            carried[subflow] += bytes.div_ceil(view.subflows[subflow].mss_bytes);
        }
        decision
    }

    /// Assigns data to the last subflow that has not carried it, or to the last of all.
    fn again(&self, view: &View<'_>) -> Decision {
        let free = self.order.indices(view.subflows.len()).filter(|&index| {
            view.subflows[index].is_available() && !view.subflows[index].is_busy()
        });
        // `max_by_key` returns the last of equal subflows.
        match free.max_by_key(|&index| !view.subflows[index].has_carried_head) {
            Some(index) => view.assign(index, u32::MAX),
            None => Decision::Wait,
        }
    }
}

impl Scheduler for RoundRobin {
    fn next(&mut self, view: &View<'_>) -> Decision {
        match view.reason {
            Reason::NewData => self.new_data(view),
            Reason::Reinject | Reason::MetaTimeout => self.again(view),
            Reason::WindowBlocked | Reason::BufferBlocked | Reason::NothingNew => Decision::Wait,
        }
    }
}
