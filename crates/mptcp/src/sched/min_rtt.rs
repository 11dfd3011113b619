//! `min_rtt`: uses the free subflow with the lowest round-trip time. This is `default` of the
//! out-of-tree kernel, called "lowestRTT" in papers about it.

use super::Entry;
use super::lowest_rtt::{LowestRtt, WaitRule};
use super::{Parameters, View};
use crate::algorithm::Description;

/// Its name, parameters and constructor.
pub(super) const ROW: Entry = Entry {
    description: Description {
        name: "min_rtt",
        aliases: &["lowestrtt", "default"],
        summary: "Chooses the free subflow with the lowest SRTT",
        source: "default of the out-of-tree kernel (lowestRTT in papers)",
        parameters: &[],
    },
    make: |given| Box::new(MinRtt::new(given)),
};

/// The rule of [`MinRtt`], which never waits for a faster subflow.
#[derive(Clone, Copy, Debug)]
pub struct AnyFree;

impl WaitRule for AnyFree {
    fn waits(&mut self, _view: &View<'_>, _fast: usize, _slow: usize) -> bool {
        false
    }
}

/// The scheduler `min_rtt`: uses the free subflow with the lowest round-trip time
/// ([`lowest_rtt`](super::lowest_rtt())).
pub type MinRtt = LowestRtt<AnyFree>;

impl MinRtt {
    /// Creates the scheduler for a new connection. Uses only `order` of `parameters`.
    pub fn new(parameters: &Parameters) -> Self {
        Self::with_rule(parameters.order, AnyFree)
    }
}
