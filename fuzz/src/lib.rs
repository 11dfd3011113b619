//! Fuzz targets for input from the network, from files and from the kernel. A target accepts any
//! bytes and panics if a check fails.

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
pub use parse::parse;
pub use realtime::fuzzing::{convert, netlink, offload};
pub use resolved::resolved;
pub use tables::tables;

/// A fuzz target.
pub struct Target {
    /// The name of the target and of its corpus.
    pub name: &'static str,
    /// Runs the target on an input.
    pub run: fn(&[u8]),
    /// The longest input, in bytes, that is worth making.
    pub longest: usize,
}

/// Longest input in bytes: a packet or a script of a few.
const PACKETS: usize = 256;
/// Longest input in bytes: a resolved experiment.
const DESCRIPTION: usize = 16_384;
/// Longest input in bytes: a file of some packets.
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
