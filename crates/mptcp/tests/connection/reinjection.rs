//! What is reinjected and when: one test for each policy.

use std::sync::Arc;

use mptcp::connection::{Buffer, Config, Event};
use mptcp::failure::{Behaviour, FailedAfter, Reinjection};
use mptcp::subflow::CloseReason;
use mptcp::time::{MILLISECOND, Nanos, SECOND};
use mptcp::wire::{DataNumber, MptcpOption, MptcpOptions, Packet};

use crate::world::middleboxes::{lose, rewrite};
use crate::world::{CLIENT, Faults, Pair, PathModel, SERVER, Stack, ipv4, seconds};

/// When the second of the two paths is cut.
const CUT: Nanos = SECOND;

/// Returns two paths of 4 Mbit/s and 20 ms, with a scheduler that repeats nothing by itself.
fn pair(reinjection: Reinjection, failed_after: FailedAfter, receive_buffer_bytes: u64) -> Pair {
    let mut stack = Stack {
        scheduler: "kernel_default",
        ..Stack::default()
    };
    stack.config.receive_buffer = Buffer::Fixed(receive_buffer_bytes);
    stack.config.behaviour = Behaviour {
        reinjection,
        failed_after,
        reinject_whole_queue: false,
        ..Behaviour::mainline()
    };
    let mut path = PathModel::new(4, 10);
    path.queue_bytes = 20_000;
    let mut pair = Pair::new(1, vec![path; 2], &stack);
    pair.transfer(2_000_000, 0);
    pair
}

/// Runs until the second path is cut, which no host is told, and for `duration` longer.
fn cut(pair: &mut Pair, duration: Nanos) {
    pair.run_for(CUT);
    pair.set_path(1, false);
    pair.run_for(duration);
}

/// Returns the data sequence numbers that a packet maps.
fn mapped(packet: &Packet) -> Option<(u64, u64)> {
    packet
        .segment
        .options
        .mptcp
        .iter()
        .find_map(|option| match option {
            MptcpOption::Dss(dss) if !packet.segment.payload.is_empty() => dss.mapping(),
            _ => None,
        })
        .and_then(|mapping| match mapping.data_seq {
            DataNumber::Long(first) => Some((first.0, first.0 + u64::from(mapping.len))),
            DataNumber::Short(_) => None,
        })
}

/// Returns when data was first sent on the first path after the second one had carried it.
fn sent_elsewhere(pair: &Pair) -> Vec<Nanos> {
    let mut on_second = Vec::new();
    let mut times = Vec::new();
    let sent = pair.log.iter().filter(|(_, by, _)| *by == CLIENT);
    for (at, _, packet) in sent {
        let Some((first, end)) = mapped(packet) else {
            continue;
        };
        if packet.source == ipv4(1, CLIENT) {
            on_second.push((first, end));
        } else if on_second
            .iter()
            .any(|(start, last)| *start < end && first < *last)
        {
            times.push(*at);
        }
    }
    times
}

fn reason(pair: &Pair, side: usize) -> Option<CloseReason> {
    pair.sides[side]
        .events
        .iter()
        .find_map(|(_, event)| match event {
            Event::Closed { reason } => Some(*reason),
            _ => None,
        })
}

const LARGE_BUFFER: u64 = 6 << 20;

#[test]
fn none_waits_for_the_path_itself() {
    for failed_after in [FailedAfter::FirstRto, FailedAfter::StaleIntervals(4)] {
        let mut pair = pair(Reinjection::None, failed_after, LARGE_BUFFER);
        cut(&mut pair, seconds(9));
        assert_eq!(pair.sides[SERVER].finished_at, None);
        pair.set_path(1, true);
        pair.run_to_the_end(seconds(30));
        assert!(sent_elsewhere(&pair).is_empty());
    }
}

#[test]
fn none_aborts_a_connection_whose_path_takes_data_with_it() {
    let mut pair = pair(Reinjection::None, FailedAfter::FirstRto, LARGE_BUFFER);
    cut(&mut pair, 100 * MILLISECOND);
    pair.set_interface(1, CLIENT, false);
    pair.run_for(seconds(1));
    assert_eq!(reason(&pair, CLIENT), Some(CloseReason::Aborted));
    assert_eq!(reason(&pair, SERVER), Some(CloseReason::Reset));
    assert!(sent_elsewhere(&pair).is_empty());
}

#[test]
fn on_close_sends_again_what_a_closed_path_held() {
    let mut pair = pair(Reinjection::OnClose, FailedAfter::FirstRto, LARGE_BUFFER);
    cut(&mut pair, seconds(4));
    assert!(sent_elsewhere(&pair).is_empty());
    let closed_at = pair.now;
    pair.set_interface(1, CLIENT, false);
    pair.run_to_both_finishes(closed_at + seconds(4));
    let times = sent_elsewhere(&pair);
    assert!(times.iter().all(|at| *at >= closed_at), "{times:?}");
    assert!(!times.is_empty());
}

