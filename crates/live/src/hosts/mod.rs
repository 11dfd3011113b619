//! The hosts of an experiment and what is between them, each in a network namespace: devices, addresses, routes, settings.

mod actions;
mod addresses;
mod counters;
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

use netlab::capabilities::Missing;
use netlab::resolved::{Experiment, Layer, Stack};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use serde::Serialize;

use addresses::{Layout, PlaceKind, mac_of};
use place::Place;
use routing::{PlaceRoutes, Step};

use crate::device::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, VIRTIO_HEADER_BYTES};
use crate::netlink::{RouteRow, dump_routes, dump_rules, route_text, rule_text};
use crate::{Device, DeviceKind, LiveError, NetworkNamespace};

/// The kernel's table of addresses that are its own.
const LOCAL_TABLE: u32 = 255;

/// Among the settings: how the devices were made.
const DEVICES: &str = "devices";

/// The same: whose TCP it runs.
const STACK: &str = "stack";

/// Threads that remove devices: the kernel lets them wait for the same grace periods.
const REMOVERS: usize = 16;

/// The rules and routes of one host or router, as ip(8) shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tables {
    /// In the order in which they are tried.
    pub rules: Vec<String>,
    /// Of all tables but `local`.
    pub routes: Vec<String>,
}

/// How a host's packets to one destination leave it.
#[derive(Clone, Debug)]
pub(crate) struct Departure {
    /// Index of the interface.
    pub(crate) port: usize,
    /// What stands before the IP packet: the header of the device, and of the frame if there is one.
    pub(crate) header: Vec<u8>,
}

/// The hosts, routers, switches and access points of one run.
///
/// All of it ends with the last descriptor, socket or process in its namespaces. Dropping this removes the devices, in one request for each namespace; the emulator should have
/// ended before.
#[derive(Debug)]
pub struct Hosts {
    layout: Layout,
    places: Vec<Place>,
    device_kind: DeviceKind,
}

impl Hosts {
    /// Checks what this back-end cannot build, without building anything.
    ///
    /// # Errors
    /// Switches in a loop, flows whose paths the kernel's routes cannot tell apart, interfaces whose names the kernel does not take.
    pub fn check(experiment: &Experiment) -> Result<(), LiveError> {
        let layout = Layout::new(experiment)?;
        switches::check_loops(&layout)?;
        routing::plan(experiment, &layout).map(drop)
    }

    /// What hosts with the kernel's stack are to do that this kernel cannot be told.
    pub(crate) fn missing_settings(experiment: &Experiment) -> Vec<Missing> {
        let hosts = experiment.hosts.iter();
        let of_kernel = hosts.filter(|host| host.stack != Stack::Userspace);
        of_kernel.flat_map(settings::missing).collect()
    }

    /// Builds all of them. The devices are by the indices of the interfaces in the experiment; interfaces that are up at the start are up.
    ///
    /// # Errors
    /// What [`Self::check`] refuses; and whatever the system refuses, for want of privileges or because it does not have it.
    pub fn build(experiment: &Experiment) -> Result<(Self, Vec<Device>), LiveError> {
        Self::build_with(experiment, DeviceKind::of_this_machine())
    }

    /// The same, with a kind of devices that is not left to the machine.
    ///
    /// # Errors
    /// As with [`Self::build`].
    pub fn build_with(
        experiment: &Experiment,
        device_kind: DeviceKind,
    ) -> Result<(Self, Vec<Device>), LiveError> {
        let layout = Layout::new(experiment)?;
        switches::check_loops(&layout)?;
        let routes = routing::plan(experiment, &layout)?;
        let (places, devices) = build_places(experiment, &layout, routes, device_kind)?;
        let hosts = Self {
            layout,
            places,
            device_kind,
        };
        Ok((hosts, devices))
    }

    /// The namespace of a host.
    ///
    /// # Panics
    /// There is no host or node of that id; the experiment was validated.
    pub fn namespace(&self, id: &str) -> &Arc<NetworkNamespace> {
        &self.places[self.layout.place_of[id]].namespace
    }

