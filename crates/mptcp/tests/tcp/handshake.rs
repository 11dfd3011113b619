//! The three-way handshake, its losses, and what it negotiates.

use mptcp::subflow::{CloseReason, Config, State, SynRetries};
use mptcp::time::{MILLISECOND, Nanos, SECOND};
use mptcp::wire::Flags;

use crate::pair::tcp::{Tcp, pair};
use crate::pair::wire::{Fate, Wire};
use crate::pair::{Endpoint, Pair};
use crate::wires;

/// Loses the segments with those numbers, counted from 0.
fn losing(lost: &'static [usize]) -> Wire {
    let decide = move |number: usize, _: &_| match lost.contains(&number) {
        true => Fate::Lost,
        false => Fate::Delivered,
    };
    Wire::new(10 * MILLISECOND).with_fates(decide)
}

fn established_at(pair: &mut Pair<Tcp>, end: usize) -> Nanos {
    pair.run_while(100 * SECOND, |pair| {
        pair.ends[end].state() != Some(State::Established)
    });
    pair.now
}

#[test]
fn a_lost_syn_is_sent_again_after_a_second() {
    let mut pair = pair(Config::default(), [losing(&[0]), losing(&[])]);
    assert_eq!(established_at(&mut pair, 0), SECOND + 20 * MILLISECOND);
}

#[test]
fn a_lost_syn_ack_is_sent_again_for_the_syn_or_the_timer() {
    let mut pair = pair(Config::default(), [losing(&[]), losing(&[0])]);
    assert_eq!(established_at(&mut pair, 0), SECOND + 20 * MILLISECOND);
    // The retransmitted SYN and the SYN/ACK's own timer cross: two SYN/ACKs at most.
    assert!(pair.wires[1].log.len() <= 3);
}

#[test]
fn a_lost_third_packet_is_made_good_by_data() {
    let mut pair = pair(Config::default(), [losing(&[1]), losing(&[])]);
    established_at(&mut pair, 0);
    pair.ends[0].write(1000);
    assert_eq!(established_at(&mut pair, 1), 30 * MILLISECOND);
    pair.run_for(SECOND);
    assert!(pair.ends[1].has_all_of(&pair.ends[0]));
}

#[test]
fn a_lost_third_packet_is_asked_for_by_the_syn_ack_again() {
    let mut pair = pair(Config::default(), [losing(&[1]), losing(&[])]);
    // The SYN/ACK is sent again a second after the first, and its answer arrives.
    let at = established_at(&mut pair, 1);
    assert_eq!(at, SECOND + 30 * MILLISECOND);
}

/// Returns when SYNs were sent, in seconds.
fn syn_schedule(config: Config) -> Vec<Nanos> {
    let mut pair = pair(config, wires());
    pair.wires[0].set_fates(|_, _| Fate::Lost);
    pair.run_for(1000 * SECOND);
    assert_eq!(pair.ends[0].closed(), Some(CloseReason::TimedOut));
    pair.wires[0]
        .log
        .iter()
        .map(|sent| sent.at / SECOND)
        .collect()
}

#[test]
fn syns_are_repeated_linearly_and_then_doubled() {
    // tcp_syn_retries 6 with tcp_syn_linear_timeouts 4, as in current Linux.
    assert_eq!(syn_schedule(Config::default()), [0, 1, 2, 3, 4, 5, 7]);
}

#[test]
fn syns_without_a_linear_start_double() {
    let config = Config {
        syn_retries: SynRetries {
            count: 6,
            linear: 0,
        },
        ..Config::default()
    };
    assert_eq!(syn_schedule(config), [0, 1, 3, 7, 15, 31, 63]);
}

#[test]
fn two_that_open_at_once_make_one_connection() {
    let config = Config::default();
    let ends = [
        Tcp::opening(config.clone(), 7),
        Tcp::opening(config, u32::MAX - 3),
    ];
    let mut pair = Pair::new(ends, wires());
    pair.run_until(SECOND);
    for end in &pair.ends {
        assert_eq!(end.state(), Some(State::Established));
    }
    pair.ends[0].write(50_000);
    pair.ends[1].write(50_000);
    pair.run_for(5 * SECOND);
    assert!(pair.ends[0].has_all_of(&pair.ends[1]));
    assert!(pair.ends[1].has_all_of(&pair.ends[0]));
}

#[test]
fn a_reset_that_acknowledges_the_syn_refuses() {
    let mut pair = pair(Config::default(), wires());
    pair.step(0);
    let syn = pair.wires[0].log[0].segment.clone();
    let mut reset = syn.clone();
    reset.flags = Flags::RST | Flags::ACK;
    reset.ack = syn.seq + 2;
    pair.ends[0].handle_segment(0, &reset, Default::default());
    assert_eq!(pair.ends[0].closed(), None, "not ours");
    reset.ack = syn.seq + 1;
    pair.ends[0].handle_segment(0, &reset, Default::default());
    assert_eq!(pair.ends[0].closed(), Some(CloseReason::Refused));
}

#[test]
fn an_acknowledgment_of_what_was_never_sent_is_reset_in_syn_sent() {
    let mut pair = pair(Config::default(), wires());
    pair.step(0);
    let mut old = pair.wires[0].log[0].segment.clone();
    old.flags = Flags::SYN | Flags::ACK;
    old.ack = old.seq + 77;
    pair.ends[0].handle_segment(0, &old, Default::default());
    let (reset, _) = pair.ends[0].poll_transmit(0).expect("a reset");
    assert_eq!((reset.flags, reset.seq), (Flags::RST, old.ack));
    assert_eq!(pair.ends[0].state(), Some(State::SynSent));
}

#[test]
fn the_initial_window_is_ten_segments_and_one_after_lost_syns() {
    let mut good = pair(Config::default(), wires());
    established_at(&mut good, 0);
    assert_eq!(good.ends[0].window.cwnd_packets(), 10.0);
    let mut bad = pair(Config::default(), [losing(&[0, 1]), losing(&[])]);
    established_at(&mut bad, 0);
    assert_eq!(bad.ends[0].window.cwnd_packets(), 1.0);
}
