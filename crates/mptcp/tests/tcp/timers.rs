//! Idle restart, keepalive, delayed acknowledgments.

use mptcp::subflow::{CloseReason, Config, Keepalive};
use mptcp::time::{MILLISECOND, SECOND};

use crate::pair::tcp::established;
use crate::pair::wire::Fate;
use crate::wires;

#[test]
fn the_window_halves_for_each_timeout_without_data() {
    let mut pair = established(Config::default(), wires());
    pair.ends[0].write(2_000_000);
    pair.run_for(10 * SECOND);
    pair.ends[0].write(1448);
    pair.run_for(100 * MILLISECOND);
    pair.ends[0].window.cwnd_bytes = 100.0 * 1448.0;
    let last = pair.wires[0].data().last().expect("sent").at;
    let rto = pair.ends[0].subflow().rto();
    pair.run_until(last + 2 * rto + rto / 2);
    pair.ends[0].write(1);
    pair.run_for(0);
    assert_eq!(pair.ends[0].window.cwnd_packets(), 25.0);
}

#[test]
fn a_long_pause_brings_the_initial_window_back() {
    let mut pair = established(Config::default(), wires());
    pair.ends[0].write(2_000_000);
    pair.run_for(10 * SECOND);
    pair.run_for(100 * SECOND);
    pair.ends[0].write(1);
    pair.run_for(0);
    assert_eq!(pair.ends[0].window.cwnd_packets(), 10.0);
    assert_eq!(pair.ends[0].cc.restarted, 1);
}

/// Sends a segment every 50 ms for ten seconds, after the window has grown. Returns the remaining
/// window in segments.
fn window_after_trickle(config: Config, writer_waits: bool) -> f64 {
    let mut pair = established(config, wires());
    pair.ends[0].subflow_mut().set_writer_waits(writer_waits);
    pair.ends[0].write(2_000_000);
    pair.run_for(SECOND);
    pair.ends[0].window.cwnd_bytes = 400.0 * 1448.0;
    for _ in 0..200 {
        pair.ends[0].write(1448);
        pair.run_for(50 * MILLISECOND);
    }
    pair.ends[0].window.cwnd_packets()
}

#[test]
fn a_window_that_is_not_used_shrinks_half_way_each_timeout() {
    let unused = window_after_trickle(Config::default(), false);
    assert!((10.0..11.0).contains(&unused), "{unused}");
    let fixed = Config {
        restart_after_idle: false,
        ..Config::default()
    };
    assert_eq!(window_after_trickle(fixed, false), 400.0);
    // An application that waits for room is limited by the peer's window. Only the pause before the
    // trickle has halved cwnd, three times.
    assert_eq!(window_after_trickle(Config::default(), true), 50.0);
}

#[test]
fn without_idle_restart_the_window_stays() {
    let config = Config {
        restart_after_idle: false,
        ..Config::default()
    };
    let mut pair = established(config, wires());
    pair.ends[0].write(2_000_000);
    pair.run_for(100 * SECOND);
    let before = pair.ends[0].window.cwnd_bytes;
    pair.ends[0].write(1);
    pair.run_for(0);
    assert_eq!(pair.ends[0].window.cwnd_bytes, before);
}

fn watched() -> Config {
    let keepalive = Keepalive {
        idle: 10 * SECOND,
        interval: SECOND,
        probes: 3,
    };
    Config {
        keepalive: Some(keepalive),
        ..Config::default()
    }
}

#[test]
fn keepalive_probes_are_answered() {
    let mut pair = established(watched(), wires());
    pair.run_for(100 * SECOND);
    assert_eq!(pair.ends[0].closed(), None);
    // Both hosts probe every ten seconds, or answer.
    let count = pair.wires[0].log.len();
    assert!((10..=22).contains(&count), "{count}");
}

#[test]
fn a_silent_peer_is_given_up_after_the_probes() {
    let mut pair = established(watched(), wires());
    let start = pair.now;
    pair.wires[1].set_fates(|_, _| Fate::Lost);
    pair.run_while(1000 * SECOND, |pair| pair.ends[0].closed().is_none());
    assert_eq!(pair.ends[0].closed(), Some(CloseReason::TimedOut));
    let took = pair.now - start;
    assert!((12 * SECOND..=14 * SECOND).contains(&took), "{took}");
}

#[test]
fn a_single_segment_is_acknowledged_after_the_delay() {
    let config = Config {
        quick_acks: 0,
        ..Config::default()
    };
    let mut pair = established(config, wires());
    pair.ends[0].write(1000);
    let start = pair.now;
    pair.run_for(SECOND);
    let ack = pair.wires[1].log.last().expect("sent");
    assert_eq!(ack.at, start + 10 * MILLISECOND + 40 * MILLISECOND);
    assert_eq!(pair.ends[0].subflow().counters().retransmitted_segments, 0);
}

#[test]
fn every_second_segment_is_acknowledged_at_once() {
    let config = Config {
        quick_acks: 0,
        ..Config::default()
    };
    let mut pair = established(config, wires());
    pair.ends[0].write(10 * 1448);
    pair.run_for(15 * MILLISECOND);
    let acks = pair.wires[1].log.iter().skip(1).count();
    assert_eq!(acks, 5);
}
