//! Buffers and windows of the connection and of subflows.

use std::sync::Arc;

use mptcp::connection::Buffer;
use mptcp::failure::Behaviour;
use mptcp::time::{MILLISECOND, Nanos};
use mptcp::wire::Flags;

use crate::world::middleboxes::lose;
use crate::world::{CLIENT, Faults, Pair, PathModel, SERVER, Stack, ipv4, seconds};

fn two_paths() -> Vec<PathModel> {
    vec![PathModel::new(10, 10), PathModel::new(10, 20)]
}

fn stack(send_buffer_bytes: u64, receive_buffer_bytes: u64) -> Stack {
    let mut stack = Stack::default();
    stack.config.send_buffer = Buffer::Fixed(send_buffer_bytes);
    stack.config.receive_buffer = Buffer::Fixed(receive_buffer_bytes);
    stack
}

/// Returns two paths of 50 Mbit/s and 100 ms, which together hold 1.25 MB.
fn long_paths() -> Vec<PathModel> {
    vec![PathModel::new(50, 50); 2]
}

const AUTO: Buffer = Buffer::Auto {
    initial_bytes: 65_536,
    max_bytes: 6 << 20,
};

/// Returns a stack with those buffers.
fn sized(send_buffer: Buffer, receive_buffer: Buffer) -> Stack {
    let mut stack = Stack::default();
    (stack.config.send_buffer, stack.config.receive_buffer) = (send_buffer, receive_buffer);
    stack
}

/// Returns how long 20 MB take over the long paths.
fn duration(stack: &Stack) -> Nanos {
    let mut pair = Pair::new(1, long_paths(), stack);
    pair.transfer(20_000_000, 0);
    pair.run_to_both_finishes(seconds(60));
    pair.now
}

/// The lost segment is the first of eight that use a unit to its last byte, so the next would never
/// be offered.
#[test]
fn a_window_scale_gives_way_to_a_receive_buffer_below_its_unit() {
    let mut stack = Stack::plain();
    stack.config.receive_buffer = Buffer::Fixed(2_000);
    let subflow = Arc::make_mut(&mut stack.config.subflow);
    (subflow.window_scale, subflow.mss_bytes) = (Some(12), 524);
    let mut pair = Pair::new(1, two_paths(), &stack);
    pair.network
        .middleboxes
        .push(lose(1, |_, packet| !packet.segment.payload.is_empty()));
    pair.transfer(50_000, 0);
    pair.run_to_the_end(seconds(5));
}

#[test]
fn buffers_that_grow_carry_nearly_as_much_as_large_ones() {
    let large = Buffer::Fixed(6 << 20);
    let small = Buffer::Fixed(65_536);
    let best = duration(&sized(large, large));
    let auto = duration(&sized(AUTO, AUTO));
    assert!(auto < best + seconds(1), "{auto} ns, at best {best} ns");
    assert!(duration(&sized(small, large)) > 4 * best);
    assert!(duration(&sized(large, small)) > 4 * best);
}

/// Returns the largest receive window that the server offered, in bytes.
fn largest_window(pair: &Pair) -> u32 {
    let from_server = pair.log.iter().filter(|(_, by, packet)| {
        // Windows of SYNs are not scaled.
        *by == SERVER && !packet.segment.flags.contains(Flags::SYN)
    });
    let windows = from_server.map(|(_, _, packet)| u32::from(packet.segment.window) << 7);
    windows.max().unwrap_or(0)
}

#[test]
fn a_receive_buffer_grows_with_what_is_read_and_not_beyond_its_limit() {
    let limited = Buffer::Auto {
        initial_bytes: 65_536,
        max_bytes: 500_000,
    };
    let mut pair = Pair::new(1, long_paths(), &sized(AUTO, limited));
    pair.transfer(10_000_000, 0);
    pair.run_for(250 * MILLISECOND);
    let early = largest_window(&pair);
    assert!(early < 200_000, "{early} bytes");
    pair.run_for(seconds(3));
    let late = largest_window(&pair);
    assert!((400_000..501_000).contains(&late), "{late} bytes");
}

/// Returns the acknowledgments for each data segment of 2 MB.
fn acknowledgments_per_segment(receive_buffer: Buffer) -> f64 {
    let mut stack = sized(AUTO, receive_buffer);
    Arc::make_mut(&mut stack.config.subflow).quick_acks = 0;
    let mut pair = Pair::new(1, long_paths(), &stack);
    pair.transfer(2_000_000, 0);
    pair.run_to_both_finishes(seconds(60));
    let of = |side| pair.log.iter().filter(move |(_, by, _)| *by == side);
    let segments = of(CLIENT).filter(|(_, _, packet)| !packet.segment.payload.is_empty());
    of(SERVER).count() as f64 / segments.count() as f64
}

