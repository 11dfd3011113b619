//! Tests path managers on the real kernel: two hosts in namespaces, joined by links, with MPTCP
//! sockets.
#![cfg(target_os = "linux")]

#[path = "../../experiment/tests/complete/mod.rs"]
mod complete;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use experiment::resolved::{Action, Experiment};
use realtime::{Clock, End, NetworkNamespace, PathEvent, PathManagers, What};
use rustix::net::{AddressFamily, SocketType, ipproto};
use serde_json::{Value, json};

/// Two hosts and the links between them. Link N joins 10.1.N.1 at the client to 10.1.N.2 at the
/// server.
struct Lab {
    client: Arc<NetworkNamespace>,
    server: Arc<NetworkNamespace>,
}

fn run_in(namespace: &NetworkNamespace, command: &str) -> String {
    let mut words = command.split_whitespace();
    let mut program = Command::new(words.next().unwrap());
    program.args(words);
    let output = namespace
        .run(move || Ok(program.output().unwrap()))
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

impl Lab {
    fn new(links: u8) -> Self {
        let make = || Arc::new(NetworkNamespace::new().unwrap());
        let lab = Self {
            client: make(),
            server: make(),
        };
        let far = format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            lab.server.as_fd().as_raw_fd()
        );
        for link in 1..=links {
            lab.at(
                "client",
                &format!("ip link add eth{link} type veth peer name eth{link} netns {far}"),
            );
        }
        for host in ["client", "server"] {
            lab.at(host, "ip link set lo up");
            for link in 1..=links {
                lab.add_address(host, link);
                lab.at(
                    host,
                    &format!(
                        "ip rule add from {} lookup {}",
                        address(host, link),
                        100 + u32::from(link)
                    ),
                );
                lab.up(host, link);
            }
        }
        lab
    }

    fn namespace(&self, host: &str) -> &Arc<NetworkNamespace> {
        match host {
            "client" => &self.client,
            "server" => &self.server,
            _ => panic!("no host {host}"),
        }
    }

    fn at(&self, host: &str, command: &str) -> String {
        run_in(self.namespace(host), command)
    }

    /// Starts a program that runs in parallel to the test.
    fn beside(&self, host: &str, command: &str) -> Program {
        let mut words = command.split_whitespace();
        let mut program = Command::new(words.next().unwrap());
        program.args(words).stdout(Stdio::null());
        let started = self
            .namespace(host)
            .run(move || Ok(program.spawn().unwrap()));
        Program {
            command: command.to_owned(),
            child: started.unwrap(),
        }
    }

    fn down(&self, host: &str, link: u8) {
        self.at(host, &format!("ip link set eth{link} down"));
    }

    /// Sets an interface up and restores the routes that the kernel forgot when it went down.
    fn up(&self, host: &str, link: u8) {
        self.at(host, &format!("ip link set eth{link} up"));
        let table = 100 + u32::from(link);
        self.at(
            host,
            &format!("ip route replace 10.1.{link}.0/24 dev eth{link} table {table}"),
        );
        self.at(
            host,
            &format!("ip route replace unreachable default table {table}"),
        );
    }

    fn add_address(&self, host: &str, link: u8) {
        self.at(
            host,
            &format!("ip address add {}/24 dev eth{link}", address(host, link)),
        );
    }

    fn remove_address(&self, host: &str, link: u8) {
        self.at(
            host,
            &format!("ip address del {}/24 dev eth{link}", address(host, link)),
        );
    }

    fn start(&self, description: &Value) -> Managed {
        let experiment = Experiment::from_json(&description.to_string()).unwrap();
        let managers = PathManagers::start(
            &experiment,
            |host| Some(self.namespace(host)),
            Clock::start(),
        );
        Managed {
            managers: Some(managers.unwrap()),
            events: Vec::new(),
        }
    }

    /// Returns a counter of MPTCP.
    fn counter(&self, host: &str, name: &str) -> u64 {
        let text = self
            .namespace(host)
            .run(|| Ok(fs::read_to_string("/proc/thread-self/net/netstat").unwrap()))
            .unwrap();
        let mut lines = text.lines().filter(|line| line.starts_with("MPTcpExt:"));
        let names = lines.next().unwrap().split_whitespace();
        let mut found = names.zip(lines.next().unwrap().split_whitespace());
        let value = found.find(|(its_name, _)| *its_name == name);
        value
            .unwrap_or_else(|| panic!("no counter {name}"))
            .1
            .parse()
            .unwrap()
    }

    /// Returns the ends of the established TCP connections to this port, as the host sees them.
    fn subflows(&self, host: &str, port: u16) -> BTreeSet<(String, String)> {
        let end = if host == "client" { "dport" } else { "sport" };
        let text = self.at(host, &format!("ss -tnH state established {end} = :{port}"));
        let rows = text.lines().map(|line| {
            let ends: Vec<&str> = line.split_whitespace().skip(2).take(2).collect();
            (ends[0].to_owned(), ends[1].to_owned())
        });
        rows.collect()
    }

    /// Returns the links with an established connection to this port, and how many each has.
    fn links_used(&self, port: u16) -> BTreeMap<u8, usize> {
        let mut used = BTreeMap::new();
        for (local, _) in self.subflows("client", port) {
            let link = local.split('.').nth(2).unwrap().parse().unwrap();
            *used.entry(link).or_default() += 1;
        }
        used
    }
}

