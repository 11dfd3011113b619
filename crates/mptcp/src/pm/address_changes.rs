//! Collection of address changes before they are reported to path managers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::Nanos;

/// Collects address changes for a fixed delay that starts with the first change.
///
/// After the delay, only the outcome is reported: an address that went down and came back in the
/// meantime has not changed. The out-of-tree kernel uses a delay of 500 ms.
#[derive(Clone, Debug)]
pub struct AddressChanges {
    delay_ns: Nanos,
    down: BTreeSet<IpAddr>,
    pending: BTreeMap<IpAddr, bool>,
    due: Option<Nanos>,
}

impl AddressChanges {
    /// Creates a collection with a delay of `delay_ns` nanoseconds. The addresses in `down` are
    /// initially down, all others up.
    pub fn new(delay_ns: Nanos, down: BTreeSet<IpAddr>) -> Self {
        Self {
            delay_ns,
            down,
            pending: BTreeMap::new(),
            due: None,
        }
    }

    /// Returns the addresses that are down, as last reported to path managers.
    pub fn down(&self) -> &BTreeSet<IpAddr> {
        &self.down
    }

    /// Records that `address` is up (`up` is true) or down at the time `now`. The first change
    /// starts the delay.
    pub fn observe(&mut self, now: Nanos, address: IpAddr, up: bool) {
        let before = self.pending.insert(address, up);
        if before.is_none() && up != self.down.contains(&address) {
            self.pending.remove(&address);
            return;
        }
        self.due.get_or_insert(now.saturating_add(self.delay_ns));
    }

    /// Returns when to call [`AddressChanges::take`] next, or `None` if no change is pending.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.due
    }

    /// Returns the addresses that have changed, each with whether it is now up, and removes them
    /// from the collection. [`AddressChanges::down`] then includes the changes. Returns nothing if
    /// the delay is not over at `now`.
    pub fn take(&mut self, now: Nanos) -> Vec<(IpAddr, bool)> {
        if self.due.is_none_or(|due| now < due) {
            return Vec::new();
        }
        self.due = None;
        let pending = std::mem::take(&mut self.pending);
        pending
            .into_iter()
            .filter(|&(address, up)| self.record(address, up))
            .collect()
    }

    /// Records the state of an address and returns whether it changed.
    fn record(&mut self, address: IpAddr, up: bool) -> bool {
        if up {
            self.down.remove(&address)
        } else {
            self.down.insert(address)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 1, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 2, 1));

    #[test]
    fn a_change_is_told_after_the_delay() {
        let mut changes = AddressChanges::new(500, BTreeSet::new());
        changes.observe(100, A, false);
        assert_eq!(changes.poll_timeout(), Some(600));
        assert_eq!(changes.take(599), []);
        assert_eq!(changes.take(600), [(A, false)]);
        assert_eq!(changes.poll_timeout(), None);
    }

    #[test]
    fn changes_within_the_delay_are_told_together() {
        let mut changes = AddressChanges::new(500, BTreeSet::from([B]));
        changes.observe(100, A, false);
        changes.observe(400, B, true);
        assert_eq!(changes.take(600), [(A, false), (B, true)]);
        assert_eq!(*changes.down(), BTreeSet::from([A]));
    }

    #[test]
    fn gone_and_back_within_the_delay_is_no_change() {
        let mut changes = AddressChanges::new(500, BTreeSet::new());
        changes.observe(100, A, false);
        changes.observe(200, A, true);
        assert_eq!(changes.take(600), []);
    }

    #[test]
    fn what_is_no_news_waits_for_nothing() {
        let mut changes = AddressChanges::new(500, BTreeSet::new());
        changes.observe(100, A, true);
        assert_eq!(changes.poll_timeout(), None);
    }

    #[test]
    fn without_a_delay_it_is_due_at_once() {
        let mut changes = AddressChanges::new(0, BTreeSet::new());
        changes.observe(7, A, false);
        assert_eq!(changes.take(7), [(A, false)]);
    }
}