/// The first burst has one checksum. A part of it is of no use to the peer without the rest, and is
/// sent again too.
#[test]
fn a_first_burst_that_came_in_part_goes_again_as_a_whole() {
    for reinjection in [Reinjection::OnClose, Reinjection::OnRto] {
        let mut stack = Stack::default();
        stack.config.uses_checksums = true;
        stack.config.behaviour = Behaviour {
            reinjection,
            failed_after: FailedAfter::FirstRto,
            reinject_whole_queue: false,
            ..Behaviour::mainline()
        };
        let mut pair = Pair::new(1, vec![PathModel::new(4, 10); 2], &stack);
        let mut seen = 0;
        pair.network
            .middleboxes
            .push(lose(usize::MAX, move |place, packet| {
                let is_data = place.path == 0 && !packet.segment.payload.is_empty();
                seen += u32::from(is_data);
                is_data && seen > 3
            }));
        pair.transfer(14_000, 0);
        pair.run_until(seconds(1), |pair| {
            let subflows = pair.sides[CLIENT].subflows();
            subflows.len() == 2 && subflows[0].counters.acked_bytes > 0
        });
        pair.set_path(0, false);
        if reinjection == Reinjection::OnClose {
            pair.set_interface(0, CLIENT, false);
        }
        pair.run_until(seconds(5), |pair| pair.sides[SERVER].finished_at.is_some());
    }
}

#[test]
fn on_rto_sends_again_at_the_first_timeout_also_on_a_path_that_counts_as_working() {
    let mut pair = pair(
        Reinjection::OnRto,
        FailedAfter::StaleIntervals(0),
        LARGE_BUFFER,
    );
    cut(&mut pair, seconds(4));
    assert!(!pair.sides[CLIENT].subflows()[1].is_stale);
    let first = sent_elsewhere(&pair)[0] - CUT;
    // The scheduler fills the send queue of the dead path first, because the path counts as
    // working.
    assert!((200..900).contains(&(first / MILLISECOND)), "{first} ns");
}

#[test]
fn on_stale_sends_again_when_the_path_has_failed() {
    for (failed_after, expected_ms) in [
        (FailedAfter::FirstRto, 200..450),
        (FailedAfter::StaleIntervals(4), 900..2000),
    ] {
        let mut pair = pair(Reinjection::OnStale, failed_after, LARGE_BUFFER);
        cut(&mut pair, seconds(4));
        assert!(pair.sides[CLIENT].subflows()[1].is_stale);
        let first = sent_elsewhere(&pair)[0] - CUT;
        assert!(expected_ms.contains(&(first / MILLISECOND)), "{first} ns");
    }
}

#[test]
fn opportunistic_sends_again_what_blocks_the_window_a_segment_at_a_time() {
    let failed_after = FailedAfter::StaleIntervals(0);
    let mut pair = pair(Reinjection::Opportunistic, failed_after, 60_000);
    cut(&mut pair, seconds(4));
    let times = sent_elsewhere(&pair);
    // The window of the dead path is small after its timeout. Then each segment that arrives
    // uncovers the next.
    let first = times[0] - CUT;
    assert!((200..600).contains(&(first / MILLISECOND)), "{first} ns");
    let gaps = times.windows(2).map(|two| two[1] - two[0]);
    assert!(gaps.clone().all(|gap| gap >= 20 * MILLISECOND), "{times:?}");
    assert!(times.len() >= 5, "{times:?}");
}

#[test]
fn opportunistic_does_nothing_for_a_window_that_is_open() {
    let failed_after = FailedAfter::StaleIntervals(0);
    let mut pair = pair(Reinjection::Opportunistic, failed_after, LARGE_BUFFER);
    cut(&mut pair, seconds(9));
    assert!(sent_elsewhere(&pair).is_empty());
    pair.set_path(1, true);
    pair.run_to_the_end(seconds(30));
}

