//! Middleboxes between us and the kernel: they lose packets, take options away and change data.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::rc::Rc;

use mptcp::connection::{Buffer, Mode};
use mptcp::payload::Payload;
use mptcp::seq::DataSeq;
use mptcp::wire::{DataNumber, Flags, MptcpOption, MptcpOptions, Packet};

use crate::joins::two_paths;
use crate::judge::{Judge, Opener, Trial};
use crate::middleboxes::{Middlebox, Place, lose, rewrite, strip};
use crate::path::End;

const OPENERS: [Opener; 2] = [Opener::Engine, Opener::Kernel];

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

/// What was changed on the way, and what was said of it.
#[derive(Default)]
struct Failure {
    /// The first number of the mapping whose data were changed.
    changed: Option<DataSeq>,
    /// Bytes that had come from there up to the changed one's segment, and with it.
    passed_bytes: u32,
    /// Each MP_FAIL that passed: from which end, its number, and whether it came with a reset.
    said: Vec<(usize, DataSeq, bool)>,
}

impl Failure {
    /// Notes what a packet says.
    fn hear(&mut self, place: Place, packet: &Packet) {
        for option in &packet.segment.options.mptcp {
            if let MptcpOption::Fail { data_seq } = *option {
                let is_reset = packet.segment.flags.contains(Flags::RST);
                self.said.push((place.from, data_seq, is_reset));
            }
        }
    }

    /// What that end said, each number once.
    fn said_by(&self, end: End) -> BTreeSet<(u64, bool)> {
        let said = self.said.iter().filter(|(from, ..)| *from == end as usize);
        said.map(|(_, data_seq, is_reset)| (data_seq.0, *is_reset))
            .collect()
    }

    /// The changed mapping, as an MP_FAIL has to say it.
    fn of_changed(&self, is_reset: bool) -> BTreeSet<(u64, bool)> {
        self.changed
            .iter()
            .map(|first| (first.0, is_reset))
            .collect()
    }
}

/// The full number of the first byte that a packet maps.
fn mapped(packet: &Packet) -> Option<DataSeq> {
    packet.segment.options.mptcp.iter().find_map(|option| {
        let MptcpOption::Dss(dss) = option else {
            return None;
        };
        match dss.mapping()?.data_seq {
            DataNumber::Long(first) => Some(first),
            DataNumber::Short(_) => None,
        }
    })
}

/// Changes a byte of one packet from there, after others have passed.
fn change_a_byte(from: End, path: usize) -> (Middlebox, Rc<RefCell<Failure>>) {
    let mut passed = 0;
    let failure = Rc::new(RefCell::new(Failure::default()));
    let seen = Rc::clone(&failure);
    let middlebox = rewrite(move |place, packet| {
        let mut failure = failure.borrow_mut();
        failure.hear(place, packet);
        let is_data = packet.segment.payload.len() > 100;
        let is_here = place.from == from as usize && place.path == path;
        passed += usize::from(is_data && is_here);
        if is_here && passed <= HEALTHY_PACKETS {
            failure.passed_bytes += packet.segment.payload.len();
        }
        if is_data && is_here && passed == HEALTHY_PACKETS {
            failure.changed = mapped(packet);
            let mut bytes = packet.segment.payload.to_vec();
            bytes[50] ^= 0x55;
            packet.segment.payload = Payload::literal(bytes);
        }
    });
    (middlebox, seen)
}

/// The kernel finds it and says MP_FAIL; we answer with MP_FAIL and an infinite mapping (RFC 8684, section 3.7).
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
        let (middlebox, failure) = change_a_byte(End::Engine, 0);
        judge.middleboxes.push(middlebox);
        judge.run_to_the_end();
        assert_eq!(judge.mode(), Some(Mode::Plain));
        let failure = failure.borrow();
        assert_eq!(failure.said_by(End::Kernel), failure.of_changed(false));
        assert_eq!(failure.said_by(End::Engine).len(), 1, "our answer");
        for name in ["DataCsumErr", "MPFailTx", "MPFailRx", "InfiniteMapRx"] {
            assert_eq!(judge.counter(name), 1, "{name}");
        }
    }
}

/// We find it and say MP_FAIL; the kernel answers with MP_FAIL and an infinite mapping, and we go on with it. The rest does not
/// come: Linux 6.18 stops sending soon after such a fallback, to its own kind too. The window is small, so that DATA_ACKs have to
/// make room for the data that bring the infinite mapping.
#[test]
#[ignore = "needs root"]
fn the_kernel_believes_us_that_its_data_were_changed() {
    for opener in OPENERS {
        let mut trial = Trial::new(opener);
        trial.kernel_checksums = true;
        trial.upload = 0;
        trial.stack.config.receive_buffer = Buffer::Fixed(100_000);
        let mut judge = Judge::new(trial);
        (judge.takes_changed, judge.closes) = (true, false);
        let (middlebox, failure) = change_a_byte(End::Kernel, 0);
        judge.middleboxes.push(middlebox);
        judge.run_until(|_| !failure.borrow().said_by(End::Kernel).is_empty());
        judge.run_until(|judge| judge.counter("InfiniteMapTx") == 1);
        judge.run_until(|judge| judge.received > failure.borrow().passed_bytes);
        assert_eq!(judge.mode(), Some(Mode::Plain));
        let failure = failure.borrow();
        assert_eq!(failure.said_by(End::Engine), failure.of_changed(false));
        assert_eq!(judge.counter("MPFailTx"), 1);
        assert!(judge.counter("MPFailRx") > 0, "ours is repeated");
    }
}

/// Who finds it resets the subflow with MP_FAIL, and the data come again on the other (RFC 8684, section 3.7).
#[test]
#[ignore = "needs root"]
fn data_changed_on_one_of_two_paths_comes_right_on_the_other() {
    for (from, finder) in [(End::Engine, End::Kernel), (End::Kernel, End::Engine)] {
        let (middlebox, failure) = change_a_byte(from, 1);
        let judge = over_two_paths(true, middlebox);
        let failure = failure.borrow();
        assert_eq!(failure.said_by(finder), failure.of_changed(true));
        assert!(failure.said_by(from).is_empty(), "a reset has no answer");
        for name in counters_of_failure(from) {
            assert_eq!(judge.counter(name), 1, "{from:?}: {name}");
        }
    }
}

/// What the kernel counts when it finds, or is told, that data from there was changed on one of several subflows.
fn counters_of_failure(from: End) -> &'static [&'static str] {
    match from {
        End::Engine => &["DataCsumErr", "MPFailTx", "MPRstTx"],
        End::Kernel => &["MPFailRx", "MPRstRx"],
    }
}
