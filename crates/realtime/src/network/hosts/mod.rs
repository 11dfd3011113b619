//! Hosts and nodes of an experiment, each in a network namespace: devices, addresses, routes,
//! settings.

mod actions;
mod addresses;
mod child;
mod connections;
mod counters;
mod guardian;
mod place;
mod routing;
mod settings;
mod switches;
mod verification;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::thread;

use experiment::capabilities::Missing;
use experiment::resolved::{Experiment, Layer, Stack};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use serde::{Deserialize, Serialize};

use crate::network::device::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, VIRTIO_HEADER_BYTES};
use crate::network::netlink::{Mac, RouteRow, dump_routes, dump_rules, route_text, rule_text};
use crate::{Device, DeviceKind, LiveError, NetworkNamespace};
use addresses::{Layout, PlaceKind};
pub(crate) use addresses::{device_in_fabric, mac_of};
use guardian::Guardian;
use place::{Condition, Place};
use routing::{PlaceRoutes, Step};

/// The number of the kernel's table `local`.
const LOCAL_TABLE: u32 = 255;

/// Key among the settings: how the devices were created.
const DEVICES: &str = "devices";

/// Key among the settings: which stack the host runs.
const STACK: &str = "stack";

/// Number of threads that remove devices. They share the kernel's grace periods.
const REMOVERS: usize = 16;

/// The rules and routes of one host or router, as ip(8) shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tables {
    /// Rules in the order in which the kernel tries them.
    pub rules: Vec<String>,
    /// Routes of all tables except `local`.
    pub routes: Vec<String>,
}

/// How a host's packets to one destination leave it.
#[derive(Clone, Debug)]
pub(crate) struct Departure {
    /// Index of the interface.
    pub(crate) port: usize,
    /// The bytes before the IP packet: the device's header, followed by the Ethernet header where
    /// there is one.
    pub(crate) header: Vec<u8>,
}

/// The hosts, routers, switches and access points of one run.
///
/// A namespace ends with the last descriptor, socket or process in it. Dropping `Hosts` removes the
/// devices with one request for each namespace; end the emulator before.
#[derive(Debug)]
pub struct Hosts {
    layout: Layout,
    /// The places that this program builds, by their indices in the layout.
    places: BTreeMap<usize, Place>,
    /// The condition of the interfaces of all other places, by their indices in the experiment.
    elsewhere: BTreeMap<usize, Condition>,
    device_kind: DeviceKind,
    /// Removes the children of devices if this process is killed.
    _guardian: Option<Guardian>,
}

impl Hosts {
    /// Checks, without building anything, whether this back-end can build the experiment.
    ///
    /// # Errors
    /// - Switches form a loop.
    /// - The kernel's routes cannot tell the paths of two flows apart.
    /// - The kernel does not accept the name of an interface.
    pub fn check(experiment: &Experiment) -> Result<(), LiveError> {
        let layout = Layout::new(experiment, None)?;
        switches::check_loops(&layout)?;
        routing::plan(experiment, &layout).map(drop)
    }

    /// Returns the settings of hosts with the kernel's stack that this kernel lacks.
    pub(crate) fn missing_settings(experiment: &Experiment) -> Vec<Missing> {
        let hosts = experiment.hosts.iter();
        let of_kernel = hosts.filter(|host| host.stack != Stack::Userspace);
        of_kernel.flat_map(settings::missing).collect()
    }

    /// Builds all hosts and nodes. The devices are by the indices of their interfaces in the
    /// experiment, without those at real links; interfaces that are up at the start are up.
    ///
    /// # Errors
    /// Fails where [`Self::check`] fails, and where the system refuses because privileges or
    /// features are missing.
    pub fn build(experiment: &Experiment) -> Result<(Self, BTreeMap<usize, Device>), LiveError> {
        Self::build_with(experiment, DeviceKind::of_this_machine())
    }

    /// Like [`Self::build`], with a given kind of devices.
    ///
    /// # Errors
    /// As [`Self::build`].
    pub fn build_with(
        experiment: &Experiment,
        device_kind: DeviceKind,
    ) -> Result<(Self, BTreeMap<usize, Device>), LiveError> {
        Self::build_part(experiment, None, device_kind)
    }

    /// Builds the hosts of a machine. `None` is the one that runs the experiment, which also has
    /// all nodes. The calling thread is in the namespace that has the devices of this machine.
    ///
    /// # Errors
    /// As [`Self::build`].
    pub(crate) fn build_part(
        experiment: &Experiment,
        machine: Option<&str>,
        device_kind: DeviceKind,
    ) -> Result<(Self, BTreeMap<usize, Device>), LiveError> {
        let layout = Layout::new(experiment, machine)?;
        switches::check_loops(&layout)?;
        let routes = routing::plan(experiment, &layout)?;
        let (places, devices) = build_places(experiment, &layout, routes, device_kind)?;
        let guardian = Guardian::start(places.values())?;
        let ports = layout.ports.iter().enumerate();
        let elsewhere = ports.filter(|(_, port)| !layout.places[port.place].is_here);
        let hosts = Self {
            elsewhere: elsewhere
                .map(|(index, port)| (index, Condition::at_start(port.up)))
                .collect(),
            layout,
            places,
            device_kind,
            _guardian: guardian,
        };
        Ok((hosts, devices))
    }

