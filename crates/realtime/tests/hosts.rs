//! Tests hosts in network namespaces: built as described, changed by events, removed without a
//! trace.
#![cfg(target_os = "linux")]

#[path = "../../experiment/tests/complete/mod.rs"]
mod complete;

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use experiment::resolved::{Action, Experiment, LinkDownBy};
use realtime::{Clock, Device, Emulator, Hosts, LiveError, Tables};
use serde_json::{Value, json};

fn described(name: &str) -> Value {
    let file = format!(
        "{}/tests/experiments/{name}.json",
        env!("CARGO_MANIFEST_DIR")
    );
    complete::experiment(&fs::read_to_string(file).unwrap())
}

fn read(description: &Value) -> Experiment {
    Experiment::from_json(&description.to_string()).unwrap()
}

/// What a test built.
struct Built {
    experiment: Experiment,
    hosts: Hosts,
    _devices: BTreeMap<usize, Device>,
    _alone: MutexGuard<'static, ()>,
}

/// Runs tests one after the other, because one of them counts the descriptors of the process.
static ALONE: Mutex<()> = Mutex::new(());

fn build(description: &Value) -> Built {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let experiment = read(description);
    let (hosts, devices) = Hosts::build(&experiment).unwrap();
    Built {
        experiment,
        hosts,
        _devices: devices,
        _alone: alone,
    }
}

impl Built {
    fn tables(&mut self, id: &str) -> Tables {
        self.hosts.tables().unwrap().remove(id).unwrap()
    }

    fn apply(&mut self, action: Action) {
        self.hosts.apply(&action).unwrap();
    }

    fn interface_down(&mut self, id: &str) {
        let interface = id.to_owned();
        self.apply(Action::InterfaceDown { interface });
    }

    fn interface_up(&mut self, id: &str) {
        let interface = id.to_owned();
        self.apply(Action::InterfaceUp { interface });
    }

    /// Sends a datagram from one address to another.
    fn send(&self, host: &str, from: &str, to: &str) -> Result<usize, std::io::Error> {
        let sent = self.hosts.namespace(host).expect("a host here").run(|| {
            Ok(UdpSocket::bind((from, 0)).and_then(|socket| socket.send_to(b"x", (to, 9))))
        });
        sent.unwrap()
    }
}

fn contains(rows: &[String], row: &str) -> bool {
    rows.iter().any(|found| found == row)
}

fn refusal(description: &Value) -> String {
    Hosts::check(&read(description)).unwrap_err().to_string()
}

#[test]
#[ignore = "needs root"]
fn packets_of_eight_links_leave_by_the_interface_of_their_address() {
    let mut built = build(&described("eight-links"));
    built.hosts.verify_routes(&built.experiment).unwrap();
    let client = built.tables("client");
    for row in [
        "1000: from 10.1.3.1 lookup 1004",
        "1000: from fd00:1:3::1 lookup 1004",
    ] {
        assert!(contains(&client.rules, row), "{row} in {client:#?}");
    }
    for row in [
        "10.1.3.2 dev eth3 table 1004 scope link initcwnd 10",
        "unreachable default table 1004",
        "10.1.3.2 dev eth3 table main scope link src 10.1.3.1 initcwnd 10",
        "fd00:1:3::2 dev eth3 table 1004 initcwnd 10",
    ] {
        assert!(contains(&client.routes, row), "{row} in {client:#?}");
    }
    let of_others = client
        .routes
        .iter()
        .filter(|row| row.contains("eth4") && row.contains("10.1.3"));
    assert_eq!(of_others.count(), 0);
}

#[test]
#[ignore = "needs root"]
fn what_no_path_asks_for_is_unreachable() {
    let built = build(&described("eight-links"));
    assert!(built.send("client", "10.1.1.1", "10.1.1.2").is_ok());
    assert!(built.send("client", "fd00:1:1::1", "fd00:1:1::2").is_ok());
    for (from, to) in [
        ("10.1.1.1", "10.1.2.2"),
        ("10.1.1.1", "10.1.1.77"),
        ("fd00:1:1::1", "fd00:1:2::2"),
    ] {
        let why = built.send("client", from, to).unwrap_err();
        assert_eq!(why.raw_os_error(), Some(libc::EHOSTUNREACH), "{from} {to}");
    }
}

