//! Middleboxes between the engine and the kernel: they lose packets, remove options and change
//! data.

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

/// Data packets that pass before one is changed. The connection is fully established by then.
const HEALTHY_PACKETS: usize = 100;

/// Loses packets from one end of a path by their numbers, counted from 0.
pub fn lose_numbered(path: usize, from: End, numbers: RangeInclusive<u32>) -> Middlebox {
    let mut count = 0;
    lose(usize::MAX, move |place, _| {
        let is_here = place.path == path && place.from == from as usize;
        count += u32::from(is_here);
        is_here && numbers.contains(&(count - 1))
    })
}

/// Checks that both byte streams arrive over plain TCP, despite `middlebox`.
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

/// Removes the options of the opener's first packet that is not a SYN.
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

/// Removes all options on that path once `HEALTHY_PACKETS` packets with data have passed it from
/// each end.
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

/// Data without a mapping is not delivered, and no DATA_ACK arrives any more. The kernel continues
/// as plain TCP, or it waits for ever, as the engine does.
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

/// Runs a byte stream in each direction over two paths, after the second has joined.
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

/// What was changed in transit, and the MP_FAIL options about it.
#[derive(Default)]
struct Failure {
    /// The first number of the mapping whose data was changed.
    changed: Option<DataSeq>,
    /// Bytes from that end up to and including the changed segment.
    passed_bytes: u32,
    /// Each MP_FAIL that passed: its sender, its number, and whether it came with an RST.
    said: Vec<(usize, DataSeq, bool)>,
}

impl Failure {
    /// Records the MP_FAIL options of a packet.
    fn observe(&mut self, place: Place, packet: &Packet) {
        for option in &packet.segment.options.mptcp {
            if let MptcpOption::Fail { data_seq } = *option {
                let is_reset = packet.segment.flags.contains(Flags::RST);
                self.said.push((place.from, data_seq, is_reset));
            }
        }
    }

    /// Returns the MP_FAIL options of an end, each number once.
    fn said_by(&self, end: End) -> BTreeSet<(u64, bool)> {
        let said = self.said.iter().filter(|(from, ..)| *from == end as usize);
        said.map(|(_, data_seq, is_reset)| (data_seq.0, *is_reset))
            .collect()
    }

    /// Returns the MP_FAIL that the changed mapping requires.
    fn of_changed(&self, is_reset: bool) -> BTreeSet<(u64, bool)> {
        self.changed
            .iter()
            .map(|first| (first.0, is_reset))
            .collect()
    }
}

/// Returns the long number of the first byte that a packet maps.
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

/// Changes a byte of one packet from one end, after others have passed.
fn change_a_byte(from: End, path: usize) -> (Middlebox, Rc<RefCell<Failure>>) {
    let mut passed = 0;
    let failure = Rc::new(RefCell::new(Failure::default()));
    let seen = Rc::clone(&failure);
    let middlebox = rewrite(move |place, packet| {
        let mut failure = failure.borrow_mut();
        failure.observe(place, packet);
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

/// The kernel detects it and sends MP_FAIL. The engine answers with MP_FAIL and an infinite mapping
/// (RFC 8684, section 3.7).
#[test]
#[ignore = "needs root"]
fn data_changed_on_the_only_path_makes_it_tcp() {
    for opener in OPENERS {
        let mut trial = Trial::new(opener);
        trial.kernel_checksums = true;
        trial.manner.takes_changed = true;
        // A kernel whose data ended before a fallback sends no FIN after it, and its connection
        // stays open.
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

/// The engine detects it and sends MP_FAIL. The kernel answers with MP_FAIL and an infinite
/// mapping, and the engine continues with it. The rest does not arrive: Linux 6.18 stops sending
/// soon after such a fallback, even to another Linux. The window is small, so that DATA_ACKs must
/// make room for the data with the infinite mapping.
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

/// The host that detects it resets the subflow with MP_FAIL, and the data is reinjected on the
/// other subflow (RFC 8684, section 3.7).
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

/// Returns the kernel's counters for data from that end that was changed on one of several
/// subflows.
fn counters_of_failure(from: End) -> &'static [&'static str] {
    match from {
        End::Engine => &["DataCsumErr", "MPFailTx", "MPRstTx"],
        End::Kernel => &["MPFailRx", "MPRstRx"],
    }
}