    /// Returns the namespace of a host or node; `None` if it is on another machine.
    ///
    /// # Panics
    /// No host or node has that id; the experiment was validated.
    pub fn namespace(&self, id: &str) -> Option<&Arc<NetworkNamespace>> {
        let place = self.places.get(&self.layout.place_of[id])?;
        Some(&place.namespace)
    }

    /// Returns the link-layer addresses to which frames that leave an interface go. The interface is
    /// named by its index in the experiment.
    pub(crate) fn frames_behind(&self, interface: usize) -> Vec<Mac> {
        let behind = switches::interfaces_behind(&self.layout, interface);
        behind.into_iter().map(mac_of).collect()
    }

    /// Returns the routes of a host, by source and destination.
    pub(crate) fn departures(&self, id: &str) -> BTreeMap<(IpAddr, IpAddr), Departure> {
        let place = &self.places[&self.layout.place_of[id]];
        let tables = place.routes.by_source.iter();
        let routes = tables.flat_map(|(&source, table)| {
            let routes = table.routes.iter();
            routes.map(move |(&destination, step)| ((source, destination), step))
        });
        routes
            .map(|(ends, step)| (ends, self.departure(ends.1, step)))
            .collect()
    }

    fn departure(&self, destination: IpAddr, step: &Step) -> Departure {
        let mut header = vec![0; VIRTIO_HEADER_BYTES];
        if self.layout.ports[step.port].layer == Layer::Two {
            header.extend(mac_of(step.arrival));
            header.extend(mac_of(step.port));
            header.extend(match destination {
                IpAddr::V4(_) => ETHERTYPE_IPV4,
                IpAddr::V6(_) => ETHERTYPE_IPV6,
            });
        }
        Departure {
            port: step.port,
            header,
        }
    }

    /// Returns the name of an interface's device in its namespace, by the interface's index in the
    /// experiment.
    pub fn device_name(&self, interface: usize) -> &str {
        &self.layout.ports[interface].device
    }

    /// Returns the kernel's index of an interface's device in its namespace, by the interface's
    /// index in the experiment.
    pub fn device_index(&self, interface: usize) -> u32 {
        let place = &self.places[&self.layout.ports[interface].place];
        place.ports[&interface].device
    }

    /// Returns the settings in effect and the kind of the devices, by host or router.
    ///
    /// # Errors
    /// The settings cannot be read.
    pub fn settings(&self) -> Result<BTreeMap<String, BTreeMap<String, String>>, LiveError> {
        self.in_each(|place| {
            let is_host = place.kind == PlaceKind::Host;
            let mut settings = settings::in_effect(&place.id, &place.settings, is_host)?;
            settings.insert(DEVICES.to_owned(), self.devices_text(place));
            let stack = if place.has_own_stack {
                Stack::Userspace
            } else {
                Stack::Kernel
            };
            settings.insert(STACK.to_owned(), stack.name().to_owned());
            Ok(settings)
        })
    }

    /// Returns how the devices of a place were created: the kind of those at emulated links, and
    /// each child with its parent.
    fn devices_text(&self, place: &Place) -> String {
        let mut ports = place.ports.values();
        let emulated = place.ports.is_empty() || ports.any(|port| port.child.is_none());
        let emulated = emulated.then(|| self.device_kind.name().to_owned());
        let children = place.ports.iter().filter_map(|(&index, port)| {
            let described = &self.layout.ports[index];
            let parent = &described.parent.as_ref()?.name;
            Some(format!(
                "{}: {} of {parent}",
                described.device,
                port.child?.name()
            ))
        });
        emulated
            .into_iter()
            .chain(children)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Returns the kernel's counters since the namespace was created, by host or router.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn counters(&self) -> Result<BTreeMap<String, BTreeMap<String, u64>>, LiveError> {
        self.in_each(|place| counters::read(&place.id))
    }

    /// Runs `action` in the namespace of every host and router.
    fn in_each<T: Send>(
        &self,
        action: impl Fn(&Place) -> Result<T, LiveError> + Sync,
    ) -> Result<BTreeMap<String, T>, LiveError> {
        in_one_thread(|| {
            let routed = self.places.values().filter(|place| place.kind.is_routed());
            routed
                .map(|place| {
                    place.namespace.enter()?;
                    Ok((place.id.clone(), action(place)?))
                })
                .collect()
        })
    }

