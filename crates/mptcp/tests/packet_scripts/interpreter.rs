//! Tests of the interpreter itself: it finds packets that differ from the script.

use crate::run::run;

const LISTEN: &str = "\
+0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0.1 < S 0:0(0) win 1000 <mss 1000>
";

/// Returns the error of these lines after a SYN.
fn complaint(lines: &str) -> String {
    run(&format!("{LISTEN}{lines}")).expect_err("a script that is wrong")
}

#[test]
fn a_wrong_packet_is_told_with_its_line_and_both_packets() {
    let why = complaint("+0 > S. 0:0(0) ack 1 <mss 1000>\n");
    assert!(why.starts_with("line 5:"), "{why}");
    assert!(
        why.contains(
            "expected 10.0.0.2:8080 > 10.0.0.1:40000 S. 0:0(0) ack 1 win 65535 <mss 1000>"
        ),
        "{why}"
    );
    assert!(
        why.contains(
            "sent     10.0.0.2:8080 > 10.0.0.1:40000 S. 0:0(0) ack 1 win 65535 <mss 1460>"
        ),
        "{why}"
    );
}

#[test]
fn time_is_exact_or_within_its_range() {
    let answer = "> S. 0:0(0) ack 1 <mss 1460>\n";
    assert!(
        complaint(&format!("+0.001 {answer}"))
            .contains("sent at 0.1 s, expected from 0.101 s to 0.101 s")
    );
    assert!(complaint(&format!("+0.001~+0.5 {answer}")).contains("sent at 0.1 s"));
    assert_eq!(run(&format!("{LISTEN}+0~+0.5 {answer}")), Ok(()));
    assert_eq!(run(&format!("{LISTEN}0.1 {answer}")), Ok(()));
}

#[test]
fn a_packet_that_does_not_come_and_one_that_no_line_expects_are_told() {
    let answer = "+0 > S. 0:0(0) ack 1 <mss 1460>\n";
    assert!(complaint(&format!("{answer}+0.5 > . 1:1(0) ack 1\n")).contains("nothing was sent"));
    assert!(complaint("").contains("expected by no line"));
    assert!(
        complaint(&format!("{answer}+5 accept(3, ..., ...) = -1 EAGAIN\n"))
            .contains("sent at 1.1 s, expected by no line")
    );
}

#[test]
fn a_call_has_to_return_what_is_written() {
    let why = complaint("+0 > S. 0:0(0) ack 1 <mss 1460>\n+0 accept(3, ..., ...) = 4\n");
    assert!(why.contains("it gave -1 EAGAIN, not 4"), "{why}");
}

#[test]
fn what_is_not_of_the_language_is_told() {
    for (line, what) in [
        ("+0 < X 0:0(0) win 1\n", "flags are of SFRP."),
        ("+0 < . 1:3(1) win 1\n", "1 + 1 is not 3"),
        (
            "+0 < . 1:1(0) win 1 <mss 1000 now>\n",
            "now is not understood",
        ),
        ("+0 < . 1:1(0) win 1 <dss dsn4=1>\n", "ssn= is missing"),
        ("+0 poll(3) = 0\n", "poll is not known"),
        ("soon close(3) = 0\n", "expected a number"),
    ] {
        let why = complaint(line);
        assert!(why.contains(what), "{why}");
    }
}
