//! `full_mesh`: keeps a subflow on every routed address pair for as long as both addresses are up.

use super::Entry;
use crate::algorithm::Description;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::Role;
use super::address_ids::AddressIds;
use super::retry::{Failures, Recreation, Waits};
use super::sorted_map::SortedMap;
use super::subflows::Subflows;
use super::{AddressId, AddressPair, Command, Connection, Event, FourTuple, Nanos, PathManager};

/// Its name, parameters and constructor.
pub(super) const ROW: Entry = Entry {
    description: Description {
        name: "full_mesh",
        aliases: &[],
        summary: "Opens a subflow between every pair of addresses for which the description gives the flow a route, and adds and removes subflows as addresses come and go",
        source: "fullmesh of the out-of-tree kernel",
        parameters: &[],
    },
    make: |connection, given| Box::new(FullMesh::new(connection, given.recreation)),
};

/// The path manager `full_mesh`: keeps a subflow on every address pair.
///
/// The opener opens a subflow on each pair that has none: when the connection is established, when
/// an address of either host comes back, and some time after a subflow failed or was closed by the
/// peer or the stack ([`Recreation`]). When an address is lost, its host closes the subflows of
/// this address and sends REMOVE_ADDR. The acceptor announces an address that is back and repeats
/// the announcement until the address has a subflow.
#[derive(Clone, Debug)]
pub struct FullMesh {
    role: Role,
    recreation: Recreation,
    established: bool,
    subflows: Subflows,
    ids: AddressIds,
    down: BTreeSet<IpAddr>,
    pairs: Arc<[AddressPair]>,
    /// State of the opener's pairs. Only pairs that the opener may open are kept, because a peer
    /// can join from an unlimited number of addresses.
    states: SortedMap<AddressPair, PairState>,
    peer: PeerAddresses,
    /// Announcements of the acceptor. `None` until there are any.
    announcements: Option<Box<Announcements>>,
}

/// State of a pair, apart from its subflows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PairState {
    opening: bool,
    /// Whether the subflow failed and is not reopened until one of its addresses comes back or is
    /// announced.
    is_given_up: bool,
    retry_at: Option<Nanos>,
    failures: Failures,
}

/// Local addresses that are back and that the opener may not know of yet.
#[derive(Clone, Debug, Default)]
struct Announcements {
    addresses: BTreeSet<IpAddr>,
    /// A local address that is gone while all remaining subflows use it. They stay open, because
    /// the peer would not learn of the close: an idle peer would believe that they are still alive,
    /// and the acceptor cannot open new ones.
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

/// The peer's addresses, as far as its options named them.
#[derive(Clone, Debug, Default)]
struct PeerAddresses {
    by_id: SortedMap<AddressId, IpAddr>,
    ports: SortedMap<IpAddr, u16>,
    removed: BTreeSet<IpAddr>,
    /// Pairs that the peer or a failed handshake ruled out ([`Event::Unfit`]).
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
    /// Creates the policy for the new connection `connection`. `recreation` determines whether and
    /// when failed subflows are reopened.
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

    /// Opens a subflow on every usable pair that has none. Pairs for which `forced` is true do not
    /// wait for their retry.
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

    /// Closes all subflows on a pair except the newest. The newest is known to work; the others
    /// date from before an address came back.
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

    /// Retries all pairs, because without a subflow the peer cannot announce addresses that are
    /// back. This includes addresses that the peer withdrew and pairs that it ruled out.
    fn try_all(&mut self, now: Nanos) {
        self.peer.removed.clear();
        self.peer.unfit.clear();
        for &pair in &*Arc::clone(&self.pairs) {
            if !self.is_opening(pair) {
                self.recreate(now, pair);
            }
        }
    }

    /// Schedules a retry, unless an address of the pair is down. Its return then opens the pair.
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

    /// Withdraws the awaited address as soon as a subflow from another address can carry the
    /// withdrawal.
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
                // Announces only routed addresses, and only once the peer can process
                // announcements.
                if self.established && self.pairs.iter().any(|pair| pair.local == local) {
                    self.announcements.get_or_insert_default().add(local);
                    self.announce(now, commands);
                }
            }
        }
    }

    /// Announces all addresses that the peer may not know of. Without a subflow, the announcements
    /// wait for the next one.
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

    /// Repeats announcements that had no effect, preceded by withdrawals. Either the announcement
    /// was lost, or an earlier withdrawal was lost and the peer believes that it still has subflows
    /// to these addresses.
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

    /// A new subflow shows that the peer knows its local address, and can carry other
    /// announcements.
    fn on_subflow_established(
        &mut self,
        now: Nanos,
        subflow: FourTuple,
        commands: &mut Vec<Command>,
    ) {
        if let Some(announcements) = &mut self.announcements {
            announcements.remove(subflow.local.ip());
        }
        if self.announced_again_at().is_none() {
            self.announce(now, commands);
        }
    }

    /// Returns whether a pair leads to `remote`. Other addresses are ignored, so that a peer cannot
    /// use up memory with announcements.
    fn is_routed(&self, remote: IpAddr) -> bool {
        self.pairs.iter().any(|pair| pair.remote == remote)
    }

    /// Handles REMOVE_ADDR for `id`. The stack closes the subflows whose remote address has this
    /// ID; the policy closes those to the same address under other IDs.
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

    /// Forgets pairs whose address is gone. They start without failures when it comes back.
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
                self.on_subflow_established(now, subflow, commands);
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
