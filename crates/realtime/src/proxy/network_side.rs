//! The side of the network: MPTCP by the engine, from the machine's own addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use experiment::algorithms::Registry;
use experiment::algorithms::parameters::{self, Kind};
use experiment::resolved::{Algorithm, Parameters};
use experiment::time::{NANOS_PER_SECOND, Nanos};
use getrandom::SysRng;
use mptcp::connection::{Algorithms, Buffer, Config};
use mptcp::endpoint::{ConnectError, ConnectionId, Endpoint, MakeAlgorithms, NetworkView, Profile};
use mptcp::pm::{self, AddressPair, FourTuple};
use mptcp::sched::SubflowOrder;
use mptcp::subflow::{self, Keepalive};
use mptcp::wire::Packet;
use rand_core::{Rng, UnwrapErr};

use super::engine_side::{EngineSide, Wire};
use super::held_ports::HeldPorts;
use super::outlets::{self, Outlet, Routes};
use super::report::InterfaceReport;
use super::waiting::{Source, Waiting};
use super::{Choice, Settings};
use crate::LiveError;
use crate::network::netlink::AddressWatch;
use crate::network::offload::complete_checksum;

/// Initial and largest buffers, as on Linux (`tcp_wmem`, `tcp_rmem`).
const SEND_BUFFER: Buffer = Buffer::Auto {
    initial_bytes: 16 << 10,
    max_bytes: 4 << 20,
};
const RECEIVE_BUFFER: Buffer = Buffer::Auto {
    initial_bytes: 64 << 10,
    max_bytes: 6 << 20,
};
/// How long a port stays in TIME-WAIT if ports have run out, as on Linux with `tcp_tw_reuse` (its
/// `tcp_tw_reuse_delay`).
const REUSE_AFTER: Nanos = NANOS_PER_SECOND;
/// Allows a receive window of 6 MiB.
const WINDOW_SCALE: u8 = 7;
const IPV4_AND_TCP_BYTES: u32 = 20 + 20;
const IPV6_AND_TCP_BYTES: u32 = 40 + 20;
/// Packets read from one socket before the others get their turn.
const PACKETS_IN_A_ROW: usize = 32;
/// The largest packet that IP allows.
const LARGEST_PACKET_BYTES: usize = 65_536 + 40;

/// Sends packets by raw sockets.
pub(super) struct RawWire {
    outlets: Arc<[Outlet]>,
    by_address: BTreeMap<IpAddr, usize>,
    interfaces: Vec<InterfaceReport>,
    packet: Vec<u8>,
}

impl Wire for RawWire {
    fn send(&mut self, packet: &Packet) {
        let Some(&index) = self.by_address.get(&packet.source) else {
            return;
        };
        self.packet.clear();
        packet.emit(&mut self.packet);
        let outlet = &self.outlets[index];
        let counters = &mut self.interfaces[outlet.interface];
        match outlet.send(&self.packet, packet.destination) {
            Ok(()) => counters.sent_bytes += u64::from(packet.segment.payload.len()),
            Err(_) => counters.packets_not_sent += 1,
        }
    }
}

/// The engine on the machine's interfaces.
pub(super) struct NetworkSide {
    pub(super) engine: EngineSide<RawWire>,
    held_ports: Arc<Mutex<HeldPorts>>,
    watch: AddressWatch,
    /// Addresses that the engine considers usable.
    usable: BTreeSet<IpAddr>,
    profile: Profile,
    scratch: Vec<u8>,
}

impl NetworkSide {
    /// Opens the interfaces. There are no connections yet.
    ///
    /// # Errors
    /// A name is unknown, an interface has no usable address, or the system refuses.
    pub(super) fn open(settings: &Settings, routes: Routes) -> Result<Self, LiveError> {
        let watch = AddressWatch::open()?;
        let (outlets, mtu_bytes) = outlets::open(&settings.interfaces, routes, &watch)?;
        let outlets: Arc<[Outlet]> = outlets.into();
        let locals: Vec<_> = outlets.iter().map(|outlet| outlet.address).collect();
        let held_ports = Arc::new(Mutex::new(HeldPorts::new(Arc::clone(&outlets))));
        let profile = profile(settings, &locals, mtu_bytes)?;
        let view = NetworkView {
            pairs: locals.iter().map(|&local| pair(local, local)).collect(),
            ..NetworkView::default()
        };
        let mut endpoint = Endpoint::new(view, Box::new(UnwrapErr(SysRng)));
        let held = Arc::clone(&held_ports);
        endpoint.use_ports_from(Box::new(move || locked(&held).hold_more()));
        endpoint.reuse_ports_after(REUSE_AFTER);
        let interfaces = settings
            .interfaces
            .iter()
            .map(|name| InterfaceReport::new(name));
        let wire = RawWire {
            by_address: (0..)
                .zip(&locals)
                .map(|(index, local)| (*local, index))
                .collect(),
            interfaces: interfaces.collect(),
            packet: Vec::new(),
            outlets,
        };
        Ok(Self {
            engine: EngineSide::new(endpoint, wire),
            held_ports,
            watch,
            usable: locals.into_iter().collect(),
            profile,
            scratch: vec![0; LARGEST_PACKET_BYTES],
        })
    }

