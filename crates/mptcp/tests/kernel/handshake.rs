//! Both handshakes, and a stream each way.

use std::sync::Arc;

use mptcp::connection::Mode;

use crate::interference::lose_numbered;
use crate::judge::{Judge, Opener, Trial};
use crate::path::{End, Family};
use crate::stack::Stack;

/// Both streams arrive over Multipath TCP, to the judge's satisfaction.
fn succeeds(trial: Trial) -> Judge {
    let mut judge = Judge::new(trial);
    judge.run_to_the_end();
    assert_eq!(judge.mode(), Some(Mode::Multipath));
    judge.assert_no_trouble_but(&[]);
    judge
}

fn we_connect(change: impl FnOnce(&mut Trial)) {
    let mut trial = Trial::new(Opener::Engine);
    change(&mut trial);
    let judge = succeeds(trial);
    assert_eq!(judge.counter("MPCapableSYNRX"), 1);
    assert_eq!(judge.counter("MPCapableACKRX"), 1);
}

fn kernel_connects(change: impl FnOnce(&mut Trial)) {
    let mut trial = Trial::new(Opener::Kernel);
    change(&mut trial);
    let judge = succeeds(trial);
    assert_eq!(judge.counter("MPCapableSYNTX"), 1);
    assert_eq!(judge.counter("MPCapableSYNACKRX"), 1);
}

fn over_ipv6(trial: &mut Trial) {
    trial.family = Family::V6;
    Arc::make_mut(&mut trial.stack.config.subflow).mss_bytes = 1440;
}

#[test]
#[ignore = "needs root"]
fn we_connect_to_the_kernel() {
    we_connect(|_| {});
}

#[test]
#[ignore = "needs root"]
fn the_kernel_connects_to_us() {
    kernel_connects(|_| {});
}

#[test]
#[ignore = "needs root"]
fn we_connect_over_ipv6() {
    we_connect(over_ipv6);
}

#[test]
#[ignore = "needs root"]
fn the_kernel_connects_over_ipv6() {
    kernel_connects(over_ipv6);
}

#[test]
#[ignore = "needs root"]
fn only_we_send() {
    we_connect(|trial| trial.download = 0);
    kernel_connects(|trial| trial.download = 0);
}

#[test]
#[ignore = "needs root"]
fn only_the_kernel_sends() {
    we_connect(|trial| trial.upload = 0);
    kernel_connects(|trial| trial.upload = 0);
}

#[test]
#[ignore = "needs root"]
fn nobody_sends() {
    let nothing = |trial: &mut Trial| (trial.upload, trial.download) = (0, 0);
    we_connect(nothing);
    kernel_connects(nothing);
}

#[test]
#[ignore = "needs root"]
fn we_want_checksums() {
    we_connect(|trial| trial.stack.config.uses_checksums = true);
    kernel_connects(|trial| trial.stack.config.uses_checksums = true);
}

#[test]
#[ignore = "needs root"]
fn the_kernel_wants_checksums() {
    we_connect(|trial| trial.kernel_checksums = true);
    kernel_connects(|trial| trial.kernel_checksums = true);
}

#[test]
#[ignore = "needs root"]
fn we_speak_plain_tcp() {
    let mut judge = Judge::new(Trial {
        stack: Stack::plain(),
        ..Trial::new(Opener::Engine)
    });
    judge.run_to_the_end();
    assert_eq!(judge.mode(), Some(Mode::Plain));
    assert_eq!(judge.counter("MPCapableSYNRX"), 0);
    judge.assert_no_trouble_but(&[]);
}

/// The third packet of the handshake and the first data are lost: every segment of the burst has the keys.
#[test]
#[ignore = "needs root"]
fn the_keys_arrive_with_any_segment_of_the_first_burst() {
    for uses_checksums in [false, true] {
        let mut trial = Trial::new(Opener::Engine);
        trial.stack.config.uses_checksums = uses_checksums;
        let mut judge = Judge::new(trial);
        judge.middleboxes.push(lose_numbered(0, End::Engine, 1..=3));
        judge.run_to_the_end();
        assert_eq!(judge.mode(), Some(Mode::Multipath));
        assert_eq!(judge.counter("MPCapableACKRX"), 1);
        judge.assert_no_trouble_but(&[]);
    }
}

/// Loses one of the first packets from either end, each in a connection of its own.
fn survives_each_loss(opener: Opener) {
    for from in [End::Engine, End::Kernel] {
        for lost in 0..5 {
            let mut judge = Judge::new(Trial::new(opener));
            judge.middleboxes.push(lose_numbered(0, from, lost..=lost));
            judge.run_to_the_end();
            assert_eq!(judge.mode(), Some(Mode::Multipath), "{from:?} {lost}");
            judge.assert_no_trouble_but(&[]);
        }
    }
}

#[test]
#[ignore = "needs root"]
fn early_losses_when_we_connect() {
    survives_each_loss(Opener::Engine);
}

#[test]
#[ignore = "needs root"]
fn early_losses_when_the_kernel_connects() {
    survives_each_loss(Opener::Kernel);
}

/// The kernel keeps no state of our SYN: the third packet has to bring all of it.
#[test]
#[ignore = "needs root"]
fn we_connect_to_a_kernel_with_syn_cookies() {
    let mut trial = Trial::new(Opener::Engine);
    trial.kernel_uses_syn_cookies = true;
    let judge = succeeds(trial);
    let counters = judge.namespace.counters_of("TcpExt");
    assert_eq!(counters["SyncookiesRecv"], 1);
}
