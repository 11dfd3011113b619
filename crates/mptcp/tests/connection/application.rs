//! Changes by an application during a connection.

use mptcp::connection::{Buffer, Connection};
use mptcp::sched;

use crate::world::{CLIENT, Pair, PathModel, SERVER, Stack, seconds};

fn pair() -> Pair {
    let mut path = PathModel::new(4, 10);
    path.queue_bytes = 20_000;
    let mut stack = Stack {
        scheduler: "kernel_default",
        ..Stack::default()
    };
    stack.config.send_buffer = Buffer::Fixed(200_000);
    Pair::new(1, vec![path; 2], &stack)
}

fn change<T>(pair: &mut Pair, change: impl FnOnce(&mut Connection) -> T) -> T {
    let client = &mut pair.sides[CLIENT];
    let id = client.connection.expect("it is open");
    client.endpoint.command(id, change).expect("it is open")
}

/// Returns the bytes that the client sends in a second on each path.
fn carried(pair: &mut Pair) -> [u64; 2] {
    let before = [0, 1].map(|path| pair.sent_bytes(CLIENT, path));
    pair.run_for(seconds(1));
    [0, 1].map(|path| pair.sent_bytes(CLIENT, path) - before[path])
}

#[test]
fn bulk_data_keeps_off_a_subflow_that_is_made_a_backup() {
    let mut pair = pair();
    pair.transfer(8_000_000, 0);
    pair.run_for(seconds(1));
    let dear = pair.sides[CLIENT].subflows()[1].id;
    assert!(change(&mut pair, |connection| connection.set_backup(dear, true)));
    pair.run_for(seconds(1));
    assert_eq!(carried(&mut pair)[1], 0);
    let shown = pair.sides[CLIENT].subflows()[1].is_backup;
    assert!(shown && pair.sides[SERVER].subflows()[1].is_backup);
    assert!(change(&mut pair, |connection| connection.set_backup(dear, false)));
    assert!(carried(&mut pair)[1] > 150_000);
    assert!(!change(&mut pair, |connection| connection.set_backup(99, true)));
    pair.run_to_both_finishes(seconds(30));
}

#[test]
fn another_scheduler_decides_from_then_on() {
    let mut pair = pair();
    pair.transfer(8_000_000, 0);
    pair.run_for(seconds(1));
    let before = pair.sides[SERVER].received;
    let redundant = sched::by_name("redundant").expect("a scheduler");
    change(&mut pair, |connection| {
        connection.set_scheduler(redundant(&sched::Parameters::default()));
    });
    pair.run_for(seconds(1));
    let between = pair.sides[SERVER].received;
    let [one, other] = carried(&mut pair);
    let new_bytes = pair.sides[SERVER].received - between;
    assert!(one > 350_000 && other > 350_000, "{one} {other}");
    assert!(new_bytes < 600_000, "everything goes twice: {new_bytes}");
    assert!(between - before > 300_000);
    pair.run_to_both_finishes(seconds(60));
}

#[test]
fn a_send_buffer_changes_its_size() {
    let mut pair = pair();
    pair.transfer(8_000_000, 0);
    pair.run_for(seconds(1));
    change(&mut pair, |connection| connection.set_send_buffer(10_000));
    pair.run_for(seconds(1));
    let held = change(&mut pair, |connection| connection.unacked_bytes());
    assert!(held <= 10_000, "{held}");
    change(&mut pair, |connection| connection.set_send_buffer(200_000));
    let more: u64 = carried(&mut pair).iter().sum();
    assert!(more > 500_000, "{more}");
    pair.run_to_both_finishes(seconds(30));
}
