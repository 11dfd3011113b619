//! Tests what the kernel reports about connections between two hosts that are joined by two cables.
#![cfg(target_os = "linux")]

mod cables;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{fs, thread};

use realtime::applications::traffic::{FlowSocket, StreamEnd};
use realtime::telemetry::{Fallback, FlowTelemetry, Telemetry};
use realtime::{Clock, NetworkNamespace};
use rustix::net::{
    AddressFamily, Protocol, RawProtocol, SocketType, accept, bind, connect, listen, socket,
};
use serde_json::json;

use crate::cables::{Hosts, PATIENCE, experiment, ip};

const SERVER: &str = "10.1.1.2:5001";

fn telemetry(hosts: &Hosts) -> Telemetry {
    let experiment = experiment(|resolved| resolved["flows"][0]["transport"] = json!("mptcp"));
    Telemetry::new(&experiment, |id| Some(hosts.namespace(id))).unwrap()
}

fn counter(hosts: &Hosts, name: &str) -> u64 {
    let read = || Ok(fs::read_to_string("/proc/thread-self/net/netstat").unwrap());
    let text = hosts.client.run(read).unwrap();
    let lines: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("MPTcpExt:"))
        .collect();
    let place = lines[0].split(' ').position(|word| word == name).unwrap();
    lines[1].split(' ').nth(place).unwrap().parse().unwrap()
}

fn stream_socket(namespace: &NetworkNamespace, is_mptcp: bool) -> OwnedFd {
    let mptcp = Protocol::from_raw(RawProtocol::new(262).unwrap());
    let protocol = is_mptcp.then_some(mptcp);
    let make = || Ok(socket(AddressFamily::INET, SocketType::STREAM, protocol).unwrap());
    namespace.run(make).unwrap()
}

/// A connection on which the client sends the flow's data.
struct Connection {
    client: Arc<OwnedFd>,
    server: Arc<OwnedFd>,
    is_mptcp: bool,
    _listener: OwnedFd,
}

impl Connection {
    /// Opens a connection from client to server, each with or without MPTCP.
    fn new(hosts: &Hosts, client_is_mptcp: bool, server_is_mptcp: bool) -> Connection {
        let address: SocketAddr = SERVER.parse().unwrap();
        let listener = stream_socket(&hosts.server, server_is_mptcp);
        rustix::net::sockopt::set_socket_reuseaddr(&listener, true).unwrap();
        // Joins go to all addresses of the server and need a listener there.
        let everywhere: SocketAddr = "0.0.0.0:5001".parse().unwrap();
        let start = Instant::now();
        // An earlier connection may hold the port until it has ended completely.
        while let Err(error) = bind(&listener, &everywhere) {
            assert!(start.elapsed() < PATIENCE, "{error}");
            thread::sleep(Duration::from_millis(2));
        }
        listen(&listener, 1).unwrap();
        let client = stream_socket(&hosts.client, client_is_mptcp);
        connect(&client, &address).unwrap();
        Connection {
            client: Arc::new(client),
            server: Arc::new(accept(&listener).unwrap()),
            is_mptcp: client_is_mptcp,
            _listener: listener,
        }
    }

    fn sockets(&self) -> Vec<FlowSocket> {
        let ends = [
            (StreamEnd::Sender, &self.client),
            (StreamEnd::Receiver, &self.server),
        ];
        ends.map(|(end, socket)| FlowSocket {
            flow: 0,
            end,
            is_mptcp: self.is_mptcp,
            socket: Arc::clone(socket),
        })
        .to_vec()
    }

    /// Sends `bytes` bytes and waits until they were read.
    fn carry(&self, bytes: usize) {
        let mut sender = TcpStream::from(self.client.try_clone().unwrap());
        let mut receiver = TcpStream::from(self.server.try_clone().unwrap());
        let sending = thread::spawn(move || sender.write_all(&vec![7; bytes]).unwrap());
        let mut read = vec![0; bytes];
        receiver.read_exact(&mut read).unwrap();
        sending.join().unwrap();
    }

