//! Explicit congestion notification (RFC 3168).

use mptcp::cc::Congestion;
use mptcp::subflow::Config;
use mptcp::time::SECOND;
use mptcp::wire::{Ecn, Flags};

use crate::pair::tcp::{Tcp, established};
use crate::pair::wire::{Fate, Sent};
use crate::pair::{Pair, tcp};
use crate::wires;

fn capable() -> Config {
    Config {
        ecn: true,
        ..Config::default()
    }
}

#[test]
fn both_have_to_want_it() {
    for (ours, theirs) in [(true, true), (true, false), (false, true)] {
        let config = |ecn| Config {
            ecn,
            ..Config::default()
        };
        let ends = [
            Tcp::opening(config(ours), 1),
            Tcp::listening(config(theirs), 2),
        ];
        let mut pair = Pair::new(ends, wires());
        pair.ends[0].write(1000);
        pair.run_for(SECOND);
        let data = pair.wires[0].data().next().expect("data");
        let expected = if ours && theirs {
            Ecn::Capable0
        } else {
            Ecn::NotCapable
        };
        assert_eq!(data.ecn, expected, "{ours} {theirs}");
    }
}

#[test]
fn only_new_data_is_marked_as_capable() {
    let mut pair = established(capable(), wires());
    let mut number = 0;
    pair.wires[0].set_fates(move |_, segment| {
        number += u32::from(!segment.payload.is_empty());
        if number == 5 {
            Fate::Lost
        } else {
            Fate::Delivered
        }
    });
    pair.ends[0].write(30_000);
    pair.run_for(5 * SECOND);
    let mut sent_before = std::collections::BTreeSet::new();
    for Sent { segment, ecn, .. } in &pair.wires[0].log {
        let is_new = !segment.payload.is_empty() && sent_before.insert(segment.seq.0);
        assert_eq!(*ecn == Ecn::Capable0, is_new);
    }
}

#[test]
fn a_mark_halves_the_window_once_and_loses_nothing() {
    let mut pair = established(capable(), wires());
    let mut number = 0;
    pair.wires[0].set_fates(move |_, segment| {
        number += u32::from(!segment.payload.is_empty());
        if (30..34).contains(&number) {
            Fate::Marked
        } else {
            Fate::Delivered
        }
    });
    pair.ends[0].write(400_000);
    pair.run_for(5 * SECOND);
    let sender = &pair.ends[0];
    assert!(pair.ends[1].has_all_of(sender));
    let kinds: Vec<_> = sender
        .cc
        .congestions
        .iter()
        .map(|(_, kind)| *kind)
        .collect();
    assert_eq!(kinds, [Congestion::Ecn]);
    assert_eq!(sender.subflow().counters().retransmitted_segments, 0);
    let echoed = |sent: &&Sent| sent.segment.flags.contains(Flags::ECE);
    assert!(pair.wires[1].log.iter().skip(1).filter(echoed).count() > 1);
    let reduced = |sent: &&Sent| sent.segment.flags.contains(Flags::CWR);
    assert_eq!(pair.wires[0].log.iter().skip(1).filter(reduced).count(), 1);
    assert!(!pair.wires[1].log.last().is_some_and(|last| echoed(&last)));
}

#[test]
fn a_syn_again_does_not_offer_it() {
    let mut pair = tcp::pair(capable(), wires());
    pair.wires[0].set_fates(|number, _| match number {
        0 => Fate::Lost,
        _ => Fate::Delivered,
    });
    pair.run_for(3 * SECOND);
    let flags: Vec<_> = pair.wires[0]
        .log
        .iter()
        .map(|sent| sent.segment.flags)
        .collect();
    assert_eq!(
        flags[..2],
        [Flags::SYN | Flags::ECE | Flags::CWR, Flags::SYN]
    );
}
