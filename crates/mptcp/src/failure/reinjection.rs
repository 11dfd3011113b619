//! What the out-of-tree kernel sends again when a subflow has failed.

/// Whether a segment of the failed subflow goes to the connection's queue again: some subflow that can send and is not failed
/// itself has not carried it. `others` says of each such subflow whether it has.
pub fn is_worth_reinjecting(mut others: impl Iterator<Item = bool>) -> bool {
    others.any(|has_carried| !has_carried)
}
