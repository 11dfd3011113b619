//! Hosts with a queue for their first link (`first_hop: host`). Packets wait in the host, and the
//! host learns when they have left.

use std::collections::VecDeque;

use experiment::addressing::Lookup;
use experiment::capabilities::Missing;
use experiment::resolved::{Experiment, FirstHop, HopDirection};
use experiment::time::Nanos;

use crate::link::Packet;
use crate::links::Links;

/// Marks a direction without a host queue.
const NONE: u32 = u32::MAX;

/// Returns the directions that begin with the queue of a host. Directions 2k and 2k + 1 are forward
/// and backward of link k.
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

/// Returns the middleboxes that stand between a host and its queue. The owner of a packet in the
/// queue is then unknown, because the middlebox may have changed the packet.
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

/// The packets that wait in hosts, in the order in which their links send them. The packets
/// themselves are in the queues of the links. This type holds what a host is told when they leave.
#[derive(Debug, Default)]
pub struct HostQueues<W> {
    /// The direction of each queue.
    directions: Vec<usize>,
    /// Index of the queue, by direction.
    place_of: Vec<u32>,
    queues: Vec<VecDeque<W>>,
}

impl<W> HostQueues<W> {
    /// Returns empty queues for `directions`.
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

    /// Returns the number of queues.
    pub fn count(&self) -> usize {
        self.queues.len()
    }

    /// Returns the directions of the queues, ascending.
    pub fn directions(&self) -> &[usize] {
        &self.directions
    }

    /// Returns the index of the queue of a direction, if it begins with one.
    #[inline]
    pub fn place(&self, direction: usize) -> Option<usize> {
        let place = self.place_of.get(direction).copied();
        place
            .filter(|place| *place != NONE)
            .map(|place| place as usize)
    }

    /// Handles a packet that the link accepted. Returns whether the packet waits.
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

    /// Removes and returns the next entry whose packet has left or was dropped.
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

    /// Returns when `leave` must be called next; no packet leaves earlier. `None` means not before
    /// another input.
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

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.queues.iter_mut().for_each(VecDeque::clear);
    }
}
