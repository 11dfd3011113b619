//! Hosts that feel their own first link (`first_hop: host`): what waits for it waits in them, and they know when it has left.

use std::collections::VecDeque;

use crate::capabilities::Missing;
use crate::link::Packet;
use crate::links::Links;
use crate::lookup::Lookup;
use crate::resolved::{Experiment, FirstHop, HopDirection};
use crate::time::Nanos;

/// No queue of a host.
const NONE: u32 = u32::MAX;

/// The directions that begin with the queue of a host; those of link k are 2k, forward, and 2k + 1.
pub fn host_directions(experiment: &Experiment) -> Vec<usize> {
    let lookup = Lookup::new(experiment);
    let begins_in_host = |interface: &str| {
        let node = lookup.interface(interface).map(|one| one.node.as_str());
        let host = node.and_then(|node| lookup.host(node));
        host.is_some_and(|host| experiment.hosts[host].first_hop == FirstHop::Host)
    };
    let links = experiment.links.iter();
    let beginnings = links.flat_map(|link| HopDirection::BOTH.map(|side| link.beginning(side)));
    let beginnings = beginnings.enumerate();
    beginnings
        .filter(|(_, interface)| begins_in_host(interface))
        .map(|(direction, _)| direction)
        .collect()
}

/// Where it is not known any more whose packet is in the queue of a host: a middlebox stands before it that may have changed it.
pub fn check_middleboxes(experiment: &Experiment) -> Vec<Missing> {
    let links = &experiment.links;
    let begins = host_directions(experiment).into_iter();
    let begins = begins.map(|direction| {
        let side = HopDirection::BOTH[direction % 2];
        links[direction / 2].beginning(side)
    });
    let begins: Vec<_> = begins.collect();
    let middleboxes = experiment.middleboxes.iter().enumerate();
    let at_hosts = middleboxes.filter(|(_, one)| begins.contains(&one.at.as_str()));
    at_hosts
        .map(|(index, middlebox)| Missing {
            feature: format!("middleboxes.{index}.at: {}", middlebox.at),
            why: "behind it nobody knows whose packets wait in the host, which has first_hop: host: place it at the other end of the link, or use the kernel back-end".to_owned(),
        })
        .collect()
}

/// What waits in the hosts, packet by packet in the order in which their links take it. The packets themselves are in the queues of
/// the links; here is what is to be told when they leave.
#[derive(Debug, Default)]
pub struct HostQueues<W> {
    /// The directions that they belong to.
    directions: Vec<usize>,
    /// By direction: the place of its queue.
    place_of: Vec<u32>,
    queues: Vec<VecDeque<W>>,
}

impl<W> HostQueues<W> {
    /// Empty ones for these directions.
    pub fn new(directions: Vec<usize>) -> Self {
        let last = directions.last().map_or(0, |last| last + 1);
        let mut place_of = vec![NONE; last];
        for (direction, place) in directions.iter().zip(0..) {
            place_of[*direction] = place;
        }
        Self {
            place_of,
            queues: directions.iter().map(|_| VecDeque::new()).collect(),
            directions,
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.queues.len()
    }

    /// The directions that they belong to, ascending.
    pub fn directions(&self) -> &[usize] {
        &self.directions
    }

    /// The place of the queue of a direction, if it begins with one.
    #[inline]
    pub fn place(&self, direction: usize) -> Option<usize> {
        let place = self.place_of.get(direction).copied();
        place
            .filter(|place| *place != NONE)
            .map(|place| place as usize)
    }

    /// Its link has taken a packet; gives whether that waits.
    pub fn enter<P: Packet>(
        &mut self,
        now: Nanos,
        place: usize,
        waiting: W,
        links: &mut Links<P>,
    ) -> bool {
        let queue = &mut self.queues[place];
        let waits = links.waiting_packets(now, self.directions[place]) > 0 || !queue.is_empty();
        if waits {
            queue.push_back(waiting);
        }
        waits
    }

    /// The next that has left, or is gone.
    pub fn leave<P: Packet>(
        &mut self,
        now: Nanos,
        place: usize,
        links: &mut Links<P>,
    ) -> Option<W> {
        let waiting = links.waiting_packets(now, self.directions[place]);
        let queue = &mut self.queues[place];
        (queue.len() as u64 > waiting)
            .then(|| queue.pop_front())
            .flatten()
    }

    /// When it must be asked for the next that leaves; before that none does. `None`: not before something else happens.
    pub fn next_leave<P: Packet>(
        &self,
        now: Nanos,
        place: usize,
        links: &mut Links<P>,
    ) -> Option<Nanos> {
        let direction = self.directions[place];
        let waiting = self.queues[place].len() as u64;
        match links.waiting_packets(now, direction) < waiting {
            true => Some(now),
            false => links.next_start(direction),
        }
    }

    /// Forgets all that waits.
    pub fn clear(&mut self) {
        self.queues.iter_mut().for_each(VecDeque::clear);
    }
}
