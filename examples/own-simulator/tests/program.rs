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
    let done = run(&["serve"], "\"capabilities\"\n");
    let said = text(&done.stdout);
    for feature in ["cc reno", "cc crate:aimd", "cc crate:aimd keep"] {
        assert!(
            said.contains(&format!("[\"{feature}\",true,\"\"]")),
            "{said}"
        );
    }
}

#[test]
fn what_is_no_request_is_refused_and_the_next_is_answered() {
    let requests = "{\"check\":{}}\n{\"advance\":1}\nsimulate\n\n\"finish\"\n\"machine\"\n";
    let done = run(&["serve"], requests);
    let said = text(&done.stdout);
    let answers: Vec<&str> = said.lines().collect();
    assert_eq!(answers.len(), 5, "{said}");
    for (answer, words) in answers.iter().zip([
        "not a resolved experiment: missing field",
        "no run is in progress",
        "expected value",
        "no run is in progress",
        "null",
    ]) {
        assert!(answer.contains(words), "{answer}");
    }
    assert!(done.status.success());
    assert_eq!(run(&["simulate"], "").status.code(), Some(2));
}
