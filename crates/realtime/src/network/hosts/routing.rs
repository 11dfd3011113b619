//! Routes, derived from the paths of the flows alone: destinations that no path leads to are
//! unreachable.
//!
//! A path has an address at each of its two ends. At every host and router on the path, a rule
//! sends packets from one of them to that address's table. The table has a route to the other
//! address. So packets of both directions follow the hops of their path.

use std::collections::BTreeMap;
use std::net::IpAddr;

use experiment::resolved::{Experiment, Flow, HopDirection, Layer, Path};

use super::addresses::{Family, Layout, PlaceKind};
use crate::LiveError;

/// The smallest number of a table, above those that the kernel and distributions use. The index of
/// the interface with the source address is added to it.
pub(super) const FIRST_TABLE: u32 = 1000;

/// The kernel's table for packets that match none of these rules.
pub(super) const MAIN_TABLE: u32 = 254;

/// Between the kernel's rules for the tables `local` (0) and `main` (32766).
pub(super) const RULE_PRIORITY: u32 = 1000;

/// The next hop of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Index of the interface by which packets leave.
    pub(super) port: usize,
    /// Index of the interface at which they arrive, beyond any switches.
    pub(super) arrival: usize,
    /// The address of that interface, if frames have to be sent to it and it is not the
    /// destination.
    pub(super) gateway: Option<IpAddr>,
}

/// The routes for packets from one address.
#[derive(Clone, Debug)]
pub(super) struct SourceTable {
    pub(super) number: u32,
    pub(super) routes: BTreeMap<IpAddr, Step>,
}

/// A route for packets of programs that bound no address.
#[derive(Clone, Copy, Debug)]
pub(super) struct MainRoute {
    pub(super) step: Step,
    /// The source address that they get; `None` at routers, which choose by the interface.
    pub(super) source: Option<IpAddr>,
}

/// The routes of one host or router.
#[derive(Clone, Debug, Default)]
pub(super) struct PlaceRoutes {
    pub(super) by_source: BTreeMap<IpAddr, SourceTable>,
    pub(super) main: BTreeMap<IpAddr, MainRoute>,
}

/// One direction of a path: its links in order, each as the interfaces at its near and far end.
pub(super) struct Way<'a> {
    flow: &'a str,
    /// Index of the interface that has the source address.
    pub(super) source: usize,
    /// Index of the interface that has the destination address.
    pub(super) destination: usize,
    hops: Vec<(usize, usize)>,
}

impl<'a> Way<'a> {
    pub(super) fn both(layout: &Layout, flow: &'a Flow, path: &Path) -> [Self; 2] {
        let hops: Vec<(usize, usize)> = path
            .hops
            .iter()
            .map(|hop| {
                let [a, b] = layout.ends[layout.link_of[&hop.link]];
                match hop.direction {
                    HopDirection::Forward => (a, b),
                    HopDirection::Backward => (b, a),
                }
            })
            .collect();
        let back = hops.iter().rev().map(|&(near, far)| (far, near)).collect();
        let (local, remote) = (layout.port_of[&path.local], layout.port_of[&path.remote]);
        let way = |source, destination, hops| Self {
            flow: &flow.id,
            source,
            destination,
            hops,
        };
        [way(local, remote, hops), way(remote, local, back)]
    }

    /// Returns, for each step between hosts and routers, the interface by which packets leave and
    /// the interface at which they arrive.
    pub(super) fn steps(&self, layout: &Layout) -> Vec<(usize, usize)> {
        let mut steps = Vec::new();
        let mut left_by = None;
        for &(near, far) in &self.hops {
            let left = *left_by.get_or_insert(near);
            if layout.kind_at(far).is_routed() {
                steps.push((left, far));
                left_by = None;
            }
        }
        steps
    }
}

/// Returns the routes of all places, by index.
///
/// # Errors
/// Two flows want packets between the same addresses to take different paths, which routing tables
/// cannot tell apart.
pub(super) fn plan(
    experiment: &Experiment,
    layout: &Layout,
) -> Result<Vec<PlaceRoutes>, LiveError> {
    let mut places = vec![PlaceRoutes::default(); layout.places.len()];
    for (index, port) in layout.ports.iter().enumerate() {
        if layout.kind_at(index) == PlaceKind::Host {
            for prefixed in port.addresses() {
                places[port.place].table_of(prefixed.address, FIRST_TABLE + index as u32);
            }
        }
    }
    for flow in experiment.flows.iter().filter(|flow| flow.from != flow.to) {
        for path in &flow.paths {
            for way in Way::both(layout, flow, path) {
                for family in Family::BOTH {
                    for ends in ends_of(layout, &way, family) {
                        add(&mut places, layout, &way, ends)?;
                    }
                }
            }
        }
    }
    Ok(places)
}

impl PlaceRoutes {
    fn table_of(&mut self, source: IpAddr, number: u32) -> &mut SourceTable {
        self.by_source.entry(source).or_insert_with(|| SourceTable {
            number,
            routes: BTreeMap::new(),
        })
    }
}

/// Source and destination of packets in one direction of a path.
#[derive(Clone, Copy)]
struct Ends {
    family: Family,
    source: IpAddr,
    /// The table of routes for packets from the source.
    table: u32,
    /// Whether the source is an address that a NAT writes into other hosts' packets.
    is_outside: bool,
    destination: IpAddr,
}

/// Returns the pairs of addresses that packets may have, those of NATs last. Each address is the
/// host's own or one that a NAT shows instead.
fn ends_of(layout: &Layout, way: &Way, family: Family) -> Vec<Ends> {
    let addresses = |port: usize| layout.ports[port].all_addresses(family);
    let sources = addresses(way.source).enumerate();
    let ends = sources.flat_map(|(nth, source)| {
        let table = FIRST_TABLE + (way.source + nth * layout.ports.len()) as u32;
        addresses(way.destination).map(move |destination| Ends {
            family,
            source,
            table,
            is_outside: nth > 0,
            destination,
        })
    });
    ends.collect()
}

fn add(
    places: &mut [PlaceRoutes],
    layout: &Layout,
    way: &Way,
    ends: Ends,
) -> Result<(), LiveError> {
    let address = |port: usize| layout.ports[port].address(ends.family);
    let Ends {
        source,
        destination,
        ..
    } = ends;
    for (port, arrival) in way.steps(layout) {
        let place = layout.ports[port].place;
        let is_host = layout.places[place].kind == PlaceKind::Host;
        if is_host && ends.is_outside {
            continue;
        }
        // A link of layer 3 has only one other end.
        let needs_gateway =
            layout.ports[port].layer == Layer::Two && address(arrival) != Some(destination);
        let step = Step {
            port,
            arrival,
            gateway: needs_gateway.then(|| address(arrival)).flatten(),
        };
        let routes = &mut places[place];
        let table = routes.table_of(source, ends.table);
        let known = *table.routes.entry(destination).or_insert(step);
        if known != step {
            let (id, device) = (&layout.places[place].id, &layout.ports[port].device);
            return Err(LiveError::Failed(format!(
                "flow {}: at {id}, packets from {source} to {destination} would leave by {device}, but those of a flow before leave by {}; \
                 the kernel's routes tell paths apart by their addresses only: give the flows other interfaces or the same hops",
                way.flow, layout.ports[known.port].device
            )));
        }
        let main = MainRoute {
            step,
            source: is_host.then_some(source),
        };
        let known = routes.main.entry(destination).or_insert(main);
        // IPv6 refuses a gateway that the main table reaches by another interface.
        if known.step.gateway.is_some() && step.gateway.is_none() {
            *known = main;
        }
    }
    Ok(())
}
