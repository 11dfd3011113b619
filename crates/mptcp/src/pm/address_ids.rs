//! The IDs of this side's addresses in one connection.

use std::net::IpAddr;

use super::AddressId;
use super::sorted_map::SortedMap;

/// Which ID each local address has; one address has one ID, as the kernel demands.
#[derive(Clone, Debug)]
pub(super) struct AddressIds {
    ids: SortedMap<IpAddr, AddressId>,
}

impl AddressIds {
    /// The initial subflow's address has ID 0 (RFC 8684, section 3.2).
    pub(super) fn new(initial: IpAddr) -> Self {
        Self {
            ids: SortedMap::of(initial, 0),
        }
    }

    /// The address's ID, the smallest free one if it has none yet; `None` if all 255 are taken.
    pub(super) fn id(&mut self, address: IpAddr) -> Option<AddressId> {
        self.known(address).or_else(|| self.give_new(address))
    }

    /// The ID with which to announce the address. ID 0 cannot be announced, so the initial address gets another one.
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

    /// The address's ID if it has one.
    pub(super) fn known(&self, address: IpAddr) -> Option<AddressId> {
        self.ids.get(&address).copied()
    }

    /// The stack has given this ID to this address.
    pub(super) fn learn(&mut self, address: IpAddr, id: AddressId) {
        self.ids.retain(|_, taken| *taken != id);
        self.ids.insert(address, id);
    }
}