    /// Returns its addresses, in the order of the interfaces.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.engine.wire.outlets.iter().map(|outlet| outlet.address)
    }

    /// Adds the descriptors of packets and address changes to `waiting`.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn be_waited_for<Own: Into<u64> + From<u64>>(
        &self,
        waiting: &Waiting<Own>,
    ) -> Result<(), LiveError> {
        let outlets = self.engine.wire.outlets.iter().enumerate();
        let mut inputs = outlets.flat_map(|(index, one)| one.inputs().map(|input| (index, input)));
        waiting
            .for_input(&self.watch, Source::Addresses)
            .and_then(|()| {
                inputs
                    .try_for_each(|(index, input)| waiting.for_input(input, Source::Outlet(index)))
            })
            .map_err(LiveError::while_("watching the interfaces"))
    }

    pub(super) fn interfaces(&self) -> &[InterfaceReport] {
        &self.engine.wire.interfaces
    }

    /// Opens a connection from the first usable address. Further addresses are tried if there is no
    /// answer.
    ///
    /// # Errors
    /// No address has that family, or no port is free.
    pub(super) fn connect(
        &mut self,
        now: Nanos,
        remote: SocketAddr,
    ) -> Result<ConnectionId, ConnectError> {
        let alike = |local: &IpAddr| local.is_ipv4() == remote.is_ipv4();
        let (mut locals, unusable): (Vec<_>, Vec<_>) = self
            .addresses()
            .filter(alike)
            .partition(|local| self.usable.contains(local));
        locals.extend(unusable);
        let ways: Vec<_> = locals
            .into_iter()
            .map(|local| FourTuple {
                local: SocketAddr::new(local, 0),
                remote,
            })
            .collect();
        let Some((first, others)) = ways.split_first() else {
            let local = self.addresses().next().unwrap_or(remote.ip());
            let remote = remote.ip();
            return Err(ConnectError::Families { local, remote });
        };
        let endpoint = &mut self.engine.driver.endpoint;
        let id = endpoint.connect_over(now, *first, others, &self.profile)?;
        self.engine.adopt(id);
        Ok(id)
    }

    /// Accepts connections at a port.
    ///
    /// # Errors
    /// Another program has the port.
    pub(super) fn listen(&mut self, settings: &Settings, port: u16) -> Result<(), LiveError> {
        locked(&self.held_ports).hold_one(port)?;
        let locals: Vec<_> = self.addresses().collect();
        let profile = Profile {
            config: Arc::clone(&self.profile.config),
            algorithms: algorithms(settings, &locals)?,
        };
        self.engine.driver.endpoint.listen(port, profile);
        Ok(())
    }

    /// Handles packets and errors that arrived at an outlet.
    pub(super) fn receive_from(&mut self, index: usize, now: Nanos) {
        let outlets = Arc::clone(&self.engine.wire.outlets);
        while let Some(error) = outlets[index].receive_error(&mut self.scratch) {
            self.engine.receive_error(now, &error);
        }
        let interface = self.engine.wire.outlets[index].interface;
        for _ in 0..PACKETS_IN_A_ROW {
            let Some(packet) = self.next_packet(index) else {
                return;
            };
            let bytes = u64::from(packet.segment.payload.len());
            self.engine.wire.interfaces[interface].received_bytes += bytes;
            self.engine.receive(now, &packet);
        }
    }

    fn next_packet(&mut self, index: usize) -> Option<Packet> {
        let outlet = &self.engine.wire.outlets[index];
        loop {
            let count = match outlet.receive(&mut self.scratch) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // The socket is empty, or its device is gone and the address with it.
                Err(_) => return None,
            };
            let bytes = &mut self.scratch[..count];
            complete_checksum(bytes);
            // Malformed packets are ignored.
            if let Ok((packet, _)) = Packet::parse(&Arc::from(&*bytes)) {
                return Some(packet);
            }
        }
    }

    /// Reports added and removed addresses to the engine.
    ///
    /// # Errors
    /// The socket of address changes fails.
    pub(super) fn follow_addresses(&mut self, now: Nanos) -> Result<(), LiveError> {
        self.watch.update()?;
        for local in self.addresses().collect::<Vec<_>>() {
            let is_up = self.watch.is_up(local);
            let was_up = match is_up {
                true => !self.usable.insert(local),
                false => self.usable.remove(&local),
            };
            if is_up != was_up {
                let endpoint = &mut self.engine.driver.endpoint;
                endpoint.handle_address_change(now, local, is_up);
            }
        }
        Ok(())
    }
}

