//! Tests programs on two hosts that are joined by two cables.
#![cfg(target_os = "linux")]

mod cables;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs, thread};

use experiment::resolved::Experiment;
use realtime::applications::programs::{Caller, ProgramResult, Programs};
use realtime::telemetry::{Fallback, Telemetry};
use realtime::{Clock, LiveError};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cables::{Hosts, PATIENCE, experiment, ip, wait_until};

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn shell(script: &str) -> Vec<String> {
    ["sh", "-c", script].map(str::to_owned).to_vec()
}

/// Returns an experiment with one TCP flow from client to server, with these changes.
fn with_flow(changes: Value) -> Experiment {
    experiment(|resolved| {
        let flow = resolved["flows"][0].as_object_mut().unwrap();
        flow.extend(changes.as_object().unwrap().clone());
    })
}

fn iperf3(args: &[&str]) -> Value {
    json!({"kind": "iperf3", "args": args})
}

fn command(script: &str) -> Value {
    json!({"kind": "command", "argv": shell(script)})
}

fn prepared(hosts: &Hosts, experiment: &Experiment, directory: &Path) -> Programs {
    Programs::prepare(
        experiment,
        1,
        |id| Some(hosts.namespace(id)),
        directory,
        None,
    )
    .unwrap()
}

/// Runs an experiment until its flows are done.
fn run(experiment: &Experiment) -> (Programs, TempDir) {
    let hosts = Hosts::new();
    let directory = tempfile::tempdir().unwrap();
    let mut programs = prepared(&hosts, experiment, directory.path());
    programs.start(Clock::start());
    wait_until("the flows", || programs.flows_are_done() == Some(true));
    programs.stop().unwrap();
    (programs, directory)
}

/// Executes a program on the client and returns its result.
fn executed(argv: &[String], directory: &Path) -> ProgramResult {
    let hosts = Hosts::new();
    let mut programs = prepared(&hosts, &experiment(|_| {}), directory);
    programs.start(Clock::start());
    programs.execute("client", argv, "e1").unwrap();
    wait_until("its end", || programs.results()[0].ended_ns.is_some());
    programs.stop().unwrap();
    programs.results().swap_remove(0)
}

#[test]
#[ignore = "needs root"]
fn a_program_sees_the_devices_the_processes_and_the_names_of_its_host() {
    let directory = tempfile::tempdir().unwrap();
    let script = "echo $(ls /sys/class/net); echo $(cut -d: -f1 /proc/net/dev | tail -n +3); \
                  echo /proc/[0-9]*; getent hosts server | tr -s ' '; cat; echo end >&2";
    let result = executed(&shell(script), directory.path());
    let mut lines = result.stdout.lines();
    let devices = lines.next().unwrap();
    assert!(devices.contains("eth1 eth2 lo"), "{devices}");
    let of_proc: Vec<_> = lines.next().unwrap().split(' ').collect();
    assert_eq!(of_proc.len(), devices.split(' ').count());
    let processes = lines.next().unwrap();
    assert!(processes.starts_with("/proc/1 "), "{processes}");
    assert!(processes.split(' ').count() < 6, "{processes}");
    assert_eq!(lines.next(), Some("10.1.1.2 server"));
    assert_eq!(lines.next(), None);
    assert_eq!(result.stderr, "end\n");
    assert_eq!(result.exit_status, Some(0));
    assert!(!result.ended_by_run);
    assert_eq!(result.event.as_deref(), Some("e1"));
    assert_eq!(result.host, "client");
    let own = fs::read_to_string("/proc/self/mounts").unwrap();
    assert_eq!(own.matches(" /etc/hosts ").count(), 0);
}

#[test]
#[ignore = "needs root"]
fn a_program_of_somebody_else_has_their_rights_and_no_others() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = Hosts::new();
    let environment = vec![("HOME".to_owned(), "/nowhere".to_owned())];
    let caller = Caller::new(65_534, 65_533, &[65_533, 65_532], environment).unwrap();
    let one = experiment(|_| {});
    let namespace = |id: &str| Some(hosts.namespace(id));
    let mut programs =
        Programs::prepare(&one, 1, namespace, directory.path(), Some(caller)).unwrap();
    programs.start(Clock::start());
    let script = "id -u; id -G; echo $HOME; grep -E '^(Cap|NoNewPrivs)' /proc/self/status | tr -s '\\t' ' '; \
                  cat /etc/shadow || echo closed; ls /sys/class/net | grep eth1";
    programs.execute("client", &shell(script), "e1").unwrap();
    wait_until("its end", || programs.results()[0].ended_ns.is_some());
    programs.stop().unwrap();
    let nothing = "0".repeat(16);
    let expected = format!(
        "65534\n65533 65532\n/nowhere\nCapInh: {nothing}\nCapPrm: {nothing}\nCapEff: {nothing}\n\
         CapBnd: {nothing}\nCapAmb: {nothing}\nNoNewPrivs: 1\nclosed\neth1\n"
    );
    assert_eq!(programs.results()[0].stdout, expected);
}

