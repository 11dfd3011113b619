//! Addresses that are lost and come back, and subflows with temporary backup priority.

use mptcp::connection::Connection;

use crate::joins::{joined, kernel_joins_from_its_second_address, two_paths};
use crate::judge::{Judge, Opener, Trial};

/// Returns a connection over both paths that stays open.
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
    let mut judge = over_both(kernel_joins_from_its_second_address());
    for (words, count) in [("backup", 1), ("nobackup", 0)] {
        judge
            .namespace
            .ip(&format!("mptcp endpoint change id 5 {words}"));
        judge.run_until(|judge| backups(judge) == count);
    }
    assert_eq!(judge.counter("MPPrioTx"), 2);
    ends_well(judge, &[]);
}

fn acked_bytes(judge: &Judge) -> u64 {
    let subflows = judge.state().into_iter().flat_map(Connection::subflows);
    subflows.map(|subflow| subflow.counters.acked_bytes).sum()
}

/// Break before make: for a while there is no subflow.
#[test]
#[ignore = "needs root"]
fn we_move_to_another_address() {
    let mut judge = Judge::new(two_paths(Opener::Engine, "full_mesh"));
    judge.set_address(2, false);
    judge.closes = false;
    judge.run_until(|judge| acked_bytes(judge) > 500_000);
    judge.set_address(1, false);
    judge.paths[0].is_up = false;
    judge.run_until(|judge| subflows(judge) == 0);
    judge.set_address(2, true);
    judge.run_until(|judge| joined(judge) == 1);
    ends_well(judge, &["MPRstTx", "MPRstRx"]);
}
