//! What must hold whatever comes from the network: each target takes any bytes, and panics where something is wrong.

mod connection;
mod endpoint;
mod forge;
mod generator;
mod parse;
mod script;
mod stack;

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
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "parse",
        run: parse,
    },
    Target {
        name: "connection",
        run: connection,
    },
    Target {
        name: "endpoint",
        run: endpoint,
    },
];
