//! mptcplab's simulator with a congestion control of its own.
//!
//! ```text
//! cargo build --release
//! mptcplab run two-paths.yaml --on ./target/release/own-simulator --set flows.bulk.cc=crate:aimd
//! ```

mod aimd;

use std::process::ExitCode;
use std::sync::Arc;

use experiment::algorithms::Registry;

fn main() -> ExitCode {
    let mut registry = Registry::default();
    let make = Arc::new(|_: &_, given: &_| aimd::control(given));
    registry
        .add_control("crate:aimd", &["add_packets", "keep"], make)
        .expect("no other control has this name");
    simulator::main(registry)
}
