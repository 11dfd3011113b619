//! The choice among equal next hops: hashes of the addresses and ports of a packet, and the share
//! of hash values of each next hop.

use std::net::{IpAddr, SocketAddr};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::resolved::NextHop;
use crate::rng::Generator;

/// The fields by which routers choose.
#[derive(Clone, Copy, Debug)]
pub struct FiveTuple {
    /// Address and port of the sender.
    pub source: SocketAddr,
    /// Address and port of the receiver.
    pub destination: SocketAddr,
    /// Protocol number of the transport: 6 for TCP, 17 for UDP.
    pub protocol: u8,
}

impl FiveTuple {
    /// Returns the 32-bit FNV-1a hash of the two addresses in network order.
    pub fn hash_l3(&self) -> u32 {
        fnv1a(&self.addresses())
    }

    /// Returns the 32-bit FNV-1a hash of addresses, protocol and ports in network order.
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

/// Returns the FNV-1a hash (<http://www.isthe.com/chongo/tech/comp/fnv/>).
fn fnv1a(bytes: &[u8]) -> u32 {
    let next = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5, next)
}

/// Returns the largest 31-bit value of the share of each next hop. Shares are proportional to the
/// weights (hash-threshold, RFC 2992, with the rounding of Linux).
pub fn upper_bounds(weights: &[u32]) -> Vec<u32> {
    let total: u64 = weights.iter().copied().map(u64::from).sum();
    let mut sum = 0;
    let bound = |weight: &u32| {
        sum += u64::from(*weight);
        (((sum << 31) + total / 2) / total).saturating_sub(1) as u32
    };
    weights.iter().map(bound).collect()
}

/// Returns the index of the next hop whose share contains `hash`. Only the upper 31 bits count.
pub fn by_threshold(hash: u32, bounds: &[u32]) -> usize {
    bounds.partition_point(|bound| *bound < hash >> 1)
}

/// The rule by which one router chooses.
#[derive(Clone, Copy, Debug)]
pub struct Chooser {
    rule: NextHop,
    seed: u64,
}

/// The options of a router.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Number of equal next hops.
    pub next_hops: usize,
    /// Number of ways in which the routers before may have chosen.
    pub ways_before: usize,
}

impl Chooser {
    /// Returns the rule of `router` in the run with `seed`.
    pub fn new(rule: NextHop, router: &str, seed: u64) -> Self {
        // A router with ECMP hashes in the same way in every run, and differently from other
        // routers.
        let seed = if rule == NextHop::Random { seed } else { 0 };
        Self {
            rule,
            seed: Generator::new(seed, &format!("next_hop/{router}")).bits(),
        }
    }

    /// Returns the index of the next hop of a packet.
    pub fn choose(&self, tuple: &FiveTuple, choice: Choice) -> usize {
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

/// The finalizer of MurmurHash3: every bit of hash and seed affects every bit of the result.
fn mixed(hash: u32) -> u32 {
    let hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}
