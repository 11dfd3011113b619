//! The end of a connection: in one direction, in both, at the same time, by force.

use mptcp::subflow::{CloseReason, Config, State};
use mptcp::time::{MILLISECOND, SECOND};
use mptcp::wire::Flags;

use crate::pair::tcp::established;
use crate::pair::wire::Fate;
use crate::wires;

#[test]
fn a_half_closed_connection_carries_data_the_other_way() {
    let mut pair = established(Config::default(), wires());
    pair.ends[0].close();
    pair.run_for(SECOND);
    assert_eq!(pair.ends[0].state(), Some(State::FinWait2));
    pair.ends[1].write(1_000_000);
    pair.run_for(5 * SECOND);
    assert!(pair.ends[0].has_all_of(&pair.ends[1]));
    assert_eq!(pair.ends[1].state(), Some(State::CloseWait));
}

#[test]
fn both_that_close_at_once_wait() {
    let mut pair = established(Config::default(), wires());
    pair.ends.iter_mut().for_each(|end| end.close());
    pair.run_for(11 * MILLISECOND);
    for end in &pair.ends {
        assert_eq!(end.state(), Some(State::Closing));
    }
    pair.run_for(10 * MILLISECOND);
    for end in &pair.ends {
        assert_eq!(end.state(), Some(State::TimeWait));
    }
    pair.run_for(61 * SECOND);
    for end in &pair.ends {
        assert_eq!(end.closed(), Some(CloseReason::Finished));
    }
}

#[test]
fn the_fin_goes_with_the_last_data() {
    let mut pair = established(Config::default(), wires());
    pair.ends[0].write(100);
    pair.ends[0].close();
    pair.run_for(SECOND);
    let data: Vec<_> = pair.wires[0].data().collect();
    assert!(data[0].segment.flags.contains(Flags::FIN));
    let arrival = pair.ends[1].arrivals.iter().find(|arrival| arrival.fin);
    assert!(arrival.is_some_and(|arrival| arrival.has_data));
}

#[test]
fn a_lost_fin_is_sent_again() {
    let mut pair = established(Config::default(), wires());
    let next = pair.wires[0].log.len();
    pair.wires[0].set_fates(move |number, _| match number == next {
        true => Fate::Lost,
        false => Fate::Delivered,
    });
    pair.ends[0].close();
    pair.run_for(5 * SECOND);
    assert_eq!(pair.ends[0].state(), Some(State::FinWait2));
}

#[test]
fn a_fin_before_lost_data_waits_for_it() {
    let mut pair = established(Config::default(), wires());
    let next = pair.wires[0].log.len();
    pair.wires[0].set_fates(move |number, _| match number == next {
        true => Fate::Lost,
        false => Fate::Delivered,
    });
    pair.ends[0].write(2896);
    pair.ends[0].close();
    pair.run_for(11 * MILLISECOND);
    assert_eq!(pair.ends[1].state(), Some(State::Established));
    pair.run_for(5 * SECOND);
    assert_eq!(pair.ends[1].state(), Some(State::CloseWait));
    assert!(pair.ends[1].has_all_of(&pair.ends[0]));
}

#[test]
fn a_fin_again_in_time_wait_is_acknowledged_and_starts_the_wait_anew() {
    let mut pair = established(Config::default(), wires());
    pair.ends[0].close();
    pair.run_for(SECOND);
    // The last acknowledgment is lost.
    let next = pair.wires[0].log.len();
    pair.wires[0].set_fates(move |number, _| match number == next {
        true => Fate::Lost,
        false => Fate::Delivered,
    });
    pair.ends[1].close();
    pair.run_for(5 * SECOND);
    assert_eq!(pair.ends[1].closed(), Some(CloseReason::Finished));
    assert_eq!(pair.ends[0].state(), Some(State::TimeWait));
}

#[test]
fn an_abort_resets_the_peer_once() {
    let mut pair = established(Config::default(), wires());
    pair.ends[0].write(1_000_000);
    pair.run_for(25 * MILLISECOND);
    pair.ends[0].subflow_mut().abort();
    pair.run_for(SECOND);
    assert_eq!(pair.ends[0].closed(), Some(CloseReason::Aborted));
    assert_eq!(pair.ends[1].closed(), Some(CloseReason::Reset));
    let is_reset = |sent: &&crate::pair::wire::Sent| sent.segment.flags.contains(Flags::RST);
    assert_eq!(pair.wires[0].log.iter().filter(is_reset).count(), 1);
}

#[test]
fn close_before_the_answer_to_the_syn_ends_it() {
    let mut pair = crate::pair::tcp::pair(Config::default(), wires());
    pair.step(0);
    pair.ends[0].close();
    assert_eq!(pair.ends[0].closed(), Some(CloseReason::Aborted));
}
