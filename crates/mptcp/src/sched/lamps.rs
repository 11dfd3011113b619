//! `x-lamps`: selects subflows by loss and delay, and sends the data of a lossy subflow on a second
//! one too.
//!
//! mptcplab's own definition, after the abstract of LAMPS (Dong et al., LCN 2017), the only part
//! that could be read. Backup subflows are used only while no regular one is available. Data is
//! reinjected as in `min_rtt`.

use super::Entry;
use super::loss_rate::LossRates;
use super::lowest_rtt::assign_lowest_rtt;
use super::{Decision, Parameters, Range, Reason, Scheduler, SubflowOrder, View};
use crate::algorithm::Description;
use crate::time::seconds;

/// Its name, parameters and constructor.
pub(super) const ROW: Entry = Entry {
    description: Description {
        name: "x-lamps",
        aliases: &[],
        summary: "Chooses the subflow with the smallest expected delay, including the cost of losses; data on a lossy subflow is also sent on a second one",
        source: "mptcplab, after the abstract of Dong et al., LCN 2017",
        parameters: &[],
    },
    make: |given| Box::new(Lamps::new(given)),
};

/// Loss rate above which a segment is also sent on a second subflow.
const LOSSY: f64 = 0.05;

/// Returns the mean delay of a segment in seconds: half a round trip, plus two round trips if the
/// segment is lost. `loss` is the probability of a loss, from 0 to 1. `srtt_s` is the smoothed
/// round-trip time in seconds.
pub fn expected_delay(loss: f64, srtt_s: f64) -> f64 {
    let one_way = srtt_s / 2.0;
    (1.0 - loss) * one_way + loss * (one_way + 2.0 * srtt_s)
}

/// The scheduler `x-lamps`: uses the free subflow with the smallest [`expected_delay`]. If that
/// subflow has a loss rate above 5 %, the data is also sent on a second subflow.
#[derive(Clone, Debug)]
pub struct Lamps {
    order: SubflowOrder,
    losses: LossRates,
    /// Data to be sent on a second subflow, and the ID of the subflow that has it.
    copy: Option<(Range, u32)>,
}

impl Lamps {
    /// Creates the scheduler for a new connection. Uses only `order` of `parameters`.
    pub fn new(parameters: &Parameters) -> Self {
        Self {
            order: parameters.order,
            losses: LossRates::default(),
            copy: None,
        }
    }

    /// Returns the best free subflow other than `except`, and its loss rate.
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

    /// Returns the second copy of the last assigned data, if it is still needed and a second
    /// subflow is free.
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
