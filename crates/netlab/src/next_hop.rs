//! Which of several equal next hops a router takes: hashes of a packet's ends, and shares of what a hash can be.

use std::net::{IpAddr, SocketAddr};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::resolved::NextHop;
use crate::rng::Generator;

/// What routers look at: the ends of a packet, and what lies between them.
#[derive(Clone, Copy, Debug)]
pub struct FiveTuple {
    /// Address and port of the sender.
    pub source: SocketAddr,
    /// Address and port of the receiver.
    pub destination: SocketAddr,
    /// The number of the transport protocol, 6 for TCP and 17 for UDP.
    pub protocol: u8,
}

impl FiveTuple {
    /// FNV-1a with 32 bits over the two addresses in network order.
    pub fn hash_l3(&self) -> u32 {
        fnv1a(&self.addresses())
    }

    /// FNV-1a with 32 bits over addresses, protocol and ports in network order.
    pub fn hash_l4(&self) -> u32 {
        fnv1a(&self.bytes())
    }

    fn addresses(&self) -> Vec<u8> {
        let ends = [self.source.ip(), self.destination.ip()];
        let octets = ends.map(|address| match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        });
        octets.concat()
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.addresses();
        bytes.push(self.protocol);
        for port in [self.source.port(), self.destination.port()] {
            bytes.extend(port.to_be_bytes());
        }
        bytes
    }
}

/// <http://www.isthe.com/chongo/tech/comp/fnv/>
fn fnv1a(bytes: &[u8]) -> u32 {
    let next = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5, next)
}

/// The last value of each next hop's share of 31 bits, as large as its weight is (hash-threshold, RFC 2992; Linux's rounding).
pub fn upper_bounds(weights: &[u32]) -> Vec<u32> {
    let total: u64 = weights.iter().copied().map(u64::from).sum();
    let mut sum = 0;
    let bound = |weight: &u32| {
        sum += u64::from(*weight);
        (((sum << 31) + total / 2) / total).saturating_sub(1) as u32
    };
    weights.iter().map(bound).collect()
}

/// The next hop whose share a hash falls into; only its upper 31 bits count.
pub fn by_threshold(hash: u32, bounds: &[u32]) -> usize {
    bounds.partition_point(|bound| *bound < hash >> 1)
}

/// How one router chooses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chooser {
    rule: NextHop,
    seed: u64,
}

/// What a router chooses among.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    /// How many equal next hops there are.
    pub(crate) next_hops: usize,
    /// In how many ways the routers before may have chosen.
    pub(crate) ways_before: usize,
}

impl Chooser {
    /// The rule of a router in the run with `seed`.
    pub(crate) fn new(rule: NextHop, router: &str, seed: u64) -> Self {
        // Routers that choose by ECMP hash in the same way in every run, each in its own.
        let seed = if rule == NextHop::Random { seed } else { 0 };
        Self {
            rule,
            seed: Generator::new(seed, &format!("next_hop/{router}")).bits(),
        }
    }

    /// The place of the next hop of a packet.
    pub(crate) fn choose(&self, tuple: &FiveTuple, choice: Choice) -> usize {
        let hash = match self.rule {
            NextHop::EcmpL3 => mixed(tuple.hash_l3() ^ self.seed as u32),
            NextHop::EcmpL4 => mixed(tuple.hash_l4() ^ self.seed as u32),
            NextHop::Random => (xxh3_64_with_seed(&tuple.bytes(), self.seed) >> 32) as u32,
            NextHop::ByPort => {
                let ports = [tuple.source, tuple.destination].map(|end| usize::from(end.port()));
                return (ports[0] + ports[1]) / choice.ways_before % choice.next_hops;
            }
        };
        by_threshold(hash, &upper_bounds(&vec![1; choice.next_hops]))
    }
}

/// The last step of MurmurHash3: each bit of the seed and of the hash bears on each bit of the result.
fn mixed(hash: u32) -> u32 {
    let hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}
