//! Handshakes that the matrix lacks.

use mptcp::connection::Mode;

use crate::interference::lose_numbered;
use crate::judge::{Judge, Opener, Trial};
use crate::path::End;
use crate::stack::Stack;

/// Checks that both byte streams arrive over MPTCP, and that the kernel counts no trouble.
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

/// Loses one of the packets from either end after its first, each in a connection of its own.
fn survives_each_loss(opener: Opener) {
    for from in [End::Engine, End::Kernel] {
        for lost in 1..5 {
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
