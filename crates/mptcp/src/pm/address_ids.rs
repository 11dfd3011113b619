//! The IDs of the local addresses of one connection.

use std::net::IpAddr;

use super::AddressId;
use super::sorted_map::SortedMap;

/// Assigns IDs to local addresses. Each address has exactly one ID, as the kernel requires.
#[derive(Clone, Debug)]
pub(super) struct AddressIds {
    ids: SortedMap<IpAddr, AddressId>,
}

impl AddressIds {
    /// Assigns ID 0 to the local address of the initial subflow (RFC 8684, section 3.2).
    pub(super) fn new(initial: IpAddr) -> Self {
        Self {
            ids: SortedMap::of(initial, 0),
        }
    }

    /// Returns the ID of `address`, assigning the smallest free one if it has none. Returns `None`
    /// if all 255 IDs are taken.
    pub(super) fn id(&mut self, address: IpAddr) -> Option<AddressId> {
        self.known(address).or_else(|| self.give_new(address))
    }

    /// Returns the ID with which to announce `address`. The initial address gets another ID,
    /// because ID 0 cannot be announced.
    pub(super) fn id_to_announce(&mut self, address: IpAddr) -> Option<AddressId> {
        let known = self.known(address).filter(|&id| id != 0);
        known.or_else(|| self.give_new(address))
    }

    fn give_new(&mut self, address: IpAddr) -> Option<AddressId> {
        let is_free = |id: &AddressId| !self.ids.values().any(|taken| taken == id);
        let id = (1..=AddressId::MAX).find(is_free)?;
        self.ids.insert(address, id);
        Some(id)
    }

    /// Returns the ID of `address`, if it has one.
    pub(super) fn known(&self, address: IpAddr) -> Option<AddressId> {
        self.ids.get(&address).copied()
    }

    /// Records that the stack has assigned `id` to `address`.
    pub(super) fn learn(&mut self, address: IpAddr, id: AddressId) {
        self.ids.retain(|_, taken| *taken != id);
        self.ids.insert(address, id);
    }
}
