//! What must hold whatever comes from the network, from files and from a kernel: each target takes
//! any bytes, and panics where something is wrong.

mod capture;
mod connection;
mod endpoint;
mod forge;
mod generator;
mod parse;
mod resolved;
mod script;
mod stack;
mod tables;

pub use capture::capture;
pub use connection::connection;
pub use endpoint::endpoint;
pub use generator::Generator;
pub use live::fuzzing::{convert, netlink, offload};
pub use parse::parse;
pub use resolved::resolved;
pub use tables::tables;

/// Something that takes any bytes.
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// Takes an input.
    pub run: fn(&[u8]),
    /// Longest input in bytes that is worth making.
    pub longest: usize,
}

/// A packet, or a script of a few.
const PACKETS: usize = 256;
/// A resolved experiment.
const DESCRIPTION: usize = 8192;
/// A file of some packets.
const FILE: usize = 4096;

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "parse",
        run: parse,
        longest: PACKETS,
    },
    Target {
        name: "connection",
        run: connection,
        longest: PACKETS,
    },
    Target {
        name: "endpoint",
        run: endpoint,
        longest: PACKETS,
    },
    Target {
        name: "capture",
        run: capture,
        longest: FILE,
    },
    Target {
        name: "resolved",
        run: resolved,
        longest: DESCRIPTION,
    },
    Target {
        name: "tables",
        run: tables,
        longest: FILE,
    },
    Target {
        name: "convert",
        run: convert,
        longest: PACKETS,
    },
    Target {
        name: "offload",
        run: offload,
        longest: PACKETS,
    },
    Target {
        name: "netlink",
        run: netlink,
        longest: FILE,
    },
];
