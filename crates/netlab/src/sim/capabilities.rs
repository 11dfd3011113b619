//! Capabilities of the simulator.

use crate::capabilities::Capability;
use crate::features::{BackEnd, Feature};
use crate::registry::Registry;

/// Returns everything that a description can ask for, with the algorithms of `registry`.
pub fn capabilities(registry: &Registry) -> Vec<Capability> {
    let features = Feature::ALL.iter();
    let features =
        features.map(|feature| Capability::of(*feature, feature.lacking(BackEnd::Simulator)));
    features.chain(registry.capabilities()).collect()
}
