//! Buffers and windows of both levels.

use mptcp::time::MILLISECOND;

use crate::world::middleboxes::lose;
use crate::world::{CLIENT, Faults, Pair, PathModel, SERVER, Stack, seconds};

fn two_paths() -> Vec<PathModel> {
    vec![PathModel::new(10, 10), PathModel::new(10, 20)]
}

fn stack(send_buffer_bytes: u64, receive_buffer_bytes: u64) -> Stack {
    let mut stack = Stack::default();
    stack.config.send_buffer_bytes = send_buffer_bytes;
    stack.config.receive_buffer_bytes = receive_buffer_bytes;
    stack
}

#[test]
fn a_reader_that_pauses_stops_the_sender_and_loses_nothing() {
    let mut pair = Pair::new(1, two_paths(), &stack(4 << 20, 100_000));
    pair.sides[SERVER].reads_at = seconds(3);
    pair.transfer(2_000_000, 0);
    pair.run_for(2900 * MILLISECOND);
    let waiting = pair.sides[SERVER].connection().expect("it is open");
    // Rounding to units of 128 bytes offers a little more with each acknowledgment.
    let unread = waiting.unread_bytes();
    assert!((99_000..110_000).contains(&unread), "{unread} bytes wait");
    let before = pair.log.len();
    pair.run_for(100 * MILLISECOND);
    assert!(pair.log.len() - before < 10, "it waits");
    pair.run_to_the_end(seconds(5));
}

#[test]
fn a_slow_reader_sets_the_pace() {
    let mut pair = Pair::new(1, two_paths(), &stack(4 << 20, 100_000));
    // A segment a millisecond is 11 Mbit/s, of 20 there are.
    pair.sides[SERVER].read_pause = MILLISECOND;
    pair.transfer(1_000_000, 0);
    pair.run_to_the_end(1100 * MILLISECOND);
    let server = pair.sides[SERVER].connection().expect("it lingers");
    assert_eq!(server.counters().refused_bytes, 0);
}

#[test]
fn the_news_that_a_window_has_opened_can_be_lost() {
    let mut pair = Pair::new(1, two_paths(), &stack(4 << 20, 100_000));
    pair.sides[SERVER].reads_at = seconds(3);
    let drops = lose(usize::MAX, |place, _| {
        place.from == SERVER && (seconds(3)..seconds(4)).contains(&place.now)
    });
    pair.network.middleboxes.push(drops);
    pair.transfer(1_000_000, 0);
    // Probes go out with doubled intervals: 0.2, 0.6, 1.4, 3.0, 6.2 s.
    pair.run_to_the_end(seconds(9));
}

#[test]
fn tiny_buffers_are_slow_and_right() {
    for (send, receive) in [(1_000, 100_000), (100_000, 3_000), (3_000, 3_000), (1, 100)] {
        let mut pair = Pair::new(1, two_paths(), &stack(send, receive));
        let bytes = if send == 1 { 100 } else { 50_000 };
        pair.transfer(bytes, bytes);
        pair.run_to_the_end(seconds(60));
    }
}

#[test]
fn a_receive_buffer_that_is_full_out_of_order_gets_what_is_missing() {
    let faults = Faults {
        loss: 0.03,
        ..Faults::default()
    };
    let paths = two_paths()
        .into_iter()
        .map(|path| path.with(faults.clone()));
    let mut pair = Pair::new(7, paths.collect(), &stack(4 << 20, 20_000));
    pair.transfer(500_000, 0);
    pair.run_to_the_end(seconds(20));
}

#[test]
fn what_is_in_flight_never_exceeds_the_window_of_the_connection() {
    let mut pair = Pair::new(1, two_paths(), &stack(4 << 20, 50_000));
    pair.transfer(500_000, 0);
    while pair.sides[SERVER].finished_at.is_none() {
        pair.run_for(5 * MILLISECOND);
        assert!(pair.now < seconds(10));
        let server = pair.sides[SERVER].connection();
        let held = server.map_or(0, |server| {
            server.unread_bytes() + server.out_of_order_bytes()
        });
        assert!(held <= 50_000, "{held} bytes are held");
    }
    let client = pair.sides[CLIENT].connection().expect("it lingers");
    assert_eq!(client.counters().unbelievable_acks, 0);
}
