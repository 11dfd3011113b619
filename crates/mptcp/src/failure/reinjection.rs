//! Selection of the data that the out-of-tree kernel reinjects when a subflow has failed.

/// Returns whether a segment of a failed subflow is reinjected: whether at least one of `others`
/// has not carried it.
///
/// `others` states, for each other subflow that can send and has not failed, whether that subflow
/// has carried the segment.
pub fn is_worth_reinjecting(mut others: impl Iterator<Item = bool>) -> bool {
    others.any(|has_carried| !has_carried)
}
