//! Fuzz target: any text as a resolved experiment. Reading refuses it, or the simulator reports
//! what it lacks, or the network is built.

use experiment::algorithms::Registry;
use experiment::resolved::Experiment;

/// Reads `bytes` as the resolved form that back-ends get.
pub fn resolved(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(experiment) = Experiment::from_json(text) {
        let missing = simulator::check(&experiment, &Registry::default());
        assert!(missing.iter().all(|one| !one.why.is_empty()));
        realtime::check(&experiment, Some(&Registry::default()));
    }
}