#[test]
#[ignore = "needs root"]
fn an_interface_that_goes_down_and_up_has_its_addresses_and_routes_again() {
    let mut built = build(&described("eight-links"));
    let before = built.tables("client");
    built.interface_down("client.eth2");
    let down = built.tables("client");
    assert_eq!(down.rules, before.rules);
    assert!(!down.routes.iter().any(|row| row.contains("eth2")));
    assert!(built.send("client", "10.1.2.1", "10.1.2.2").is_err());
    built.interface_up("client.eth2");
    assert_eq!(built.tables("client"), before);
    built.hosts.verify_routes(&built.experiment).unwrap();
    assert!(built.send("client", "fd00:1:2::1", "fd00:1:2::2").is_ok());
}

#[test]
#[ignore = "needs root"]
fn an_address_that_is_removed_and_added_has_its_routes_again() {
    let mut built = build(&described("eight-links"));
    let before = built.tables("server");
    let interface = || "server.eth5".to_owned();
    built.apply(Action::AddressRemove {
        interface: interface(),
    });
    let why = built.send("server", "10.1.5.2", "10.1.5.1").unwrap_err();
    assert_eq!(why.raw_os_error(), Some(libc::EADDRNOTAVAIL));
    built.apply(Action::AddressAdd {
        interface: interface(),
    });
    assert_eq!(built.tables("server"), before);
    built.hosts.verify_routes(&built.experiment).unwrap();
}

#[test]
#[ignore = "needs root"]
fn an_address_added_while_the_interface_is_down_works_when_it_is_up() {
    let mut built = build(&described("eight-links"));
    let before = built.tables("client");
    let interface = || "client.eth1".to_owned();
    built.interface_down("client.eth1");
    built.apply(Action::AddressRemove {
        interface: interface(),
    });
    built.apply(Action::AddressAdd {
        interface: interface(),
    });
    built.interface_up("client.eth1");
    assert_eq!(built.tables("client"), before);
    built.interface_down("client.eth1");
    built.apply(Action::AddressRemove {
        interface: interface(),
    });
    built.interface_up("client.eth1");
    built.apply(Action::AddressAdd {
        interface: interface(),
    });
    assert_eq!(built.tables("client"), before);
}

#[test]
#[ignore = "needs root"]
fn an_interface_that_is_down_at_the_start_gets_its_routes_when_it_comes_up() {
    let mut description = described("eight-links");
    let whole = {
        let mut built = build(&description);
        built.tables("client")
    };
    description["interfaces"][0]["up"] = json!(false);
    let mut built = build(&description);
    built.hosts.verify_routes(&built.experiment).unwrap();
    assert!(built.send("client", "10.1.1.1", "10.1.1.2").is_err());
    built.interface_up("client.eth1");
    let mut routes = built.tables("client").routes;
    routes.sort();
    let mut expected = whole.routes;
    expected.sort();
    assert_eq!(routes, expected);
}

#[test]
#[ignore = "needs root"]
fn routers_send_packets_on_by_their_source() {
    let mut built = build(&described("router-and-switch"));
    built.hosts.verify_routes(&built.experiment).unwrap();
    let alice = built.tables("alice");
    let row = "10.1.2.2 via 10.1.1.3 dev eth0 table 1000 initcwnd 10 onlink";
    assert!(contains(&alice.routes, row), "{alice:#?}");
    let gateway = built.tables("gateway");
    for row in [
        "10.1.2.2 dev p2 table 1000 scope link",
        "10.1.1.1 dev p1 table 1007 scope link",
    ] {
        assert!(contains(&gateway.routes, row), "{row} in {gateway:#?}");
    }
    assert!(contains(&gateway.rules, "1000: from 10.1.1.1 lookup 1000"));
    let settings = built.hosts.settings().unwrap();
    assert_eq!(settings["gateway"]["net.ipv4.ip_forward"], "1");
    assert_eq!(settings["alice"]["net.ipv4.ip_forward"], "0");
    assert!(!settings.contains_key("office"));
}