#[test]
#[ignore = "needs root"]
fn iperf3_of_somebody_else_has_the_congestion_control_of_its_flow() {
    // Whether or not the kernel allows it to all.
    for control in ["reno", "cubic"] {
        let flow = json!({"app": iperf3(&["-t", "1"]), "cc": [control]});
        let one = with_flow(flow);
        let directory = tempfile::tempdir().unwrap();
        let hosts = Hosts::new();
        let caller = Caller::new(65_534, 65_534, &[], Vec::new()).unwrap();
        let namespace = |id: &str| Some(hosts.namespace(id));
        let mut programs =
            Programs::prepare(&one, 1, namespace, directory.path(), Some(caller)).unwrap();
        programs.start(Clock::start());
        wait_until("the flow", || programs.flows_are_done() == Some(true));
        programs.stop().unwrap();
        let flow = programs.flows().swap_remove(0).unwrap();
        assert_eq!(flow.error, None, "{control}");
        assert!(flow.bytes > 100_000);
    }
}

#[test]
fn nobody_becomes_root_by_being_the_caller() {
    assert!(Caller::new(0, 1000, &[], Vec::new()).is_err());
    assert!(Caller::new(u32::MAX, 1000, &[], Vec::new()).is_err());
}

#[test]
#[ignore = "needs root"]
fn a_long_output_goes_to_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let result = executed(&shell("seq 1 100000; exit 3"), directory.path());
    assert_eq!(result.exit_status, Some(3));
    assert!(result.stdout.starts_with("1\n2\n3\n"));
    assert!(result.stdout.len() <= 64 * 1024);
    let file = result.stdout_file.unwrap();
    assert_eq!(file, "programs/0.stdout");
    let whole = fs::read_to_string(directory.path().join(file)).unwrap();
    assert_eq!(whole.lines().count(), 100_000);
    assert!(whole.starts_with(&result.stdout));
    assert_eq!(result.stderr_file, None);
}

#[test]
#[ignore = "needs root"]
fn a_program_that_never_stops_writing_holds_nobody_up() {
    let hosts = Hosts::new();
    let directory = tempfile::tempdir().unwrap();
    let mut programs = prepared(&hosts, &experiment(|_| {}), directory.path());
    programs.execute("client", &words("yes"), "e1").unwrap();
    programs.execute("server", &words("true"), "e2").unwrap();
    wait_until("the other", || programs.results()[1].ended_ns.is_some());
    programs.stop().unwrap();
    assert!(programs.results()[0].ended_by_run);
}

#[test]
#[ignore = "needs root"]
fn iperf3_is_a_flow_in_either_direction() {
    for opened_by in ["from", "to"] {
        let flow = json!({"app": iperf3(&["-n", "3M"]), "opened_by": opened_by});
        let (programs, _directory) = run(&with_flow(flow));
        let flow = programs.flows().swap_remove(0).unwrap();
        assert_eq!(flow.error, None);
        assert!(flow.end_ns > Some(flow.start_ns));
        let results = programs.results();
        let hosts: Vec<_> = results.iter().map(|result| result.host.as_str()).collect();
        let expected = if opened_by == "from" {
            ["server", "client"]
        } else {
            ["client", "server"]
        };
        assert_eq!(hosts, expected);
        let measured = results[1].measured.as_ref().unwrap();
        // The receiver of iperf3 stops reading when the client has ended.
        assert!(measured.bytes_sent >= Some(3 * 1024 * 1024));
        assert!(measured.bytes_received <= measured.bytes_sent);
        assert!(flow.bytes > 0);
        assert_eq!(measured.bytes_received, Some(flow.bytes));
        assert!(!measured.intervals.is_empty());
        assert!(measured.retransmits.is_some());
        assert_eq!(results[0].exit_status, Some(0));
    }
}

#[test]
#[ignore = "needs root"]
fn iperf3_over_udp_counts_datagrams() {
    let flow = json!({"transport": "udp", "app": iperf3(&["-b", "20M", "-t", "1"])});
    let (programs, _directory) = run(&with_flow(flow));
    let flow = programs.flows().swap_remove(0).unwrap();
    assert_eq!(flow.error, None);
    assert!(flow.bytes > 1_000_000);
    let results = programs.results();
    let measured = results[1].measured.as_ref().unwrap();
    assert!(measured.packets > Some(100));
    assert_eq!(measured.lost_packets, Some(0));
}

