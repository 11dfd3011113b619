//! Addresses that go away, and subflows that become backup ones, while the connection lives on.

use crate::joins::{joined, two_paths};
use crate::judge::{Judge, Opener, Trial};
use crate::path::End;

/// A connection over both paths that stays open.
fn over_both(trial: Trial) -> Judge {
    let mut judge = Judge::new(trial);
    judge.closes = false;
    judge.run_until(|judge| joined(judge) == 1);
    judge
}

fn subflows(judge: &Judge) -> usize {
    judge.state().map_or(0, |state| state.subflows().count())
}

fn backups(judge: &Judge) -> usize {
    let state = judge.state();
    let subflows = state.iter().flat_map(|state| state.subflows());
    subflows.filter(|subflow| subflow.is_backup).count()
}

fn ends_well(mut judge: Judge, allowed: &[&str]) {
    judge.closes = true;
    judge.run_to_the_end();
    judge.assert_no_trouble_but(allowed);
}

/// The kernel announces its second address with this ID, and we join it.
fn kernel_announces() -> Trial {
    let mut trial = two_paths(Opener::Engine, "full_mesh");
    let local = trial.address(2, End::Kernel);
    trial.kernel_endpoints = vec![format!("{local} id 5 signal")];
    trial
}

#[test]
#[ignore = "needs root"]
fn the_kernel_removes_an_address() {
    let mut judge = over_both(kernel_announces());
    judge.namespace.ip("mptcp endpoint delete id 5");
    judge.run_until(|judge| subflows(judge) == 1);
    assert_eq!(judge.counter("RmAddrTx"), 1);
    ends_well(judge, &["MPRstTx", "MPRstRx"]);
}

#[test]
#[ignore = "needs root"]
fn the_kernel_removes_the_address_of_its_own_subflow() {
    let mut trial = two_paths(Opener::Kernel, "full_mesh");
    let local = trial.address(2, End::Kernel);
    trial.kernel_endpoints = vec![format!("{local} dev path2 id 5 subflow")];
    let mut judge = over_both(trial);
    judge.namespace.ip("mptcp endpoint delete id 5");
    judge.run_until(|judge| subflows(judge) == 1);
    assert_eq!(judge.counter("RmAddrTx"), 1);
    ends_well(judge, &["MPRstTx", "MPRstRx"]);
}

#[test]
#[ignore = "needs root"]
fn we_remove_an_address() {
    let mut judge = over_both(two_paths(Opener::Engine, "full_mesh"));
    judge.set_address(2, false);
    judge.run_until(|judge| judge.counter("RmAddr") == 1);
    assert_eq!(subflows(&judge), 1);
    ends_well(judge, &["MPRstTx", "MPRstRx"]);
}

#[test]
#[ignore = "needs root"]
fn we_remove_an_address_and_join_from_it_again() {
    let mut judge = over_both(two_paths(Opener::Engine, "full_mesh"));
    judge.set_address(2, false);
    judge.run_until(|judge| judge.counter("RmAddr") == 1);
    judge.set_address(2, true);
    judge.run_until(|judge| joined(judge) == 2);
    assert_eq!(judge.counter("MPJoinAckRx"), 2);
    ends_well(judge, &["MPRstTx", "MPRstRx"]);
}

#[test]
#[ignore = "needs root"]
fn we_make_a_subflow_backup_and_regular_again() {
    let mut judge = over_both(two_paths(Opener::Engine, "full_mesh"));
    for (count, on) in [(1, true), (2, false)] {
        judge.set_backup(2, on);
        judge.run_until(|judge| judge.counter("MPPrioRx") == count);
        assert_eq!(backups(&judge), usize::from(on));
    }
    ends_well(judge, &[]);
}

#[test]
#[ignore = "needs root"]
fn the_kernel_makes_a_subflow_backup_and_regular_again() {
    let mut trial = two_paths(Opener::Kernel, "full_mesh");
    let local = trial.address(2, End::Kernel);
    trial.kernel_endpoints = vec![format!("{local} dev path2 id 5 subflow")];
    let mut judge = over_both(trial);
    for (words, count) in [("backup", 1), ("nobackup", 0)] {
        judge
            .namespace
            .ip(&format!("mptcp endpoint change id 5 {words}"));
        judge.run_until(|judge| backups(judge) == count);
    }
    assert_eq!(judge.counter("MPPrioTx"), 2);
    ends_well(judge, &[]);
}