/// A random world in which one byte was lost for good: the client's address goes away while the
/// first path has in its queue what the second has begun to reinject.
#[test]
fn what_another_path_holds_in_part_goes_out_whole() {
    let faulty = |rate_mbps, delay_ms, loss| {
        PathModel::new(rate_mbps, delay_ms).with(Faults {
            loss,
            duplication: 0.01,
            reordering: 0.01,
            ..Faults::default()
        })
    };
    let mut paths = vec![faulty(26, 90, 0.02), faulty(1, 10, 0.03)];
    paths[1].faults.reordering = 0.0;
    let stack = |buffers: [u64; 2], behaviour, congestion_control, scheduler| {
        let mut config = Config {
            send_buffer: Buffer::Fixed(buffers[0]),
            receive_buffer: Buffer::Fixed(buffers[1]),
            behaviour,
            ..Config::default()
        };
        Arc::make_mut(&mut config.subflow).rack = false;
        Stack {
            config,
            congestion_control,
            scheduler,
            ..Stack::default()
        }
    };
    let on_close = Behaviour {
        reinjection: Reinjection::OnClose,
        ..Behaviour::oot()
    };
    let opportunistic = Behaviour {
        reinjection: Reinjection::Opportunistic,
        ..Behaviour::mainline()
    };
    let client = stack([20_000, 22_657], on_close, "reno", "min_rtt");
    let server = stack([22_761, 20_096], opportunistic, "wvegas", "kernel_default");
    let mut pair = Pair::of(1_624_075_512, paths, [&client, &server]);
    pair.transfer(44_181, 43_997);
    pair.run_until(seconds(60), Pair::is_settled);
    pair.run_for(119 * MILLISECOND);
    pair.set_interface(0, CLIENT, false);
    pair.run_for(500 * MILLISECOND);
    pair.set_interface(0, CLIENT, true);
    pair.run_to_the_end(seconds(60));
}

#[test]
fn data_that_all_paths_have_delivered_go_again_until_a_data_ack_says_so() {
    for reinjection in [
        Reinjection::None,
        Reinjection::OnRto,
        Reinjection::OnStale,
        Reinjection::OnClose,
        Reinjection::Opportunistic,
    ] {
        let mut stack = Stack::default();
        stack.config.behaviour.reinjection = reinjection;
        stack.config.send_buffer = Buffer::Fixed(100_000);
        let mut pair = Pair::new(1, vec![PathModel::new(4, 10); 2], &stack);
        let forgets = rewrite(|place, packet| {
            if place.from == SERVER && (CUT..CUT + SECOND / 2).contains(&place.now) {
                packet.segment.options.mptcp = MptcpOptions::new();
            }
        });
        pair.network.middleboxes.push(forgets);
        pair.transfer(1_000_000, 0);
        pair.run_to_the_end(seconds(4));
    }
}

/// Returns how many bytes each path carries while both subflows are idle and no DATA_ACK comes.
fn repeated_by_idle_subflows(behaviour: Behaviour) -> [u64; 2] {
    let mut stack = Stack {
        scheduler: "kernel_default",
        ..Stack::default()
    };
    stack.config.behaviour = behaviour;
    stack.config.send_buffer = Buffer::Fixed(100_000);
    let mut pair = Pair::new(1, vec![PathModel::new(4, 10); 2], &stack);
    let forgets = rewrite(|place, packet| {
        if place.from == SERVER && place.now >= CUT {
            packet.segment.options.mptcp = MptcpOptions::new();
        }
    });
    pair.network.middleboxes.push(forgets);
    pair.transfer(2_000_000, 0);
    pair.run_for(CUT + 190 * MILLISECOND);
    let before = [0, 1].map(|path| pair.sent_bytes(CLIENT, path));
    pair.run_for(250 * MILLISECOND);
    [0, 1].map(|path| pair.sent_bytes(CLIENT, path) - before[path])
}

#[test]
fn an_expiry_repeats_one_piece_or_one_on_each_idle_subflow() {
    let [first, second] = repeated_by_idle_subflows(Behaviour::mainline());
    assert!(first > 1000 && second == 0, "{first}, {second} bytes");
    let [first, second] = repeated_by_idle_subflows(Behaviour::mainline_7_3());
    assert!(first > 1000 && second > 1000, "{first}, {second} bytes");
}

/// The first burst has one mapping, and its short end waits for an acknowledgment (Nagle) when the
/// timer expires.
#[test]
fn the_rest_of_a_mapping_that_was_sent_stays_in_its_place() {
    for uses_checksums in [false, true] {
        let mut stack = Stack::default();
        stack.config.uses_checksums = uses_checksums;
        Arc::make_mut(&mut stack.config.subflow).nagle = true;
        stack.config.behaviour = Behaviour::oot();
        let paths = vec![PathModel::new(4, 10), PathModel::new(4, 20)];
        let mut pair = Pair::new(1, paths, &stack);
        let has_data = |packet: &Packet| !packet.segment.payload.is_empty();
        pair.network.middleboxes.push(lose(2, move |place, packet| {
            place.from == CLIENT && has_data(packet)
        }));
        pair.transfer(1_500, 20_000);
        pair.sides[CLIENT].closes = false;
        pair.run_for(seconds(1));
        pair.transfer(500_000, 20_000);
        pair.run_for(seconds(5));
        let server = &pair.sides[SERVER];
        assert_eq!(server.received, 500_000);
        let connection = server.connection().expect("it is open");
        assert_eq!(connection.counters().failed_checksums, 0);
        assert!(pair.sent_bytes(CLIENT, 0) > 100_000 && pair.sent_bytes(CLIENT, 1) > 100_000);
    }
}