#[test]
#[ignore = "needs root"]
fn a_port_goes_down_with_its_link_and_the_end_at_the_host_stays_up() {
    let mut built = build(&described("router-and-switch"));
    let before = built.hosts.tables().unwrap();
    let link = || "uplink".to_owned();
    let by = LinkDownBy::PortDown;
    built.apply(Action::LinkDown { link: link(), by });
    let down = built.hosts.tables().unwrap();
    assert!(!down["gateway"].routes.iter().any(|row| row.contains("p2")));
    assert_eq!(down["server"], before["server"]);
    // The state of the interface is independent of that of its port.
    built.interface_down("gateway.p2");
    built.interface_up("gateway.p2");
    assert_eq!(built.hosts.tables().unwrap(), down);
    built.apply(Action::LinkUp { link: link(), by });
    assert_eq!(built.hosts.tables().unwrap(), before);
}

#[test]
#[ignore = "needs root"]
fn settings_are_those_of_the_description() {
    let mut description = described("eight-links");
    let client = &mut description["hosts"][0];
    client["mptcp"] = json!(false);
    client["checksum"] = json!(true);
    client["syn_retries"] = json!(5);
    client["syn_linear_timeouts"] = json!(1);
    client["rcvbuf_bytes"] = json!(65536);
    client["sndbuf_bytes"] = json!(1_000_000);
    client["initial_window_segments"] = json!(4);
    client["behaviour"][0]["failed_after"] = json!("stale");
    client["behaviour"][0]["stale_intervals"] = json!(7);
    let mut built = build(&description);
    let settings = built.hosts.settings().unwrap();
    for (name, value) in [
        ("net.mptcp.enabled", "0"),
        ("net.mptcp.checksum_enabled", "1"),
        ("net.mptcp.syn_retrans_before_tcp_fallback", "5"),
        ("net.mptcp.stale_loss_cnt", "7"),
        ("net.ipv4.tcp_syn_linear_timeouts", "1"),
        ("net.ipv4.tcp_rmem", "4096 65536 65536"),
        ("net.ipv4.tcp_wmem", "4096 16384 1000000"),
        ("net.ipv4.tcp_no_metrics_save", "1"),
    ] {
        assert_eq!(settings["client"][name], value, "{name}");
    }
    assert_eq!(settings["server"]["net.mptcp.enabled"], "1");
    assert!(settings["server"].contains_key("net.mptcp.scheduler"));
    let routes = built.tables("client").routes;
    assert!(contains(
        &routes,
        "10.1.1.2 dev eth1 table 1000 scope link initcwnd 4"
    ));
}

#[test]
#[ignore = "needs root"]
fn a_setting_that_the_kernel_refuses_is_named() {
    let mut description = described("eight-links");
    description["hosts"][0]["syn_linear_timeouts"] = json!(4_000_000_000_u32);
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let why = Hosts::build(&read(&description)).unwrap_err();
    assert!(matches!(why, LiveError::System { .. }), "{why:?}");
    let text = why.to_string();
    let name = "client: setting net.ipv4.tcp_syn_linear_timeouts = 4000000000";
    assert!(text.starts_with(name), "{text}");
}

#[test]
#[ignore = "needs root"]
fn counters_count_what_the_host_does() {
    let built = build(&described("eight-links"));
    let before = built.hosts.counters().unwrap();
    built.send("client", "10.1.1.1", "10.1.1.2").unwrap();
    let after = built.hosts.counters().unwrap();
    let sent = |counters: &std::collections::BTreeMap<
        _,
        std::collections::BTreeMap<String, u64>,
    >| { counters["client"]["UdpOutDatagrams"] };
    assert_eq!(sent(&after) - sent(&before), 1);
    assert!(after["server"].contains_key("MPTcpExtMPJoinSynRx"));
    assert!(after["server"].contains_key("TcpRetransSegs"));
}

