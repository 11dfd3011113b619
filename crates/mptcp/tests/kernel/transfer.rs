//! Long byte streams in both directions at once, on paths that lose packets or are cut for a while.

use mptcp::connection::Buffer;

use crate::judge::{Judge, Opener, Trial};

const LENGTH: u32 = 20_000_000;

fn long(opener: Opener, paths: usize) -> Trial {
    Trial {
        paths,
        upload: LENGTH,
        download: LENGTH,
        ..Trial::new(opener)
    }
}

fn arrives(trial: Trial) {
    let mut judge = Judge::new(trial);
    judge.run_to_the_end();
    judge.assert_no_trouble_but(&[]);
}

#[test]
#[ignore = "needs root"]
fn twenty_megabytes_each_way() {
    arrives(long(Opener::Engine, 1));
    arrives(long(Opener::Kernel, 1));
}

#[test]
#[ignore = "needs root"]
fn over_three_paths_with_checksums() {
    let mut trial = long(Opener::Engine, 3);
    trial.kernel_checksums = true;
    arrives(trial);
}

/// Linux 6.18 stalls for good when out-of-order data fills the receive buffer of its connection,
/// because the missing bytes then find no room. So only a part of its window is filled.
#[test]
#[ignore = "needs root"]
fn with_loss_on_two_paths() {
    let mut trial = long(Opener::Engine, 2);
    trial.stack.config.send_buffer = Buffer::Fixed(1 << 19);
    let mut judge = Judge::new(trial);
    for path in &mut judge.paths {
        path.loss = 0.02;
    }
    judge.run_to_the_end();
    judge.assert_no_trouble_but(&[]);
}

/// The path is cut when a part of both byte streams has passed, and repaired after another part.
#[test]
#[ignore = "needs root"]
fn one_of_two_paths_is_cut() {
    let mut judge = Judge::new(long(Opener::Engine, 2));
    let passed = |judge: &Judge, part: u32| judge.received > part && judge.sent > part;
    judge.run_until(|judge| passed(judge, LENGTH / 4));
    judge.paths[0].is_up = false;
    judge.run_until(|judge| passed(judge, LENGTH / 4 * 3));
    judge.paths[0].is_up = true;
    judge.run_to_the_end();
    judge.assert_no_trouble_but(&[]);
}
