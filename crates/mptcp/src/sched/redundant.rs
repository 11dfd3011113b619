//! `redundant`: every regular subflow carries all data, each at its own pace, after ReMP TCP
//! (Froemmgen et al., ICC 2016), as in the out-of-tree kernel since 0.90.
//!
//! Each subflow goes through the byte stream independently and skips acknowledged data. The
//! subflows take turns. The first one to reach a segment sends it as new data. Backup subflows
//! carry new data, and only while no regular one is available. Data is reinjected as in `min_rtt`.

use super::Entry;
use super::lowest_rtt::assign_lowest_rtt;
use super::per_subflow::PerSubflow;
use super::{Decision, Parameters, Range, Reason, Scheduler, SubflowOrder, SubflowView, View};
use crate::algorithm::Description;

/// Its name, parameters and constructor.
pub(super) const ROW: Entry = Entry {
    description: Description {
        name: "redundant",
        aliases: &[],
        summary: "Sends all data on every subflow, each at its own pace",
        source: "ReMP TCP, ICC 2016; out-of-tree kernel since 0.90",
        parameters: &[],
    },
    make: |given| Box::new(Redundant::new(given)),
};

/// The scheduler `redundant`: every regular subflow carries all data, each at its own pace. Keeps
/// the position of each subflow in the byte stream.
#[derive(Clone, Debug)]
pub struct Redundant {
    order: SubflowOrder,
    /// Where each subflow continues.
    positions: PerSubflow<u64>,
    /// Data before this offset is not copied.
    start: u64,
    /// ID of the subflow that had the last turn.
    last: Option<u32>,
}

impl Redundant {
    /// Creates the scheduler for a new connection. Uses only `order` of `parameters`.
    pub fn new(parameters: &Parameters) -> Self {
        Self {
            order: parameters.order,
            positions: PerSubflow::default(),
            start: 0,
            last: None,
        }
    }

    /// Makes all subflows continue from `position`.
    pub(super) fn start_at(&mut self, position: u64) {
        self.start = position;
    }

    /// Returns the indices of the subflows, starting after the one that had the last turn.
    fn turns(&self, subflows: &[SubflowView]) -> impl Iterator<Item = usize> + use<> {
        let count = subflows.len();
        let mut order = self.order.indices(count);
        let first = order
            .position(|index| Some(subflows[index].id) == self.last)
            .map_or(0, |place| place + 1);
        self.order.indices(count).cycle().skip(first).take(count)
    }

    /// Returns what a subflow would send next, at most one segment.
    fn next_of(&self, view: &View<'_>, index: usize, position: u64) -> Option<Decision> {
        let subflow = &view.subflows[index];
        if !subflow.is_available() || subflow.is_busy() {
            return None;
        }
        let start = position.max(self.start).max(view.acked_bytes);
        if start < view.assigned_bytes {
            let len = (view.assigned_bytes - start).min(u64::from(subflow.mss_bytes));
            let range = Range { start, len };
            let copy = Decision::AssignRange {
                subflow: index,
                range,
            };
            return (!subflow.is_backup).then_some(copy);
        }
        let may_carry_new = !subflow.is_backup || view.uses_backups();
        let new = (view.reason == Reason::NewData && may_carry_new).then(|| view.assign(index, 1));
        new.filter(|decision| *decision != Decision::Wait)
    }

    fn advance(&mut self, view: &View<'_>) -> Decision {
        let positions = self.positions.of(view.subflows).to_vec();
        let mut turns = self.turns(view.subflows);
        let found =
            turns.find_map(|index| Some((index, self.next_of(view, index, positions[index])?)));
        let Some((index, decision)) = found else {
            return Decision::Wait;
        };
        self.last = Some(view.subflows[index].id);
        self.positions.of(view.subflows)[index] = match decision {
            Decision::AssignRange { range, .. } => range.start + range.len,
            Decision::Assign { bytes, .. } => view.assigned_bytes + u64::from(bytes),
            Decision::Penalize { .. } | Decision::Wait => positions[index],
        };
        decision
    }
}

impl Scheduler for Redundant {
    fn next(&mut self, view: &View<'_>) -> Decision {
        match view.reason {
            Reason::Reinject | Reason::MetaTimeout => assign_lowest_rtt(view, self.order),
            Reason::NewData
            | Reason::WindowBlocked
            | Reason::BufferBlocked
            | Reason::NothingNew => self.advance(view),
        }
    }
}