/// A program that is killed if the test ends first.
struct Program {
    command: String,
    child: Child,
}

impl Program {
    /// Waits until it ends by itself, with success.
    fn finish(mut self) {
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{}: {status}", self.command);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(host: &str, link: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 1, link, if host == "client" { 1 } else { 2 })
}

struct Managed {
    managers: Option<PathManagers>,
    events: Vec<PathEvent>,
}

impl Managed {
    fn events(&mut self) -> &[PathEvent] {
        let managers = self.managers.as_ref().unwrap();
        self.events.extend(managers.events());
        &self.events
    }

    fn count(&mut self, host: &str, what: What) -> usize {
        self.events()
            .iter()
            .filter(|event| event.host == host && event.what == what)
            .count()
    }

    fn finish(mut self) -> Vec<PathEvent> {
        let managers = self.managers.take().unwrap();
        self.events.extend(managers.finish().unwrap());
        std::mem::take(&mut self.events)
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        if thread::panicking() && self.managers.is_some() {
            print(self.events());
        }
    }
}

fn print(events: &[PathEvent]) {
    for event in events {
        println!(
            "{:9.3} ms {:6} {:?} {:x?} {:?} {} -> {} ids {:?} {:?} backup {:?} {}",
            event.time_ns as f64 / 1e6,
            event.host,
            event.flow,
            event.token,
            event.what,
            event.local.map_or(String::new(), text),
            event.remote.map_or(String::new(), text),
            event.local_id,
            event.remote_id,
            event.backup,
            event.why.clone().unwrap_or_default(),
        );
    }
}

fn text(end: End) -> String {
    match end {
        End::Address(address) => address.to_string(),
        End::Port(end) => end.to_string(),
    }
}

/// Waits until a condition holds that needs little time.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "still not: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn multipath_socket() -> rustix::fd::OwnedFd {
    let protocol = Some(ipproto::MPTCP);
    rustix::net::socket(AddressFamily::INET, SocketType::STREAM, protocol).unwrap()
}

