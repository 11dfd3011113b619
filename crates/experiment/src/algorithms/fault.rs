//! Failures of a user's own algorithms.

use std::sync::{Arc, OnceLock};

/// The first failure of a user's own algorithms. All clones share it.
///
/// Hooks cannot return an error. A hook that fails records the reason here and returns a result
/// that does nothing. The simulation then ends.
#[derive(Clone, Debug, Default)]
pub struct Fault(Arc<OnceLock<String>>);

impl Fault {
    /// Records a failure. Only the first one is kept.
    pub fn record(&self, why: String) {
        self.0.get_or_init(|| why);
    }

    /// Returns the failure, if there is one.
    pub fn why(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}