#[test]
#[ignore = "needs root"]
fn iperf3_over_multipath_tcp_has_subflows_and_telemetry() {
    let hosts = Hosts::new();
    ip(&hosts.server, "mptcp endpoint add 10.1.2.2 dev eth2 signal");
    let directory = tempfile::tempdir().unwrap();
    let app = iperf3(&["-t", "60", "-P", "2", "-b", "100M"]);
    let experiment = with_flow(json!({"transport": "mptcp", "app": app, "cc": ["reno"]}));
    let mut programs = prepared(&hosts, &experiment, directory.path());
    let mut telemetry = Telemetry::new(&experiment, |id| Some(hosts.namespace(id))).unwrap();
    let clock = Clock::start();
    programs.start(clock);
    wait_until("subflows of both connections", || {
        let sockets = programs.sockets(clock.now());
        let flow = telemetry.sample(clock.now(), &sockets).swap_remove(0);
        // The control connection would be a further one.
        assert!(flow.subflows_alive <= 4);
        flow.subflows_alive == 4 && flow.bytes_received > Some(2_000_000)
    });
    assert_eq!(programs.flows_are_done(), Some(false));
    programs.stop().unwrap();
    let results = telemetry.results().swap_remove(0);
    assert_eq!(results.len(), 4);
    for result in &results {
        assert_eq!(result.opened_by, "client");
        assert!(result.remote.ends_with(":5001"));
    }
    // It was interrupted, and has reported its measurements so far.
    let flow = programs.flows().swap_remove(0).unwrap();
    assert_eq!((flow.error, flow.end_ns), (None, None));
    assert!(flow.bytes > 1_000_000);
    let programs = programs.results();
    assert!(programs.iter().all(|program| program.ended_by_run));
    assert!(
        programs[1]
            .stdout
            .contains(r#""sender_tcp_congestion":	"reno""#)
    );
}

#[test]
#[ignore = "needs root"]
fn a_command_is_a_flow_whose_failure_is_told() {
    let (programs, _directory) = run(&with_flow(
        json!({"app": command("echo sorry >&2; exit 7")}),
    ));
    let flow = programs.flows().swap_remove(0).unwrap();
    let error = flow.error.unwrap();
    assert!(
        error.contains("exit status: 7") && error.contains("sorry"),
        "{error}"
    );
    let (programs, _directory) = run(&with_flow(json!({"app": command("sleep 0.1")})));
    let flow = programs.flows().swap_remove(0).unwrap();
    assert_eq!(flow.error, None);
    assert!(flow.end_ns.unwrap() - flow.start_ns >= 100_000_000);
}

#[test]
#[ignore = "needs root"]
fn a_command_over_multipath_tcp_is_wrapped() {
    let app = command("python3 -c 'import socket; print(socket.socket().getsockopt(1, 38))'");
    for (transport, protocol) in [("tcp", "6\n"), ("mptcp", "262\n")] {
        let flow = json!({"transport": transport, "app": app});
        let (programs, _directory) = run(&with_flow(flow));
        assert_eq!(programs.results()[0].stdout, protocol);
    }
}

#[test]
#[ignore = "needs root"]
fn sockets_of_children_are_found_and_closing_is_not_held_up() {
    let hosts = Hosts::new();
    let directory = tempfile::tempdir().unwrap();
    // The child of the flow's program sends for a while, closes, and then waits.
    let script = "python3 -c '\nimport socket, time\ns = socket.create_connection((\"server\", 7000))\nfor _ in range(50):\n    s.send(bytes(1000)); time.sleep(0.01)\ns.close()\ntime.sleep(60)' & wait";
    let experiment = with_flow(json!({"app": command(script)}));
    let mut programs = prepared(&hosts, &experiment, directory.path());
    let listener = r#"python3 -c '
import socket
l = socket.create_server(("", 7000))
print("ready", flush=True)
s, _ = l.accept()
n = 0
while d := s.recv(65536): n += len(d)
print(n)'"#;
    programs.execute("server", &shell(listener), "e1").unwrap();
    wait_until("the listener", || {
        programs.results()[0].stdout.contains("ready")
    });
    let mut telemetry = Telemetry::new(&experiment, |id| Some(hosts.namespace(id))).unwrap();
    let clock = Clock::start();
    programs.start(clock);
    let mut most = 0;
    wait_until("the listener to see the end", || {
        let sockets = programs.sockets(clock.now());
        let flow = telemetry.sample(clock.now(), &sockets).swap_remove(0);
        most = most.max(flow.bytes_sent.unwrap());
        programs.results()[0].ended_ns.is_some()
    });
    assert_eq!(programs.results()[0].stdout, "ready\n50000\n");
    assert!(most > 10_000);
    programs.stop().unwrap();
}

#[test]
#[ignore = "needs root"]
fn a_program_that_cannot_be_wrapped_has_fallen_back() {
    let hosts = Hosts::new();
    let directory = tempfile::tempdir().unwrap();
    let own = "env -u LD_PRELOAD python3 -c '\nimport socket, time\nl = socket.create_server((\"\", 0))\ns = socket.create_connection(l.getsockname())\ntime.sleep(60)'";
    let flow = json!({"transport": "mptcp", "app": command(own)});
    let experiment = with_flow(flow);
    let mut programs = prepared(&hosts, &experiment, directory.path());
    let mut telemetry = Telemetry::new(&experiment, |id| Some(hosts.namespace(id))).unwrap();
    ip(&hosts.client, "link set lo up");
    let clock = Clock::start();
    programs.start(clock);
    wait_until("its connection", || {
        let sockets = programs.sockets(clock.now());
        let flow = telemetry.sample(clock.now(), &sockets).swap_remove(0);
        flow.fallback() == Some(Fallback::NotAsked)
    });
    programs.stop().unwrap();
}

#[test]
#[ignore = "needs root"]
fn the_end_of_a_run_is_the_end_of_all_that_its_programs_started() {
    let hosts = Hosts::new();
    let directory = tempfile::tempdir().unwrap();
    let mut programs = prepared(&hosts, &experiment(|_| {}), directory.path());
    let stubborn = "trap '' TERM INT HUP; setsid sleep 98761 & while :; do sleep 98761; done";
    programs.execute("client", &shell(stubborn), "e1").unwrap();
    programs
        .execute("server", &words("sleep 98761"), "e2")
        .unwrap();
    wait_until("all of them", || processes_with("98761").len() >= 3);
    programs.stop().unwrap();
    assert_eq!(processes_with("98761"), Vec::<u32>::new());
    let results = programs.results();
    assert!(results.iter().all(|result| result.ended_by_run));
    assert_eq!(results[0].signal, Some(9));
    assert_eq!(results[1].signal, Some(15));
}

/// Returns the processes with this argument.
fn processes_with(word: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            let words = line.split(|byte| *byte == 0);
            let has = words
                .map(String::from_utf8_lossy)
                .any(|one| one.contains(word));
            has.then_some(pid)
        })
        .collect()
}

