//! Classic BPF (socket(7), Documentation/networking/filter.rst of the kernel) that admits packets
//! to some ports, and ICMP messages about errors.

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_LDX,
    BPF_MISC, BPF_MSH, BPF_RET, BPF_TAX, BPF_TXA, sock_filter,
};

/// The whole packet.
const EVERYTHING: u32 = u32::MAX;

/// Ports with a common prefix of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// A multiple of `count`.
    pub(super) first: u16,
    /// A power of 2.
    pub(super) count: u16,
}

impl Block {
    pub(super) fn ports(self) -> impl Iterator<Item = u16> {
        self.first..=self.first + (self.count - 1)
    }
}

/// Admits nothing.
pub(super) fn nothing() -> Vec<sock_filter> {
    vec![one(BPF_RET | BPF_K, 0)]
}

/// Admits IPv4 packets whose TCP is for one of these ports.
pub(super) fn of_ipv4_packets(ports: &[Block]) -> Vec<sock_filter> {
    let load = [
        one(BPF_LDX | BPF_B | BPF_MSH, 0),
        one(BPF_LD | BPF_H | BPF_IND, 2),
    ];
    with(&load, ports)
}

/// Admits TCP segments for one of these ports.
pub(super) fn of_tcp_segments(ports: &[Block]) -> Vec<sock_filter> {
    with(&[one(BPF_LD | BPF_H | BPF_ABS, 2)], ports)
}

/// Compares the port that `load` loads with each block.
fn with(load: &[sock_filter], ports: &[Block]) -> Vec<sock_filter> {
    let mut program = load.to_vec();
    program.push(one(BPF_MISC | BPF_TAX, 0));
    for block in ports {
        let prefix = !(block.count - 1);
        program.extend([
            one(BPF_MISC | BPF_TXA, 0),
            one(BPF_ALU | BPF_AND | BPF_K, prefix.into()),
        ]);
        program.extend(everything_if(block.first.into()));
    }
    program.extend(nothing());
    program
}

/// Admits IPv4 packets with ICMP messages about errors (RFC 792): destination unreachable, time
/// exceeded.
pub(super) fn of_icmp_errors() -> Vec<sock_filter> {
    let load = [
        one(BPF_LDX | BPF_B | BPF_MSH, 0),
        one(BPF_LD | BPF_B | BPF_IND, 0),
    ];
    of_kinds(&load, &[3, 11])
}

/// Admits ICMPv6 messages about errors (RFC 4443, section 3).
pub(super) fn of_icmpv6_errors() -> Vec<sock_filter> {
    of_kinds(&[one(BPF_LD | BPF_B | BPF_ABS, 0)], &[1, 2, 3, 4])
}

/// Admits the types `kinds`. `load` loads the type.
fn of_kinds(load: &[sock_filter], kinds: &[u32]) -> Vec<sock_filter> {
    let accept = kinds.iter().flat_map(|kind| everything_if(*kind));
    load.iter()
        .copied()
        .chain(accept)
        .chain(nothing())
        .collect()
}

/// Admits the whole packet if the loaded value is `value`.
fn everything_if(value: u32) -> [sock_filter; 2] {
    [
        sock_filter {
            // Skips the next instruction unless the values are equal.
            jf: 1,
            ..one(BPF_JMP | BPF_JEQ | BPF_K, value)
        },
        one(BPF_RET | BPF_K, EVERYTHING),
    ]
}

fn one(code: u32, k: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}
