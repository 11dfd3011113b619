//! Flow control: small and closed windows, probes, silly windows.

use mptcp::subflow::{CloseReason, Config};
use mptcp::time::{MILLISECOND, SECOND};

use crate::pair::Pair;
use crate::pair::tcp::{self, Tcp, established};
use crate::pair::wire::Fate;
use crate::wires;

/// Returns a sender whose peer reads nothing and keeps no more than `buffer` bytes.
fn blocked(config: Config, buffer: u64) -> Pair<Tcp> {
    let mut pair = established(config, wires());
    pair.ends[1].buffer = buffer;
    pair.ends[1].reads = false;
    pair
}

#[test]
fn no_more_is_sent_than_the_window_takes() {
    let mut pair = blocked(Config::default(), 1 << 20);
    pair.ends[0].write(3_000_000);
    pair.run_for(10 * SECOND);
    // Windows are sent in units of 128 bytes.
    assert_eq!(pair.ends[1].read.len() >> 7, 1 << 13);
    pair.ends[1].read_on();
    pair.run_for(10 * SECOND);
    assert!(pair.ends[1].has_all_of(&pair.ends[0]));
    assert_eq!(pair.ends[0].subflow().counters().retransmitted_segments, 0);
}

#[test]
fn a_closed_window_is_probed_with_back_off_for_as_long_as_it_is_answered() {
    let config = Config {
        retries: 3,
        ..Config::default()
    };
    let mut pair = blocked(config, 1 << 20);
    pair.ends[0].write(2_000_000);
    pair.run_for(10 * SECOND);
    let before = pair.wires[0].log.len();
    pair.run_for(600 * SECOND);
    let probes = &pair.wires[0].log[before..];
    assert_eq!(pair.ends[0].closed(), None);
    assert!(probes.iter().all(|sent| sent.segment.payload.is_empty()));
    let gaps: Vec<_> = probes.windows(2).map(|two| two[1].at - two[0].at).collect();
    assert!(
        gaps.windows(2)
            .all(|two| two[1] == (2 * two[0]).min(120 * SECOND)),
        "{gaps:?}"
    );
    pair.ends[1].read_on();
    pair.run_for(60 * SECOND);
    assert!(pair.ends[1].has_all_of(&pair.ends[0]));
}

#[test]
fn unanswered_window_probes_end_it() {
    let config = Config {
        retries: 3,
        ..Config::default()
    };
    let mut pair = blocked(config, 1 << 20);
    pair.ends[0].write(2_000_000);
    pair.run_for(10 * SECOND);
    pair.wires[1].set_fates(|_, _| Fate::Lost);
    pair.run_for(600 * SECOND);
    assert_eq!(pair.ends[0].closed(), Some(CloseReason::TimedOut));
}

#[test]
fn a_window_that_opens_is_told_at_once() {
    let mut pair = blocked(Config::default(), 1 << 20);
    pair.ends[0].write(1_100_000);
    pair.run_for(10 * SECOND);
    let opened_at = pair.now;
    pair.ends[1].read_on();
    pair.run_while(20 * SECOND + opened_at, |pair| {
        pair.ends[1].read.len() < 1_100_000
    });
    assert!(pair.now - opened_at <= 60 * MILLISECOND);
}

#[test]
fn a_lost_window_update_is_made_good_by_a_probe() {
    let mut pair = blocked(Config::default(), 1 << 20);
    pair.ends[0].write(1_100_000);
    pair.run_for(10 * SECOND);
    pair.ends[1].read_on();
    let next = pair.wires[1].log.len();
    pair.wires[1].set_fates(move |number, _| match number == next {
        true => Fate::Lost,
        false => Fate::Delivered,
    });
    pair.run_for(120 * SECOND);
    assert!(pair.ends[1].has_all_of(&pair.ends[0]));
}

#[test]
fn an_application_that_reads_little_by_little_causes_no_silly_segments() {
    // The buffer is full and the application reads 100 bytes at a time. Updates wait until there is
    // room for a segment.
    let mut pair = blocked(Config::default(), 20_000);
    pair.ends[0].write(60_000);
    pair.run_for(2 * SECOND);
    let before = pair.wires[0].log.len();
    for _ in 0..200 {
        pair.ends[1].read_some(100);
        pair.run_for(MILLISECOND);
    }
    let sent: Vec<_> = pair.wires[0].log[before..].iter().collect();
    let lens = sent.iter().map(|sent| sent.segment.payload.len());
    assert!(
        lens.clone().all(|len| len == 0 || len >= 1448),
        "{:?}",
        lens.collect::<Vec<_>>()
    );
}

#[test]
fn small_writes_go_at_once() {
    let mut pair = established(Config::default(), wires());
    for _ in 0..3 {
        pair.ends[0].write(10);
        pair.run_for(0);
    }
    assert_eq!(pair.wires[0].data().count(), 3);
}

#[test]
fn with_nagle_small_writes_wait_for_an_acknowledgment_or_for_more() {
    let config = Config {
        nagle: true,
        ..Config::default()
    };
    let mut pair = established(config, wires());
    for _ in 0..3 {
        pair.ends[0].write(10);
        pair.run_for(0);
    }
    let lens = |pair: &Pair<Tcp>| -> Vec<u32> {
        let data = pair.wires[0].data();
        data.map(|sent| sent.segment.payload.len()).collect()
    };
    assert_eq!(lens(&pair), [10]);
    pair.run_for(20 * MILLISECOND);
    assert_eq!(lens(&pair), [10, 20], "with the acknowledgment");
    pair.ends[0].write(1447);
    pair.run_for(0);
    assert_eq!(lens(&pair), [10, 20]);
    pair.ends[0].write(2);
    pair.run_for(0);
    assert_eq!(
        lens(&pair),
        [10, 20, 1448],
        "a full segment waits for nothing"
    );
    pair.ends[0].close();
    pair.run_for(0);
    assert_eq!(lens(&pair), [10, 20, 1448, 1], "neither does the last one");
}

#[test]
fn a_buffer_smaller_than_a_segment_works() {
    let mut pair = tcp::pair(Config::default(), wires());
    pair.ends[1].buffer = 700;
    pair.ends[0].write(20_000);
    pair.run_for(600 * SECOND);
    assert!(pair.ends[1].has_all_of(&pair.ends[0]));
}