    /// The routes of a host, by source and destination.
    pub(crate) fn departures(&self, id: &str) -> BTreeMap<(IpAddr, IpAddr), Departure> {
        let place = &self.places[self.layout.place_of[id]];
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

    /// The name of an interface's device in its namespace, by the interface's index in the experiment.
    pub fn device_name(&self, interface: usize) -> &str {
        &self.layout.ports[interface].device
    }

    /// The kernel's number of an interface's device in its namespace, by the interface's index in the experiment.
    pub fn device_index(&self, interface: usize) -> u32 {
        let place = &self.places[self.layout.ports[interface].place];
        place.ports[&interface].device
    }

    /// The settings in effect, and what the devices are, by host or router.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn settings(&self) -> Result<BTreeMap<String, BTreeMap<String, String>>, LiveError> {
        self.in_each(|place| {
            let is_host = place.kind == PlaceKind::Host;
            let mut settings = settings::in_effect(&place.id, &place.settings, is_host)?;
            settings.insert(DEVICES.to_owned(), self.device_kind.name().to_owned());
            let stack = if place.has_own_stack {
                Stack::Userspace
            } else {
                Stack::Kernel
            };
            settings.insert(STACK.to_owned(), stack.name().to_owned());
            Ok(settings)
        })
    }

    /// The kernel's counters since the namespace began, by host or router.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn counters(&self) -> Result<BTreeMap<String, BTreeMap<String, u64>>, LiveError> {
        self.in_each(|place| counters::read(&place.id))
    }

    /// Runs something in the namespace of every host and router.
    fn in_each<T: Send>(
        &self,
        action: impl Fn(&Place) -> Result<T, LiveError> + Sync,
    ) -> Result<BTreeMap<String, T>, LiveError> {
        in_one_thread(|| {
            let routed = self
                .places
                .iter()
                .filter(|place| place.kind != PlaceKind::Switch);
            routed
                .map(|place| {
                    place.namespace.enter()?;
                    Ok((place.id.clone(), action(place)?))
                })
                .collect()
        })
    }

    /// The rules and routes that the kernel has now, by host or router.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn tables(&mut self) -> Result<BTreeMap<String, Tables>, LiveError> {
        let routed = self
            .places
            .iter_mut()
            .filter(|place| place.kind != PlaceKind::Switch);
        routed
            .map(|place| Ok((place.id.clone(), tables_of(place)?)))
            .collect()
    }

    /// Removes all devices. What is in the namespaces stays alive, but nothing reaches it any more.
    ///
    /// # Errors
    /// The system refuses.
    pub fn remove_devices(&mut self) -> Result<(), LiveError> {
        let share = self.places.len().div_ceil(REMOVERS).max(1);
        thread::scope(|scope| {
            let removers: Vec<_> = self
                .places
                .chunks_mut(share)
                .map(|places| scope.spawn(|| places.iter_mut().try_for_each(Place::remove_devices)))
                .collect();
            removers
                .into_iter()
                .try_for_each(|remover| remover.join().expect("it does not panic"))
        })
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // Best effort, and many at once; each place would do it too.
        let _ = self.remove_devices();
    }
}

/// For what moves from namespace to namespace, which the caller's thread must not.
fn in_one_thread<T: Send>(action: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let visitor = scope.spawn(action);
        visitor
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The index of a place, the place, and the devices of its interfaces by their indices.
type Made = (usize, Place, Vec<(usize, Device)>);

fn build_places(
    experiment: &Experiment,
    layout: &Layout,
    routes: Vec<PlaceRoutes>,
    kind: DeviceKind,
) -> Result<(Vec<Place>, Vec<Device>), LiveError> {
    let mut made = make_places(experiment, layout, routes, kind)?;
    made.sort_by_key(|(index, ..)| *index);
    let mut places = Vec::with_capacity(made.len());
    let mut devices: Vec<(usize, Device)> = Vec::with_capacity(layout.ports.len());
    for (_, place, of_place) in made {
        places.push(place);
        devices.extend(of_place);
    }
    devices.sort_by_key(|(port, _)| *port);
    let devices = devices.into_iter().map(|(_, device)| device);
    Ok((places, devices.collect()))
}

/// Several threads go from namespace to namespace; places with many interfaces come first, so that none is left with the largest.
fn make_places(
    experiment: &Experiment,
    layout: &Layout,
    routes: Vec<PlaceRoutes>,
    kind: DeviceKind,
) -> Result<Vec<Made>, LiveError> {
    let mut plans: Vec<(usize, PlaceRoutes)> = routes.into_iter().enumerate().collect();
    plans.sort_by_key(|(index, _)| Reverse(layout.places[*index].interfaces.len()));
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let builders = processors.min(plans.len());
    let plans = Mutex::new(plans.into_iter());
    let next = || plans.lock().expect("no builder panics with it").next();
    let make_some = || -> Result<Vec<Made>, LiveError> {
        let mut made = Vec::new();
        while let Some((index, routes)) = next() {
            let host = layout.places[index].host;
            let host = host.map(|host| &experiment.hosts[host]);
            let (place, devices) = Place::build(layout, index, host, routes, kind)?;
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
