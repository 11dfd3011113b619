//! `min_rtt`: the free subflow with the lowest round-trip time, which is `default` of the out-of-tree kernel and "lowestRTT" in
//! papers about it.

use super::lowest_rtt::{LowestRtt, WaitRule};
use super::{Parameters, View};

/// It never waits for a faster one.
#[derive(Clone, Copy, Debug)]
pub struct AnyFree;

impl WaitRule for AnyFree {
    fn waits(&mut self, _view: &View<'_>, _fast: usize, _slow: usize) -> bool {
        false
    }
}

/// See [`lowest_rtt`](super::lowest_rtt()).
pub type MinRtt = LowestRtt<AnyFree>;

impl MinRtt {
    /// For a new connection.
    pub fn new(parameters: &Parameters) -> Self {
        Self::with_rule(parameters.order, AnyFree)
    }
}
