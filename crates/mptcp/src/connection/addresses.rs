//! Announcement and withdrawal of addresses, and the commands of the path manager (RFC 8684,
//! sections 3.2, 3.4 and 3.3.8).

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use super::lifecycle::LifecycleEvent;
use super::{Connection, Mode, SubflowContext, SubflowStart};
use crate::failure::waits;
use crate::pm::{self, AddressPair, Command, FourTuple};
use crate::time::{Nanos, SECOND};
use crate::wire::{
    AddressId, Hops, MptcpOption, MptcpOptionV0, RemovedAddresses, ResetReason, SignalledAddress,
    Version,
};

/// Longest wait for the echo of an announcement (Linux: `net.mptcp.add_addr_timeout`).
const ECHO_TIMEOUT: Nanos = 120 * SECOND;

/// Number of hops for which an IPv4 header has room.
const MAX_HOPS: usize = 9;

/// A request of the path manager to open a subflow. [`Connection::join`] carries it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRequest {
    /// The local address of the subflow.
    pub local: IpAddr,
    /// The address ID of `local`.
    pub local_id: AddressId,
    /// The remote address and port of the subflow.
    pub remote: SocketAddr,
    /// Whether the subflow has backup priority (flag B of MP_JOIN).
    pub backup: bool,
    /// The gateway list of the subflow: the routers that its packets pass, in order. Usually empty.
    pub via: Hops,
}

impl JoinRequest {
    /// Returns the addresses and ports of the subflow if its local port is `local_port`.
    pub fn four(&self, local_port: u16) -> FourTuple {
        FourTuple {
            local: SocketAddr::new(self.local, local_port),
            remote: self.remote,
        }
    }

    fn pair(&self) -> AddressPair {
        AddressPair {
            local: self.local,
            remote: self.remote.ip(),
        }
    }
}

/// Announcements that the peer has not echoed.
#[derive(Debug, Default)]
pub(super) struct Announcements(Vec<Announcement>);

#[derive(Debug)]
struct Announcement {
    address: SignalledAddress,
    /// Waits before the remaining repetitions.
    waits: VecDeque<Nanos>,
    repeat_at: Nanos,
}

impl Announcements {
    pub(super) fn poll_timeout(&self) -> Option<Nanos> {
        self.0
            .iter()
            .map(|announcement| announcement.repeat_at)
            .min()
    }

    /// Removes the echoed announcement. An echo equals the announcement, including the port,
    /// without its HMAC (section 3.4.1).
    fn handle_echo(&mut self, echo: &SignalledAddress) {
        self.0.retain(|announcement| {
            let awaited = SignalledAddress {
                truncated_hmac: None,
                ..announcement.address
            };
            awaited != *echo
        });
    }
}

impl Connection {
    /// Handles a change of a local address at `now`. `event` states that the address came up, went
    /// down, or changed its backup priority. All other events for the path manager come from the
    /// connection itself.
    pub fn handle_address_event(&mut self, now: Nanos, event: &pm::Event) {
        for way in &mut self.ways {
            // The commands are dropped, because nothing can be done before the start.
            way.path_manager.handle(now, event, &mut Vec::new());
        }
        if self.session.mode != Mode::Plain {
            self.manage(now, event);
        }
        if let pm::Event::AddressUp(local) = *event {
            self.suspect_subflows_from(now, local);
        }
    }

    pub(super) fn carry_out(&mut self, now: Nanos, commands: &[Command]) {
        for command in commands {
            match command {
                Command::Announce { id, address, port } => {
                    self.announce(now, *id, *address, *port);
                }
                Command::Remove { id, .. } => self.remove_address(*id),
                Command::OpenSubflow {
                    local,
                    local_id,
                    remote,
                    backup,
                    via,
                } => self.request_join(
                    now,
                    JoinRequest {
                        local: *local,
                        local_id: *local_id,
                        remote: *remote,
                        backup: *backup,
                        via: via.iter().copied().take(MAX_HOPS).collect(),
                    },
                ),
                Command::CloseSubflow { subflow } => self.close_subflow(now, *subflow),
                Command::SetBackup { subflow, backup } => self.queue_priority(*subflow, *backup),
            }
        }
    }

    /// Queues a join request. Refuses one to the peer's initial address and port if the peer set
    /// flag C (section 3.1), and one between IPv4 and IPv6.
    fn request_join(&mut self, now: Nanos, request: JoinRequest) {
        let is_alike = request.local.is_ipv4() == request.remote.is_ipv4();
        let is_unwanted = !self.session.may_join_initial && request.remote == self.initial.remote;
        if is_unwanted || !is_alike {
            self.refuse_join(now, &request);
        } else {
            self.join_requests.push_back(request);
        }
    }

    /// Notifies the path manager that the connection may open further subflows, once
    /// [`SubflowStart`] allows it.
    pub(super) fn start_subflows_if_due(&mut self, now: Nanos) {
        if self.established_at.is_none() || !self.awaits_subflow_start() {
            return;
        }
        let carried_bytes = self.send.acked() + self.receive.next();
        let has_carried = match self.config.subflow_start {
            SubflowStart::AtOnce => true,
            SubflowStart::After { bytes, .. } => carried_bytes >= bytes,
        };
        if has_carried || self.subflow_start_at().is_some_and(|at| at <= now) {
            self.has_subflow_start = true;
            self.manage(now, &pm::Event::Established);
        }
    }

    fn awaits_subflow_start(&self) -> bool {
        !self.has_subflow_start && self.session.mode == Mode::Multipath && self.closed.is_none()
    }