/// Verifies the network of `description` against `expected`, after `change` of the emulated links.
fn verify(description: &Value, expected: &Value, change: Option<Action>) -> Result<(), LiveError> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let experiment = read(description);
    let (mut hosts, devices) = Hosts::build(&experiment).unwrap();
    let clock = Clock::start();
    let mut emulator = Emulator::start(&experiment, 1, devices, folder.path(), clock).unwrap();
    if let Some(action) = change {
        emulator.apply(&action).unwrap();
    }
    let verdict = hosts.verify(&read(expected));
    emulator.finish().unwrap();
    verdict.map(drop)
}

#[test]
#[ignore = "needs root"]
fn every_path_that_is_as_described_is_verified() {
    for name in ["eight-links", "router-and-switch"] {
        let description = described(name);
        verify(&description, &description, None).unwrap();
    }
}

#[test]
#[ignore = "needs root"]
fn a_host_answers_for_an_address_of_another_of_its_interfaces() {
    let mut description = described("eight-links");
    let mut path = description["flows"][0]["paths"][0].clone();
    path["remote"] = json!("server.eth2");
    let paths = description["flows"][0]["paths"].as_array_mut().unwrap();
    paths.insert(0, path);
    verify(&description, &description, None).unwrap();
}

#[test]
#[ignore = "needs root"]
fn hosts_without_traffic_send_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let experiment = read(&described("router-and-switch"));
    let (mut hosts, devices) = Hosts::build(&experiment).unwrap();
    let emulator = Emulator::start(&experiment, 1, devices, folder.path(), Clock::start()).unwrap();
    hosts.verify(&experiment).unwrap();
    emulator.restart(Clock::start()).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let state = emulator.state().unwrap();
    let sent: Vec<u64> = state.interfaces.iter().map(|state| state.sent).collect();
    assert_eq!(sent, vec![0; experiment.interfaces.len()]);
}

#[test]
#[ignore = "needs root"]
fn a_path_that_is_cut_is_named_with_what_was_expected() {
    let description = described("eight-links");
    let link = "link3".to_owned();
    let by = LinkDownBy::Cut;
    let cut = Action::LinkDown { link, by };
    let why = verify(&description, &description, Some(cut)).unwrap_err();
    let text = why.to_string();
    let begin = "the network is not as described: flow bulk, path client.eth3 - server.eth3: an echo from 10.1.3.1 to 10.1.3.2 should take 19.";
    assert!(text.starts_with(begin), "{text}");
    let end = "found none: requests do not arrive at server, in 30 attempts";
    assert!(text.ends_with(end), "{text}");
}

#[test]
#[ignore = "needs root"]
fn a_path_that_is_faster_or_slower_than_described_is_refused() {
    let description = described("eight-links");
    for (rtt_ns, found) in [
        (500_000_000_u64, "in 1 attempts"),
        (1_000_000, "at best, in 30 attempts"),
    ] {
        let mut expected = description.clone();
        expected["flows"][0]["paths"][1]["rtt_ns"] = json!(rtt_ns);
        let why = verify(&description, &expected, None).unwrap_err();
        let text = why.to_string();
        assert!(text.contains("path client.eth2 - server.eth2"), "{text}");
        assert!(text.ends_with(found), "{text}");
    }
}

#[test]
#[ignore = "needs root"]
fn nothing_is_left() {
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    drop(build(&described("router-and-switch")));
    let before = {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        open()
    };
    for _ in 0..3 {
        let Built {
            hosts,
            _devices: devices,
            _alone,
            ..
        } = build(&described("eight-links"));
        drop(hosts);
        drop(devices);
        assert_eq!(open(), before);
    }
}