    /// Returns the rules and routes that the kernel has now, by host or router.
    ///
    /// # Errors
    /// The rules or routes cannot be read.
    pub fn tables(&mut self) -> Result<BTreeMap<String, Tables>, LiveError> {
        let routed = self.places.values_mut();
        let routed = routed.filter(|place| place.kind.is_routed());
        routed
            .map(|place| Ok((place.id.clone(), tables_of(place)?)))
            .collect()
    }

    /// Removes all devices. Processes in the namespaces go on, but no packet reaches them any more.
    ///
    /// # Errors
    /// The system refuses.
    pub fn remove_devices(&mut self) -> Result<(), LiveError> {
        let share = self.places.len().div_ceil(REMOVERS).max(1);
        let mut places: Vec<&mut Place> = self.places.values_mut().collect();
        thread::scope(|scope| {
            let remove = |places: &mut [&mut Place]| {
                places
                    .iter_mut()
                    .try_for_each(|place| place.remove_devices())
            };
            let removers: Vec<_> = places
                .chunks_mut(share)
                .map(|places| scope.spawn(move || remove(places)))
                .collect();
            removers
                .into_iter()
                .try_for_each(|remover| remover.join().expect("it does not panic"))
        })
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // Best effort, with several threads. Dropping each place would remove its devices too.
        let _ = self.remove_devices();
        let _ = self.in_each(|place| {
            let doing = format!("{}: ending connections", place.id);
            connections::end_all().map_err(LiveError::while_(doing))
        });
    }
}

/// Runs `action` in a thread of its own, because it changes namespaces and the caller's thread must
/// not.
fn in_one_thread<T: Send>(action: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let visitor = scope.spawn(action);
        visitor
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Places by their indices, and devices by the indices of their interfaces.
type Built = (BTreeMap<usize, Place>, BTreeMap<usize, Device>);

/// The index of a place, the place, and its devices with the indices of their interfaces.
type Made = (usize, Place, Vec<(usize, Device)>);

fn build_places(
    experiment: &Experiment,
    layout: &Layout,
    routes: Vec<PlaceRoutes>,
    kind: DeviceKind,
) -> Result<Built, LiveError> {
    let mut places = BTreeMap::new();
    let mut devices = BTreeMap::new();
    for (index, place, of_place) in make_places(experiment, layout, routes, kind)? {
        places.insert(index, place);
        devices.extend(of_place);
    }
    Ok((places, devices))
}

/// Builds places with several threads. Places with many interfaces come first, so that no thread
/// starts the largest one last.
fn make_places(
    experiment: &Experiment,
    layout: &Layout,
    routes: Vec<PlaceRoutes>,
    kind: DeviceKind,
) -> Result<Vec<Made>, LiveError> {
    let plans = routes.into_iter().enumerate();
    let plans = plans.filter(|(index, _)| layout.places[*index].is_here);
    let mut plans: Vec<(usize, PlaceRoutes)> = plans.collect();
    plans.sort_by_key(|(index, _)| Reverse(layout.places[*index].interfaces.len()));
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let builders = processors.min(plans.len());
    let plans = Mutex::new(plans.into_iter());
    let machine = NetworkNamespace::of_this_thread().map_err(LiveError::while_(
        "opening the network namespace of the machine",
    ))?;
    let next = || plans.lock().expect("no builder panics with it").next();
    let make_some = || -> Result<Vec<Made>, LiveError> {
        let mut made = Vec::new();
        while let Some((index, routes)) = next() {
            let host = layout.places[index].host;
            let host = host.map(|host| &experiment.hosts[host]);
            let (place, devices) = Place::build(layout, index, host, routes, (&machine, kind))?;
            made.push((index, place, devices));
        }
        Ok(made)
    };
    thread::scope(|scope| {
        let builders: Vec<_> = (0..builders).map(|_| scope.spawn(make_some)).collect();
        let mut made = Vec::with_capacity(layout.places.len());
        for builder in builders {
            made.extend(builder.join().expect("it does not panic")?);
        }
        Ok(made)
    })
}

fn tables_of(place: &mut Place) -> Result<Tables, LiveError> {
    let mut tables = Tables::default();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        for row in place.connection.dump(&dump_rules(family))? {
            if let RouteNetlinkMessage::NewRule(row) = row {
                tables.rules.push(rule_text(&row));
            }
        }
        for row in place.connection.dump(&dump_routes(family))? {
            if let RouteNetlinkMessage::NewRoute(row) = row {
                let found = RouteRow::new(&row);
                if found.table != LOCAL_TABLE && !found.is_multicast() {
                    let names = place.connection.names();
                    tables.routes.push(route_text(&row, names));
                }
            }
        }
    }
    Ok(tables)
}
