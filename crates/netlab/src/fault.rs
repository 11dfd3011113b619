//! What a user's own algorithm did wrong.

use std::sync::{Arc, OnceLock};

/// The first thing that went wrong in a user's own algorithms. All copies are one.
///
/// Hooks have no way to fail: one that does notes why here and answers that nothing is to be done, and the simulation ends.
#[derive(Clone, Debug, Default)]
pub struct Fault(Arc<OnceLock<String>>);

impl Fault {
    /// Notes what went wrong; only the first time counts.
    pub fn note(&self, why: String) {
        self.0.get_or_init(|| why);
    }

    /// What went wrong, if anything did.
    pub fn why(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}
