//! Network address and port translation (RFC 3022): hosts behind it appear with another address and
//! other ports.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use experiment::resolved::{self, MiddleboxDirection};
use experiment::rng::Generator;
use experiment::time::Nanos;

use super::connections::addresses;
use super::{Heading, Middlebox, Outlet, Passing};

/// The lowest port it assigns, above the well-known ports.
const FIRST_PORT: u64 = 1024;
const PORTS: u64 = (1 << 16) - FIRST_PORT;

/// Maps each inside address and port to one outside port for all destinations (RFC 5382, REQ-1).
/// Drops packets to ports that no inside host has opened (REQ-3), and packets addressed to an
/// inside address.
pub(super) struct Nat {
    outside: resolved::Nat,
    /// The heading of packets from the inside hosts.
    outwards: Heading,
    random: Generator,
    outside_of: BTreeMap<SocketAddr, SocketAddr>,
    inside_of: BTreeMap<SocketAddr, SocketAddr>,
}

impl Nat {
    pub(super) fn new(
        outside: resolved::Nat,
        direction: MiddleboxDirection,
        random: Generator,
    ) -> Self {
        Self {
            outside,
            outwards: match direction {
                MiddleboxDirection::Arriving => Heading::Arriving,
                _ => Heading::Leaving,
            },
            random,
            outside_of: BTreeMap::new(),
            inside_of: BTreeMap::new(),
        }
    }

    /// Returns the outside address and port of an inside one. `None` if all ports are taken.
    fn outside_of(&mut self, inside: SocketAddr) -> Option<SocketAddr> {
        if let Some(outside) = self.outside_of.get(&inside) {
            return Some(*outside);
        }
        let address = match inside {
            SocketAddr::V4(_) => IpAddr::V4(self.outside.ipv4),
            SocketAddr::V6(_) => IpAddr::V6(self.outside.ipv6),
        };
        let first = self.random.below(PORTS);
        let ports = (0..PORTS).map(|more| (FIRST_PORT + (first + more) % PORTS) as u16);
        let mut candidates = ports.map(|port| SocketAddr::new(address, port));
        let outside = candidates.find(|outside| !self.inside_of.contains_key(outside))?;
        self.outside_of.insert(inside, outside);
        self.inside_of.insert(outside, inside);
        Some(outside)
    }
}

impl Middlebox for Nat {
    fn handle(&mut self, _now: Nanos, heading: Heading, mut passing: Passing, out: &mut Outlet) {
        let [source, destination] = addresses(passing.packet());
        let is_outwards = heading == self.outwards;
        let translated = match is_outwards {
            true => self.outside_of(source),
            false => self.inside_of.get(&destination).copied(),
        };
        let Some(translated) = translated else {
            return out.drop(passing);
        };
        let packet = passing.change();
        if is_outwards {
            packet.source = translated.ip();
            packet.segment.source_port = translated.port();
        } else {
            packet.destination = translated.ip();
            packet.segment.destination_port = translated.port();
        }
        out.pass(heading, passing);
    }
}
