//! Segments that are not valid: old, outside the window, forged (RFC 9293, section 3.10.7.4; RFC
//! 5961; RFC 7323).

use mptcp::payload::Payload;
use mptcp::seq::SeqNr;
use mptcp::subflow::{CloseReason, Config, State};
use mptcp::time::SECOND;
use mptcp::wire::{Flags, SackBlock, Segment};
use proptest::prelude::*;

use crate::pair::tcp::{Tcp, established};
use crate::pair::{Endpoint, Pair};
use crate::wires;

/// Returns a connection that carried some data, and a valid pure acknowledgment of `ends[0]`.
fn connection() -> (Pair<Tcp>, Segment) {
    let mut pair = established(Config::default(), wires());
    pair.ends[0].write(10_000);
    pair.ends[1].write(10_000);
    pair.run_for(5 * SECOND);
    let mut segment = pair.wires[0].log.last().expect("sent").segment.clone();
    segment.seq = segment.end();
    segment.flags = Flags::ACK;
    segment.payload = Payload::EMPTY;
    segment.ack = pair.wires[1]
        .log
        .iter()
        .map(|sent| sent.segment.end())
        .fold(pair.wires[1].log[0].segment.seq, SeqNr::max);
    (pair, segment)
}

/// Returns the answer of `ends[1]`.
fn answer(pair: &mut Pair<Tcp>, segment: &Segment) -> Option<Segment> {
    pair.ends[1].handle_segment(pair.now, segment, Default::default());
    pair.ends[1]
        .poll_transmit(pair.now)
        .map(|(segment, _)| segment)
}

fn data(segment: &Segment, seq: SeqNr, bytes: u32) -> Segment {
    Segment {
        seq,
        payload: Payload::stream(99, 0, bytes),
        ..segment.clone()
    }
}

#[test]
fn a_right_acknowledgment_is_not_answered() {
    let (mut pair, segment) = connection();
    assert_eq!(answer(&mut pair, &segment), None);
}

#[test]
fn a_reset_counts_only_with_the_number_that_is_expected() {
    let (mut pair, right) = connection();
    for (offset, is_answered) in [(5, true), (u32::MAX, false), (1 << 30, false)] {
        let reset = Segment {
            seq: right.seq + offset,
            flags: Flags::RST,
            ..right.clone()
        };
        let challenge = answer(&mut pair, &reset);
        assert_eq!(challenge.is_some(), is_answered, "{offset}");
        assert_eq!(pair.ends[1].closed(), None);
        pair.run_for(SECOND);
    }
    let reset = Segment {
        flags: Flags::RST,
        ..right
    };
    assert_eq!(answer(&mut pair, &reset), None);
    assert_eq!(pair.ends[1].closed(), Some(CloseReason::Reset));
}

#[test]
fn challenges_are_limited() {
    let (mut pair, right) = connection();
    let syn = Segment {
        flags: Flags::SYN,
        ..right
    };
    let challenge = answer(&mut pair, &syn).expect("a challenge");
    assert_eq!(challenge.flags, Flags::ACK);
    for _ in 0..100 {
        assert_eq!(answer(&mut pair, &syn), None);
    }
    pair.run_for(SECOND);
    assert!(answer(&mut pair, &syn).is_some());
}

#[test]
fn an_acknowledgment_of_unsent_data_is_challenged_and_changes_nothing() {
    let (mut pair, right) = connection();
    let unsent = Segment {
        ack: right.ack + 1,
        ..data(&right, right.seq, 100)
    };
    let read = pair.ends[1].read.len();
    assert!(answer(&mut pair, &unsent).is_some());
    assert_eq!(pair.ends[1].read.len(), read);
    assert!(!pair.ends[1].arrivals.last().expect("arrival").is_acceptable);
}

#[test]
fn old_timestamps_are_acknowledged_and_dropped() {
    let (mut pair, right) = connection();
    let mut old = data(&right, right.seq, 100);
    let timestamps = old.options.timestamps.as_mut().expect("timestamps");
    timestamps.value = timestamps.value.wrapping_sub(6000);
    let read = pair.ends[1].read.len();
    let ack = answer(&mut pair, &old).expect("an acknowledgment");
    assert_eq!((ack.ack, pair.ends[1].read.len()), (right.seq, read));
    let mut fresh = old;
    fresh.options.timestamps = right.options.timestamps;
    answer(&mut pair, &fresh);
    assert_eq!(pair.ends[1].read.len(), read + 100);
}

