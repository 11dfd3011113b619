//! One host, router or switch: how it is set up and kept as described.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use experiment::resolved::{ChildKind, Host, Layer, Stack};
use netlink_packet_route::AddressFamily;

use super::addresses::{Layout, PlaceKind, Port, Prefixed, mac_of, mac_of_bridge};
use super::child;
use super::routing::{MAIN_TABLE, PlaceRoutes, RULE_PRIORITY, Step};
use super::settings::{self, Setting};
use super::switches::{BRIDGE, frames_by_port};
use crate::network::first_hop::Shaping;
use crate::network::netlink::{
    Connection, Destination, Link, NextHop, Request, Route, Rule, add_address, add_bridge,
    forget_address, forward_frames_to, remove_group, remove_queueing, set_neighbour, shape,
};
use crate::{Device, DeviceKind, LiveError, NetworkNamespace};

/// The group of all devices of a run; they are removed by it.
pub(super) const GROUP: u32 = 1;

/// With the kernel's default of 500 a link of 1 Gbit/s loses packets before they reach the
/// emulator.
const QUEUE_PACKETS: u32 = 10_000;

/// TCP segments that may leave as one packet, unless the device takes fewer (`GSO_MAX_SEGS`).
const MOST_JOINED_SEGMENTS: u32 = 65_535;

/// What events change of an interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Condition {
    pub(super) has_address: bool,
    /// Whether it is up, according to the description and to events.
    pub(super) is_up: bool,
    /// Whether the port of a switch or router is out of service together with its link.
    pub(super) port_is_down: bool,
}

impl Condition {
    pub(super) fn at_start(is_up: bool) -> Self {
        Self {
            has_address: true,
            is_up,
            port_is_down: false,
        }
    }

    pub(super) fn carries(&self) -> bool {
        self.is_up && !self.port_is_down
    }

    /// Returns whether it can be the end of a path.
    pub(super) fn is_usable(&self) -> bool {
        self.carries() && self.has_address
    }
}

/// The state of an interface.
#[derive(Debug)]
pub(super) struct PortState {
    /// The kernel's index of its device.
    pub(super) device: u32,
    layer: Layer,
    /// Its kind, if it is a child of a device of the machine. The kernel then chooses its link-layer
    /// address, and finds out those of others.
    pub(super) child: Option<ChildKind>,
    addresses: Vec<Prefixed>,
    pub(super) condition: Condition,
    /// The rate at which its packets leave; `None`: they leave at once and wait in the network.
    shaping: Option<Shaping>,
}

/// A namespace and what is in it.
pub(super) struct Place {
    pub(super) id: String,
    pub(super) kind: PlaceKind,
    pub(super) namespace: Arc<NetworkNamespace>,
    pub(super) connection: Connection,
    pub(super) settings: Vec<Setting>,
    pub(super) has_own_stack: bool,
    /// Interfaces by their indices in the experiment.
    pub(super) ports: BTreeMap<usize, PortState>,
    pub(super) routes: PlaceRoutes,
    initial_window_segments: Option<u32>,
    /// Second descriptors of the devices. Closing the last descriptor takes the kernel
    /// milliseconds, unless the device is already gone.
    devices: Vec<OwnedFd>,
    has_devices: bool,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Place {
    /// Returns the place, and its devices with the indices of their interfaces. `machine` is the
    /// namespace with the devices of the machine. The calling thread is in the namespace of the
    /// place afterwards.
    pub(super) fn build(
        layout: &Layout,
        index: usize,
        host: Option<&Host>,
        routes: PlaceRoutes,
        (machine, kind): (&NetworkNamespace, DeviceKind),
    ) -> Result<(Self, Vec<(usize, Device)>), LiveError> {
        let plan = &layout.places[index];
        let namespace = Arc::new(NetworkNamespace::new_around_this_thread()?);
        let settings = settings::settings_for(plan.kind, host);
        settings::write(&plan.id, &settings)?;
        let mut connection = Connection::open(&plan.id)?;
        let mut devices = Vec::with_capacity(plan.interfaces.len());
        let mut kept = Vec::with_capacity(plan.interfaces.len());
        let mut ports = BTreeMap::new();
        for &port in &plan.interfaces {
            let described = &layout.ports[port];
            let child = add_child(machine, &namespace, described)?;
            if child.is_none() {
                let device = Device::in_this_thread(kind, &described.device, described.layer)?;
                kept.push(second_descriptor(&device)?);
                devices.push((port, device));
            }
            let state = PortState {
                device: connection.index_of(&described.device)?,
                layer: described.layer,
                child,
                addresses: described.addresses().collect(),
                condition: Condition::at_start(described.up),
                shaping: described.shaping,
            };
            ports.insert(port, state);
        }
        let mut place = Self {
            id: plan.id.clone(),
            kind: plan.kind,
            namespace,
            connection,
            settings,
            has_own_stack: host.is_some_and(|host| host.stack == Stack::Userspace),
            ports,
            routes,
            initial_window_segments: host.map(|host| host.initial_window_segments),
            devices: kept,
            has_devices: !plan.interfaces.is_empty(),
        };
        place.set_up(layout, index)?;
        Ok((place, devices))
    }

    /// Returns whether an interface is a child of a device of the machine.
    pub(super) fn has_child(&self) -> bool {
        self.ports.values().any(|port| port.child.is_some())
    }

    /// Returns the addresses of all its interfaces.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let ports = self.ports.values();
        ports.flat_map(|port| port.addresses.iter().map(|own| own.address))
    }