/// How long a socket waits before its thread checks whether it is to stop. A connection that has
/// lost its paths waits for ever.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Traffic in one direction until it is dropped.
struct Connection {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Connection {
    /// Opens a connection from the client's address on `link` to `port` at the server's. The opener
    /// sends unless `backward`.
    fn open(lab: &Lab, link: u8, port: u16, backward: bool) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let to = SocketAddr::from((address("server", link), port));
        let from = SocketAddr::from((address("client", link), 0));
        let listener = lab
            .server
            .run(|| {
                let socket = multipath_socket();
                rustix::net::sockopt::set_socket_reuseaddr(&socket, true).unwrap();
                // The kernel accepts subflows to other addresses only if a socket listens there
                // too.
                let anywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
                rustix::net::bind(&socket, &anywhere).unwrap();
                rustix::net::listen(&socket, 8).unwrap();
                Ok(TcpListener::from(socket))
            })
            .unwrap();
        let opened = lab
            .client
            .run(|| {
                let socket = multipath_socket();
                rustix::net::bind(&socket, &from).unwrap();
                rustix::net::connect(&socket, &to).unwrap();
                Ok(TcpStream::from(socket))
            })
            .unwrap();
        let accepted = listener.accept().unwrap().0;
        let (sender, receiver) = if backward {
            (accepted, opened)
        } else {
            (opened, accepted)
        };
        let stopped = Arc::clone(&stop);
        sender.set_write_timeout(Some(LOOK_INTERVAL)).unwrap();
        let sending = thread::spawn(move || send(sender, &stopped));
        let stopped = Arc::clone(&stop);
        receiver.set_read_timeout(Some(LOOK_INTERVAL)).unwrap();
        let receiving = thread::spawn(move || receive(receiver, &stopped));
        // The listener stays open, because it accepts the subflows.
        let stopped = Arc::clone(&stop);
        let listening = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(10));
            }
            drop(listener);
        });
        Self {
            stop,
            threads: vec![sending, receiving, listening],
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn send(mut socket: TcpStream, stopped: &AtomicBool) {
    while !stopped.load(Ordering::Relaxed) {
        match socket.write(&[7; 10_000]) {
            Err(error) if !has_only_waited(&error) => return,
            _ => thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// Reads to the end, or until it is stopped.
fn receive(mut socket: TcpStream, stopped: &AtomicBool) {
    let mut buffer = [0; 100_000];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return,
            Err(error) if !has_only_waited(&error) || stopped.load(Ordering::Relaxed) => return,
            _ => {}
        }
    }
}

fn has_only_waited(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

fn template() -> Value {
    let file = format!(
        "{}/tests/experiments/eight-links.json",
        env!("CARGO_MANIFEST_DIR")
    );
    complete::experiment(&fs::read_to_string(file).unwrap())
}

/// Returns the description of a lab: path managers wait `delay_ms` after address events; one flow
/// for each of `managers`.
fn description(links: u8, delay_ms: u64, managers: &[Value]) -> Value {
    let mut described = template();
    let like = described.clone();
    described["events"] = json!([]);
    for host in described["hosts"].as_array_mut().unwrap() {
        host["behaviour"][0]["path_manager_delay_ns"] = json!(delay_ms * 1_000_000);
    }
    let numbers = || (1..=links).map(|link| (link, usize::from(link) - 1));
    let ends = numbers().flat_map(|(link, index)| {
        ["client", "server"].map(|host| {
            let last = if host == "client" { 1 } else { 2 };
            let mut end = like["interfaces"][0].clone();
            for (field, value) in [
                ("id", json!(format!("{host}.eth{link}"))),
                ("node", json!(host)),
                ("link", json!(format!("link{link}"))),
                ("subnet", json!(index)),
                ("ipv4", json!(format!("10.1.{link}.{last}/24"))),
                ("ipv6", json!(format!("fd00:1:{link}::{last}/64"))),
            ] {
                end[field] = value;
            }
            end
        })
    });
    described["interfaces"] = ends.collect();
    let subnets = numbers().map(|(link, index)| {
        json!({"id": index, "ipv4": format!("10.1.{link}.0/24"), "ipv6": format!("fd00:1:{link}::/64")})
    });
    described["subnets"] = subnets.collect();
    let made = numbers().map(|(link, _)| {
        let mut made = like["links"][0].clone();
        made["id"] = json!(format!("link{link}"));
        made["a"] = json!(format!("client.eth{link}"));
        made["b"] = json!(format!("server.eth{link}"));
        made
    });
    described["links"] = made.collect();
    let flows = managers.iter().enumerate().map(|(index, manager)| {
        let mut flow = like["flows"][0].clone();
        flow["id"] = json!(format!("flow{index}"));
        flow["path_manager"] = json!([manager]);
        flow["paths"] = (1..=links).map(path).collect();
        flow
    });
    described["flows"] = flows.collect();
    described
}

fn path(link: u8) -> Value {
    let mut path = template()["flows"][0]["paths"][0].clone();
    path["local"] = json!(format!("client.eth{link}"));
    path["remote"] = json!(format!("server.eth{link}"));
    path["hops"] = json!([{"link": format!("link{link}"), "direction": "forward"}]);
    path
}

fn named(name: &str) -> Value {
    json!({ "name": name })
}

fn every_link_once(links: u8) -> BTreeMap<u8, usize> {
    (1..=links).map(|link| (link, 1)).collect()
}

#[test]
#[ignore = "needs root"]
fn full_mesh_joins_eight_links() {
    let lab = Lab::new(8);
    let mut managed = lab.start(&description(8, 0, &[named("full_mesh")]));
    let connection = Connection::open(&lab, 1, 5001, false);
    eventually("eight subflows", || {
        lab.links_used(5001) == every_link_once(8)
    });
    eventually("seven told", || {
        managed.count("client", What::SubflowEstablished) == 7
    });
    drop(connection);
    managed.finish();
    assert_eq!(lab.counter("server", "MPJoinAckRx"), 7);
}

#[test]
#[ignore = "needs root"]
fn kernel_endpoints_join_eight_links() {
    let lab = Lab::new(8);
    let mut managed = lab.start(&description(8, 0, &[named("kernel_endpoints")]));
    let connection = Connection::open(&lab, 1, 5001, false);
    eventually("eight subflows", || {
        lab.links_used(5001) == every_link_once(8)
    });
    eventually("seven told", || {
        managed.count("client", What::SubflowEstablished) == 7
    });
    drop(connection);
    let events = managed.finish();
    let endpoints = |host: &str, flags: &str| {
        let added = events
            .iter()
            .filter(|event| event.what == What::EndpointAdded && event.host == host);
        added
            .filter(|event| event.why.as_deref() == Some(flags))
            .count()
    };
    assert_eq!(
        (
            endpoints("client", "subflow"),
            endpoints("server", "signal")
        ),
        (7, 7)
    );
}

#[test]
#[ignore = "needs root"]
fn n_diff_ports_has_as_many_as_it_is_told_on_the_initial_pair() {
    for subflows in [2, 12, 17] {
        let lab = Lab::new(2);
        let manager = json!({"name": "n_diff_ports", "subflows": subflows});
        let managed = lab.start(&description(2, 0, &[manager]));
        let connection = Connection::open(&lab, 1, 5001, false);
        let expected = BTreeMap::from([(1, subflows)]);
        eventually("all subflows", || lab.links_used(5001) == expected);
        drop(connection);
        managed.finish();
    }
}

#[test]
#[ignore = "needs root"]
fn full_mesh_joins_more_links_than_the_kernel_would() {
    for links in [12, 17] {
        let lab = Lab::new(links);
        let _managed = lab.start(&description(links, 0, &[named("full_mesh")]));
        let _connection = Connection::open(&lab, 1, 5001, false);
        eventually("all subflows", || {
            lab.links_used(5001) == every_link_once(links)
        });
    }
}

#[test]
#[ignore = "needs root"]
fn passive_opens_none() {
    let lab = Lab::new(3);
    let mut managed = lab.start(&description(3, 0, &[named("passive")]));
    let _connection = Connection::open(&lab, 1, 5001, false);
    eventually("established", || {
        managed.count("client", What::ConnectionEstablished) == 1
    });
    thread::sleep(Duration::from_millis(300));
    assert_eq!(lab.links_used(5001), every_link_once(1));
}

/// The loss of an interface or of its address.
#[derive(Clone, Copy)]
struct Loss {
    host: &'static str,
    link: u8,
    /// Whether the interface goes down; otherwise its address is removed.
    is_down: bool,
}

impl Loss {
    fn begin(self, lab: &Lab) {
        if self.is_down {
            lab.down(self.host, self.link);
        } else {
            lab.remove_address(self.host, self.link);
        }
    }

    fn end(self, lab: &Lab) {
        if !self.is_down {
            lab.add_address(self.host, self.link);
        }
        lab.up(self.host, self.link);
    }
}

/// Makes the server the sender; the client still opens.
fn turn(described: &mut Value) {
    let flow = &mut described["flows"][0];
    (flow["from"], flow["to"], flow["opened_by"]) = (json!("server"), json!("client"), json!("to"));
    for path in flow["paths"].as_array_mut().unwrap() {
        let (near, far) = (path["local"].take(), path["remote"].take());
        (path["local"], path["remote"]) = (far, near);
        path["hops"][0]["direction"] = json!("backward");
    }
}

/// Checks that a subflow is closed when its interface or address is lost at either end, and opened
/// again when that comes back, both after the delay.
fn loses_and_returns(loss: Loss, delay_ms: u64, backward: bool) {
    let lab = Lab::new(3);
    let mut described = description(3, delay_ms, &[named("full_mesh")]);
    if backward {
        turn(&mut described);
    }
    let mut managed = lab.start(&described);
    let connection = Connection::open(&lab, 1, 5001, backward);
    eventually("three subflows", || {
        lab.links_used(5001) == every_link_once(3)
    });
    loss.begin(&lab);
    // The peer is told, but the message may be lost.
    eventually("its subflow is gone", || {
        lab.subflows(loss.host, 5001).len() == 2
    });
    loss.end(&lab);
    eventually("its subflow is back", || {
        lab.links_used(5001) == every_link_once(3)
    });
    eventually("and at the server", || {
        lab.subflows("server", 5001).len() == 3
    });
    eventually("that is told", || {
        managed.count("server", What::SubflowEstablished) == 3
    });
    drop(connection);
    let events = managed.finish();
    let when = |host: &str, what| {
        let mut alike = events
            .iter()
            .filter(|event| event.host == host && event.what == what);
        alike.next().map(|event| event.time_ns).unwrap()
    };
    let delay_ns = delay_ms * 1_000_000;
    assert!(when(loss.host, What::SubflowClosing) >= when(loss.host, What::AddressDown) + delay_ns);
    let reaction = match loss.host {
        "client" => {
            events
                .iter()
                .rfind(|event| event.what == What::SubflowOpening)
                .unwrap()
                .time_ns
        }
        _ => when("server", What::AddressAnnounced),
    };
    assert!(reaction >= when(loss.host, What::AddressUp) + delay_ns);
}

#[test]
#[ignore = "needs root"]
fn an_interface_goes_down_and_comes_back_at_either_end() {
    let is_down = true;
    for host in ["client", "server"] {
        for link in [1, 2] {
            loses_and_returns(
                Loss {
                    host,
                    link,
                    is_down,
                },
                500,
                false,
            );
        }
    }
}

#[test]
#[ignore = "needs root"]
fn without_a_delay_interfaces_come_back_too() {
    let is_down = true;
    for host in ["client", "server"] {
        for link in [1, 2] {
            loses_and_returns(
                Loss {
                    host,
                    link,
                    is_down,
                },
                0,
                true,
            );
        }
    }
}

#[test]
#[ignore = "needs root"]
fn an_address_is_removed_and_added_again_at_either_end() {
    let is_down = false;
    for host in ["client", "server"] {
        for link in [1, 3] {
            loses_and_returns(
                Loss {
                    host,
                    link,
                    is_down,
                },
                100,
                false,
            );
        }
    }
}

fn set_backup(interface: &str, on: bool) -> Action {
    let interface = interface.to_owned();
    Action::SetBackup { interface, on }
}

/// Checks that the peer learns when the subflows of one interface get backup priority and when they
/// lose it.
fn priority_is_told(manager: &str, host: &str, link: u8) {
    let peer = if host == "client" { "server" } else { "client" };
    let lab = Lab::new(3);
    let mut managed = lab.start(&description(3, 0, &[named(manager)]));
    let connection = Connection::open(&lab, 1, 5001, false);
    eventually("three subflows", || {
        lab.links_used(5001) == every_link_once(3)
    });
    eventually("that is told", || {
        managed.count("client", What::SubflowEstablished) == 2
            && managed.count("server", What::SubflowEstablished) == 2
    });
    for (times, on) in [(1, true), (2, false)] {
        let action = set_backup(&format!("{host}.eth{link}"), on);
        managed.managers.as_mut().unwrap().apply(&action).unwrap();
        eventually("the peer hears of it", || {
            managed.count(peer, What::PriorityReceived) == times
        });
        let mut told = managed.events().iter().rev();
        let told = told
            .find(|event| event.what == What::PriorityReceived)
            .unwrap();
        assert_eq!(told.backup, Some(on));
        let Some(End::Port(end)) = told.remote else {
            panic!("{told:?}")
        };
        assert_eq!(end.ip(), address(host, link));
    }
    drop(connection);
    let events = managed.finish();
    assert!(!events.iter().any(|event| event.what == What::Refused));
}

#[test]
#[ignore = "needs root"]
fn priority_changes_at_run_time_with_policies() {
    for host in ["client", "server"] {
        for link in [1, 2] {
            priority_is_told("full_mesh", host, link);
        }
    }
}

#[test]
#[ignore = "needs root"]
fn priority_changes_at_run_time_with_kernel_endpoints() {
    for host in ["client", "server"] {
        for link in [1, 2] {
            priority_is_told("kernel_endpoints", host, link);
        }
    }
}

#[test]
#[ignore = "needs root"]
fn connections_at_once_have_each_its_policy() {
    let lab = Lab::new(3);
    let managers = [
        named("full_mesh"),
        named("passive"),
        json!({"name": "n_diff_ports", "subflows": 4}),
    ];
    let mut described = description(3, 0, &managers);
    let mut some = described["flows"][0].clone();
    some["id"] = json!("some");
    some["paths"] = json!([path(3), path(2)]);
    described["flows"].as_array_mut().unwrap().push(some);
    let mut managed = lab.start(&described);
    let connections = [(1, 5001), (1, 5002), (1, 5003), (3, 5004)];
    let _connections = connections.map(|(link, port)| Connection::open(&lab, link, port, false));
    let expected = [
        (5001, every_link_once(3)),
        (5002, every_link_once(1)),
        (5003, BTreeMap::from([(1, 4)])),
        (5004, BTreeMap::from([(2, 1), (3, 1)])),
    ];
    eventually("all subflows", || {
        let mut ports = expected.iter();
        ports.all(|(port, used)| lab.links_used(*port) == *used)
    });
    let flows: BTreeSet<_> = managed
        .events()
        .iter()
        .filter_map(|event| event.flow.clone())
        .collect();
    assert_eq!(flows.len(), 4);
}

#[test]
#[ignore = "needs root"]
fn a_connection_of_another_program_is_managed_like_the_flow_between_the_same_addresses() {
    let lab = Lab::new(3);
    let mut managed = lab.start(&description(3, 0, &[named("full_mesh")]));
    let serving = lab.beside("server", "mptcpize run iperf3 -s -1 -p 7000");
    eventually("it listens", || {
        lab.at("server", "ss -tlnH sport = :7000").contains("7000")
    });
    let measuring = lab.beside("client", "mptcpize run iperf3 -c 10.1.1.2 -p 7000 -t 1");
    let expected: BTreeMap<u8, usize> = (1..=3).map(|link| (link, 2)).collect();
    eventually("two connections with three subflows each", || {
        lab.links_used(7000) == expected
    });
    measuring.finish();
    serving.finish();
    eventually("they are closed", || {
        managed.count("server", What::ConnectionClosed) == 2
    });
    let events = managed.finish();
    assert!(events.iter().all(|event| event.flow.is_none()));
    assert!(!events.iter().any(|event| event.what == What::Refused));
}

#[test]
#[ignore = "needs root"]
fn a_subflow_of_a_socket_for_both_families_is_closed_and_opened_again() {
    let lab = Lab::new(2);
    let mut managed = lab.start(&description(2, 0, &[named("full_mesh")]));
    let serving = lab.beside("server", "mptcpize run iperf3 -s -1 -p 7000");
    eventually("it listens", || {
        lab.at("server", "ss -tlnH sport = :7000").contains("7000")
    });
    let command = "mptcpize run iperf3 -c 10.1.1.2 -p 7000 -t 3 -b 10M";
    let measuring = lab.beside("client", command);
    let expected: BTreeMap<u8, usize> = (1..=2).map(|link| (link, 2)).collect();
    eventually("all subflows", || lab.links_used(7000) == expected);
    lab.down("server", 2);
    eventually("they are gone", || {
        lab.links_used(7000) == BTreeMap::from([(1, 2)])
    });
    let action = set_backup("server.eth1", true);
    managed.managers.as_mut().unwrap().apply(&action).unwrap();
    eventually("the peer hears of it", || {
        managed.count("client", What::PriorityReceived) == 2
    });
    lab.up("server", 2);
    eventually("they are back", || lab.links_used(7000) == expected);
    measuring.finish();
    serving.finish();
    let events = managed.finish();
    assert!(!events.iter().any(|event| event.what == What::Refused));
}

#[test]
#[ignore = "needs root"]
fn a_connection_outlives_its_last_subflow_at_either_end() {
    for host in ["client", "server"] {
        for backward in [false, true] {
            let lab = Lab::new(2);
            let mut described = description(2, 0, &[named("full_mesh")]);
            if backward {
                turn(&mut described);
            }
            let managed = lab.start(&described);
            let connection = Connection::open(&lab, 1, 5001, backward);
            eventually("two subflows", || {
                lab.links_used(5001) == every_link_once(2)
            });
            lab.down(host, 1);
            lab.down(host, 2);
            // The acceptor opens no subflows, so it keeps the last one.
            let kept = usize::from(host == "server");
            eventually("no other is left", || {
                lab.subflows(host, 5001).len() == kept
            });
            lab.up(host, 1);
            lab.up(host, 2);
            eventually("both are back", || is_complete(&lab, 2));
            drop(connection);
            managed.finish();
        }
    }
}

#[test]
#[ignore = "needs root"]
fn an_interface_that_is_down_at_the_start_joins_later() {
    for host in ["client", "server"] {
        let lab = Lab::new(2);
        lab.down(host, 2);
        let managed = lab.start(&description(2, 0, &[named("full_mesh")]));
        let connection = Connection::open(&lab, 1, 5001, false);
        eventually("the initial subflow", || {
            lab.links_used(5001).contains_key(&1)
        });
        lab.up(host, 2);
        eventually("both", || is_complete(&lab, 2));
        drop(connection);
        managed.finish();
    }
}

#[test]
#[ignore = "needs root"]
fn subflows_of_a_backup_interface_are_opened_as_backup_ones() {
    let lab = Lab::new(3);
    let mut managed = lab.start(&description(3, 0, &[named("full_mesh")]));
    let mut apply = |action| managed.managers.as_mut().unwrap().apply(&action).unwrap();
    apply(set_backup("client.eth1", true));
    apply(set_backup("client.eth2", true));
    let _connection = Connection::open(&lab, 1, 5001, false);
    eventually("both are told", || {
        managed.count("server", What::SubflowEstablished) == 2
            && managed.count("server", What::PriorityReceived) == 1
    });
    for event in managed
        .events()
        .iter()
        .filter(|event| event.host == "server")
    {
        if matches!(
            event.what,
            What::SubflowEstablished | What::PriorityReceived
        ) {
            let Some(End::Port(end)) = event.remote else {
                panic!("{event:?}")
            };
            assert_eq!(event.backup, Some(end.ip() != address("client", 3)));
        }
    }
}

#[test]
#[ignore = "needs root"]
fn a_connection_over_ipv6_joins_over_ipv6() {
    let lab = Lab::new(2);
    for (host, last) in [("client", 1), ("server", 2)] {
        for link in 1..=2 {
            lab.at(
                host,
                &format!("ip address add fd00:1:{link}::{last}/64 dev eth{link} nodad"),
            );
        }
    }
    let mut managed = lab.start(&description(2, 0, &[named("full_mesh")]));
    let serving = lab.beside("server", "mptcpize run iperf3 -s -1 -p 7000");
    eventually("it listens", || {
        lab.at("server", "ss -tlnH sport = :7000").contains("7000")
    });
    let command = "mptcpize run iperf3 -c fd00:1:1::2 -p 7000 -t 1 -b 10M";
    let measuring = lab.beside("client", command);
    eventually("both connections have joined", || {
        managed.count("server", What::SubflowEstablished) == 2
    });
    measuring.finish();
    serving.finish();
    let events = managed.finish();
    assert!(!events.iter().any(|event| event.what == What::Refused));
    let joined = events
        .iter()
        .filter(|event| event.what == What::SubflowEstablished);
    let ends = joined.filter_map(|event| event.local.map(text));
    assert!(ends.into_iter().all(|end| end.starts_with("[fd00:1:2::")));
}

#[test]
#[ignore = "needs root"]
fn a_removal_that_is_lost_is_made_up_for() {
    for link in [1, 2] {
        let lab = Lab::new(2);
        let mut described = description(2, 0, &[named("full_mesh")]);
        turn(&mut described);
        let mut managed = lab.start(&described);
        let connection = Connection::open(&lab, 1, 5001, true);
        eventually("two subflows", || {
            managed.count("server", What::SubflowEstablished) == 1
        });
        let other = address("server", 3 - link);
        let rule = format!("from {other} blackhole priority 1");
        lab.at("server", &format!("ip rule add {rule}"));
        lab.down("server", link);
        eventually("the server has told", || {
            managed.count("server", What::SubflowClosed) == 1
        });
        lab.at("server", &format!("ip rule del {rule}"));
        assert_eq!(managed.count("client", What::RemovalReceived), 0);
        lab.up("server", link);
        eventually("both are back", || is_complete(&lab, 2));
        drop(connection);
        managed.finish();
    }
}

/// Returns whether every link has one subflow, and both ends have the same ones.
fn is_complete(lab: &Lab, links: u8) -> bool {
    lab.links_used(5001) == every_link_once(links)
        && lab.subflows("client", 5001) == turned(&lab.subflows("server", 5001))
}

fn turned(ends: &BTreeSet<(String, String)>) -> BTreeSet<(String, String)> {
    ends.iter()
        .map(|(local, remote)| (remote.clone(), local.clone()))
        .collect()
}

#[test]
#[ignore = "needs root"]
fn kernel_endpoints_join_all_links_of_flows_in_both_directions() {
    let lab = Lab::new(4);
    let both = [named("kernel_endpoints"), named("kernel_endpoints")];
    let mut described = description(4, 0, &both);
    let mut other = described["flows"][1].clone();
    (other["from"], other["to"]) = (json!("server"), json!("client"));
    for path in other["paths"].as_array_mut().unwrap() {
        let (near, far) = (path["local"].take(), path["remote"].take());
        (path["local"], path["remote"]) = (far, near);
        path["hops"][0]["direction"] = json!("backward");
    }
    described["flows"][1] = other;
    let _managed = lab.start(&described);
    let _connection = Connection::open(&lab, 1, 5001, false);
    eventually("four subflows", || {
        lab.links_used(5001) == every_link_once(4)
    });
}

/// Returns everything that is refused of a description, as one text.
fn refused(described: &Value) -> String {
    let experiment = Experiment::from_json(&described.to_string()).unwrap();
    let missing = PathManagers::check(&experiment);
    let texts = missing
        .iter()
        .map(|one| format!("{}: {}", one.feature, one.why));
    texts.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_kernel_and_a_program_cannot_manage_paths_of_one_host() {
    let described = description(2, 0, &[named("kernel_endpoints"), named("full_mesh")]);
    let why = refused(&described);
    assert!(why.contains("flows.flow0.path_manager: kernel_endpoints: flow flow1 at the same host client has full_mesh"), "{why}");
}

#[test]
fn endpoints_are_too_few_for_ten_links() {
    let why = refused(&description(10, 0, &[named("kernel_endpoints")]));
    assert!(
        why.contains("host client would need 9 endpoints, and this kernel has at most 8"),
        "{why}"
    );
    assert_eq!(
        refused(&description(9, 0, &[named("kernel_endpoints")])),
        ""
    );
}

#[test]
fn endpoints_cannot_keep_a_flow_to_some_interfaces() {
    let mut described = description(
        3,
        0,
        &[named("kernel_endpoints"), named("kernel_endpoints")],
    );
    assert_eq!(refused(&described), "");
    described["flows"][1]["paths"] = json!([path(1), path(2)]);
    let why = refused(&described);
    assert!(why.contains("flows.flow1.path_manager"), "{why}");
    assert!(
        why.contains("it would also use 10.1.3.1 to 10.1.3.2, which only flow flow0 has"),
        "{why}"
    );
}

#[test]
fn flows_over_single_paths_are_no_trouble_for_endpoints() {
    let mut described = description(
        3,
        0,
        &[named("kernel_endpoints"), named("kernel_endpoints")],
    );
    described["flows"][0]["paths"] = json!([path(1)]);
    described["flows"][1]["paths"] = json!([path(2)]);
    assert_eq!(refused(&described), "");
}

#[test]
fn an_unknown_path_manager_is_refused() {
    let why = refused(&description(2, 0, &[named("binder")]));
    assert!(why.contains("flows.flow0.path_manager: binder"), "{why}");
}
