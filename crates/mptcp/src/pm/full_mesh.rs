//! `full_mesh`: a subflow on every pair of addresses that the network routes, for as long as both addresses are there.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::Role;
use super::address_ids::AddressIds;
use super::retry::{Failures, Recreation, Waits};
use super::sorted_map::SortedMap;
use super::subflows::Subflows;
use super::{AddressId, AddressPair, Command, Connection, Event, FourTuple, Nanos, PathManager};

/// The opener opens the missing pairs when the connection is established, when an address comes back at either end, and
/// some time after a subflow has failed or was closed by others ([`Recreation`]). Either side, when it loses an address, closes its subflows and tells the peer; the acceptor
/// announces an address that is back, again and again until there is a subflow to it.
#[derive(Clone, Debug)]
pub struct FullMesh {
    role: Role,
    recreation: Recreation,
    established: bool,
    subflows: Subflows,
    ids: AddressIds,
    down: BTreeSet<IpAddr>,
    pairs: Arc<[AddressPair]>,
    /// Of pairs of which something is known: of an opener, and only those that it may open. A peer can join from addresses without end.
    states: SortedMap<AddressPair, PairState>,
    peer: PeerAddresses,
    /// Those of an acceptor, once it has any.
    announcements: Option<Box<Announcements>>,
}

/// What is known of a pair beside its subflows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PairState {
    opening: bool,
    /// Its subflow failed and is not opened again; only an address that is back changes that.
    is_given_up: bool,
    retry_at: Option<Nanos>,
    failures: Failures,
}

/// Local addresses that are back, and of which the opener may not have heard yet.
#[derive(Clone, Debug, Default)]
struct Announcements {
    addresses: BTreeSet<IpAddr>,
    /// One that is gone, and that the last subflows wait for. Closed while they cannot say so, they would leave a peer that has
    /// nothing to send in the belief that they live, and nobody here can open others.
    awaited: Option<IpAddr>,
    failures: Failures,
    retry_at: Option<Nanos>,
}

impl Announcements {
    fn add(&mut self, address: IpAddr) {
        self.addresses.insert(address);
        self.failures.forget();
    }

    fn remove(&mut self, address: IpAddr) {
        self.addresses.remove(&address);
        if self.addresses.is_empty() {
            self.retry_at = None;
        }
    }
}

/// What the peer has said about its addresses.
#[derive(Clone, Debug, Default)]
struct PeerAddresses {
    by_id: SortedMap<AddressId, IpAddr>,
    ports: SortedMap<IpAddr, u16>,
    removed: BTreeSet<IpAddr>,
    /// Pairs that it, or a handshake, refused for good.
    unfit: BTreeSet<AddressPair>,
}

impl PeerAddresses {
    fn new(initial: IpAddr) -> Self {
        Self {
            by_id: SortedMap::of(0, initial),
            ..Self::default()
        }
    }

    fn address(&self, id: AddressId) -> Option<IpAddr> {
        self.by_id.get(&id).copied()
    }

    fn announce(&mut self, id: AddressId, address: IpAddr, port: Option<u16>) {
        self.by_id.insert(id, address);
        self.removed.remove(&address);
        self.unfit.retain(|pair| pair.remote != address);
        if let Some(port) = port {
            self.ports.insert(address, port);
        }
    }
}

impl FullMesh {
    /// For a new connection.
    pub fn new(connection: &Connection, recreation: Recreation) -> Self {
        let initial = connection.initial;
        Self {
            role: connection.role,
            recreation,
            established: false,
            subflows: Subflows::new(connection),
            ids: AddressIds::new(initial.local.ip()),
            down: connection.down.clone(),
            pairs: Arc::clone(&connection.pairs),
            states: SortedMap::default(),
            peer: PeerAddresses::new(initial.remote.ip()),
            announcements: None,
        }
    }

    /// Opens every pair that could have a subflow and has none. `forced` pairs do not wait for their next try.
    fn open_missing(&mut self, forced: impl Fn(AddressPair) -> bool, commands: &mut Vec<Command>) {
        if self.role == Role::Acceptor || !self.established {
            return;
        }
        for &pair in &*Arc::clone(&self.pairs) {
            let state = self.states.get(&pair);
            let rests = state.is_some_and(|it| it.is_given_up || it.retry_at.is_some());
            if (!rests || forced(pair)) && self.is_missing(pair) {
                self.open(pair, commands);
            }
        }
    }

    fn is_missing(&self, pair: AddressPair) -> bool {
        self.is_usable(pair) && !self.is_opening(pair) && self.subflows.count(pair) == 0
    }

    fn is_opening(&self, pair: AddressPair) -> bool {
        self.states.get(&pair).is_some_and(|state| state.opening)
    }

    fn is_usable(&self, pair: AddressPair) -> bool {
        let is_refused =
            self.peer.removed.contains(&pair.remote) || self.peer.unfit.contains(&pair);
        !self.down.contains(&pair.local) && !is_refused
    }

