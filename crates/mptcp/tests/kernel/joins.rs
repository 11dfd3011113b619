//! Further subflows, opened by either side, to addresses that were known or announced.

use mptcp::connection::Event;

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

/// How many subflows are established beside the first.
pub fn joined(judge: &Judge) -> usize {
    let is_join = |event: &&Event| matches!(event, Event::SubflowEstablished { .. });
    judge.events.iter().filter(is_join).count()
}

/// Holds the connection open until a subflow was joined, then lets both streams pass.
fn joins(trial: Trial) -> Judge {
    let mut judge = Judge::new(trial);
    judge.closes = false;
    judge.run_until(|judge| joined(judge) == 1);
    judge.closes = true;
    judge.run_to_the_end();
    judge.assert_no_trouble_but(&[]);
    judge
}

fn we_join(trial: Trial) {
    let judge = joins(trial);
    assert_eq!(judge.counter("MPJoinSynRx"), 1);
    assert_eq!(judge.counter("MPJoinAckRx"), 1);
}

fn the_kernel_joins(trial: Trial) {
    let judge = joins(trial);
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
    trial.stack.config.subflow.mss_bytes = 1440;
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
    let mut trial = two_paths(Opener::Kernel, "full_mesh");
    let local = trial.address(2, End::Kernel);
    trial.kernel_endpoints = vec![format!("{local} dev path2 subflow")];
    the_kernel_joins(trial);
}

#[test]
#[ignore = "needs root"]
fn the_kernel_joins_with_checksums() {
    let mut trial = two_paths(Opener::Kernel, "full_mesh");
    let local = trial.address(2, End::Kernel);
    trial.kernel_endpoints = vec![format!("{local} dev path2 subflow")];
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
        judge.paths[1].lost_packets = vec![(from, lost)];
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
    survives_each_loss(|| {
        let mut trial = two_paths(Opener::Kernel, "full_mesh");
        let local = trial.address(2, End::Kernel);
        trial.kernel_endpoints = vec![format!("{local} dev path2 subflow")];
        trial
    });
}

#[test]
#[ignore = "needs root"]
fn we_echo_what_the_kernel_announces() {
    for family in [Family::V4, Family::V6] {
        let mut trial = two_paths(Opener::Engine, "full_mesh");
        trial.family = family;
        let local = trial.address(2, End::Kernel);
        trial.kernel_endpoints = vec![format!("{local} signal")];
        let judge = joins(trial);
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
