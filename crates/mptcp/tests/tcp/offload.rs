//! Segmentation offload: what goes together, what PSH ends, and what is acknowledged at once.

use std::collections::BTreeSet;

use mptcp::subflow::{Config, Segmentation};
use mptcp::time::{MILLISECOND, SECOND};
use mptcp::wire::Flags;

use crate::pair::Pair;
use crate::pair::tcp::{Tcp, established};
use crate::pair::wire::{Fate, Sent};
use crate::wires;

fn offloaded() -> Config {
    Config {
        segmentation: Segmentation::Offload,
        ..Config::default()
    }
}

fn is_pushed(sent: &&Sent) -> bool {
    sent.segment.flags.contains(Flags::PSH)
}

/// Returns a pair in which each segment is acknowledged alone and the thirtieth is lost. Each
/// acknowledgment then allows one segment.
fn one_by_one(config: Config) -> Pair<Tcp> {
    let quick_acks = u32::MAX;
    let mut pair = established(
        Config {
            quick_acks,
            ..config
        },
        wires(),
    );
    let mut number = 0;
    pair.wires[0].set_fates(move |_, segment| {
        number += u32::from(!segment.payload.is_empty());
        match number {
            30 if !segment.payload.is_empty() => Fate::Lost,
            _ => Fate::Delivered,
        }
    });
    pair.ends[0].write(1_000_000);
    pair.run_for(20 * SECOND);
    assert!(pair.ends[1].has_all_of(&pair.ends[0]));
    pair
}

#[test]
fn what_one_acknowledgment_lets_go_waits_for_the_next_and_goes_with_its_segment() {
    let pair = one_by_one(offloaded());
    let segments = pair.wires[0].data().count();
    let packets = pair.wires[0].data().filter(is_pushed).count();
    assert!(
        (2 * segments / 5..=segments / 2 + 1).contains(&packets),
        "{packets} of {segments}"
    );
    let without = one_by_one(Config::default());
    assert_eq!(without.wires[0].data().filter(is_pushed).count(), 1);
}

#[test]
fn what_is_sent_again_goes_without_the_psh_of_its_packet() {
    let pair = one_by_one(offloaded());
    let mut seen = BTreeSet::new();
    let again: Vec<_> = pair.wires[0]
        .data()
        .filter(|sent| !seen.insert(sent.segment.seq.0))
        .collect();
    assert!(!again.is_empty());
    assert!(!again.iter().any(is_pushed));
}

#[test]
fn a_full_sized_segment_with_psh_is_acknowledged_at_once() {
    let last_ack_after = |config| {
        let mut pair = established(
            Config {
                quick_acks: 0,
                ..config
            },
            wires(),
        );
        let begin = pair.now;
        pair.ends[0].write(3 * 1448);
        pair.run_for(SECOND);
        let mut acks = pair.wires[1].log.iter().filter(|sent| sent.at > begin);
        acks.next_back().expect("an acknowledgment").at - begin
    };
    assert_eq!(last_ack_after(offloaded()), 10 * MILLISECOND);
    assert_eq!(last_ack_after(Config::default()), 50 * MILLISECOND);
}