    fn open(&mut self, pair: AddressPair, commands: &mut Vec<Command>) {
        let Some(local_id) = self.ids.id(pair.local) else {
            return;
        };
        let announced_port = self.peer.ports.get(&pair.remote).copied();
        let port = announced_port.unwrap_or(self.subflows.initial().remote.port());
        commands.push(Command::OpenSubflow {
            local: pair.local,
            local_id,
            remote: SocketAddr::new(pair.remote, port),
            backup: self.subflows.is_backup(pair.local),
            via: Vec::new(),
        });
        let state = self.state(pair);
        state.opening = true;
        state.is_given_up = false;
        state.retry_at = None;
    }

    fn state(&mut self, pair: AddressPair) -> &mut PairState {
        self.states.get_or_insert_with(pair, PairState::default)
    }

    fn subflow_established(
        &mut self,
        subflow: FourTuple,
        local_id: AddressId,
        remote_id: AddressId,
    ) {
        self.ids.learn(subflow.local.ip(), local_id);
        self.peer.by_id.insert(remote_id, subflow.remote.ip());
        let pair = subflow.pair();
        let Some(state) = self.states.get_mut(&pair) else {
            return;
        };
        state.opening = false;
        state.is_given_up = false;
        state.retry_at = None;
        if *state == PairState::default() {
            self.states.remove(&pair);
        }
    }

    /// Of several subflows on a pair the newest is known to work; the others date from before an address came back.
    fn close_older(&self, newest: FourTuple, commands: &mut Vec<Command>) {
        if self.role == Role::Acceptor {
            return;
        }
        let older = self.subflows.from(newest.local.ip());
        let older = older.filter(|one| one.pair() == newest.pair() && *one != newest);
        commands.extend(older.map(|subflow| Command::CloseSubflow { subflow }));
    }

    fn subflow_closed(&mut self, now: Nanos, pair: AddressPair) {
        if let Some(state) = self.states.get_mut(&pair) {
            state.opening = false;
        }
        if self.subflows.are_none() {
            self.try_all(now);
        } else if self.subflows.count(pair) == 0 {
            self.recreate(now, pair);
        }
    }

    fn recreate(&mut self, now: Nanos, pair: AddressPair) {
        if self.role == Role::Acceptor || !self.pairs.contains(&pair) {
            return;
        }
        match self.recreation {
            Recreation::Never => self.state(pair).is_given_up = true,
            Recreation::Backoff(waits) => self.try_again(now, pair, waits),
        }
    }

    /// Without any subflow the peer cannot announce what is back: what it has removed or refused is worth a try too.
    fn try_all(&mut self, now: Nanos) {
        self.peer.removed.clear();
        self.peer.unfit.clear();
        for &pair in &*Arc::clone(&self.pairs) {
            if !self.is_opening(pair) {
                self.recreate(now, pair);
            }
        }
    }

    /// After a while; not if an address of the pair is gone, for then its return is waited for.
    fn try_again(&mut self, now: Nanos, pair: AddressPair, waits: Waits) {
        if self.is_usable(pair) {
            let state = self.state(pair);
            state.opening = false;
            let next = state.failures.next_try(now, waits);
            state.retry_at.get_or_insert(next);
        }
    }

    fn address_down(&mut self, local: IpAddr, commands: &mut Vec<Command>) {
        self.down.insert(local);
        self.peer.unfit.retain(|pair| pair.local != local);
        if let Some(announcements) = &mut self.announcements {
            announcements.remove(local);
        }
        self.forget(|pair| pair.local == local);
        if self.role == Role::Acceptor && self.subflows.are_from(local) {
            self.announcements.get_or_insert_default().awaited = Some(local);
        } else {
            self.give_up(local, commands);
        }
    }

    /// With another subflow there is one that can say that the awaited address is gone.
    fn stop_waiting(&mut self, commands: &mut Vec<Command>) {
        let is_left = |local: &mut IpAddr| !self.subflows.are_from(*local);
        let announcements = self.announcements.as_mut();
        if let Some(local) = announcements.and_then(|all| all.awaited.take_if(is_left)) {
            self.give_up(local, commands);
        }
    }

    fn give_up(&mut self, local: IpAddr, commands: &mut Vec<Command>) {
        if let Some(id) = self.ids.known(local).filter(|_| self.established) {
            let address = local;
            commands.push(Command::Remove { id, address });
        }
        let closed = self.subflows.from(local);
        commands.extend(closed.map(|subflow| Command::CloseSubflow { subflow }));
    }

    fn address_up(&mut self, now: Nanos, local: IpAddr, commands: &mut Vec<Command>) {
        self.down.remove(&local);
        match self.role {
            Role::Opener => self.open_missing(|pair| pair.local == local, commands),
            Role::Acceptor => {
                let announcements = self.announcements.as_mut();
                let awaited = announcements.and_then(|all| all.awaited.take_if(|it| *it == local));
                if awaited.is_some() && self.subflows.from(local).next().is_some() {
                    return;
                }
                // Only addresses that the description routes, and only to a peer that can hear it.
                if self.established && self.pairs.iter().any(|pair| pair.local == local) {
                    self.announcements.get_or_insert_default().add(local);
                    self.announce(now, commands);
                }
            }
        }
    }