#[test]
#[ignore = "needs root"]
fn closed_connections_that_wait_for_their_peer_end_with_the_hosts() {
    const LISTENING: &str = "0A";
    let built = build(&described("eight-links"));
    let namespace = Arc::clone(built.hosts.namespace("client").expect("a host here"));
    let states = || {
        let table = namespace.run(|| Ok(fs::read_to_string("/proc/thread-self/net/tcp").unwrap()));
        let table = table.unwrap();
        let rows = table.lines().skip(1);
        let states = rows.map(|row| row.split_whitespace().nth(3).unwrap().to_owned());
        states.collect::<Vec<_>>()
    };
    let _open = namespace
        .run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let closed = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            drop(closed);
            Ok((listener, accepted))
        })
        .unwrap();
    assert_eq!(states().len(), 3);
    drop(built);
    assert_eq!(states(), [LISTENING]);
}

#[test]
fn a_loop_of_switches_is_refused() {
    let mut description = described("router-and-switch");
    description["nodes"]
        .as_array_mut()
        .unwrap()
        .push(json!({"id": "attic", "kind": "ap", "next_hop": null}));
    for (link, port) in [("up1", "p8"), ("up2", "p9")] {
        add_link(
            &mut description,
            link,
            &format!("office.{port}"),
            &format!("attic.{port}"),
        );
    }
    let why = refusal(&description);
    assert!(
        why.contains("office.p9 and attic.p9 closes a loop"),
        "{why}"
    );
}

/// Adds a link like the first one between two new ports.
fn add_link(description: &mut Value, id: &str, a: &str, b: &str) {
    let mut link = description["links"][0].clone();
    link["id"] = json!(id);
    link["a"] = json!(a);
    link["b"] = json!(b);
    description["links"].as_array_mut().unwrap().push(link);
    for end in [a, b] {
        let node = end.split_once('.').unwrap().0;
        let mut port = description["interfaces"][0].clone();
        for (field, value) in [("id", end), ("node", node), ("link", id)] {
            port[field] = json!(value);
        }
        (port["ipv4"], port["ipv6"]) = (json!(null), json!(null));
        description["interfaces"].as_array_mut().unwrap().push(port);
    }
}

#[test]
fn flows_that_the_routes_cannot_tell_apart_are_refused() {
    let mut description = described("eight-links");
    let mut other = description["flows"][0].clone();
    other["id"] = json!("other");
    // The same pair of addresses over another link. The server answers for all its addresses on all
    // its interfaces.
    other["paths"][0]["hops"][0]["link"] = json!("link1");
    other["paths"][0]["remote"] = json!("server.eth2");
    let mut third = other.clone();
    third["id"] = json!("third");
    third["from"] = json!("server");
    third["to"] = json!("client");
    third["paths"] = json!([{"local": "server.eth2", "remote": "client.eth1", "hops": [{"link": "link2", "direction": "backward"}], "routed": false, "rate_bps": null, "ceiling_bps": null, "rtt_ns": 0}]);
    description["flows"]
        .as_array_mut()
        .unwrap()
        .extend([other, third]);
    let why = refusal(&description);
    assert!(
        why.starts_with(
            "flow third: at server, packets from 10.1.2.2 to 10.1.1.1 would leave by eth2"
        ),
        "{why}"
    );
}

#[test]
fn interfaces_need_names_that_the_kernel_takes() {
    let renamed = |from: &str, to: &str| {
        let text = described("eight-links").to_string();
        let text = text.replace(&format!("\"{from}\""), &format!("\"{to}\""));
        refusal(&serde_json::from_str(&text).unwrap())
    };
    let why = renamed("client.eth1", "client.lo");
    assert!(
        why.starts_with("client.lo: the kernel keeps the name lo"),
        "{why}"
    );
    let long = "client.a-very-long-name";
    let text = described("eight-links").to_string();
    let text = text
        .replace("\"client.eth1\"", &format!("\"{long}-1\""))
        .replace("\"client.eth2\"", &format!("\"{long}-2\""));
    let why = refusal(&serde_json::from_str(&text).unwrap());
    assert!(
        why.contains("both would be the device a-very-long-nam"),
        "{why}"
    );
}
