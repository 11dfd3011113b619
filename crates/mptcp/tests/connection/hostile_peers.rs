//! Invalid numbers of a connection.

use mptcp::time::MILLISECOND;
use mptcp::wire::{DataNumber, Dss, Mapping, MptcpOption, Packet};

use crate::world::middleboxes::{Middlebox, Place, rewrite};
use crate::world::{CLIENT, Pair, PathModel, SERVER, Stack, seconds};

fn pair() -> Pair {
    let paths = vec![PathModel::new(10, 10), PathModel::new(10, 10)];
    Pair::new(1, paths, &Stack::default())
}

/// Changes the DSS of `count` packets on the second path from 300 ms on. `change` returns whether
/// it has changed a packet.
fn forges(
    from: usize,
    count: usize,
    change: impl Fn(Place, &mut Dss) -> bool + 'static,
) -> Middlebox {
    let mut left = count;
    rewrite(move |place, packet: &mut Packet| {
        if place.from != from || place.path != 1 || place.now < 300 * MILLISECOND {
            return;
        }
        for option in &mut packet.segment.options.mptcp {
            if let MptcpOption::Dss(dss) = option
                && left > 0
            {
                left -= usize::from(change(place, dss));
            }
        }
    })
}

fn moved(number: DataNumber, by: i64) -> DataNumber {
    match number {
        DataNumber::Short(low) => DataNumber::Short(low.wrapping_add(by as u32)),
        DataNumber::Long(number) => DataNumber::Long(number + by as u64),
    }
}

fn moves_mapping(by: i64) -> impl Fn(Place, &mut Dss) -> bool {
    move |_, dss| {
        let Some(mut mapping) = dss.mapping() else {
            return false;
        };
        mapping.data_seq = moved(mapping.data_seq, by);
        *dss = dss.with_mapping(Some(mapping));
        true
    }
}

#[test]
fn a_data_ack_of_what_was_never_sent_is_not_believed() {
    let mut pair = pair();
    let forges = forges(SERVER, 5, |_, dss| {
        let data_ack = dss.data_ack().map(|number| moved(number, 1 << 30));
        *dss = dss.with_data_ack(data_ack);
        data_ack.is_some()
    });
    pair.network.middleboxes.push(forges);
    pair.transfer(2_000_000, 0);
    pair.run_to_the_end(1200 * MILLISECOND);
    let client = pair.sides[CLIENT].connection().expect("it lingers");
    assert_eq!(client.counters().unbelievable_acks, 5);
}

#[test]
fn data_beyond_the_window_is_not_kept() {
    let mut pair = pair();
    let forges = forges(CLIENT, 5, moves_mapping(1 << 30));
    pair.network.middleboxes.push(forges);
    pair.transfer(2_000_000, 0);
    pair.run_to_the_end(seconds(4));
    let server = pair.sides[SERVER].connection().expect("it lingers");
    assert!(server.counters().refused_bytes >= 5_000);
}

#[test]
fn new_content_for_what_has_arrived_is_dropped() {
    let mut pair = pair();
    let forges = forges(CLIENT, 5, moves_mapping(-200_000));
    pair.network.middleboxes.push(forges);
    pair.transfer(2_000_000, 0);
    pair.run_to_the_end(seconds(4));
    let server = pair.sides[SERVER].connection().expect("it lingers");
    assert!(server.counters().duplicate_bytes >= 5_000);
}

#[test]
fn data_before_the_first_byte_is_dropped() {
    let mut pair = pair();
    let forges = forges(CLIENT, 1, moves_mapping(-(1 << 30)));
    pair.network.middleboxes.push(forges);
    pair.transfer(2_000_000, 0);
    pair.run_to_the_end(seconds(4));
}

#[test]
fn a_mapping_of_bytes_before_the_first_of_the_subflow_is_ignored() {
    let mut pair = pair();
    let forges = forges(CLIENT, 5, |_, dss| {
        let mapping = dss.mapping().map(|mapping| Mapping {
            subflow_seq: u32::MAX - 10,
            ..mapping
        });
        *dss = dss.with_mapping(mapping);
        mapping.is_some()
    });
    pair.network.middleboxes.push(forges);
    pair.transfer(2_000_000, 0);
    pair.run_to_the_end(seconds(4));
}

#[test]
fn an_old_data_ack_changes_nothing() {
    let mut pair = pair();
    let forges = forges(SERVER, 50, |_, dss| {
        let data_ack = dss.data_ack().map(|number| moved(number, -100_000));
        *dss = dss.with_data_ack(data_ack);
        data_ack.is_some()
    });
    pair.network.middleboxes.push(forges);
    pair.transfer(2_000_000, 0);
    pair.run_to_the_end(1200 * MILLISECOND);
}

#[test]
fn the_first_end_that_is_said_stays_the_end() {
    let mut pair = pair();
    let forges = forges(CLIENT, usize::MAX, |place, dss| {
        if dss.data_fin() && place.now > 300 * MILLISECOND {
            let mapping = dss.mapping().map(|mut mapping| {
                mapping.data_seq = moved(mapping.data_seq, 1_000);
                mapping
            });
            *dss = dss.with_mapping(mapping);
        }
        dss.data_fin()
    });
    pair.network.middleboxes.push(forges);
    pair.transfer(1_000_000, 0);
    pair.sides[CLIENT].closes = false;
    pair.run_until(seconds(1), |pair| pair.sides[SERVER].received == 1_000_000);
    pair.sides[CLIENT].closes = true;
    pair.run_to_the_end(seconds(2));
}