    /// Returns when the connection may open further subflows because of its age, if that is still
    /// to come.
    pub(super) fn subflow_start_at(&self) -> Option<Nanos> {
        match self.config.subflow_start {
            SubflowStart::After { age, .. } if self.awaits_subflow_start() => {
                self.established_at.map(|at| at.saturating_add(age))
            }
            _ => None,
        }
    }

    fn announce(&mut self, now: Nanos, id: AddressId, address: IpAddr, port: Option<u16>) {
        let Some(keys) = self.session.keys() else {
            return;
        };
        if self.session.version == Version::Zero {
            // It has no HMAC, and is sent once because nothing echoes it (RFC 6824, section 3.4.1).
            let option = MptcpOptionV0::AddAddress { id, address, port };
            self.queue_option(MptcpOption::Version0(Box::new(option)));
            return;
        }
        let address = SignalledAddress {
            id,
            address,
            port,
            truncated_hmac: Some(keys.address_hmac(id, address, port)),
        };
        self.queue_option(MptcpOption::AddAddress(Box::new(address)));
        let Some(timer) = self.config.behaviour.add_address else {
            return;
        };
        let mut waits: VecDeque<_> = waits(timer, self.longest_rto(), ECHO_TIMEOUT).collect();
        if let Some(first) = waits.pop_front() {
            self.announcements.0.push(Announcement {
                address,
                waits,
                repeat_at: now + first,
            });
        }
    }

    fn longest_rto(&self) -> Option<Nanos> {
        self.subflows.iter().map(|context| context.tcp.rto()).max()
    }

    /// Repeats announcements that were not echoed in time.
    pub(super) fn repeat_announcements(&mut self, now: Nanos) {
        let mut due = Vec::new();
        self.announcements.0.retain_mut(|announcement| {
            if announcement.repeat_at > now {
                return true;
            }
            due.push(announcement.address);
            let next = announcement.waits.pop_front();
            announcement.repeat_at = now + next.unwrap_or(0);
            next.is_some()
        });
        for address in due {
            self.queue_option(MptcpOption::AddAddress(Box::new(address)));
        }
    }

    fn remove_address(&mut self, id: AddressId) {
        self.announcements
            .0
            .retain(|announcement| announcement.address.id != id);
        for (context, _) in self
            .subflows
            .iter_mut()
            .filter(|(context, _)| context.local_id == id)
        {
            context.has_lost_address = true;
        }
        let ids = RemovedAddresses::from([id]);
        // The subflow from that address is about to close.
        self.queue_option_where(MptcpOption::RemoveAddress(ids), |context| {
            context.local_id != id
        });
    }

    /// Sends an option on the first subflow that works.
    fn queue_option(&mut self, option: MptcpOption) {
        self.queue_option_where(option, |_| true);
    }

    fn queue_option_where(
        &mut self,
        option: MptcpOption,
        is_fit: impl Fn(&SubflowContext) -> bool,
    ) {
        let works = |context: &SubflowContext| context.is_healthy() && is_fit(context);
        if let Some(subflow) = self.subflows.iter().position(works) {
            self.subflows[subflow].signal(option);
        }
    }

    /// Closes a working subflow with FIN, and any other with RST (section 3.4.2).
    fn close_subflow(&mut self, now: Nanos, four: FourTuple) {
        let Some(context) = self.subflows.with_ends(four) else {
            return;
        };
        if context.is_healthy() && !context.has_lost_address {
            context.life.apply(LifecycleEvent::RetirementRequested);
            self.has_retiring = true;
            self.retire_subflows(now);
        } else {
            context.reset(ResetReason::UNSPECIFIED);
        }
    }

    pub(super) fn queue_priority(&mut self, four: FourTuple, backup: bool) {
        if let Some(context) = self.subflows.with_ends(four) {
            context.signals.is_backup_local = backup;
            context.signal(MptcpOption::Priority { backup });
        }
    }

    /// Echoes an announcement with a correct HMAC. Ignores any other (section 3.4.1).
    pub(super) fn handle_announcement(
        &mut self,
        now: Nanos,
        subflow: usize,
        signalled: &SignalledAddress,
    ) {
        let SignalledAddress {
            id,
            address,
            port,
            truncated_hmac,
        } = *signalled;
        let Some(hmac) = truncated_hmac else {
            self.announcements.handle_echo(signalled);
            return;
        };
        let expected = self
            .session
            .keys()
            .map(|keys| keys.peer_address_hmac(id, address, port));
        if expected != Some(hmac) {
            self.counters.get_or_insert_default().refused_announcements += 1;
            return;
        }
        self.record_fully_established(now);
        let echo = SignalledAddress {
            truncated_hmac: None,
            ..*signalled
        };
        self.subflows[subflow].answer(MptcpOption::AddAddress(Box::new(echo)));
        self.manage(now, &pm::Event::Announced { id, address, port });
    }

    /// Handles an announcement of version 0 (RFC 6824, section 3.4.1).
    pub(super) fn handle_unproved_announcement(
        &mut self,
        now: Nanos,
        id: AddressId,
        address: IpAddr,
        port: Option<u16>,
    ) {
        self.record_fully_established(now);
        self.manage(now, &pm::Event::Announced { id, address, port });
    }

    /// Closes the subflows to withdrawn addresses if they no longer work. Ignores unknown IDs
    /// (section 3.4.2).
    pub(super) fn handle_removal(&mut self, now: Nanos, ids: &[AddressId]) {
        for &id in ids {
            self.suspect_subflows_to(now, id);
            self.manage(now, &pm::Event::Removed { id });
        }
    }

    /// Notifies the path manager at `now` that the subflow of `request` cannot be attempted. The
    /// path manager may request it again later.
    pub fn refuse_join(&mut self, now: Nanos, request: &JoinRequest) {
        let pair = request.pair();
        self.manage(now, &pm::Event::OpenFailed { pair });
    }
}