#[test]
fn an_old_duplicate_is_reported() {
    let (mut pair, right) = connection();
    let old = data(&right, right.seq - 500, 300);
    let ack = answer(&mut pair, &old).expect("an acknowledgment");
    let report = SackBlock {
        start: old.seq,
        end: old.end(),
    };
    assert_eq!(ack.options.sack.as_slice(), [report]);
}

#[test]
fn of_an_overlapping_segment_the_new_part_is_taken() {
    let (mut pair, right) = connection();
    let read = pair.ends[1].read.len();
    answer(&mut pair, &data(&right, right.seq - 500, 700));
    assert_eq!(pair.ends[1].read.len(), read + 200);
}

#[test]
fn what_lies_beyond_the_window_is_not_kept() {
    let (mut pair, right) = connection();
    let window = pair.ends[1].available() as u32;
    let read = pair.ends[1].read.len();
    let beyond = answer(&mut pair, &data(&right, right.seq + window + 4096, 100));
    assert_eq!(beyond.expect("an acknowledgment").ack, right.seq);
    assert_eq!(pair.ends[1].subflow().out_of_order_bytes(), 0);
    answer(&mut pair, &data(&right, right.seq + window - 50, 100));
    assert!(pair.ends[1].subflow().out_of_order_bytes() <= 100);
    assert_eq!(pair.ends[1].read.len(), read);
}

#[test]
fn data_after_the_fin_is_ignored() {
    let (mut pair, right) = connection();
    let fin = Segment {
        flags: Flags::ACK | Flags::FIN,
        ..right.clone()
    };
    answer(&mut pair, &fin);
    assert_eq!(pair.ends[1].state(), Some(State::CloseWait));
    let read = pair.ends[1].read.len();
    answer(&mut pair, &data(&right, right.seq + 1, 100));
    assert_eq!(pair.ends[1].read.len(), read);
}

#[test]
fn tiny_segments_beyond_holes_take_bounded_memory() {
    let (mut pair, right) = connection();
    for index in 0..100_000 {
        let tiny = data(&right, right.seq + 2 + 2 * index, 1);
        pair.ends[1].handle_segment(pair.now, &tiny, Default::default());
    }
    assert!(pair.ends[1].subflow().out_of_order_bytes() < 10_000);
}

fn any_segment() -> impl Strategy<Value = (Segment, u32, u32)> {
    let sack = proptest::collection::vec((any::<u32>(), 0..5000u32), 0..4);
    let near = prop_oneof![
        0..3000u32,
        (0..3000u32).prop_map(u32::wrapping_neg),
        any::<u32>()
    ];
    let numbers = (
        near.clone(),
        near,
        any::<u8>(),
        any::<u16>(),
        0..3000u32,
        any::<Option<u32>>(),
    );
    (numbers, sack).prop_map(|((seq, ack, flags, window, len, clock), sack)| {
        let mut options = mptcp::wire::TcpOptions {
            timestamps: clock.map(|value| mptcp::wire::Timestamps {
                value,
                echo: !value,
            }),
            ..Default::default()
        };
        for (start, len) in sack {
            let start = SeqNr(start);
            options.sack.push(SackBlock {
                start,
                end: start + len,
            });
        }
        let segment = Segment {
            source_port: 1000,
            destination_port: 2000,
            seq: SeqNr(0),
            ack: SeqNr(0),
            flags: Flags(flags),
            window,
            options,
            payload: Payload::stream(5, 0, len),
        };
        (segment, seq, ack)
    })
}

proptest! {
    #[test]
    fn no_segment_panics(
        segments in proptest::collection::vec((any_segment(), 0..2usize, any::<bool>()), 1..60),
        open in any::<bool>(),
    ) {
        let mut pair = if open {
            established(Config::default(), wires())
        } else {
            crate::pair::tcp::pair(Config::default(), wires())
        };
        pair.step(0);
        for ((segment, seq, ack), end, writes) in segments {
            if writes && pair.ends[end].state().is_some() {
                pair.ends[end].write(5000);
            }
            let mut segment = segment;
            if let Some(last) = pair.wires[1 - end].log.last() {
                segment.seq = last.segment.end() + seq;
                segment.ack = last.segment.ack + ack;
            }
            pair.ends[end].handle_segment(pair.now, &segment, Default::default());
            pair.step(pair.now + SECOND / 100);
        }
        pair.run_for(20 * SECOND);
    }
}
