//! The program as mptcplab starts it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs the program to its end, with this input.
fn run(arguments: &[&str], input: &str) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_own-simulator"));
    program
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut program = program.spawn().expect("it starts");
    let mut pipe = program.stdin.take().expect("its input");
    pipe.write_all(input.as_bytes()).expect("it reads");
    drop(pipe);
    program.wait_with_output().expect("it ends")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

#[test]
fn it_has_the_engines_algorithms_and_its_own() {
    let done = run(&["capabilities"], "");
    let said = text(&done.stdout);
    for feature in ["cc reno", "cc crate:aimd", "cc crate:aimd keep"] {
        assert!(
            said.contains(&format!("[\"{feature}\",true,\"\"]")),
            "{said}"
        );
    }
}

#[test]
fn what_is_no_experiment_is_refused() {
    let done = run(&["check"], "{}");
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done.stderr).starts_with("not a resolved experiment: missing field"));
    assert_eq!(run(&["simulate"], "").status.code(), Some(2));
}
