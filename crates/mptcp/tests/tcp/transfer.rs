//! Data in both directions, and the end.

use mptcp::subflow::{CloseReason, Config, State};
use mptcp::time::{MILLISECOND, SECOND};

use crate::pair::tcp::{established, pair};
use crate::wires;

#[test]
fn the_handshake_takes_one_and_a_half_round_trips() {
    let mut pair = pair(Config::default(), wires());
    pair.run_until(20 * MILLISECOND);
    assert_eq!(pair.ends[0].state(), Some(State::Established));
    assert_eq!(pair.ends[1].state(), Some(State::SynReceived));
    pair.run_until(30 * MILLISECOND);
    assert_eq!(pair.ends[1].state(), Some(State::Established));
    assert_eq!(pair.wires[0].log.len(), 2);
}

#[test]
fn data_goes_both_ways_at_once() {
    let mut pair = established(Config::default(), wires());
    pair.ends[0].write(3_000_000);
    pair.ends[1].write(2_000_000);
    pair.run_for(10 * SECOND);
    assert!(pair.ends[1].has_all_of(&pair.ends[0]));
    assert!(pair.ends[0].has_all_of(&pair.ends[1]));
    for end in &pair.ends {
        assert_eq!(end.subflow().counters().retransmitted_segments, 0);
    }
}

#[test]
fn both_sides_close_after_their_data() {
    let mut pair = established(Config::default(), wires());
    pair.ends[0].write(100_000);
    pair.ends[0].close();
    pair.run_for(SECOND);
    assert_eq!(pair.ends[1].state(), Some(State::CloseWait));
    pair.ends[1].write(100_000);
    pair.ends[1].close();
    pair.run_for(SECOND);
    assert!(pair.ends[1].has_all_of(&pair.ends[0]));
    assert!(pair.ends[0].has_all_of(&pair.ends[1]));
    assert_eq!(pair.ends[1].closed(), Some(CloseReason::Finished));
    assert_eq!(pair.ends[0].state(), Some(State::TimeWait));
    pair.run_for(60 * SECOND);
    assert_eq!(pair.ends[0].closed(), Some(CloseReason::Finished));
}
