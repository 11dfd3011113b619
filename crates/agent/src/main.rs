//! The kernel and userspace back-ends as a program, for machines on which mptcplab is not installed.
//! [`experiment::program`] describes the requests that it answers.
//!
//! ```text
//! mptcplab-agent serve kernel|userspace [--in-guest | --caller UID GID GROUPS HOME NAME]
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

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    use experiment::program::{FAILED, WRONG_USAGE, serve};

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (stack, caller, silence) = match arguments[..] {
        ["version"] => {
            println!("{}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        ["serve", stack] => (stack, None, Some(life::SILENCE)),
        ["serve", stack, "--in-guest"] => (stack, None, None),
        ["serve", stack, "--caller", uid, gid, groups, home, name] => {
            let caller = [uid, gid, groups, home, name];
            (stack, Some(caller), Some(life::SILENCE))
        }
        _ => ("", None, None),
    };
    let back_end = match back_end::RealTime::new(stack, caller) {
        Ok(back_end) => back_end,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(WRONG_USAGE);
        }
    };
    let life = life::watch(back_end.load(), silence);
    match serve(&back_end, move || life.note()) {
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