    /// All that the peer may not have heard. Without a subflow nothing can be said: the next one that the opener opens
    /// says it.
    fn announce(&mut self, now: Nanos, commands: &mut Vec<Command>) {
        let Some(announcements) = &mut self.announcements else {
            return;
        };
        if announcements.addresses.is_empty() || self.subflows.are_none() {
            announcements.retry_at = None;
            return;
        }
        for &address in &announcements.addresses {
            if let Some(id) = self.ids.id_to_announce(address) {
                let port = None;
                commands.push(Command::Announce { id, address, port });
            }
        }
        let next = announcements.failures.next_try(now, Waits::OF_ANNOUNCEMENT);
        announcements.retry_at = Some(next);
    }

    /// Nothing came of an announcement: it was lost, or an earlier removal was and the peer believes that it still has
    /// subflows to these addresses.
    fn announce_again(&mut self, now: Nanos, commands: &mut Vec<Command>) {
        for &address in self.announcements.iter().flat_map(|it| &it.addresses) {
            if let Some(id) = self.ids.id_to_announce(address) {
                commands.push(Command::Remove { id, address });
            }
        }
        self.announce(now, commands);
    }

    fn announced_again_at(&self) -> Option<Nanos> {
        self.announcements.as_ref()?.retry_at
    }

    /// A subflow shows that the peer knows its address, and makes a way to tell of the others.
    fn heard(&mut self, now: Nanos, subflow: FourTuple, commands: &mut Vec<Command>) {
        if let Some(announcements) = &mut self.announcements {
            announcements.remove(subflow.local.ip());
        }
        if self.announced_again_at().is_none() {
            self.announce(now, commands);
        }
    }

    /// Whether a subflow could ever go to that address; of others nothing is kept, however many are announced.
    fn is_routed(&self, remote: IpAddr) -> bool {
        self.pairs.iter().any(|pair| pair.remote == remote)
    }

    /// The stack closes the subflows whose address has this ID; the same address may also be known by another one.
    fn removed(&mut self, id: AddressId, commands: &mut Vec<Command>) {
        if let Some(remote) = self.peer.address(id) {
            if self.is_routed(remote) {
                self.peer.removed.insert(remote);
            }
            self.forget(|pair| pair.remote == remote);
            let others = self.subflows.to_under_other_id(remote, id);
            commands.extend(others.map(|subflow| Command::CloseSubflow { subflow }));
        }
    }

    /// Pairs whose address is gone are neither opening nor waiting, and start afresh when it comes back.
    fn forget(&mut self, concerned: impl Fn(&AddressPair) -> bool) {
        self.states.retain(|pair, _| !concerned(pair));
    }
}

impl PathManager for FullMesh {
    fn local_id(&mut self, local: SocketAddr) -> Option<AddressId> {
        self.ids.id(local.ip())
    }

    fn handle(&mut self, now: Nanos, event: &Event, commands: &mut Vec<Command>) {
        self.subflows.handle(event, commands);
        match *event {
            Event::Established => {
                self.established = true;
                self.open_missing(|_| true, commands);
            }
            Event::AddressDown(local) => self.address_down(local, commands),
            Event::AddressUp(local) => self.address_up(now, local, commands),
            Event::Backup { .. } => {}
            Event::Announced { id, address, port } if self.is_routed(address) => {
                self.peer.announce(id, address, port);
                self.open_missing(|pair| pair.remote == address, commands);
            }
            Event::Announced { .. } => {}
            Event::Removed { id } => self.removed(id, commands),
            Event::SubflowEstablished {
                subflow,
                local_id,
                remote_id,
            } => {
                self.subflow_established(subflow, local_id, remote_id);
                self.close_older(subflow, commands);
                self.heard(now, subflow, commands);
                self.stop_waiting(commands);
            }
            Event::Unfit { pair } if self.pairs.contains(&pair) => {
                self.peer.unfit.insert(pair);
            }
            Event::Unfit { .. } => {}
            Event::Progress => self
                .states
                .values_mut()
                .for_each(|state| state.failures.forget()),
            Event::SubflowClosed { subflow } => self.subflow_closed(now, subflow.pair()),
            Event::OpenFailed { pair } => {
                self.try_again(now, pair, self.recreation.waits_after_refusal());
            }
        }
    }

    fn poll_timeout(&self) -> Option<Nanos> {
        let pairs = self.states.values().filter_map(|state| state.retry_at);
        pairs.chain(self.announced_again_at()).min()
    }

    fn handle_timeout(&mut self, now: Nanos, commands: &mut Vec<Command>) {
        for state in self.states.values_mut() {
            state.retry_at = state.retry_at.filter(|&at| at > now);
        }
        self.open_missing(|_| false, commands);
        if self.announced_again_at().is_some_and(|at| at <= now) {
            self.announce_again(now, commands);
        }
    }
}

#[cfg(test)]
mod tests;
