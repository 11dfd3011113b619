//! `round_robin`: each subflow in turn carries a number of segments, after `roundrobin` of the out-of-tree kernel.
//!
//! With `cwnd_limited` those without window are passed over, so that under saturation all windows are filled and the turns
//! decide nothing; without it all wait for the one whose turn it is. Backup subflows take turns like all others.

use super::per_subflow::PerSubflow;
use super::{Decision, Parameters, Reason, Scheduler, SubflowOrder, SubflowView, View};

/// Whose turn it is, and for how many segments still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Index of the subflow.
    pub subflow: usize,
    /// Segments left of its turn.
    pub segments: u32,
}

/// The next turn, given how many segments of the round each subflow has carried: who has begun goes on; else the last in
/// `order` that has carried none; else a new round begins among those available.
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

/// See [`next_turn`].
#[derive(Clone, Debug)]
pub struct RoundRobin {
    order: SubflowOrder,
    num_segments: u32,
    cwnd_limited: bool,
    carried: PerSubflow<u32>,
}

impl RoundRobin {
    /// For a new connection.
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

    /// The last that has not carried the data, or the last of all.
    fn again(&self, view: &View<'_>) -> Decision {
        let free = self.order.indices(view.subflows.len()).filter(|&index| {
            view.subflows[index].is_available() && !view.subflows[index].is_busy()
        });
        // Of equal ones `max_by_key` takes the last.
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