    fn set_up(&mut self, layout: &Layout, index: usize) -> Result<(), LiveError> {
        if self.kind == PlaceKind::Switch {
            return self.set_up_bridge(layout, index);
        }
        let loopback = self.connection.index_of("lo")?;
        let mut requests = vec![Link::new(loopback).up(true).request()];
        for (&port, state) in &self.ports {
            let mtu = layout.ports[port].mtu_bytes;
            requests.extend(link_requests(
                port,
                state,
                Link::new(state.device).mtu_bytes(mtu),
            ));
            requests.extend(state.address_requests());
        }
        requests.extend(self.rule_requests());
        requests.extend(
            self.ports
                .keys()
                .flat_map(|&port| self.route_requests(port)),
        );
        self.connection.commit(&requests)
    }

    fn set_up_bridge(&mut self, layout: &Layout, index: usize) -> Result<(), LiveError> {
        self.connection
            .commit(&[add_bridge(BRIDGE, mac_of_bridge(index))])?;
        let bridge = self.connection.index_of(BRIDGE)?;
        let mut requests = Vec::new();
        for (&port, state) in &self.ports {
            let mtu = layout.ports[port].mtu_bytes;
            let link = Link::new(state.device).mtu_bytes(mtu).bridge(bridge);
            requests.extend(link_requests(port, state, link));
        }
        for (port, mac) in frames_by_port(layout, index) {
            requests.push(forward_frames_to(self.ports[&port].device, mac));
        }
        requests.push(Link::new(bridge).group(GROUP).up(true).request());
        self.connection.commit(&requests)
    }

    fn rule_requests(&self) -> impl Iterator<Item = Request> {
        self.routes.by_source.iter().flat_map(|(&source, table)| {
            let rule = Rule {
                source,
                table: table.number,
                priority: RULE_PRIORITY,
            };
            // A destination that the table lacks must not leave by another interface.
            let refusal = Route {
                destination: Destination::AnyElse(family_of(source)),
                table: table.number,
                next_hop: None,
                source: None,
                initial_window_segments: None,
            };
            [refusal.request(), rule.request()]
        })
    }

    /// Returns the routes by this interface that can be installed now.
    fn route_requests(&self, port: usize) -> Vec<Request> {
        let mut requests = Vec::new();
        for table in self.routes.by_source.values() {
            for (&destination, step) in &table.routes {
                if step.port == port && self.can_use(step) {
                    requests.push(self.route_request(destination, table.number, step, None));
                    requests.extend(self.neighbour_request(destination, step));
                }
            }
        }
        for (&destination, route) in &self.routes.main {
            let gives_source = |source| self.ports[&port].has(source);
            let concerns = route.step.port == port || route.source.is_some_and(gives_source);
            if concerns && self.can_use(&route.step) && self.has_address(route.source) {
                let (step, source) = (&route.step, route.source);
                requests.push(self.route_request(destination, MAIN_TABLE, step, source));
            }
        }
        requests
    }

    fn route_request(
        &self,
        destination: IpAddr,
        table: u32,
        step: &Step,
        source: Option<IpAddr>,
    ) -> Request {
        let route = Route {
            destination: Destination::Address(destination),
            table,
            next_hop: Some(NextHop {
                device: self.ports[&step.port].device,
                gateway: step.gateway,
            }),
            source,
            initial_window_segments: self.initial_window_segments,
        };
        route.request()
    }

    /// Sets the link-layer address of the next hop, so that the first packets of a flow do not wait
    /// for its resolution.
    fn neighbour_request(&self, destination: IpAddr, step: &Step) -> Option<Request> {
        let port = &self.ports[&step.port];
        let neighbour = step.gateway.unwrap_or(destination);
        (port.layer == Layer::Two && port.child.is_none())
            .then(|| set_neighbour(port.device, neighbour, mac_of(step.arrival)))
    }

