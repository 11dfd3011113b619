//! Middleboxes between us and the kernel: they lose packets, take options away and change data.

use std::ops::RangeInclusive;

use mptcp::connection::Mode;
use mptcp::payload::Payload;
use mptcp::wire::{Flags, MptcpOptions, Packet};

use crate::joins::two_paths;
use crate::judge::{Judge, Opener, Trial};
use crate::middleboxes::{Middlebox, lose, rewrite, strip};
use crate::path::End;

const OPENERS: [Opener; 2] = [Opener::Engine, Opener::Kernel];
const ENDS: [End; 2] = [End::Engine, End::Kernel];

/// Data packets that pass before one is harmed: the connection is fully established.
const HEALTHY_PACKETS: usize = 100;

/// Loses packets by their numbers among those from there on a path, counted from 0.
pub fn lose_numbered(path: usize, from: End, numbers: RangeInclusive<u32>) -> Middlebox {
    let mut count = 0;
    lose(usize::MAX, move |place, _| {
        let is_here = place.path == path && place.from == from as usize;
        count += u32::from(is_here);
        is_here && numbers.contains(&(count - 1))
    })
}

/// Both streams arrive over plain TCP though that is taken away.
fn falls_back(opener: Opener, middlebox: Middlebox) -> Judge {
    let mut judge = Judge::new(Trial::new(opener));
    judge.middleboxes.push(middlebox);
    judge.run_to_the_end();
    assert_eq!(judge.mode(), Some(Mode::Plain));
    judge
}

fn is_syn(packet: &Packet) -> bool {
    packet.segment.flags == Flags::SYN
}

fn is_syn_ack(packet: &Packet) -> bool {
    packet.segment.flags.contains(Flags::SYN | Flags::ACK)
}

#[test]
#[ignore = "needs root"]
fn options_stripped_from_the_syn() {
    for opener in OPENERS {
        falls_back(opener, strip(|_, packet, _| is_syn(packet)));
    }
}

#[test]
#[ignore = "needs root"]
fn options_stripped_from_the_syn_ack() {
    for opener in OPENERS {
        falls_back(opener, strip(|_, packet, _| is_syn_ack(packet)));
    }
}

#[test]
#[ignore = "needs root"]
fn options_stripped_from_all_but_the_handshake() {
    for opener in OPENERS {
        falls_back(
            opener,
            strip(|_, packet, _| !packet.segment.flags.contains(Flags::SYN)),
        );
    }
}

/// The first packet that is no SYN and comes from the opener.
fn without_third_packet(opener: Opener) -> Middlebox {
    let from = match opener {
        Opener::Engine => End::Engine,
        Opener::Kernel => End::Kernel,
    };
    let mut has_passed = false;
    rewrite(move |place, packet| {
        let is_third = place.from == from as usize && !is_syn(packet);
        if is_third && !std::mem::replace(&mut has_passed, true) {
            packet.segment.options.mptcp = MptcpOptions::default();
        }
    })
}

#[test]
#[ignore = "needs root"]
fn options_stripped_from_the_third_packet() {
    for opener in OPENERS {
        falls_back(opener, without_third_packet(opener));
    }
}

/// Takes all options away from that path once so many packets with data have passed it from each end.
fn strip_in_mid_stream(path: usize) -> Middlebox {
    let mut passed = [0; 2];
    rewrite(move |place, packet| {
        let is_data = !packet.segment.payload.is_empty();
        let is_kernels = usize::from(place.from == End::Kernel as usize);
        passed[is_kernels] += usize::from(place.path == path && is_data);
        if place.path == path && passed.iter().all(|count| *count > HEALTHY_PACKETS) {
            packet.segment.options.mptcp = MptcpOptions::default();
        }
    })
}

/// What has no mapping is not delivered, and nobody hears of DATA_ACKs any more. The kernel goes on as plain TCP, or it waits
/// for ever, as we do.
#[test]
#[ignore = "needs root"]
fn options_stripped_in_mid_stream_from_the_only_path() {
    for opener in OPENERS {
        let mut trial = Trial::new(opener);
        trial.manner.takes_changed = true;
        let mut judge = Judge::new(trial);
        judge.middleboxes.push(strip_in_mid_stream(0));
        judge.run_until(|judge| judge.now() > 2_000_000_000);
        assert!(judge.received > 0);
        assert!(judge.received < judge.trial.download);
    }
}

/// A stream each way over two paths, after the second has joined.
fn over_two_paths(checksums: bool, middlebox: Middlebox) -> Judge {
    let mut trial = two_paths(Opener::Engine, "full_mesh");
    trial.manner.sends_last = false;
    trial.kernel_checksums = checksums;
    (trial.upload, trial.download) = (5_000_000, 5_000_000);
    let mut judge = Judge::new(trial);
    judge.middleboxes.push(middlebox);
    judge.run_to_the_end();
    assert_eq!(judge.mode(), Some(Mode::Multipath));
    judge
}

#[test]
#[ignore = "needs root"]
fn options_stripped_in_mid_stream_from_one_of_two_paths() {
    over_two_paths(false, strip_in_mid_stream(1));
}

/// Changes a byte of one packet from there, after others have passed.
fn change_a_byte(from: End, path: usize) -> Middlebox {
    let mut passed = 0;
    rewrite(move |place, packet| {
        let is_data = packet.segment.payload.len() > 100;
        let is_here = place.from == from as usize && place.path == path;
        passed += usize::from(is_data && is_here);
        if is_data && is_here && passed == HEALTHY_PACKETS {
            let mut bytes = packet.segment.payload.to_vec();
            bytes[50] ^= 0x55;
            packet.segment.payload = Payload::literal(bytes);
        }
    })
}

/// What the kernel counts when it finds, or is told, that data from there was changed.
fn counter_of_failure(from: End) -> &'static str {
    match from {
        End::Engine => "MPFailTx",
        End::Kernel => "MPFailRx",
    }
}

#[test]
#[ignore = "needs root"]
fn data_changed_on_the_only_path_makes_it_tcp() {
    for opener in OPENERS {
        let mut trial = Trial::new(opener);
        trial.kernel_checksums = true;
        trial.manner.takes_changed = true;
        // A kernel whose data ended before a fallback sends no FIN after it, and stays.
        trial.manner.sends_last = true;
        let mut judge = Judge::new(trial);
        judge.middleboxes.push(change_a_byte(End::Engine, 0));
        judge.run_to_the_end();
        assert_eq!(judge.mode(), Some(Mode::Plain));
        assert!(judge.counter(counter_of_failure(End::Engine)) > 0);
    }
}

#[test]
#[ignore = "needs root"]
fn data_changed_on_one_of_two_paths_comes_right_on_the_other() {
    for from in ENDS {
        let judge = over_two_paths(true, change_a_byte(from, 1));
        assert_eq!(judge.counter(counter_of_failure(from)), 1, "{from:?}");
    }
}
