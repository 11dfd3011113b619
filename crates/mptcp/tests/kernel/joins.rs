//! Further subflows, opened by either side, to addresses that were known or announced.

use std::sync::Arc;

use mptcp::connection::Event;

use crate::interference::lose_numbered;
use crate::judge::{Judge, Opener, Trial};
use crate::path::{End, Family};
use crate::peer::{Manner, Report};

/// Two paths, and a peer that is quiet until our stream has ended.
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

/// The kernel opens, and joins from its second address, which has ID 5.
pub fn kernel_joins_from_its_second_address() -> Trial {
    let mut trial = two_paths(Opener::Kernel, "full_mesh");
    let local = trial.address(2, End::Kernel);
    trial.kernel_endpoints = vec![format!("{local} dev path2 id 5 subflow")];
    trial
}

/// How many subflows are established beside the first.
pub fn joined(judge: &Judge) -> usize {
    let is_join = |event: &&Event| matches!(event, Event::SubflowEstablished { .. });
    judge.events.iter().filter(is_join).count()
}

/// Holds the connection open until so many subflows were joined, then lets both streams pass.
fn joins(trial: Trial, count: usize) -> Judge {
    let mut judge = Judge::new(trial);
    judge.closes = false;
    judge.run_until(|judge| joined(judge) == count);
    judge.closes = true;
    judge.run_to_the_end();
    judge.assert_no_trouble_but(&[]);
    judge
}

fn we_join(trial: Trial) {
    let judge = joins(trial, 1);
    assert_eq!(judge.counter("MPJoinSynRx"), 1);
    assert_eq!(judge.counter("MPJoinAckRx"), 1);
}

fn the_kernel_joins(trial: Trial) {
    let judge = joins(trial, 1);
    assert_eq!(judge.counter("MPJoinSynTx"), 1);
    assert_eq!(judge.counter("MPJoinSynAckRx"), 1);
}

#[test]
#[ignore = "needs root"]
fn we_join_as_full_mesh() {
    we_join(two_paths(Opener::Engine, "full_mesh"));
}

#[test]
#[ignore = "needs root"]
fn we_join_over_ipv6() {
    let mut trial = two_paths(Opener::Engine, "full_mesh");
    trial.family = Family::V6;
    Arc::make_mut(&mut trial.stack.config.subflow).mss_bytes = 1440;
    we_join(trial);
}

#[test]
#[ignore = "needs root"]
fn we_join_a_connection_over_ipv4_over_ipv6() {
    let mut trial = two_paths(Opener::Engine, "full_mesh");
    trial.further_family = Some(Family::V6);
    Arc::make_mut(&mut trial.stack.config.subflow).mss_bytes = 1440;
    we_join(trial);
}

#[test]
#[ignore = "needs root"]
fn we_join_on_the_first_pair_of_addresses() {
    let mut trial = two_paths(Opener::Engine, "n_diff_ports");
    trial.paths = 1;
    we_join(trial);
}

#[test]
#[ignore = "needs root"]
fn the_kernel_joins_from_its_subflow_endpoint() {
    the_kernel_joins(kernel_joins_from_its_second_address());
}

#[test]
#[ignore = "needs root"]
fn the_kernel_joins_with_checksums() {
    let mut trial = kernel_joins_from_its_second_address();
    trial.kernel_checksums = true;
    the_kernel_joins(trial);
}

/// Loses one of the packets of the second path's handshake, each in a connection of its own.
fn survives_each_loss(trial: impl Fn() -> Trial) {
    for (from, lost) in [
        (End::Engine, 0),
        (End::Kernel, 0),
        (End::Engine, 1),
        (End::Kernel, 1),
    ] {
        let mut judge = Judge::new(trial());
        judge.middleboxes.push(lose_numbered(1, from, lost..=lost));
        judge.closes = false;
        judge.run_until(|judge| joined(judge) == 1);
        judge.closes = true;
        judge.run_to_the_end();
        judge.assert_no_trouble_but(&[]);
    }
}

#[test]
#[ignore = "needs root"]
fn losses_when_we_join() {
    survives_each_loss(|| two_paths(Opener::Engine, "full_mesh"));
}

#[test]
#[ignore = "needs root"]
fn losses_when_the_kernel_joins() {
    survives_each_loss(kernel_joins_from_its_second_address);
}

#[test]
#[ignore = "needs root"]
fn we_echo_what_the_kernel_announces() {
    for family in [Family::V4, Family::V6] {
        let mut trial = two_paths(Opener::Engine, "full_mesh");
        trial.family = family;
        let local = trial.address(2, End::Kernel);
        trial.kernel_endpoints = vec![format!("{local} signal")];
        let judge = joins(trial, 1);
        assert_eq!(judge.counter("AddAddrTx"), 1);
        assert_eq!(judge.counter("EchoAdd"), 1);
    }
}

/// Of the paths of an acceptor, `full_mesh` announces those that are back.
#[test]
#[ignore = "needs root"]
fn the_kernel_joins_what_we_announce() {
    for family in [Family::V4, Family::V6] {
        let mut trial = two_paths(Opener::Kernel, "full_mesh");
        trial.family = family;
        let mut judge = Judge::new(trial);
        judge.set_address(2, false);
        judge.closes = false;
        judge.run_until(|judge| judge.peer.said.contains(&Report::Connected));
        judge.set_address(2, true);
        judge.run_until(|judge| joined(judge) == 1);
        judge.closes = true;
        judge.run_to_the_end();
        judge.assert_no_trouble_but(&[]);
        assert_eq!(judge.counter("AddAddr"), 1);
        assert_eq!(judge.counter("EchoAddTx"), 1);
        assert_eq!(judge.counter("MPJoinSynTx"), 1);
        assert_eq!(judge.counter("MPJoinSynAckRx"), 1);
    }
}

#[test]
#[ignore = "needs root"]
fn we_join_with_checksums() {
    let mut trial = two_paths(Opener::Engine, "full_mesh");
    trial.kernel_checksums = true;
    we_join(trial);
}

#[test]
#[ignore = "needs root"]
fn we_join_a_kernel_with_syn_cookies() {
    let mut trial = two_paths(Opener::Engine, "full_mesh");
    trial.kernel_uses_syn_cookies = true;
    we_join(trial);
}

#[test]
#[ignore = "needs root"]
fn we_join_the_port_that_the_kernel_announces() {
    const ANNOUNCED_PORT: u16 = 5002;
    let mut trial = two_paths(Opener::Engine, "kernel_endpoints");
    let local = trial.address(2, End::Kernel);
    trial.kernel_endpoints = vec![format!("{local} port {ANNOUNCED_PORT} signal")];
    // From our second address to both of the kernel's.
    let judge = joins(trial, 2);
    let is_announced = |event: &Event| match event {
        Event::SubflowEstablished { four, .. } => four.remote.port() == ANNOUNCED_PORT,
        _ => false,
    };
    assert!(judge.events.iter().any(is_announced));
    assert_eq!(judge.counter("MPJoinPortAckRx"), 1);
}

/// In the kernel a program decides, so that its own limit of eight does not hold.
#[test]
#[ignore = "needs root"]
fn sixteen_subflows() {
    let mut trial = two_paths(Opener::Engine, "n_diff_ports");
    trial.paths = 1;
    trial.stack.subflows = Some(16);
    trial.kernel_asks_a_program = true;
    let judge = joins(trial, 15);
    assert_eq!(judge.counter("MPJoinAckRx"), 15);
}
