//! State that a scheduler keeps for each subflow.

use std::collections::BTreeMap;

use super::SubflowView;

/// One value for each subflow. It starts with the default and is dropped when the subflow closes.
#[derive(Clone, Debug, Default)]
pub(super) struct PerSubflow<T> {
    ids: Vec<u32>,
    values: Vec<T>,
}

impl<T: Default> PerSubflow<T> {
    /// Returns the values in the order of the subflows.
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
