//! Capabilities of the simulator.

use experiment::algorithms::Registry;
use experiment::capabilities::Capability;
use experiment::features::{BackEnd, Feature};

/// Returns everything that a description can ask for, with the algorithms of `registry`.
pub fn capabilities(registry: &Registry) -> Vec<Capability> {
    let features = Feature::ALL.iter();
    let features =
        features.map(|feature| Capability::of(*feature, feature.lacking(BackEnd::Simulator)));
    features.chain(registry.capabilities()).collect()
}
