//! The subflows a connection has, and which local addresses are backup ones.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use super::sorted_map::SortedMap;
use super::{AddressId, AddressPair, Command, Connection, Event, FourTuple, Role};

/// Kept up to date by events; carries out changes of priority, which every policy has in common.
#[derive(Clone, Debug)]
pub(super) struct Subflows {
    role: Role,
    initial: FourTuple,
    /// With the ID of the remote address.
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

    /// What every policy does with an event, before its own part.
    pub(super) fn handle(&mut self, event: &Event, commands: &mut Vec<Command>) {
        match event {
            Event::Established => self.tell_priority(self.initial, commands),
            Event::SubflowEstablished {
                subflow, remote_id, ..
            } => {
                self.present.insert(*subflow, *remote_id);
                // What the opener opened has said so in its SYN.
                if self.role == Role::Acceptor {
                    self.tell_priority(*subflow, commands);
                }
            }
            Event::SubflowClosed { subflow, .. } => {
                self.present.remove(subflow);
            }
            Event::Backup { local, on } => self.set_backup(*local, *on, commands),
            _ => {}
        }
    }

    fn tell_priority(&self, subflow: FourTuple, commands: &mut Vec<Command>) {
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

    /// Whether new subflows from this address are backup ones.
    pub(super) fn is_backup(&self, local: IpAddr) -> bool {
        self.backup.contains(&local)
    }

    /// The subflows from a local address.
    pub(super) fn from(&self, local: IpAddr) -> impl Iterator<Item = FourTuple> {
        let present = self.present.keys().copied();
        present.filter(move |subflow| subflow.local.ip() == local)
    }

    /// Whether there are some, and all are from that address.
    pub(super) fn are_from(&self, local: IpAddr) -> bool {
        let mut present = self.present.keys();
        !self.are_none() && present.all(|subflow| subflow.local.ip() == local)
    }

    /// The subflows to a remote address, known to the peer by another ID than this one.
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

    /// The remote ends, each once.
    pub(super) fn remotes(&self) -> impl Iterator<Item = SocketAddr> {
        let present = self.present.keys().map(|subflow| subflow.remote);
        BTreeSet::from_iter(present).into_iter()
    }

    /// The number of subflows between two addresses.
    pub(super) fn count(&self, pair: AddressPair) -> usize {
        let present = self.present.keys();
        present.filter(|subflow| subflow.pair() == pair).count()
    }

    /// Whether there is any way to tell the peer something.
    pub(super) fn are_none(&self) -> bool {
        self.present.is_empty()
    }
}
