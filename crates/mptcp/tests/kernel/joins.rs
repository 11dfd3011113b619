//! Joins that the matrix lacks.

use std::net::SocketAddr;

use mptcp::connection::Event;
use mptcp::pm::{Endpoint, EndpointFlags};

use crate::interference::lose_numbered;
use crate::judge::{Judge, Opener, Trial};
use crate::path::{End, Family};
use crate::peer::Manner;

/// Returns a trial with two paths, and a peer that sends nothing until the engine's byte stream has
/// ended.
pub fn two_paths(opener: Opener, path_manager: &'static str) -> Trial {
    let mut trial = Trial::new(opener);
    trial.paths = 2;
    trial.stack.path_manager = path_manager;
    trial.manner = Manner {
        sends_last: true,
        ..Manner::default()
    };
    trial
}

/// Returns a trial in which the kernel opens, and joins from its second address with ID 5.
pub fn kernel_joins_from_its_second_address() -> Trial {
    let mut trial = two_paths(Opener::Kernel, "full_mesh");
    let local = trial.address(2, End::Kernel);
    trial.kernel_endpoints = vec![format!("{local} dev path2 id 5 subflow")];
    trial
}

/// Returns how many subflows are established besides the initial one.
pub fn joined(judge: &Judge) -> usize {
    let is_join = |event: &&Event| matches!(event, Event::SubflowEstablished { .. });
    judge.events.iter().filter(is_join).count()
}

/// Keeps the connection open until `count` subflows have joined, then lets both byte streams pass.
fn joins(mut judge: Judge, count: usize) -> Judge {
    judge.closes = false;
    judge.run_until(|judge| joined(judge) == count);
    judge.closes = true;
    judge.run_to_the_end();
    judge.assert_no_trouble_but(&[]);
    judge
}

#[test]
#[ignore = "needs root"]
fn we_join_on_the_first_pair_of_addresses() {
    let mut trial = two_paths(Opener::Engine, "n_diff_ports");
    trial.paths = 1;
    let judge = joins(Judge::new(trial), 1);
    assert_eq!(judge.counter("MPJoinSynRx"), 1);
    assert_eq!(judge.counter("MPJoinAckRx"), 1);
}

/// Loses one of the packets of the second path's handshake after the SYN, each in a connection of
/// its own.
fn survives_each_loss(trial: impl Fn() -> Trial, acceptor: End) {
    for (from, lost) in [(acceptor, 0), (End::Engine, 1), (End::Kernel, 1)] {
        let mut judge = Judge::new(trial());
        judge.middleboxes.push(lose_numbered(1, from, lost..=lost));
        joins(judge, 1);
    }
}

#[test]
#[ignore = "needs root"]
fn losses_when_we_join() {
    let trial = || two_paths(Opener::Engine, "full_mesh");
    survives_each_loss(trial, End::Kernel);
}

#[test]
#[ignore = "needs root"]
fn losses_when_the_kernel_joins() {
    survives_each_loss(kernel_joins_from_its_second_address, End::Engine);
}

/// The announced port of the second path's address.
const ANNOUNCED_PORT: u16 = 7000;

/// An IPv6 address with a port leaves no room for timestamps.
#[test]
#[ignore = "needs root"]
fn the_kernel_joins_at_a_port_that_we_announce() {
    for family in [Family::V4, Family::V6] {
        let mut trial = two_paths(Opener::Kernel, "kernel_endpoints");
        trial.family = family;
        let address = trial.address(2, End::Engine);
        trial.stack.of_path_manager.endpoints = Some(vec![Endpoint {
            address,
            port: Some(ANNOUNCED_PORT),
            flags: EndpointFlags::SIGNAL,
        }]);
        let judge = joins(Judge::new(trial), 1);
        assert_eq!(judge.counter("PortAdd"), 1);
        let joined = judge.events.iter().find_map(|event| match event {
            Event::SubflowEstablished { four, .. } => Some(four.local),
            _ => None,
        });
        let announced = SocketAddr::new(address, ANNOUNCED_PORT);
        assert_eq!(joined, Some(announced), "{family:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn we_join_at_a_port_that_the_kernel_announces() {
    let mut trial = two_paths(Opener::Engine, "kernel_endpoints");
    trial.stack.of_path_manager.endpoints = Some(Vec::new());
    let address = trial.address(2, End::Kernel);
    trial.kernel_endpoints = vec![format!(
        "{address} dev path2 id 5 signal port {ANNOUNCED_PORT}"
    )];
    let judge = joins(Judge::new(trial), 1);
    assert_eq!(judge.counter("MPJoinPortAckRx"), 1);
}

/// A program decides about subflows in the kernel, so the limit of the in-kernel path manager does
/// not apply.
#[test]
#[ignore = "needs root"]
fn sixteen_subflows() {
    let mut trial = two_paths(Opener::Engine, "n_diff_ports");
    trial.paths = 1;
    trial.stack.of_path_manager.subflows = Some(16);
    trial.kernel_asks_a_program = true;
    let judge = joins(Judge::new(trial), 15);
    assert_eq!(judge.counter("MPJoinAckRx"), 15);
}
