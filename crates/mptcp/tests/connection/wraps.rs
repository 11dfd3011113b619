//! Sequence numbers of subflows and of data that wrap at 32 bits (RFC 9293, section 3.4; RFC 8684,
//! sections 3.3.1 and 3.3.2).

use std::collections::BTreeSet;
use std::sync::Arc;

use mptcp::seq::DataSeq;
use mptcp::wire::{DataNumber, Dss, MptcpOption, Packet};

use crate::world::middleboxes::{Middlebox, rewrite};
use crate::world::{CLIENT, Faults, Pair, PathModel, SERVER, Stack, seconds};

/// Returns two paths that lose, duplicate and reorder.
fn faulty_paths() -> Vec<PathModel> {
    let faults = Faults {
        loss: 0.03,
        duplication: 0.02,
        reordering: 0.05,
        ..Faults::default()
    };
    vec![
        PathModel::new(10, 10).with(faults.clone()),
        PathModel::new(5, 30).with(faults),
    ]
}

fn signal(packet: &Packet) -> Option<Dss> {
    packet
        .segment
        .options
        .mptcp
        .iter()
        .find_map(|option| match option {
            MptcpOption::Dss(dss) => Some(*dss),
            _ => None,
        })
}

/// Returns the low half.
fn short(number: DataNumber) -> u32 {
    match number {
        DataNumber::Short(low) => low,
        DataNumber::Long(DataSeq(number)) => number as u32,
    }
}

/// Returns whether there are numbers from both sides of the wrap.
fn wraps(numbers: impl Iterator<Item = u32> + Clone) -> bool {
    numbers.clone().any(|number| number > u32::MAX / 2)
        && numbers.clone().any(|number| number < u32::MAX / 2)
}

/// Returns whether the numbers of a host's data wrapped, and those of all its subflows.
fn has_wrapped(pair: &Pair, side: usize) -> bool {
    let sent = pair
        .log
        .iter()
        .filter(|(_, by, packet)| *by == side && !packet.segment.payload.is_empty());
    let sent = sent.map(|(_, _, packet)| packet);
    let data = sent
        .clone()
        .filter_map(|packet| Some(short(signal(packet)?.mapping()?.data_seq)));
    let sources: BTreeSet<_> = sent.clone().map(|packet| packet.source).collect();
    wraps(data)
        && sources.len() == 2
        && sources.iter().all(|source| {
            let of_subflow = sent.clone().filter(|packet| packet.source == *source);
            wraps(of_subflow.map(|packet| packet.segment.seq.0))
        })
}

/// Leaves only the low half of the numbers of every DSS.
fn shortens() -> Middlebox {
    rewrite(|_, packet| {
        for option in &mut packet.segment.options.mptcp {
            if let MptcpOption::Dss(dss) = option {
                let halved = |number| DataNumber::Short(short(number));
                let mapping = dss.mapping().map(|mut mapping| {
                    mapping.data_seq = halved(mapping.data_seq);
                    mapping
                });
                *dss = dss
                    .with_data_ack(dss.data_ack().map(halved))
                    .with_mapping(mapping);
            }
        }
    })
}

/// Checks that byte streams in both directions arrive, and that all numbers of both hosts wrap on
/// the way.
fn arrives_over_the_wrap(seed: u64, stack: &Stack, middlebox: Option<Middlebox>) {
    let mut pair = Pair::before_wraps(seed, faulty_paths(), stack);
    pair.network.middleboxes.extend(middlebox);
    pair.transfer(400_000, 400_000);
    pair.run_to_the_end(seconds(60));
    assert!(
        has_wrapped(&pair, CLIENT) && has_wrapped(&pair, SERVER),
        "seed {seed}"
    );
}

#[test]
fn numbers_wrap_while_packets_are_lost_doubled_and_late() {
    for seed in 1..=10 {
        for uses_checksums in [false, true] {
            let mut stack = Stack::default();
            stack.config.uses_checksums = uses_checksums;
            arrives_over_the_wrap(seed, &stack, None);
        }
    }
}

/// The upper half is that of the number nearest to the expected one.
#[test]
fn numbers_of_four_bytes_are_completed_on_both_sides_of_the_wrap() {
    for seed in 1..=10 {
        arrives_over_the_wrap(seed, &Stack::default(), Some(shortens()));
    }
}

/// Numbers of mappings, which are relative to the SYN, wrap too.
#[test]
fn numbers_wrap_in_a_stream_of_more_than_4_gib() {
    // Jumbo segments, so that few are needed.
    let mut stack = Stack::default();
    Arc::make_mut(&mut stack.config.subflow).mss_bytes = 60_000;
    let mut pair = Pair::new(1, vec![PathModel::new(10_000, 1)], &stack);
    let bytes = (1 << 32) + 100_000_000;
    pair.transfer(bytes, 0);
    pair.run_until(seconds(8), |pair| pair.sides[SERVER].received == bytes);
}