    fn shut_down(&self) {
        for socket in [&self.client, &self.server] {
            let stream = TcpStream::from(socket.try_clone().unwrap());
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Returns the nanoseconds since the first call.
fn now() -> u64 {
    static CLOCK: OnceLock<Clock> = OnceLock::new();
    CLOCK.get_or_init(Clock::start).now()
}

/// Samples until a condition holds.
fn sample_until(
    telemetry: &mut Telemetry,
    connections: &[&Connection],
    what: &str,
    is_there: impl Fn(&FlowTelemetry) -> bool,
) -> FlowTelemetry {
    let start = Instant::now();
    loop {
        let sockets: Vec<_> = connections.iter().flat_map(|one| one.sockets()).collect();
        let flow = telemetry.sample(now(), &sockets).swap_remove(0);
        if is_there(&flow) {
            return flow;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "waited in vain for {what}: {flow:#?}"
        );
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
#[ignore = "needs root"]
fn a_tcp_connection_is_a_flow_with_one_subflow() {
    let hosts = Hosts::new();
    let mut telemetry = telemetry(&hosts);
    let connection = Connection::new(&hosts, false, false);
    connection.carry(500_000);
    let flow = sample_until(&mut telemetry, &[&connection], "data", |_| true);
    assert_eq!(flow.bytes_sent, Some(500_000));
    assert_eq!(flow.bytes_received, Some(500_000));
    assert_eq!(flow.fallback(), None);
    assert_eq!((flow.subflows_opened, flow.subflows_alive), (1, 1));
    let subflow = &flow.subflows[0];
    assert_eq!(subflow.number, 0);
    assert_eq!(subflow.remote, SERVER.parse().unwrap());
    assert_eq!(subflow.bytes_sent, Some(500_000));
    assert_eq!(subflow.bytes_received, Some(500_000));
    assert_eq!(subflow.tcp_state.name(), "established");
    assert!(subflow.cwnd_bytes.unwrap() >= u64::from(subflow.mss_bytes.unwrap()));
    assert!(subflow.srtt_s.unwrap() > 0.0);
    assert!(subflow.rto_s.unwrap() >= 0.2);
}

#[test]
#[ignore = "needs root"]
fn subflows_are_numbered_in_order_of_creation_and_joined_with_the_receivers() {
    let hosts = Hosts::new();
    ip(&hosts.server, "mptcp endpoint add 10.1.2.2 dev eth2 signal");
    let mut telemetry = telemetry(&hosts);
    let connection = Connection::new(&hosts, true, true);
    connection.carry(1000);
    sample_until(&mut telemetry, &[&connection], "the join", |flow| {
        flow.subflows_alive == 2
    });
    connection.carry(8_000_000);
    let flow = sample_until(&mut telemetry, &[&connection], "acknowledgements", |flow| {
        flow.connections[0].unacknowledged_bytes == Some(0)
    });
    assert_eq!(flow.bytes_sent, Some(8_001_000));
    assert_eq!(flow.bytes_received, Some(8_001_000));
    assert_eq!(flow.subflows_opened, 2);
    assert!(flow.receive_window_bytes.unwrap() > 0);
    assert!(flow.connections[0].token.is_some());
    let numbers: Vec<_> = flow.subflows.iter().map(|subflow| subflow.number).collect();
    assert_eq!(numbers, [0, 1]);
    assert!(flow.subflows[0].kernel_id < flow.subflows[1].kernel_id);
    let over = |place: usize| flow.subflows[place].local.ip().to_string();
    assert_eq!([over(0), over(1)], ["10.1.1.1", "10.1.2.1"]);
    let sent: u64 = flow
        .subflows
        .iter()
        .map(|one| one.bytes_sent.unwrap())
        .sum();
    let received: u64 = flow
        .subflows
        .iter()
        .map(|one| one.bytes_received.unwrap())
        .sum();
    assert_eq!(sent, received);
    assert!(sent >= 8_001_000);
}

#[test]
#[ignore = "needs root"]
fn backup_is_seen_as_either_end_asks_for_it() {
    for (host, endpoint) in [
        ("client", "10.1.2.1 subflow backup"),
        ("server", "10.1.2.2 dev eth2 signal backup"),
    ] {
        let hosts = Hosts::new();
        let namespace = if host == "client" {
            &hosts.client
        } else {
            &hosts.server
        };
        ip(namespace, &format!("mptcp endpoint add {endpoint}"));
        let mut telemetry = telemetry(&hosts);
        let connection = Connection::new(&hosts, true, true);
        connection.carry(1000);
        let flow = sample_until(&mut telemetry, &[&connection], "a backup", |flow| {
            flow.subflows.len() == 2 && flow.subflows[1].is_backup == Some(true)
        });
        assert_eq!(flow.subflows[0].is_backup, Some(false), "{host}");
    }
}

#[test]
#[ignore = "needs root"]
fn counters_of_closed_subflows_are_kept() {
    let hosts = Hosts::new();
    ip(&hosts.server, "mptcp endpoint add 10.1.2.2 dev eth2 signal");
    let mut telemetry = telemetry(&hosts);
    let connection = Connection::new(&hosts, true, true);
    connection.carry(1000);
    sample_until(&mut telemetry, &[&connection], "the join", |flow| {
        flow.subflows_alive == 2
    });
    connection.carry(4_000_000);
    let before = sample_until(&mut telemetry, &[&connection], "data", |_| true);
    ip(&hosts.server, "mptcp endpoint delete id 1");
    let closed = sample_until(
        &mut telemetry,
        &[&connection],
        "the end of the second",
        |flow| flow.subflows_alive == 1,
    );
    connection.carry(1_000_000);
    let after = sample_until(&mut telemetry, &[&connection], "data", |flow| {
        flow.bytes_sent == Some(5_001_000)
    });
    assert_eq!(after.subflows_opened, 2);
    assert_eq!(closed.subflows.len(), 2);
    assert!(!closed.subflows[1].is_alive);
    let results = telemetry.results().swap_remove(0);
    assert_eq!(results[1].bytes, before.subflows[1].bytes_received.unwrap());
    assert!(results[1].closed_ns.unwrap() >= results[1].opened_ns);
    assert_eq!(results[0].closed_ns, None);
}

#[test]
#[ignore = "needs root"]
fn results_tell_interfaces_links_and_who_opened() {
    let hosts = Hosts::new();
    ip(&hosts.server, "mptcp endpoint add 10.1.2.2 dev eth2 signal");
    let mut telemetry = telemetry(&hosts);
    let connection = Connection::new(&hosts, true, true);
    connection.carry(1000);
    sample_until(&mut telemetry, &[&connection], "the join", |flow| {
        flow.subflows_alive == 2
    });
    connection.carry(5000);
    sample_until(&mut telemetry, &[&connection], "data", |_| true);
    connection.shut_down();
    sample_until(&mut telemetry, &[&connection], "the end", |flow| {
        flow.subflows_alive == 0
    });
    let results = serde_json::to_value(telemetry.results()).unwrap();
    for (number, result) in results[0].as_array().unwrap().iter().enumerate() {
        let cable = number + 1;
        assert_eq!(result["id"], number);
        assert_eq!(result["interface"], format!("client.eth{cable}"));
        assert_eq!(result["remote_interface"], format!("server.eth{cable}"));
        assert_eq!(result["link"], ["one", "two"][number]);
        assert_eq!(result["opened_by"], "client");
        assert!(result["closed_ns"].is_u64());
    }
    let bytes: u64 = [0, 1]
        .map(|place| results[0][place]["bytes"].as_u64().unwrap())
        .iter()
        .sum();
    assert!(bytes >= 6000);
}

#[test]
#[ignore = "needs root"]
fn fallback_is_told_with_its_reason() {
    for (ends, reason) in [
        ((true, false), Fallback::AtHandshake),
        ((false, true), Fallback::NotAsked),
    ] {
        let hosts = Hosts::new();
        let mut telemetry = telemetry(&hosts);
        let mut connection = Connection::new(&hosts, ends.0, ends.1);
        connection.is_mptcp = true;
        connection.carry(10_000);
        let flow = sample_until(&mut telemetry, &[&connection], "data", |_| true);
        let fallbacks: Vec<_> = flow.connections.iter().map(|one| one.fallback).collect();
        assert!(fallbacks.contains(&Some(reason)), "{fallbacks:?}");
        assert_eq!(flow.bytes_sent, Some(10_000));
        assert_eq!(flow.bytes_received, Some(10_000));
        assert_eq!(flow.subflows.len(), 1);
    }
}

#[test]
#[ignore = "needs root"]
fn a_flow_of_several_connections_counts_all_of_them() {
    let hosts = Hosts::new();
    let mut telemetry = telemetry(&hosts);
    let mut before = 0;
    for turn in 1..=3 {
        let connection = Connection::new(&hosts, true, true);
        connection.carry(20_000);
        let flow = sample_until(&mut telemetry, &[&connection], "data", |_| true);
        before += 20_000;
        assert_eq!(flow.bytes_received, Some(before));
        assert_eq!(flow.subflows_opened, turn);
        connection.shut_down();
    }
    let flow = sample_until(&mut telemetry, &[], "silence", |flow| {
        flow.subflows.is_empty()
    });
    assert_eq!(flow.bytes_received, Some(before));
    assert_eq!(telemetry.results()[0].len(), 3);
}

#[test]
#[ignore = "needs root"]
fn data_sent_again_on_another_subflow_is_counted() {
    let hosts = Hosts::new();
    ip(&hosts.server, "mptcp endpoint add 10.1.2.2 dev eth2 signal");
    let mut telemetry = telemetry(&hosts);
    let connection = Connection::new(&hosts, true, true);
    connection.carry(1000);
    sample_until(&mut telemetry, &[&connection], "the join", |flow| {
        flow.subflows_alive == 2
    });
    let again = counter(&hosts, "MPTCPRetrans");
    // No host notices it: data on the second subflow is lost, and the byte stream waits for it.
    ip(&hosts.server, "link set eth2 down");
    const BYTES: usize = 10_000_000;
    thread::scope(|scope| {
        let carrying = scope.spawn(|| connection.carry(BYTES));
        while !carrying.is_finished() {
            sample_until(&mut telemetry, &[&connection], "data", |_| true);
            thread::sleep(Duration::from_millis(10));
        }
    });
    let flow = sample_until(&mut telemetry, &[&connection], "a timeout", |flow| {
        let timeouts = flow.subflows[1].rto_count;
        flow.connections[0].unacknowledged_bytes == Some(0)
            && timeouts.is_none_or(|count| count > 0)
    });
    assert_eq!(flow.bytes_received, Some(BYTES as u64 + 1000));
    assert!(counter(&hosts, "MPTCPRetrans") > again);
    assert!(flow.reinjected_bytes > 0, "{flow:#?}");
}

#[test]
#[ignore = "needs root"]
fn sockets_that_are_no_connections_say_nothing() {
    let hosts = Hosts::new();
    let mut telemetry = telemetry(&hosts);
    for is_mptcp in [false, true] {
        let unconnected = Arc::new(stream_socket(&hosts.client, is_mptcp));
        let socket = FlowSocket {
            flow: 0,
            end: StreamEnd::Sender,
            is_mptcp,
            socket: unconnected,
        };
        let flow = telemetry.sample(1, &[socket]).swap_remove(0);
        assert!(flow.subflows.is_empty());
        assert_eq!(flow.subflows_opened, 0);
    }
    let mut telemetry = self::telemetry(&hosts);
    let file = Arc::new(OwnedFd::from(fs::File::open("/dev/null").unwrap()));
    let socket = FlowSocket {
        flow: 0,
        end: StreamEnd::Receiver,
        is_mptcp: true,
        socket: file,
    };
    assert!(telemetry.sample(2, &[socket])[0].connections.is_empty());
}