    pub(super) fn can_use(&self, step: &Step) -> bool {
        self.ports[&step.port].condition.is_usable()
    }

    fn has_address(&self, source: Option<IpAddr>) -> bool {
        let is_removed =
            |port: &PortState| !port.condition.has_address && source.is_some_and(|s| port.has(s));
        !self.ports.values().any(is_removed)
    }

    /// Changes the state of an interface and restores what the kernel forgets with it.
    pub(super) fn change(
        &mut self,
        port: usize,
        change: impl FnOnce(&mut Condition),
    ) -> Result<(), LiveError> {
        let state = self
            .ports
            .get_mut(&port)
            .expect("an interface of this place");
        let before = state.condition;
        change(&mut state.condition);
        let after = state.condition;
        let (carried, had_address) = (before.carries(), before.has_address);
        let (carries, has_address) = (after.carries(), after.has_address);
        let mut requests = Vec::new();
        if had_address && !has_address {
            requests.extend(state.forget_requests());
        }
        if carries != carried {
            requests.push(Link::new(state.device).up(carries).request());
        }
        if has_address && !had_address {
            requests.extend(state.address_requests());
        }
        if (carries && !carried) || (has_address && !had_address) {
            requests.extend(self.route_requests(port));
        }
        self.connection.commit(&requests)
    }

    /// Changes the rate at which an interface's packets leave.
    pub(super) fn reshape(
        &mut self,
        port: usize,
        shaping: Option<Shaping>,
    ) -> Result<(), LiveError> {
        let state = self
            .ports
            .get_mut(&port)
            .expect("an interface of this place");
        state.shaping = shaping;
        let link = Link::new(state.device).joined_segments(state.joined_segments());
        let requests = [link.request(), state.queueing_request()];
        self.connection.commit(&requests)
    }

    /// Removes its devices; further calls do nothing.
    pub(super) fn remove_devices(&mut self) -> Result<(), LiveError> {
        if !std::mem::take(&mut self.has_devices) {
            return Ok(());
        }
        let removed = self.connection.commit(&[remove_group(GROUP)]);
        self.devices.clear();
        removed
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Best effort: without this request the devices end too, only later.
        let _ = self.remove_devices();
    }
}

/// Adds the child of a device that an interface at a real link is. Returns its kind; `None` for an
/// interface at an emulated link.
fn add_child(
    machine: &NetworkNamespace,
    namespace: &NetworkNamespace,
    port: &Port,
) -> Result<Option<ChildKind>, LiveError> {
    let Some(parent) = &port.parent else {
        return Ok(None);
    };
    let place = format!("{}: device", port.id);
    let add = || {
        child::add(
            &place,
            parent,
            port.mtu_bytes,
            &port.device,
            namespace.as_fd(),
        )
    };
    machine.run(add).map(Some)
}

fn second_descriptor(device: &Device) -> Result<OwnedFd, LiveError> {
    let copy = device.as_fd().try_clone_to_owned();
    copy.map_err(LiveError::while_("copying a device's descriptor"))
}

impl PortState {
    fn has(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.address == address)
    }

    fn queueing_request(&self) -> Request {
        match &self.shaping {
            Some(shaping) => shape(self.device, shaping),
            None => remove_queueing(self.device),
        }
    }

    /// Where packets wait at the host for their link, each TCP segment is one packet, as on the
    /// link.
    fn joined_segments(&self) -> u32 {
        match self.shaping {
            Some(_) => 1,
            None => MOST_JOINED_SEGMENTS,
        }
    }

    fn address_requests(&self) -> impl Iterator<Item = Request> {
        let addresses = self.addresses.iter();
        addresses.map(|own| add_address(self.device, own.address, own.length))
    }

    fn forget_requests(&self) -> impl Iterator<Item = Request> {
        let addresses = self.addresses.iter();
        addresses.map(|own| forget_address(self.device, own.address, own.length))
    }
}

/// Sets the device up while it is down, because changes of a device that is up wait for its
/// packets, milliseconds each. Packets of a child wait in its parent.
fn link_requests(port: usize, state: &PortState, link: Link) -> Vec<Request> {
    let up = Link::new(state.device).up(state.condition.carries());
    let link = link.group(GROUP);
    if state.child.is_some() {
        return vec![link.request(), up.request()];
    }
    let link = link.queue_packets(QUEUE_PACKETS);
    let link = match state.layer {
        Layer::Two => link.mac(mac_of(port)),
        Layer::Three => link,
    };
    let link = match state.shaping {
        Some(_) => link.joined_segments(state.joined_segments()),
        None => link,
    };
    vec![link.request(), state.queueing_request(), up.request()]
}

fn family_of(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}
