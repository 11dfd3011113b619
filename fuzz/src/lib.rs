//! What must hold whatever comes from the network: each target takes any bytes, and panics where something is wrong.

mod capture;
mod connection;
mod endpoint;
mod forge;
mod generator;
mod parse;
mod script;
mod stack;

pub use capture::capture;
pub use connection::connection;
pub use endpoint::endpoint;
pub use generator::Generator;
pub use parse::parse;

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
];
