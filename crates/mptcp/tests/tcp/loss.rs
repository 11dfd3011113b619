//! Losses, and how many segments are retransmitted for them.

use mptcp::cc::Congestion;
use mptcp::subflow::{Config, InitialWindow};
use mptcp::time::{MILLISECOND, Nanos, SECOND};
use mptcp::timer_wheel::TimerWheel;

use crate::pair::Pair;
use crate::pair::tcp::{Tcp, established};
use crate::pair::wire::{Fate, Wire};
use crate::wires;

/// Sends `bytes` and loses those data segments, numbered from 0 in the order in which they are
/// sent.
fn transfer(config: Config, bytes: u32, lost: &[usize]) -> Pair<Tcp> {
    let mut pair = established(config, wires());
    let (mut number, lost) = (0, lost.to_vec());
    pair.wires[0].set_fates(move |_, segment| {
        if segment.payload.is_empty() {
            return Fate::Delivered;
        }
        number += 1;
        if lost.contains(&(number - 1)) {
            Fate::Lost
        } else {
            Fate::Delivered
        }
    });
    pair.ends[0].write(bytes);
    pair.run_for(30 * SECOND);
    assert!(pair.ends[1].has_all_of(&pair.ends[0]));
    pair
}

const SEGMENT: u32 = 1448;

#[test]
fn a_single_loss_costs_one_retransmission_wherever_it_is() {
    for lost in 0..40 {
        let pair = transfer(Config::default(), 40 * SEGMENT, &[lost]);
        let counters = pair.ends[0].subflow().counters();
        assert_eq!(counters.retransmitted_segments, 1, "segment {lost}");
        assert_eq!(counters.timeouts, 0, "segment {lost}");
        assert_eq!(counters.spurious_retransmissions, 0, "segment {lost}");
    }
}

#[test]
fn a_single_loss_is_repaired_without_timeout_by_counting_too() {
    let config = Config {
        rack: false,
        ..Config::default()
    };
    for lost in 0..30 {
        let pair = transfer(config.clone(), 40 * SEGMENT, &[lost]);
        let counters = pair.ends[0].subflow().counters();
        assert_eq!(counters.retransmitted_segments, 1, "segment {lost}");
        assert_eq!(counters.timeouts, 0, "segment {lost}");
    }
}

#[test]
fn a_burst_is_one_congestion_and_each_segment_is_sent_again_once() {
    let pair = transfer(
        Config::default(),
        100 * SEGMENT,
        &[30, 31, 32, 33, 34, 35, 40, 41],
    );
    let sender = &pair.ends[0];
    assert_eq!(sender.subflow().counters().retransmitted_segments, 8);
    assert_eq!(sender.subflow().counters().timeouts, 0);
    assert_eq!(sender.cc.congestions.len(), 1);
    assert_eq!(sender.cc.congestions[0].1, Congestion::Loss);
}

#[test]
fn a_lost_retransmission_is_found_without_a_timeout() {
    // The eleventh is lost; its retransmission is among the segments sent after the tenth
    // acknowledgment.
    let pair = established(Config::default(), wires());
    let mut pair = pair;
    let mut seen = 0;
    let mut target = None;
    pair.wires[0].set_fates(move |_, segment| {
        if segment.payload.is_empty() {
            return Fate::Delivered;
        }
        seen += 1;
        if seen == 20 {
            target = Some(segment.seq);
        }
        let is_early = seen < 60 && seen != 20;
        if target == Some(segment.seq) && (seen == 20 || is_early) {
            Fate::Lost
        } else {
            Fate::Delivered
        }
    });
    pair.ends[0].write(200 * SEGMENT);
    pair.run_for(30 * SECOND);
    assert!(pair.ends[1].has_all_of(&pair.ends[0]));
    let counters = pair.ends[0].subflow().counters();
    assert!(counters.retransmitted_segments >= 2);
    assert_eq!(counters.timeouts, 0);
}

#[test]
fn the_tail_is_probed_after_two_round_trips() {
    // The last two of ten are lost. A probe repeats the last, and the peer's report about it shows
    // that the other is lost.
    let pair = transfer(Config::default(), 10 * SEGMENT, &[8, 9]);
    let counters = pair.ends[0].subflow().counters();
    assert_eq!((counters.retransmitted_segments, counters.timeouts), (2, 0));
    let sent: Vec<_> = pair.wires[0].data().collect();
    let last_ack = sent[9].at + 20 * MILLISECOND;
    assert_eq!(sent[10].at - last_ack, 40 * MILLISECOND);
    assert_eq!(sent[10].segment.seq, sent[9].segment.seq);
    assert_eq!(pair.ends[0].cc.congestions.len(), 1);
}

#[test]
fn a_single_segment_is_probed_when_the_timeout_would_be_due() {
    // 2 SRTT and the 200 ms by which the peer may delay its acknowledgment are more than the RTO,
    // which bounds them.
    let pair = transfer(Config::default(), 10 * SEGMENT, &[9]);
    let counters = pair.ends[0].subflow().counters();
    assert_eq!((counters.retransmitted_segments, counters.timeouts), (1, 0));
    let sent: Vec<_> = pair.wires[0].data().collect();
    let last_ack = sent[9].at + 20 * MILLISECOND;
    assert_eq!(sent[10].at - last_ack, 220 * MILLISECOND);
}

