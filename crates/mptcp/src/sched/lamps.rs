//! `x-lamps`: loss and delay decide, and what goes over a lossy subflow goes over a second one too.
//!
//! Defined here after the abstract of LAMPS (Dong et al., LCN 2017), which is all that could be read. Backup subflows are used
//! only while no regular one is available. Data goes again as in `min_rtt`.

use super::loss_rate::LossRates;
use super::lowest_rtt::assign_lowest_rtt;
use super::{Decision, Parameters, Range, Reason, Scheduler, SubflowOrder, View};
use crate::time::seconds;

/// Share lost above which a segment goes over a second subflow too.
const LOSSY: f64 = 0.05;

/// How long a segment takes in the mean, in seconds: half a round trip, and two more if it is lost, which it is with the
/// probability `loss`.
pub fn expected_delay(loss: f64, srtt_s: f64) -> f64 {
    let one_way = srtt_s / 2.0;
    (1.0 - loss) * one_way + loss * (one_way + 2.0 * srtt_s)
}

/// The free subflow with the smallest [`expected_delay`].
#[derive(Clone, Debug)]
pub struct Lamps {
    order: SubflowOrder,
    losses: LossRates,
    /// Data that is to go out once more, and the id of the subflow that has it.
    copy: Option<(Range, u32)>,
}

impl Lamps {
    /// For a new connection.
    pub fn new(parameters: &Parameters) -> Self {
        Self {
            order: parameters.order,
            losses: LossRates::default(),
            copy: None,
        }
    }

    /// The best free subflow but one, with the share that is lost on it.
    fn best(&mut self, view: &View<'_>, except: Option<u32>) -> Option<(usize, f64)> {
        let losses = self.losses.now(view);
        let uses_backups = view.uses_backups();
        let free = self.order.indices(view.subflows.len()).filter(|&index| {
            let subflow = &view.subflows[index];
            let is_free = subflow.is_available() && !subflow.is_busy();
            is_free && subflow.is_backup == uses_backups && Some(subflow.id) != except
        });
        let delay =
            |index: usize| expected_delay(losses[index], seconds(view.subflows[index].srtt));
        let best = free.min_by(|&a, &b| delay(a).total_cmp(&delay(b)))?;
        Some((best, losses[best]))
    }

    fn new_data(&mut self, view: &View<'_>) -> Decision {
        let Some((index, loss)) = self.best(view, None) else {
            return Decision::Wait;
        };
        let decision = view.assign(index, 1);
        if let Decision::Assign { bytes, .. } = decision
            && loss > LOSSY
        {
            let (start, len) = (view.head.start, u64::from(bytes));
            self.copy = Some((Range { start, len }, view.subflows[index].id));
        }
        decision
    }

    /// The second copy of what was decided last, if it is still of use and a second subflow is free.
    fn second_copy(&mut self, view: &View<'_>) -> Option<Decision> {
        let (range, carrier) = self.copy.take()?;
        let (subflow, _) = self.best(view, Some(carrier))?;
        let fits = range.len <= u64::from(view.subflows[subflow].room_bytes());
        let is_of_use = range.start >= view.acked_bytes;
        (fits && is_of_use).then_some(Decision::AssignRange { subflow, range })
    }
}

impl Scheduler for Lamps {
    fn next(&mut self, view: &View<'_>) -> Decision {
        if let Some(decision) = self.second_copy(view) {
            return decision;
        }
        match view.reason {
            Reason::NewData => self.new_data(view),
            Reason::Reinject | Reason::MetaTimeout => assign_lowest_rtt(view, self.order),
            Reason::WindowBlocked | Reason::BufferBlocked | Reason::NothingNew => Decision::Wait,
        }
    }
}
