//! What a scheduler remembers of each subflow.

use std::collections::BTreeMap;

use super::SubflowView;

/// One value for each subflow; a new subflow's is the default, and that of a closed one is forgotten.
#[derive(Clone, Debug, Default)]
pub(super) struct PerSubflow<T> {
    ids: Vec<u32>,
    values: Vec<T>,
}

impl<T: Default> PerSubflow<T> {
    /// The values in the order of the subflows.
    pub(super) fn of(&mut self, subflows: &[SubflowView]) -> &mut [T] {
        if !self
            .ids
            .iter()
            .eq(subflows.iter().map(|subflow| &subflow.id))
        {
            self.follow(subflows);
        }
        &mut self.values
    }

    fn follow(&mut self, subflows: &[SubflowView]) {
        let known = self.ids.drain(..).zip(self.values.drain(..));
        let mut known: BTreeMap<u32, T> = known.collect();
        for subflow in subflows {
            self.ids.push(subflow.id);
            self.values
                .push(known.remove(&subflow.id).unwrap_or_default());
        }
    }
}