fn locked(ports: &Mutex<HeldPorts>) -> std::sync::MutexGuard<'_, HeldPorts> {
    ports.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pair(local: IpAddr, remote: IpAddr) -> AddressPair {
    AddressPair { local, remote }
}

fn profile(settings: &Settings, locals: &[IpAddr], mtu_bytes: u32) -> Result<Profile, LiveError> {
    let headers = match locals.iter().all(IpAddr::is_ipv4) {
        true => IPV4_AND_TCP_BYTES,
        false => IPV6_AND_TCP_BYTES,
    };
    let mss_bytes = mtu_bytes.saturating_sub(headers);
    let silence = Nanos::from(settings.give_up_after_s) * NANOS_PER_SECOND;
    let defaults = Config::default();
    let config = Config {
        subflow: Arc::new(subflow::Config {
            mss_bytes: u16::try_from(mss_bytes).unwrap_or(u16::MAX),
            window_scale: Some(WINDOW_SCALE),
            keepalive: Some(keepalive(silence)),
            ..subflow::Config::default()
        }),
        send_buffer: SEND_BUFFER,
        receive_buffer: RECEIVE_BUFFER,
        lifetime_without_subflows: defaults.lifetime_without_subflows.min(silence),
        close_timeout: defaults.close_timeout.min(silence),
        ..defaults
    };
    Ok(Profile {
        config: Arc::new(config),
        algorithms: algorithms(settings, locals)?,
    })
}

/// Returns probes of which the last one ends `silence` after the last packet of the peer. A
/// connection with nothing to send needs them, because nothing else tells that the peer is gone.
fn keepalive(silence: Nanos) -> Keepalive {
    const PROBES: u32 = 6;
    let interval = silence / 10;
    Keepalive {
        idle: silence - Nanos::from(PROBES) * interval,
        interval,
        probes: PROBES,
    }
}

/// Returns the constructor of each connection's algorithms.
fn algorithms(settings: &Settings, locals: &[IpAddr]) -> Result<MakeAlgorithms, LiveError> {
    let registry = Registry::default();
    let names = [
        (Kind::Control, &settings.choice.congestion_control),
        (Kind::Scheduler, &settings.choice.scheduler),
        (Kind::PathManager, &settings.choice.path_manager),
    ];
    for (kind, name) in names {
        check_name(&registry, kind, name)?;
    }
    let known = "it was checked that there is one";
    let Choice {
        congestion_control,
        scheduler,
        path_manager,
    } = &settings.choice;
    let make_control = registry.control(congestion_control).expect(known).clone();
    let make_scheduler = registry.scheduler(scheduler).expect(known).clone();
    let make_manager = registry.path_manager(path_manager).expect(known).clone();
    let nothing_given = Parameters::new();
    let seed = UnwrapErr(SysRng).next_u64();
    let control = parameters::control(&plain(congestion_control), seed);
    let order = SubflowOrder::NewestFirst;
    let scheduler = parameters::scheduler(&plain(scheduler), order);
    let locals = locals.to_vec();
    Ok(Box::new(move |seen| Algorithms {
        congestion_control: make_control(&control, &nothing_given),
        scheduler: make_scheduler(&scheduler, &nothing_given),
        path_manager: make_manager(
            &with_pairs(seen, &locals),
            &pm::Parameters::default(),
            &nothing_given,
        ),
    }))
}

/// Returns the connection with an address pair for each local address of its family. All pairs lead
/// to the remote address of the initial subflow.
fn with_pairs(seen: &pm::Connection, locals: &[IpAddr]) -> pm::Connection {
    let remote = seen.initial.remote.ip();
    let alike = |local: &&IpAddr| local.is_ipv4() == remote.is_ipv4();
    let locals = locals.iter().filter(alike);
    pm::Connection {
        pairs: locals.map(|&local| pair(local, remote)).collect(),
        ..seen.clone()
    }
}

fn plain(name: &str) -> Algorithm {
    Algorithm {
        name: name.to_owned(),
        parameters: Parameters::new(),
    }
}

/// A path manager that needs a description with routers.
const OF_DESCRIPTIONS: &str = "binder";

fn check_name(registry: &Registry, kind: Kind, name: &str) -> Result<(), LiveError> {
    let known = registry.names().filter(|(of, _)| *of == kind);
    let known: Vec<_> = known
        .map(|(_, known)| known)
        .filter(|known| *known != OF_DESCRIPTIONS)
        .collect();
    match known.contains(&name) {
        true => Ok(()),
        false => Err(LiveError::Refused(format!(
            "no {} is called {name:?}; allowed: {}",
            kind.field()
                .replace("cc", "congestion control")
                .replace('_', " "),
            known.join(", ")
        ))),
    }
}
