//! Parameters and algorithms of the connections under test, chosen by an input.

use std::sync::Arc;

use mptcp::connection::{Algorithms, Buffer, Config, Fallback};
use mptcp::endpoint::Profile;
use mptcp::failure::Behaviour;
use mptcp::{cc, pm, sched};

use crate::script::Script;

/// Bytes of each buffer. The buffers are small, so that windows close and an execution stays short.
pub const BUFFER_BYTES: u64 = 8_000;
/// The most subflows of a connection.
pub const MAX_SUBFLOWS: usize = 6;

/// Returns the parameters and algorithms of a host's connections.
pub fn profile(script: &mut Script<'_>) -> Profile {
    let control = cc::CONGESTION_CONTROLS[script.below(cc::CONGESTION_CONTROLS.len())].make;
    let scheduler = sched::SCHEDULERS[script.below(sched::SCHEDULERS.len())].make;
    let manager = pm::PATH_MANAGERS[script.below(pm::PATH_MANAGERS.len())].make;
    Profile {
        config: config(script.byte()).into(),
        algorithms: Box::new(move |connection| Algorithms {
            congestion_control: control(&cc::Parameters::default()),
            scheduler: scheduler(&sched::Parameters::default()),
            path_manager: manager(connection, &pm::Parameters::default()),
        }),
    }
}

fn config(bits: u8) -> Config {
    let is_set = |bit: u8| bits >> bit & 1 == 1;
    let mut config = Config {
        uses_checksums: is_set(0),
        send_buffer: Buffer::Fixed(BUFFER_BYTES),
        receive_buffer: Buffer::Fixed(BUFFER_BYTES),
        max_subflows: MAX_SUBFLOWS,
        max_half_open_joins: 2,
        max_half_open: 2,
        ..Config::default()
    };
    if is_set(1) {
        config.behaviour = Behaviour::oot();
    }
    if is_set(2) {
        config.fallback = Fallback::Strict;
    }
    config.is_multipath = bits >> 3 & 7 != 7;
    let subflow = Arc::make_mut(&mut config.subflow);
    (subflow.ecn, subflow.rack) = (is_set(6), !is_set(7));
    config
}
