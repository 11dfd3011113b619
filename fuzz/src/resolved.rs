//! What must hold of any text as a resolved experiment: it is refused, or what the simulator lacks
//! of it is told, or its network is built.

use netlab::registry::Registry;
use netlab::resolved::Experiment;
use netlab::sim;

/// Takes the bytes as the JSON that back-ends get.
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
