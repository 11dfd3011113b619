//! The addresses from which a connection starts: that of the initial subflow, or all at once.

use mptcp::connection::{Event, Mode, Start};
use mptcp::time::{MILLISECOND, Nanos};

use crate::world::middleboxes::lose;
use crate::world::{CLIENT, Pair, PathModel, SERVER, Stack, ipv4, seconds};

/// Returns two paths, the first of which is slower.
fn paths() -> Vec<PathModel> {
    vec![PathModel::new(10, 50), PathModel::new(10, 10)]
}

fn pair(start: Start) -> Pair {
    let mut stack = Stack::default();
    stack.config.start = start;
    let mut pair = Pair::over_all_paths(1, paths(), [&stack, &stack], ipv4);
    pair.transfer(300_000, 300_000);
    pair
}

/// Returns when a host was connected, and in which mode.
fn connected(pair: &Pair, side: usize) -> Vec<(Nanos, Mode)> {
    let events = pair.sides[side].events.iter();
    let connected = events.filter_map(|(at, event)| match event {
        Event::Connected { mode } => Some((*at, *mode)),
        _ => None,
    });
    connected.collect()
}

/// Checks that both hosts have one connection each, with a subflow on each path, and no other.
fn assert_one_connection(pair: &Pair) {
    for side in [CLIENT, SERVER] {
        assert_eq!(connected(pair, side).len(), 1);
        let known = format!("{:?}", pair.sides[side].endpoint);
        assert!(known.contains("connections: 1,"), "{known}");
        let mut locals: Vec<_> = pair.sides[side]
            .subflows()
            .iter()
            .map(|subflow| subflow.four.local.ip())
            .collect();
        locals.sort_unstable();
        assert_eq!(locals, [ipv4(0, side), ipv4(1, side)]);
    }
}

#[test]
fn a_race_is_won_by_the_first_answer_and_the_loser_leaves_nothing() {
    let mut pair = pair(Start::Race);
    pair.run_for(300 * MILLISECOND);
    let (at, mode) = connected(&pair, CLIENT)[0];
    assert_eq!((at / MILLISECOND, mode), (20, Mode::Multipath));
    assert_one_connection(&pair);
    pair.run_to_the_end(seconds(5));
}

#[test]
fn a_race_does_not_wait_for_a_dead_primary_path() {
    let mut pair = pair(Start::Race);
    pair.set_path(0, false);
    pair.run_to_both_finishes(seconds(2));
    assert_eq!(connected(&pair, CLIENT)[0].0 / MILLISECOND, 20);
}

#[test]
fn an_answer_to_the_loser_that_is_lost_leaves_nothing_either() {
    let mut pair = pair(Start::Race);
    let first_answer = lose(1, |place, _| place.from == SERVER && place.path == 0);
    pair.network.middleboxes.push(first_answer);
    pair.run_for(seconds(2));
    let known = format!("{:?}", pair.sides[SERVER].endpoint);
    assert!(known.contains("connections: 1,"), "{known}");
    assert_eq!(connected(&pair, SERVER).len(), 1);
}

#[test]
fn a_race_without_multipath_is_one_connection_of_tcp() {
    let mut stack = Stack::plain();
    stack.config.start = Start::Race;
    let mut pair = Pair::over_all_paths(1, paths(), [&stack, &stack], ipv4);
    pair.transfer(300_000, 300_000);
    pair.run_for(300 * MILLISECOND);
    for side in [CLIENT, SERVER] {
        assert_eq!(connected(&pair, side).len(), 1);
        assert_eq!(pair.sides[side].subflows().len(), 1);
    }
    assert_eq!(
        pair.sides[CLIENT].subflows()[0].four.local.ip(),
        ipv4(1, CLIENT)
    );
    pair.run_to_the_end(seconds(5));
}

#[test]
fn the_primary_path_alone_is_used_while_it_answers() {
    let mut pair = pair(Start::Primary);
    pair.run_for(90 * MILLISECOND);
    assert_eq!(
        pair.sent_packets(CLIENT, |packet| packet.source == ipv4(1, CLIENT)),
        0
    );
    pair.run_for(400 * MILLISECOND);
    assert_one_connection(&pair);
    pair.run_to_the_end(seconds(5));
}

#[test]
fn when_the_syns_of_the_primary_path_have_died_the_next_is_tried() {
    let mut pair = pair(Start::Primary);
    pair.set_path(0, false);
    pair.run_for(seconds(10));
    assert_eq!(connected(&pair, CLIENT), []);
    pair.run_to_both_finishes(seconds(30));
    assert_eq!(
        pair.sides[CLIENT].subflows()[0].four.local.ip(),
        ipv4(1, CLIENT)
    );
    assert_eq!(pair.sides[CLIENT].subflows()[0].id, 1);
}

#[test]
fn a_connection_that_no_way_answers_ends() {
    for start in [Start::Primary, Start::Race] {
        let mut pair = pair(start);
        pair.set_path(0, false);
        pair.set_path(1, false);
        pair.run_until(seconds(60), |pair| pair.sides[CLIENT].has_closed());
    }
}
