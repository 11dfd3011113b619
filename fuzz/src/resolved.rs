//! Fuzz target: any text as a resolved experiment. Reading refuses it, or the simulator reports
//! what it lacks, or the network is built.

use netlab::registry::Registry;
use netlab::resolved::Experiment;
use netlab::sim;

/// Reads `bytes` as the resolved form that back-ends get.
pub fn resolved(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(experiment) = Experiment::from_json(text) {
        let missing = sim::check(&experiment, &Registry::default());
        assert!(missing.iter().all(|one| !one.why.is_empty()));
        live::check(&experiment, Some(&Registry::default()));
    }
}