/// The environment variable that the next test sets for its child process. Without it, `victim`
/// does nothing.
const VICTIM: &str = "MPTCPLAB_TEST_VICTIM";

#[test]
#[ignore = "needs root"]
fn victim() {
    if env::var_os(VICTIM).is_none() {
        return;
    }
    let hosts = Hosts::new();
    let mut programs = prepared(&hosts, &experiment(|_| {}), &env::temp_dir());
    let orphan = shell("setsid sleep 98762 & sleep 98762");
    programs.execute("client", &orphan, "e1").unwrap();
    wait_until("both", || processes_with("98762").len() >= 3);
    println!("\nstanding");
    thread::sleep(PATIENCE);
}

#[test]
#[ignore = "needs root"]
fn nothing_is_left_of_a_run_that_was_killed() {
    let mut victim = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "victim", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "standing"));
    assert!(processes_with("98762").len() >= 3);
    victim.kill().unwrap();
    victim.wait().unwrap();
    wait_until("the end of its programs", || {
        processes_with("98762").is_empty()
    });
}

#[test]
fn what_cannot_be_is_told_before_anything_starts() {
    let missing = |experiment: &Experiment| {
        let all = Programs::check(experiment).into_iter();
        all.map(|missing| format!("{}: {}", missing.feature, missing.why))
            .collect::<Vec<_>>()
    };
    assert_eq!(missing(&experiment(|_| {})), Vec::<String>::new());
    let app = json!({"kind": "command", "argv": ["no-such-program", "x"]});
    assert_eq!(
        missing(&with_flow(json!({"app": app}))),
        [
            "flows.flow.app: command: there is no program no-such-program here: install it, or give its path"
        ]
    );
    let reverse = missing(&with_flow(json!({"app": iperf3(&["-t", "5", "-R"])})));
    assert!(reverse[0].contains("opened_by: to"), "{reverse:?}");
    let port = missing(&with_flow(json!({"app": iperf3(&["-p5002"])})));
    assert!(port[0].contains("port of its own"), "{port:?}");
}

#[test]
#[ignore = "needs root"]
fn a_program_that_is_not_there_is_an_error_with_a_remedy() {
    let hosts = Hosts::new();
    let directory = tempfile::tempdir().unwrap();
    let mut programs = prepared(&hosts, &experiment(|_| {}), directory.path());
    let error = programs
        .execute("client", &words("no-such-program"), "e1")
        .unwrap_err();
    assert!(matches!(error, LiveError::Machine { .. }), "{error}");
    assert!(programs.execute("nobody", &words("true"), "e1").is_err());
    assert!(programs.results().is_empty());
}
