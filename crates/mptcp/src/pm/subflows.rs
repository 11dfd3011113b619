//! The subflows of a connection, and the local addresses with backup priority.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use super::sorted_map::SortedMap;
use super::{AddressId, AddressPair, Command, Connection, Event, FourTuple, Role};

/// Tracks the subflows of a connection by its events. Executes changes of priority, which are the
/// same for every policy.
#[derive(Clone, Debug)]
pub(super) struct Subflows {
    role: Role,
    initial: FourTuple,
    /// The subflows, with the ID of their remote address.
    present: SortedMap<FourTuple, AddressId>,
    backup: BTreeSet<IpAddr>,
}

impl Subflows {
    pub(super) fn new(connection: &Connection) -> Self {
        Self {
            role: connection.role,
            initial: connection.initial,
            present: SortedMap::of(connection.initial, 0),
            backup: connection.backup.clone(),
        }
    }

    pub(super) fn initial(&self) -> FourTuple {
        self.initial
    }

    /// Handles an event in the way that all policies share. Policies call this before their own
    /// handling.
    pub(super) fn handle(&mut self, event: &Event, commands: &mut Vec<Command>) {
        match event {
            Event::Established => self.command_priority(self.initial, commands),
            Event::SubflowEstablished {
                subflow, remote_id, ..
            } => {
                self.present.insert(*subflow, *remote_id);
                // The opener already sent the priority of its subflows in the SYN.
                if self.role == Role::Acceptor {
                    self.command_priority(*subflow, commands);
                }
            }
            Event::SubflowClosed { subflow, .. } => {
                self.present.remove(subflow);
            }
            Event::Backup { local, on } => self.set_backup(*local, *on, commands),
            _ => {}
        }
    }

    fn command_priority(&self, subflow: FourTuple, commands: &mut Vec<Command>) {
        if self.is_backup(subflow.local.ip()) {
            let backup = true;
            commands.push(Command::SetBackup { subflow, backup });
        }
    }

    fn set_backup(&mut self, local: IpAddr, on: bool, commands: &mut Vec<Command>) {
        if on {
            self.backup.insert(local);
        } else {
            self.backup.remove(&local);
        }
        let concerned = self.from(local);
        commands.extend(concerned.map(|subflow| Command::SetBackup {
            subflow,
            backup: on,
        }));
    }

    /// Returns whether new subflows from `local` have backup priority.
    pub(super) fn is_backup(&self, local: IpAddr) -> bool {
        self.backup.contains(&local)
    }

    /// Returns the subflows from the address `local`.
    pub(super) fn from(&self, local: IpAddr) -> impl Iterator<Item = FourTuple> {
        let present = self.present.keys().copied();
        present.filter(move |subflow| subflow.local.ip() == local)
    }

    /// Returns whether there are subflows, and all are from `local`.
    pub(super) fn are_from(&self, local: IpAddr) -> bool {
        let mut present = self.present.keys();
        !self.are_none() && present.all(|subflow| subflow.local.ip() == local)
    }

    /// Returns the subflows to `remote` whose remote address has an ID other than `id`.
    pub(super) fn to_under_other_id(
        &self,
        remote: IpAddr,
        id: AddressId,
    ) -> impl Iterator<Item = FourTuple> {
        let present = self.present.iter();
        present
            .filter(move |(subflow, its_id)| subflow.remote.ip() == remote && **its_id != id)
            .map(|(subflow, _)| *subflow)
    }

    /// Returns the distinct remote addresses and ports.
    pub(super) fn remotes(&self) -> impl Iterator<Item = SocketAddr> {
        let present = self.present.keys().map(|subflow| subflow.remote);
        BTreeSet::from_iter(present).into_iter()
    }

    /// Returns the number of subflows between two addresses.
    pub(super) fn count(&self, pair: AddressPair) -> usize {
        let present = self.present.keys();
        present.filter(|subflow| subflow.pair() == pair).count()
    }

    /// Returns whether there is no subflow, and so no way to send options to the peer.
    pub(super) fn are_none(&self) -> bool {
        self.present.is_empty()
    }
}
