//! The connections of a host whose paths the policies of `mptcp::pm` manage: events of the kernel
//! in, requests to the kernel out.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};

use experiment::time::Nanos;
use mptcp::pm::{
    AddressPair, Command, Connection, EndpointFlags, Event, FourTuple, PathManager, Role,
};

use super::messages::{Notification, NotificationKind as Kind, Request};
use super::plan::{FlowPlan, HostPlan};
use super::record::{Note, What};
use crate::Clock;

/// Sends a request to the kernel.
pub(super) type Kernel<'a> = dyn FnMut(&Request) -> io::Result<()> + 'a;

/// One connection.
#[derive(Debug)]
struct Managed {
    flow: Option<String>,
    /// `None` if the kernel manages its paths, or if its flow is unknown.
    policy: Option<Box<dyn PathManager>>,
    /// Its subflows over IPv4 whose sockets are for both address families. In requests about these,
    /// the kernel requires addresses mapped to IPv6.
    mapped: BTreeSet<FourTuple>,
    is_established: bool,
    /// The peer's addresses, by their IDs.
    remote_addresses: BTreeMap<u8, IpAddr>,
}

impl Managed {
    /// Records the address of an ID. For a withdrawal, returns the address.
    fn remote_of(&mut self, notification: &Notification) -> Option<IpAddr> {
        let id = notification.remote_id?;
        let told = notification.remote.map(|remote| remote.ip().to_canonical());
        match told {
            Some(address) => {
                self.remote_addresses.insert(id, address);
                None
            }
            None => self.remote_addresses.get(&id).copied(),
        }
    }
}

/// All connections of a host, by the kernel's token.
#[derive(Debug)]
pub(super) struct Connections {
    plan: HostPlan,
    managed: BTreeMap<u32, Managed>,
    backup: BTreeSet<IpAddr>,
    clock: Clock,
    notes: Vec<(Nanos, Note)>,
}

impl Connections {
    pub(super) fn new(plan: HostPlan, clock: Clock) -> Self {
        Self {
            plan,
            managed: BTreeMap::new(),
            backup: BTreeSet::new(),
            clock,
            notes: Vec::new(),
        }
    }