#[test]
fn all_of_a_flight_lost_comes_back_by_probe_and_recovery() {
    let pair = transfer(
        Config::default(),
        10 * SEGMENT,
        &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    );
    let counters = pair.ends[0].subflow().counters();
    assert_eq!(counters.timeouts, 0);
    assert!((10..=11).contains(&counters.retransmitted_segments));
}

#[test]
fn without_sack_each_round_trip_repairs_one() {
    let config = Config {
        sack: false,
        ..Config::default()
    };
    let pair = transfer(config, 100 * SEGMENT, &[30, 32, 34]);
    let sender = &pair.ends[0];
    assert_eq!(sender.subflow().counters().retransmitted_segments, 3);
    assert_eq!(sender.subflow().counters().timeouts, 0);
    assert_eq!(sender.cc.congestions.len(), 1);
}

#[test]
fn limited_transmit_sends_new_data_for_the_first_two_duplicates() {
    // RFC 3042: four segments are in flight and the first is lost. Three duplicates arrive only
    // because of the new segments.
    let config = Config {
        sack: false,
        initial_window: InitialWindow::Segments(3),
        ..Config::default()
    };
    let pair = transfer(config, 20 * SEGMENT, &[0]);
    assert_eq!(pair.ends[0].subflow().counters().timeouts, 0);
    assert_eq!(pair.ends[0].subflow().counters().retransmitted_segments, 1);
}

#[test]
fn timeouts_back_off_and_the_window_starts_at_one_segment() {
    let mut pair = established(Config::default(), wires());
    pair.wires[0].set_fates(|_, _| Fate::Lost);
    pair.ends[0].write(SEGMENT);
    let start = pair.now;
    pair.run_for(8 * SECOND);
    // RTT 20 ms: the RTO is 220 ms (Linux). It counts from the probe at 2 SRTT + 200 ms, which the
    // RTO bounds to 220 ms.
    let sent: Vec<_> = pair.wires[0].data().map(|sent| sent.at - start).collect();
    let gaps: Vec<_> = sent
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) / MILLISECOND)
        .collect();
    assert_eq!(gaps, [220, 220, 440, 880, 1760, 3520]);
    assert_eq!(pair.ends[0].subflow().backoff(), 5);
    assert_eq!(pair.ends[0].window.cwnd_bytes, f64::from(SEGMENT));
    assert_eq!(pair.ends[0].cc.congestions.len(), 1);
}

/// Returns when a segment that is always lost is sent: first, as a probe, and after doubled
/// timeouts.
fn sendings_on_a_dead_path(timer_wheel: Option<TimerWheel>) -> Vec<Nanos> {
    let config = Config {
        timer_wheel,
        ..Config::default()
    };
    let mut pair = established(config, wires());
    pair.wires[0].set_fates(|_, _| Fate::Lost);
    pair.ends[0].write(SEGMENT);
    pair.run_for(9 * SECOND);
    pair.wires[0].data().map(|sent| sent.at).collect()
}

#[test]
fn timeouts_expire_with_the_ticks_of_the_wheel_which_are_coarser_the_longer_they_are() {
    let exact = sendings_on_a_dead_path(None);
    let coarse = sendings_on_a_dead_path(Some(TimerWheel::default()));
    assert_eq!((exact.len(), coarse.len()), (7, 7));
    // 220 ms twice, 440 ms, 880 ms, 1.76 s, 3.52 s.
    for (sending, tick_ms) in (1..).zip([4, 4, 32, 32, 32, 256]) {
        let gap = |sent: &[Nanos]| sent[sending] - sent[sending - 1];
        assert_eq!(coarse[sending] % (tick_ms * MILLISECOND), 0, "{coarse:?}");
        assert!(gap(&coarse) > gap(&exact), "{coarse:?} and {exact:?}");
    }
}

#[test]
fn a_dead_path_is_given_up_after_the_retries() {
    let config = Config {
        retries: 3,
        ..Config::default()
    };
    let mut pair = established(config, wires());
    pair.wires[0].set_fates(|_, _| Fate::Lost);
    pair.ends[0].write(SEGMENT);
    pair.run_for(60 * SECOND);
    let sender = &pair.ends[0];
    assert_eq!(sender.closed(), Some(mptcp::subflow::CloseReason::TimedOut));
    // One transmission, one probe, three retries. The data can be taken elsewhere.
    assert_eq!(pair.wires[0].data().count(), 5);
    assert_eq!(sender.subflow().unacked().count(), 1);
    assert_eq!(sender.subflow().poll_timeout(), None);
}

#[test]
fn a_queue_that_overflows_is_filled_and_drained() {
    let slow = Wire::new(10 * MILLISECOND).with_rate(1_250_000, 40);
    let mut pair = established(Config::default(), [slow, Wire::new(10 * MILLISECOND)]);
    pair.ends[0].write(8_000_000);
    let start = pair.now;
    pair.run_while(60 * SECOND, |pair| pair.ends[1].read.len() < 8_000_000);
    let took = pair.now - start;
    let counters = pair.ends[0].subflow().counters();
    assert_eq!(counters.timeouts, 0);
    assert_eq!(counters.spurious_retransmissions, 0);
    // 10 Mbit/s without headers takes 6.6 s.
    assert!(took < 7 * SECOND, "{took} ns");
}
