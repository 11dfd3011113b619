//! The kernel and userspace back-ends as a program, for machines on which mptcplab is not installed.
//! [`experiment::program`] describes the requests that it answers. As `part`, it has the hosts that an
//! experiment of another machine has here, and answers what that machine asks of them.
//!
//! ```text
//! mptcplab-agent serve kernel|userspace [--in-guest | --caller UID GID GROUPS HOME NAME]
//! mptcplab-agent part [--in-guest | --caller ..]
//! mptcplab-agent version
//! ```
//!
//! Everything that a run creates ends with this process, and the process ends with its caller: when
//! the standard input ends, and when no line has arrived for [`SILENCE`](life::SILENCE), because a
//! cut connection ends nothing. A guest ends with its caller, and its seconds are not the caller's,
//! so silence says nothing there.

#[cfg(target_os = "linux")]
mod back_end;
#[cfg(target_os = "linux")]
mod life;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(target_os = "linux")]
mod part;

use std::process::ExitCode;
#[cfg(target_os = "linux")]
use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::time::Duration;

#[cfg(target_os = "linux")]
use experiment::program::{FAILED, WRONG_USAGE};

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let in_guest = None;
    let elsewhere = Some(life::SILENCE);
    match arguments[..] {
        ["version"] => {
            println!("{}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        // A part starts no programs, so it needs not know whose they would be.
        ["part"] | ["part", "--caller", ..] => part(elsewhere),
        ["part", "--in-guest"] => part(in_guest),
        ["serve", stack] => serve(stack, None, elsewhere),
        ["serve", stack, "--in-guest"] => serve(stack, None, in_guest),
        ["serve", stack, "--caller", uid, gid, groups, home, name] => {
            serve(stack, Some([uid, gid, groups, home, name]), elsewhere)
        }
        _ => wrong_usage(back_end::USAGE),
    }
}

/// Serves a back-end. Ends after this `silence` of the caller, if any.
#[cfg(target_os = "linux")]
fn serve(stack: &str, caller: Option<[&str; 5]>, silence: Option<Duration>) -> ExitCode {
    let back_end = match back_end::RealTime::new(stack, caller) {
        Ok(back_end) => back_end,
        Err(why) => return wrong_usage(&why),
    };
    let life = life::watch(back_end.load(), silence);
    ended(experiment::program::serve(&back_end, move || life.note()))
}

/// Serves the hosts of an experiment that another machine runs.
#[cfg(target_os = "linux")]
fn part(silence: Option<Duration>) -> ExitCode {
    if let Err(why) = back_end::get_rights() {
        eprintln!("{why}");
        return ExitCode::from(FAILED);
    }
    let load = Arc::default();
    let life = life::watch(Arc::clone(&load), silence);
    ended(part::serve(&load, life))
}

#[cfg(target_os = "linux")]
fn wrong_usage(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::from(WRONG_USAGE)
}

#[cfg(target_os = "linux")]
fn ended(served: std::io::Result<()>) -> ExitCode {
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("standard input or output: {error}");
            ExitCode::from(FAILED)
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("the agent runs experiments in real time, which needs Linux");
    ExitCode::FAILURE
}