    /// Takes times from `clock` from now on.
    pub(super) fn restart(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Returns the events since the last call, with their times.
    pub(super) fn take_notes(&mut self) -> Vec<(Nanos, Note)> {
        std::mem::take(&mut self.notes)
    }

    /// Returns when [`Self::handle_timeout`] is to be called.
    pub(super) fn poll_timeout(&self) -> Option<Nanos> {
        let policies = self.managed.values().filter_map(|one| one.policy.as_ref());
        policies.filter_map(|policy| policy.poll_timeout()).min()
    }

    /// Calls the policies whose timeout is due.
    pub(super) fn handle_timeout(&mut self, now: Nanos, kernel: &mut Kernel) {
        let is_due = |one: &Managed| {
            let timeout = one.policy.as_ref().and_then(|policy| policy.poll_timeout());
            timeout.is_some_and(|at| at <= now)
        };
        let due = self.managed.iter().filter(|(_, one)| is_due(one));
        let due: Vec<u32> = due.map(|(token, _)| *token).collect();
        for token in due {
            let mut commands = Vec::new();
            if let Some(policy) = self.policy(token) {
                policy.handle_timeout(now, &mut commands);
            }
            self.carry_out(now, token, commands, kernel);
        }
    }

    fn policy(&mut self, token: u32) -> Option<&mut Box<dyn PathManager>> {
        self.managed.get_mut(&token)?.policy.as_mut()
    }

    /// Handles a change of a host's address, after the delay.
    pub(super) fn address_changed(
        &mut self,
        now: Nanos,
        address: IpAddr,
        up: bool,
        kernel: &mut Kernel,
    ) {
        let event = if up {
            Event::AddressUp(address)
        } else {
            Event::AddressDown(address)
        };
        self.pass_event_to_all(now, &event, kernel);
    }

    /// Gives subflows from this address backup priority, or takes it away.
    pub(super) fn set_backup(&mut self, now: Nanos, local: IpAddr, on: bool, kernel: &mut Kernel) {
        if on {
            self.backup.insert(local);
        } else {
            self.backup.remove(&local);
        }
        self.pass_event_to_all(now, &Event::Backup { local, on }, kernel);
    }

    fn pass_event_to_all(&mut self, now: Nanos, event: &Event, kernel: &mut Kernel) {
        let tokens: Vec<u32> = self.managed.keys().copied().collect();
        for token in tokens {
            self.pass_event(now, token, event, kernel);
        }
    }

    fn pass_event(&mut self, now: Nanos, token: u32, event: &Event, kernel: &mut Kernel) {
        let mut commands = Vec::new();
        if let Some(policy) = self.policy(token) {
            policy.handle(now, event, &mut commands);
        }
        self.carry_out(now, token, commands, kernel);
    }

    /// Handles an event of the kernel. `down` are the host's addresses that are not usable.
    pub(super) fn notified(
        &mut self,
        now: Nanos,
        notification: &Notification,
        down: &BTreeSet<IpAddr>,
        kernel: &mut Kernel,
    ) {
        let token = notification.token;
        if matches!(notification.kind, Kind::Created | Kind::Established) {
            self.begin(notification, down);
        }
        self.record_ends(notification);
        self.record_event(notification);
        match notification.kind {
            Kind::Created | Kind::SubflowPriority => {}
            Kind::Closed => {
                self.managed.remove(&token);
            }
            Kind::Established => {
                if let Some(one) = self.managed.get_mut(&token)
                    && !one.is_established
                {
                    one.is_established = true;
                    self.pass_event(now, token, &Event::Established, kernel);
                }
            }
            _ => {
                if let Some(event) = event_of(notification) {
                    self.pass_event(now, token, &event, kernel);
                }
            }
        }
    }

    /// Adds a connection, unless it is known.
    fn begin(&mut self, notification: &Notification, down: &BTreeSet<IpAddr>) {
        let (token, Some(initial)) = (notification.token, four_tuple(notification)) else {
            return;
        };
        if self.managed.contains_key(&token) {
            return;
        }
        let role = if notification.is_server_side {
            Role::Acceptor
        } else {
            Role::Opener
        };
        let flow = self.plan.flow_of(role, initial);
        let managed = Managed {
            flow: flow
                .filter(|(_, is_own)| *is_own)
                .map(|(flow, _)| flow.id.clone()),
            policy: flow.and_then(|(flow, _)| self.policy_for(flow, initial, down)),
            mapped: BTreeSet::new(),
            is_established: false,
            remote_addresses: BTreeMap::new(),
        };
        self.managed.insert(token, managed);
    }

    /// Records whether the kernel uses mapped addresses for a subflow.
    fn record_ends(&mut self, notification: &Notification) {
        let is_mapped = notification
            .local
            .is_some_and(|local| is_mapped(local.ip()));
        let managed = self.managed.get_mut(&notification.token);
        if let (Some(one), Some(subflow), true) = (managed, four_tuple(notification), is_mapped) {
            match notification.kind {
                Kind::SubflowClosed => one.mapped.remove(&subflow),
                _ => one.mapped.insert(subflow),
            };
        }
    }

    fn policy_for(
        &self,
        flow: &FlowPlan,
        initial: FourTuple,
        down: &BTreeSet<IpAddr>,
    ) -> Option<Box<dyn PathManager>> {
        let connection = Connection {
            role: flow.role,
            initial,
            pairs: flow.pairs_of_connection(initial.local.ip()).into(),
            down: down.clone(),
            backup: self.backup.clone(),
        };
        flow.policy
            .map(|policy| policy(&connection, &flow.parameters))
    }

    fn record_event(&mut self, notification: &Notification) {
        let what = match notification.kind {
            Kind::Created => What::ConnectionCreated,
            Kind::Established => What::ConnectionEstablished,
            Kind::Closed => What::ConnectionClosed,
            Kind::Announced => What::AnnouncementReceived,
            Kind::Removed => What::RemovalReceived,
            Kind::SubflowEstablished => What::SubflowEstablished,
            Kind::SubflowClosed => What::SubflowClosed,
            Kind::SubflowPriority => What::PriorityReceived,
        };
        let mut note = Note::new(what);
        note.local = notification.local.map(|local| canonical(local).into());
        note.remote = notification.remote.map(|remote| canonical(remote).into());
        note.local_id = notification.local_id;
        note.remote_id = notification.remote_id;
        note.backup = notification.backup;
        note.why = why(notification);
        if let Some(one) = self.managed.get_mut(&notification.token)
            && let Some(address) = one.remote_of(notification)
        {
            note.remote = Some(address.into());
        }
        self.record(notification.token, note);
    }

    fn record(&mut self, token: u32, mut note: Note) {
        let managed = self.managed.get(&token);
        note.token = Some(token);
        note.flow = managed.and_then(|one| one.flow.clone());
        self.notes.push((self.clock.now(), note));
    }

    /// Sends commands to the kernel. A refusal is recorded, and reported to the policy if it can
    /// react.
    fn carry_out(&mut self, now: Nanos, token: u32, commands: Vec<Command>, kernel: &mut Kernel) {
        for command in commands {
            self.record(token, note_of(&command));
            let one = self.managed.get(&token);
            let is_mapped =
                |subflow: &FourTuple| one.is_some_and(|one| one.mapped.contains(subflow));
            let Err(error) = kernel(&request_of(token, &command, is_mapped)) else {
                continue;
            };
            let mut refused = note_of(&command);
            refused.what = What::Refused;
            self.record(token, refused.why(error));
            if let Some(pair) = pair_of(&command) {
                self.pass_event(now, token, &Event::OpenFailed { pair }, kernel);
            }
        }
    }
}

fn pair_of(command: &Command) -> Option<AddressPair> {
    match command {
        Command::OpenSubflow { local, remote, .. } => Some(AddressPair {
            local: *local,
            remote: remote.ip(),
        }),
        _ => None,
    }
}

fn note_of(command: &Command) -> Note {
    match *command {
        Command::Announce { id, address, port } => Note::new(What::AddressAnnounced)
            .local(SocketAddr::new(address, port.unwrap_or(0)))
            .local_id(id),
        Command::Remove { id, address } => {
            Note::new(What::AddressRemoved).local(address).local_id(id)
        }
        Command::OpenSubflow {
            local,
            local_id,
            remote,
            backup,
            ..
        } => Note::new(What::SubflowOpening)
            .local(local)
            .local_id(local_id)
            .remote(remote)
            .backup(backup),
        Command::CloseSubflow { subflow } => Note::new(What::SubflowClosing)
            .local(subflow.local)
            .remote(subflow.remote),
        Command::SetBackup { subflow, backup } => Note::new(What::PrioritySet)
            .local(subflow.local)
            .remote(subflow.remote)
            .backup(backup),
    }
}

fn request_of(token: u32, command: &Command, is_mapped: impl Fn(&FourTuple) -> bool) -> Request {
    let ends = |subflow: &FourTuple| match is_mapped(subflow) {
        true => (mapped(subflow.local), mapped(subflow.remote)),
        false => (subflow.local, subflow.remote),
    };
    match *command {
        Command::Announce { id, address, port } => Request::Announce {
            token,
            id,
            address,
            port,
        },
        Command::Remove { id, .. } => Request::Remove { token, id },
        Command::OpenSubflow {
            local,
            local_id,
            remote,
            backup,
            ..
        } => Request::Create {
            token,
            local,
            local_id,
            remote,
            flags: backup_flag(backup),
        },
        Command::CloseSubflow { subflow } => {
            let (local, remote) = ends(&subflow);
            Request::Destroy {
                token,
                local,
                remote,
            }
        }
        Command::SetBackup { subflow, backup } => {
            let (local, remote) = ends(&subflow);
            Request::SetSubflowFlags {
                token,
                local,
                remote,
                flags: backup_flag(backup),
            }
        }
    }
}

fn backup_flag(backup: bool) -> u32 {
    if backup {
        EndpointFlags::BACKUP.bits()
    } else {
        0
    }
}

/// Returns the event for a policy; `None` if an attribute is missing.
fn event_of(notification: &Notification) -> Option<Event> {
    Some(match notification.kind {
        Kind::Announced => {
            let address = canonical(notification.remote?);
            Event::Announced {
                id: notification.remote_id?,
                address: address.ip(),
                port: Some(address.port()).filter(|&port| port != 0),
            }
        }
        Kind::Removed => Event::Removed {
            id: notification.remote_id?,
        },
        Kind::SubflowEstablished => Event::SubflowEstablished {
            subflow: four_tuple(notification)?,
            local_id: notification.local_id?,
            remote_id: notification.remote_id?,
        },
        Kind::SubflowClosed => Event::SubflowClosed {
            subflow: four_tuple(notification)?,
        },
        _ => return None,
    })
}

fn four_tuple(notification: &Notification) -> Option<FourTuple> {
    Some(FourTuple {
        local: canonical(notification.local?),
        remote: canonical(notification.remote?),
    })
}

fn why(notification: &Notification) -> Option<String> {
    let error = notification.error.map(|error| {
        let error = io::Error::from_raw_os_error(error.into());
        error.to_string()
    });
    let reset = notification.reset_reason;
    let reset = reset.map(|reason| format!("reset by the peer: {}", reset_reason(reason)));
    let texts: Vec<String> = error.into_iter().chain(reset).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// Returns the text of a reset reason (RFC 8684, section 3.6).
fn reset_reason(reason: u32) -> String {
    match reason {
        0 => "unspecified error".to_owned(),
        1 => "error specific to Multipath TCP".to_owned(),
        2 => "lack of resources".to_owned(),
        3 => "administratively prohibited".to_owned(),
        4 => "too much outstanding data".to_owned(),
        5 => "unacceptable performance".to_owned(),
        6 => "middlebox interference".to_owned(),
        _ => format!("reason {reason}"),
    }
}

fn is_mapped(address: IpAddr) -> bool {
    address.to_canonical() != address
}

fn canonical(end: SocketAddr) -> SocketAddr {
    SocketAddr::new(end.ip().to_canonical(), end.port())
}

fn mapped(end: SocketAddr) -> SocketAddr {
    match end.ip() {
        IpAddr::V4(address) => SocketAddr::new(address.to_ipv6_mapped().into(), end.port()),
        IpAddr::V6(_) => end,
    }
}
