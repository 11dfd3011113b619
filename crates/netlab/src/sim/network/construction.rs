//! The network of an experiment.

use std::collections::{HashMap, HashSet};

use super::super::packet::Packet;
use super::routes::{RouteId, Routes};
use super::{Carrier, Interface, Link, LinkDirection, Network};
use crate::link::{Channel, StationGenerators};
use crate::resolved::{self, Direction, Experiment, Hop, HopDirection, InvalidDirection, Path};
use crate::rng::Generator;

impl Network {
    /// The network of a valid experiment, as the seed varies it.
    ///
    /// # Errors
    /// A direction that the link model refuses.
    pub(in crate::sim) fn new(
        experiment: &Experiment,
        seed: u64,
    ) -> Result<Self, InvalidDirection> {
        let interface_of = indices(experiment.interfaces.iter().map(|interface| &interface.id));
        let mut network = Self {
            interfaces: interfaces(experiment),
            links: links(experiment, seed, &interface_of),
            directions: Vec::new(),
            carriers: Vec::new(),
            routes: Routes::default(),
            interface_of,
            link_of: indices(experiment.links.iter().map(|link| &link.id)),
        };
        network.add_channels(experiment, seed)?;
        Ok(network)
    }

    /// Makes the way of a path known, there and back, and gives the route there.
    pub(in crate::sim) fn add_path(&mut self, path: &Path) -> RouteId {
        let direction = |hop: &Hop| {
            let side = match hop.direction {
                HopDirection::Forward => 0,
                HopDirection::Backward => 1,
            };
            2 * self.link_of[&hop.link] as u32 + side
        };
        let directions = path.hops.iter().map(direction).collect();
        let [local, remote] = [&path.local, &path.remote].map(|id| self.interface_of[id]);
        self.routes.add(local, remote, directions)
    }

    /// One channel per medium, then one per direction of every other link.
    fn add_channels(&mut self, experiment: &Experiment, seed: u64) -> Result<(), InvalidDirection> {
        for medium in &experiment.media {
            self.add_carrier(Channel::medium(medium.rate_bps, medium.overhead_bytes)?);
        }
        let medium_of = indices(experiment.media.iter().map(|medium| &medium.id));
        for (index, link) in experiment.links.iter().enumerate() {
            for (side, direction) in [&link.forward, &link.backward].into_iter().enumerate() {
                let channel = match &link.medium {
                    Some(medium) => medium_of[medium],
                    None => self.add_carrier(Channel::point_to_point()),
                };
                let label = format!("{}/{}", link.id, HopDirection::BOTH[side].name());
                let generators = StationGenerators::new(seed, &label);
                self.add_direction(channel, 2 * index + side, direction, generators)?;
            }
        }
        Ok(())
    }

    /// Adds link direction `index`, as a station of a channel.
    fn add_direction(
        &mut self,
        channel: usize,
        index: usize,
        direction: &Direction,
        generators: StationGenerators,
    ) -> Result<(), InvalidDirection> {
        let link = &self.links[index / 2];
        let carrier = &mut self.carriers[channel];
        let station = carrier
            .channel
            .add_station(&link.varied(direction), generators)?;
        carrier.directions.push(index);
        let [from, to] = [index % 2, 1 - index % 2].map(|side| link.ends[side]);
        self.directions.push(LinkDirection {
            channel,
            station,
            from,
            to,
            dropped_by_rule: 0,
        });
        Ok(())
    }

    fn add_carrier(&mut self, channel: Channel<Packet>) -> usize {
        self.carriers.push(Carrier {
            channel,
            directions: Vec::new(),
        });
        self.carriers.len() - 1
    }
}

fn indices<'a>(ids: impl Iterator<Item = &'a String>) -> HashMap<String, usize> {
    ids.cloned()
        .enumerate()
        .map(|(index, id)| (id, index))
        .collect()
}

fn interfaces(experiment: &Experiment) -> Vec<Interface> {
    let hosts: HashSet<_> = experiment.hosts.iter().map(|host| &host.id).collect();
    let new = |interface: &resolved::Interface| Interface {
        is_port: !hosts.contains(&interface.node),
        is_up: interface.up,
        port_is_down: false,
        has_address: interface.ipv4.is_some() || interface.ipv6.is_some(),
        sent: 0,
        received: 0,
        dropped_interface_down: 0,
        dropped_no_address: 0,
    };
    experiment.interfaces.iter().map(new).collect()
}

fn links(experiment: &Experiment, seed: u64, interface_of: &HashMap<String, usize>) -> Vec<Link> {
    let spread = u64::from(experiment.vary.rtt_ppm);
    let new = |link: &resolved::Link| {
        let draw = Generator::new(seed, &format!("rtt/{}", link.id)).below(2 * spread + 1);
        Link {
            ends: [interface_of[&link.a], interface_of[&link.b]],
            has_drop_rule: false,
            delay_ppm: 1_000_000 - spread + draw,
        }
    };
    experiment.links.iter().map(new).collect()
}
