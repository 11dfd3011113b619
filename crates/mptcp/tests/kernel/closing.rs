//! Ends: one stream before the other, and all at once.

use mptcp::connection::{Connection, Event};
use mptcp::subflow::CloseReason;

use crate::judge::{Judge, Opener, Trial};
use crate::peer::{Manner, Report};

const OPENERS: [Opener; 2] = [Opener::Engine, Opener::Kernel];

#[test]
#[ignore = "needs root"]
fn our_stream_ends_first() {
    for opener in OPENERS {
        let mut trial = Trial::new(opener);
        trial.manner.sends_last = true;
        let mut judge = Judge::new(trial);
        judge.run_to_the_end();
        judge.assert_no_trouble_but(&[]);
    }
}

#[test]
#[ignore = "needs root"]
fn the_kernels_stream_ends_first() {
    for opener in OPENERS {
        let mut judge = Judge::new(Trial::new(opener));
        judge.closes = false;
        judge.trial.upload = 0;
        judge.run_until(|judge| judge.events.contains(&Event::Finished));
        assert_eq!(judge.received, judge.trial.download);
        judge.trial.upload = 1_000_000;
        judge.closes = true;
        judge.run_to_the_end();
        judge.assert_no_trouble_but(&[]);
    }
}

#[test]
#[ignore = "needs root"]
fn our_stream_ends_first_over_two_paths() {
    let mut trial = Trial::new(Opener::Engine);
    trial.paths = 2;
    trial.manner.sends_last = true;
    let mut judge = Judge::new(trial);
    judge.run_to_the_end();
    judge.assert_no_trouble_but(&[]);
}

#[test]
#[ignore = "needs root"]
fn we_abort() {
    for opener in OPENERS {
        let mut trial = Trial::new(opener);
        trial.paths = 2;
        trial.manner.sends_last = true;
        let mut judge = Judge::new(trial);
        judge.closes = false;
        judge.run_until(|judge| judge.peer.said.contains(&Report::Connected));
        judge.command(Connection::abort);
        judge.run_until(|judge| judge.peer_end().is_some());
        let Some(Report::Ended { error, .. }) = judge.peer_end() else {
            unreachable!("it has ended")
        };
        assert_eq!(error.as_deref(), Some("ECONNRESET"));
        assert_eq!(judge.closed(), Some(CloseReason::Aborted));
        assert!(judge.counter("MPFastcloseRx") > 0);
        judge.assert_no_trouble_but(&["MPFastcloseRx", "MPRstTx", "MPRstRx"]);
    }
}

#[test]
#[ignore = "needs root"]
fn the_kernel_aborts() {
    for opener in OPENERS {
        let mut trial = Trial::new(opener);
        trial.paths = 2;
        trial.manner = Manner {
            aborts_after: Some(500_000),
            ..Manner::default()
        };
        let mut judge = Judge::new(trial);
        judge.run_until(|judge| judge.closed().is_some());
        assert_eq!(judge.closed(), Some(CloseReason::Reset));
        assert!(judge.counter("MPFastcloseTx") > 0);
        judge.assert_no_trouble_but(&["MPFastcloseTx", "MPRstTx", "MPRstRx"]);
    }
}