#[test]
fn each_segment_that_opens_the_receive_window_is_acknowledged_at_once() {
    let whole = acknowledgments_per_segment(Buffer::Fixed(6 << 20));
    assert!(whole < 0.6, "{whole}");
    let growing = acknowledgments_per_segment(AUTO);
    assert!(growing > 0.8, "{growing}");
}

#[test]
fn a_slow_reader_keeps_its_receive_buffer_small() {
    let mut pair = Pair::new(1, long_paths(), &sized(AUTO, AUTO));
    // A segment in 10 ms makes ten in a round trip.
    pair.sides[SERVER].read_pause = 10 * MILLISECOND;
    pair.transfer(500_000, 0);
    pair.run_for(seconds(3));
    let largest = largest_window(&pair);
    assert!(largest < 70_000, "{largest} bytes");
}

#[test]
fn a_send_buffer_takes_twice_the_windows() {
    let small = Buffer::Auto {
        initial_bytes: 16_384,
        max_bytes: 4 << 20,
    };
    let mut pair = Pair::new(1, long_paths(), &sized(small, Buffer::Fixed(6 << 20)));
    pair.transfer(20_000_000, 0);
    pair.run_for(MILLISECOND);
    assert_eq!(pair.sides[CLIENT].sent, 16_384);
    pair.run_for(seconds(1));
    let client = &pair.sides[CLIENT];
    let subflows = client.subflows();
    let acked: u64 = subflows
        .iter()
        .map(|subflow| subflow.counters.acked_bytes)
        .sum();
    let windows: f64 = subflows
        .iter()
        .map(|subflow| subflow.window.cwnd_bytes)
        .sum();
    let held = (client.sent - acked) as f64;
    assert!(
        (windows..2.5 * windows).contains(&held),
        "{held} of {windows} bytes"
    );
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
    // A segment per millisecond is 11 Mbit/s, of 20 Mbit/s available.
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
    // Probes are sent with doubled intervals: 0.2, 0.6, 1.4, 3.0, 6.2 s.
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

/// Returns a fast path and a slow one, a buffer that they fill out of order, and mainline's
/// behaviour with a change.
fn unequal(change: impl FnOnce(&mut Behaviour)) -> Pair {
    let mut stack = stack(4 << 20, 160_000);
    stack.scheduler = "kernel_default";
    change(&mut stack.config.behaviour);
    let paths = [PathModel::new(10, 5), PathModel::new(10, 50)].map(|mut path| {
        path.queue_bytes = 90_000;
        path
    });
    let mut pair = Pair::new(1, paths.into(), &stack);
    pair.transfer(6_000_000, 0);
    pair.run_to_the_end(seconds(20));
    pair
}

fn duration_where(change: impl FnOnce(&mut Behaviour)) -> Nanos {
    unequal(change).now
}

#[test]
fn what_waits_for_a_slow_path_takes_from_the_window() {
    let counted = duration_where(|_| {});
    let not_counted = duration_where(|behaviour| behaviour.counts_out_of_order = false);
    assert!(
        5 * counted > 6 * not_counted,
        "{counted} ns, without {not_counted} ns"
    );
}

/// Returns how many bytes wait at a reader that pauses, whose receive buffer has 100,000 bytes.
fn waiting_bytes(behaviour: Behaviour) -> u64 {
    let mut stack = stack(4 << 20, 100_000);
    stack.config.behaviour = behaviour;
    let mut pair = Pair::new(1, two_paths(), &stack);
    pair.sides[SERVER].reads_at = seconds(3);
    pair.transfer(2_000_000, 0);
    pair.run_for(2900 * MILLISECOND);
    let waiting = pair.sides[SERVER].connection().expect("it is open");
    let waiting_bytes = waiting.unread_bytes();
    pair.run_to_the_end(seconds(6));
    waiting_bytes
}

/// Each of the two subflows offers its whole window, and the buffer has to hold both.
#[test]
fn a_subflow_that_keeps_its_window_offers_more_than_the_buffer_has() {
    let narrowed = waiting_bytes(Behaviour::mainline());
    assert!(narrowed < 110_000, "{narrowed} bytes");
    let kept = waiting_bytes(Behaviour::mainline_6_18());
    assert!(kept > 130_000, "{kept} bytes");
}

/// Returns the part of the data that goes over a slow path beside a fast one, which could carry all
/// that a small receive buffer allows. The server reads all that there is once in a millisecond.
fn share_of_slow_path(change: impl FnOnce(&mut Behaviour)) -> f64 {
    let mut stack = stack(4 << 20, 40_000);
    stack.scheduler = "kernel_default";
    change(&mut stack.config.behaviour);
    let paths = vec![PathModel::new(10, 15), PathModel::new(10, 60)];
    let mut pair = Pair::new(1, paths, &stack);
    pair.transfer(4_000_000, 0);
    for _ in 0..4000 {
        pair.sides[SERVER].reads_at = pair.now + MILLISECOND;
        pair.run_for(MILLISECOND);
    }
    let sent = |path| {
        let of_path = pair
            .log
            .iter()
            .filter(|(_, by, packet)| *by == CLIENT && packet.source == ipv4(path, CLIENT));
        of_path
            .map(|(_, _, packet)| f64::from(packet.segment.payload.len()))
            .sum::<f64>()
    };
    sent(1) / (sent(0) + sent(1))
}

#[test]
fn a_gap_that_is_filled_opens_the_whole_window_at_once_for_the_fast_path() {
    let at_once = share_of_slow_path(|_| {});
    let in_parts = share_of_slow_path(|behaviour| behaviour.acks_wait_for_reader = false);
    assert!(2.0 * at_once < in_parts, "{at_once:.3}, {in_parts:.3}");
}

/// Returns how many packets the server sends on each path when it finally reads data that arrived
/// on the first path only.
fn window_updates_on_reading(change: impl FnOnce(&mut Behaviour)) -> [usize; 2] {
    let mut stack = stack(4 << 20, 100_000);
    change(&mut stack.config.behaviour);
    let mut pair = Pair::new(1, two_paths(), &stack);
    pair.sides[CLIENT].closes = false;
    pair.sides[SERVER].reads_at = seconds(2);
    pair.run_for(500 * MILLISECOND);
    let other = pair.sides[CLIENT].subflows()[1].id;
    let client = &mut pair.sides[CLIENT];
    let id = client.connection.expect("it is open");
    client
        .endpoint
        .command(id, |connection| connection.set_backup(other, true));
    pair.transfer(80_000, 0);
    pair.run_for(1400 * MILLISECOND);
    let before = pair.log.len();
    pair.run_for(200 * MILLISECOND);
    [0, 1].map(|path| {
        let said = pair.log[before..].iter();
        said.filter(|(_, by, packet)| *by == SERVER && packet.source == ipv4(path, SERVER))
            .count()
    })
}

#[test]
fn a_window_that_opens_is_told_where_half_of_it_was_known() {
    let where_it_came = window_updates_on_reading(|_| {});
    assert_eq!(where_it_came.map(|packets| packets > 0), [true, false]);
    let on_all = window_updates_on_reading(|behaviour| behaviour.tells_doubled_window = false);
    assert_eq!(on_all.map(|packets| packets > 0), [true, true]);
}

#[test]
fn room_that_scaling_rounds_away_is_not_told() {
    let mut stack = Stack::default();
    stack.config.receive_buffer = Buffer::Fixed(10_000);
    Arc::make_mut(&mut stack.config.subflow).mss_bytes = 100;
    let mut pair = Pair::new(1, vec![PathModel::new(10, 10)], &stack);
    pair.transfer(100_000, 0);
    pair.sides[SERVER].reads_at = seconds(100);
    pair.run_for(seconds(3));
    let server = &mut pair.sides[SERVER];
    let id = server.connection.expect("it is open");
    for _ in 0..100 {
        server.endpoint.command(id, |connection| connection.recv());
        let told = std::iter::from_fn(|| server.endpoint.poll_transmit(pair.now));
        assert!(told.take(3).count() < 3);
    }
}

#[test]
fn no_scheduler_sends_plain_tcp_a_byte_twice_that_probed_a_window() {
    for scheduler in mptcp::sched::names() {
        let mut stacks = [Stack::plain(), stack(400_000, 8_000)];
        stacks[CLIENT].scheduler = scheduler;
        let mut pair = Pair::of(1, vec![PathModel::new(10, 10)], [&stacks[0], &stacks[1]]);
        pair.transfer(8_000, 0);
        pair.sides[CLIENT].closes = false;
        pair.sides[SERVER].reads_at = seconds(2);
        pair.run_for(seconds(1));
        // The window is closed, and everything is acknowledged.
        pair.transfer(50_000, 0);
        pair.sides[CLIENT].closes = true;
        pair.run_to_the_end(seconds(10));
        assert_eq!(pair.sides[SERVER].received, 50_000);
    }
}
