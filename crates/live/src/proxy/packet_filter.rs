//! Classic BPF (socket(7), Documentation/networking/filter.rst of the kernel) that lets packets to some ports in.

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_LDX,
    BPF_MISC, BPF_MSH, BPF_RET, BPF_TAX, BPF_TXA, sock_filter,
};

/// The whole packet.
const EVERYTHING: u32 = u32::MAX;

/// Ports that begin with the same bits.
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

/// Nothing at all.
pub(super) fn nothing() -> Vec<sock_filter> {
    vec![one(BPF_RET | BPF_K, 0)]
}

/// IPv4 packets whose TCP is for one of these ports.
pub(super) fn of_ipv4_packets(ports: &[Block]) -> Vec<sock_filter> {
    let load = [
        one(BPF_LDX | BPF_B | BPF_MSH, 0),
        one(BPF_LD | BPF_H | BPF_IND, 2),
    ];
    with(&load, ports)
}

/// TCP segments for one of these ports.
pub(super) fn of_tcp_segments(ports: &[Block]) -> Vec<sock_filter> {
    with(&[one(BPF_LD | BPF_H | BPF_ABS, 2)], ports)
}

/// `load` brings the port; then it is compared with each block.
fn with(load: &[sock_filter], ports: &[Block]) -> Vec<sock_filter> {
    let mut program = load.to_vec();
    program.push(one(BPF_MISC | BPF_TAX, 0));
    for block in ports {
        let prefix = !(block.count - 1);
        program.extend([
            one(BPF_MISC | BPF_TXA, 0),
            one(BPF_ALU | BPF_AND | BPF_K, prefix.into()),
            sock_filter {
                // Over the next instruction, unless it is equal.
                jf: 1,
                ..one(BPF_JMP | BPF_JEQ | BPF_K, block.first.into())
            },
            one(BPF_RET | BPF_K, EVERYTHING),
        ]);
    }
    program.extend(nothing());
    program
}

fn one(code: u32, k: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}
