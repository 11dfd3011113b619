//! Tests packets of real sockets over emulated links.
#![cfg(target_os = "linux")]

#[path = "../../experiment/tests/complete/mod.rs"]
mod complete;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use complete::carriers::carry;
use emulation::link::DropReason;
use experiment::features::Feature;
use experiment::resolved::{Action, Experiment, LinkDownBy};
use pcap_file::pcapng::{Block, PcapNgReader};
use realtime::{Clock, DeviceKind, Emulator, Hosts};
use serde_json::{Value, json};

const MS: u64 = 1_000_000;

/// Runs tests one after the other, because one counts the descriptors of the process.
static ALONE: Mutex<()> = Mutex::new(());

const EIGHT_LINKS: &str = include_str!("experiments/eight-links.json");
const ROUTER_AND_SWITCH: &str = include_str!("experiments/router-and-switch.json");

fn described(text: &str, change: impl Fn(&mut Value)) -> Experiment {
    let mut description = complete::experiment(text);
    change(&mut description);
    Experiment::from_json(&description.to_string()).expect("a valid experiment")
}

/// Sets a value in both directions of a link.
fn set(description: &mut Value, link: usize, key: &str, value: Value) {
    for direction in ["forward", "backward"] {
        description["links"][link][direction][key] = value.clone();
    }
}

struct World {
    experiment: Experiment,
    // In the order in which they must end.
    hosts: Hosts,
    emulator: Emulator,
    directory: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl World {
    fn new(kind: DeviceKind, change: impl Fn(&mut Value)) -> Self {
        Self::of(EIGHT_LINKS, kind, change)
    }

    fn of(text: &str, kind: DeviceKind, change: impl Fn(&mut Value)) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let experiment = described(text, change);
        let directory = tempfile::tempdir().expect("a directory");
        let (hosts, devices) = Hosts::build_with(&experiment, kind).expect("hosts");
        let clock = Clock::start();
        let emulator =
            Emulator::start(&experiment, 1, devices, directory.path(), clock).expect("links");
        let world = Self {
            experiment,
            hosts,
            emulator,
            directory,
            _alone: alone,
        };
        world.emulator.restart(Clock::start()).expect("time 0");
        world
    }

    /// Returns a socket on the first interface of a host.
    fn socket(&self, host: &str, address: &str) -> UdpSocket {
        let namespace = self.hosts.namespace(host).expect("a host here");
        let socket = namespace.run(|| Ok(UdpSocket::bind(address).expect("an address")));
        let socket = socket.expect("a socket");
        let patience = Some(Duration::from_millis(300));
        socket.set_read_timeout(patience).expect("a timeout");
        socket
    }

    fn pair(&self) -> (UdpSocket, UdpSocket) {
        let client = self.socket("client", "10.1.1.1:4000");
        let server = self.socket("server", "10.1.1.2:5000");
        client.connect("10.1.1.2:5000").expect("a peer");
        server.connect("10.1.1.1:4000").expect("a peer");
        (client, server)
    }

    /// Sends `bytes` bytes by TCP over the first link, and checks that all arrive unchanged.
    fn stream(&self, bytes: usize) {
        let server = self.hosts.namespace("server").expect("a host here");
        let listener = server.run(|| Ok(TcpListener::bind("10.1.1.2:5001").expect("a port")));
        let listener = listener.expect("a listener");
        let client = self.hosts.namespace("client").expect("a host here");
        let sent: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        thread::scope(|scope| {
            scope.spawn(|| {
                let stream = client.run(|| Ok(TcpStream::connect("10.1.1.2:5001")));
                let mut stream = stream.expect("a thread").expect("a connection");
                stream.write_all(&sent).expect("it is sent");
                stream.shutdown(Shutdown::Write).expect("an end");
            });
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut received = Vec::new();
            stream.read_to_end(&mut received).expect("it arrives");
            assert!(received == sent);
        });
    }

    /// Returns the bytes and packets that the first link carried forward.
    fn carried(&self) -> (u64, u64) {
        let state = self.emulator.state().expect("it is well");
        let link = state.directions[0].link;
        (link.wire_bytes, link.wire_packets)
    }

    fn apply(&self, action: Value) {
        let action: Action = serde_json::from_value(action).expect("an action");
        self.emulator.apply(&action).expect("it is carried out");
    }
}

/// Returns the numbers that arrive at a socket, until nothing more arrives.
fn received(socket: &UdpSocket) -> Vec<u32> {
    let mut buffer = [0; 2000];
    let mut numbers = Vec::new();
    while let Ok(bytes) = socket.recv(&mut buffer) {
        numbers.push(u32::from_be_bytes(buffer[..4].try_into().expect("4 bytes")));
        assert!(bytes >= 4);
    }
    numbers
}

fn send(socket: &UdpSocket, numbers: std::ops::Range<u32>, bytes: usize) {
    for number in numbers {
        let mut datagram = vec![0; bytes];
        datagram[..4].copy_from_slice(&number.to_be_bytes());
        socket.send(&datagram).expect("it is sent");
    }
}

/// Runs each test over both kinds of devices.
macro_rules! over_both_kinds {
    ($($name:ident),* $(,)?) => {
        mod over_tun {
            $(#[test]
            #[ignore = "needs root"]
            fn $name() {
                super::$name(realtime::DeviceKind::Tun);
            })*
        }

        mod over_veth {
            $(#[test]
            #[ignore = "needs root"]
            fn $name() {
                super::$name(realtime::DeviceKind::Veth);
            })*
        }
    };
}

over_both_kinds!(
    a_packet_takes_the_delay_and_its_time_on_the_wire,
    a_full_queue_drops_exactly_what_the_model_says,
    exactly_the_listed_packets_are_lost,
    a_cut_loses_what_is_on_the_wire_and_a_rule_does_not,
    a_link_changes_while_it_is_in_use,
    an_event_sets_the_signal_of_a_station,
    an_event_sets_the_rate_of_a_cellular_link,
    what_reaches_an_interface_that_is_down_is_counted,
    a_restart_forgets_everything,
    both_ends_of_a_link_are_captured,
    links_on_a_medium_share_it,
    the_thread_and_its_descriptors_end_with_the_emulator,
    a_ports_action_is_not_the_emulators,
    a_stream_arrives_whole,
    frames_cross_a_switch_and_count_as_the_packets_in_them,
    an_emulator_that_ends_is_an_error_and_not_a_silence,
);

fn a_packet_takes_the_delay_and_its_time_on_the_wire(kind: DeviceKind) {
    let world = World::new(kind, |_| ());
    let (client, server) = world.pair();
    let sent = Instant::now();
    send(&client, 0..1, 972);
    assert_eq!(received(&server).len(), 1);
    // 1000 bytes of IP and 14 of the frame at 1 Mbit/s, and a delay of 10 ms varied by at most 1 %.
    assert!(sent.elapsed() >= Duration::from_micros(8112 + 9900));
    let state = world.emulator.state().expect("it is well");
    assert_eq!(state.directions[0].link.wire_bytes, 1014);
    assert_eq!(state.directions[0].link.delivered_packets, 1);
    assert_eq!(state.interfaces[0].sent, 1);
    assert_eq!(state.interfaces[1].received, 1);
}

fn a_full_queue_drops_exactly_what_the_model_says(kind: DeviceKind) {
    let world = World::new(kind, |description| {
        let queue = json!({"kind": "drop_tail", "limit_packets": 5, "limit_bytes": null});
        set(description, 0, "queue", queue);
        set(description, 0, "rate_bps", json!(100_000));
    });
    let (client, server) = world.pair();
    send(&client, 0..20, 100);
    // One in service and five in the queue.
    assert_eq!(received(&server), [0, 1, 2, 3, 4, 5]);
    let state = world.emulator.state().expect("it is well");
    assert_eq!(
        state.directions[0].link.dropped[DropReason::QueueFull as usize],
        14
    );
}

fn exactly_the_listed_packets_are_lost(kind: DeviceKind) {
    let world = World::new(kind, |description| {
        set(
            description,
            0,
            "loss",
            json!({"kind": "list", "packets": [1, 3]}),
        );
    });
    let (client, server) = world.pair();
    send(&client, 0..6, 50);
    assert_eq!(received(&server), [0, 2, 4, 5]);
}

fn a_cut_loses_what_is_on_the_wire_and_a_rule_does_not(kind: DeviceKind) {
    let world = World::new(kind, |description| {
        set(description, 0, "delay_ns", json!(100 * MS))
    });
    let (client, server) = world.pair();
    send(&client, 0..2, 50);
    thread::sleep(Duration::from_millis(30));
    world.apply(json!({"kind": "link_down", "link": "link1", "by": "cut"}));
    send(&client, 2..3, 50);
    assert_eq!(received(&server), [0; 0]);
    world.apply(json!({"kind": "link_up", "link": "link1", "by": "cut"}));
    send(&client, 3..4, 50);
    thread::sleep(Duration::from_millis(30));
    world.apply(json!({"kind": "link_down", "link": "link1", "by": "drop_rule"}));
    send(&client, 4..5, 50);
    assert_eq!(received(&server), [3]);
    world.apply(json!({"kind": "link_up", "link": "link1", "by": "drop_rule"}));
    send(&client, 5..6, 50);
    assert_eq!(received(&server), [5]);
}

fn a_link_changes_while_it_is_in_use(kind: DeviceKind) {
    let world = World::new(kind, |_| ());
    let (client, server) = world.pair();
    let mut forward = serde_json::to_value(&world.experiment.links[0].forward).expect("JSON");
    let backward = forward.clone();
    forward["delay_ns"] = json!(150 * MS);
    world.apply(
        json!({"kind": "set_link", "link": "link1", "forward": forward, "backward": backward}),
    );
    let sent = Instant::now();
    send(&client, 0..1, 50);
    assert_eq!(received(&server), [0]);
    assert!(sent.elapsed() >= Duration::from_micros(148_500));
}

fn an_event_sets_the_signal_of_a_station(kind: DeviceKind) {
    let world = World::new(kind, |description| {
        // 802.11n with stations that neither sleep nor scan.
        carry(description, Feature::Wifi, &[0], 9);
    });
    let (client, server) = world.pair();
    send(&client, 0..5, 50);
    assert_eq!(received(&server), [0, 1, 2, 3, 4]);
    let signal = |mean_mdb: i64| {
        world.apply(json!({"kind": "set_signal", "link": "link1", "mean_mdb": mean_mdb}))
    };
    signal(-30_000);
    send(&client, 5..10, 50);
    assert_eq!(received(&server), [0; 0]);
    signal(40_000);
    // The sender has to learn that rates work again.
    thread::sleep(Duration::from_millis(300));
    send(&client, 10..15, 50);
    assert_eq!(received(&server), [10, 11, 12, 13, 14]);
    let dropped = world.emulator.state().expect("it is well").directions[0]
        .link
        .dropped;
    assert_eq!(dropped[DropReason::Retries as usize], 5);
}

fn an_event_sets_the_rate_of_a_cellular_link(kind: DeviceKind) {
    let world = World::new(kind, |description| {
        carry(description, Feature::Cellular, &[0], 9);
        // Without handovers in the middle of the packets.
        description["access"][0]["handovers"] = Value::Null;
    });
    let (client, server) = world.pair();
    let mut slow = serde_json::to_value(&world.experiment.links[0].forward).expect("JSON");
    slow["rate_bps"] = json!(20_000);
    world.apply(json!({"kind": "set_link", "link": "link1", "forward": slow, "backward": slow}));
    let begin = Instant::now();
    send(&client, 0..3, 472);
    // 1500 bytes at 20 kbit/s take 600 ms, and the rate varies.
    let mut found = Vec::new();
    while found.len() < 3 && begin.elapsed() < Duration::from_secs(20) {
        found.extend(received(&server));
    }
    assert_eq!(found, [0, 1, 2]);
    assert!(begin.elapsed() >= Duration::from_millis(200));
}

fn what_reaches_an_interface_that_is_down_is_counted(kind: DeviceKind) {
    let mut world = World::new(kind, |_| ());
    let (client, server) = world.pair();
    let interface = "server.eth1".to_owned();
    let down = Action::InterfaceDown { interface };
    world.hosts.apply(&down).expect("it goes down");
    send(&client, 0..3, 50);
    assert_eq!(received(&server), [0; 0]);
    let state = world.emulator.state().expect("it is well");
    assert_eq!(state.interfaces[1].dropped_interface_down, 3);
}

fn a_restart_forgets_everything(kind: DeviceKind) {
    let world = World::new(kind, |description| {
        set(
            description,
            0,
            "loss",
            json!({"kind": "list", "packets": [0]}),
        );
    });
    let (client, server) = world.pair();
    for _ in 0..2 {
        send(&client, 0..2, 50);
        assert_eq!(received(&server), [1]);
        let state = world.emulator.state().expect("it is well");
        assert_eq!(state.directions[0].link.offered_packets, 2);
        world.emulator.restart(Clock::start()).expect("time 0");
    }
}

fn both_ends_of_a_link_are_captured(kind: DeviceKind) {
    let mut world = World::new(kind, |description| {
        description["measure"]["captures"] = json!(["client.eth1", "server.eth1"]);
    });
    let (client, server) = world.pair();
    send(&client, 0..3, 50);
    assert_eq!(received(&server), [0, 1, 2]);
    let directory = world.directory.path().to_owned();
    world.emulator.finish().expect("a summary");
    let times = ["client.eth1", "server.eth1"].map(|interface| {
        let file = fs::File::open(directory.join(format!("{interface}.pcapng"))).expect("a file");
        let mut reader = PcapNgReader::new(file).expect("pcapng");
        let mut times = Vec::new();
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.expect("a block") {
                assert_eq!(packet.data.len(), 78);
                assert_eq!(packet.data[0] >> 4, 4);
                times.push(packet.timestamp);
            }
        }
        times
    });
    assert_eq!(times[0].len(), 3);
    for (sent, received) in times[0].iter().zip(&times[1]) {
        assert!(*received - *sent >= Duration::from_micros(9900));
    }
}

fn links_on_a_medium_share_it(kind: DeviceKind) {
    let world = World::new(kind, |description| {
        description["media"] = json!([{"id": "air", "rate_bps": 100_000, "overhead_bytes": 0}]);
        for link in [0, 1] {
            description["links"][link]["medium"] = json!("air");
        }
    });
    let (client, server) = world.pair();
    let other = world.socket("client", "10.1.2.1:4000");
    other.connect("10.1.2.2:5000").expect("a peer");
    let begin = Instant::now();
    send(&client, 0..4, 472);
    send(&other, 0..4, 472);
    assert_eq!(received(&server), [0, 1, 2, 3]);
    // Eight packets of 500 bytes at 100 kbit/s alternate: the fourth of the first link is the
    // seventh or eighth.
    assert!(begin.elapsed() >= Duration::from_millis(7 * 40));
}

fn the_thread_and_its_descriptors_end_with_the_emulator(kind: DeviceKind) {
    let descriptors = || fs::read_dir("/proc/self/fd").expect("a list").count();
    // Threads of other tests start and end at any time.
    let threads = || {
        let all = fs::read_dir("/proc/self/task").expect("a list").flatten();
        let names = all.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
        names.filter(|name| name.trim() == "emulator").count()
    };
    let one = World::new(kind, |_| ());
    drop(one);
    let before = (descriptors(), threads());
    for _ in 0..5 {
        drop(World::new(kind, |_| ()));
    }
    assert_eq!((descriptors(), threads()), before);
}

fn a_ports_action_is_not_the_emulators(kind: DeviceKind) {
    let world = World::new(kind, |_| ());
    let link = "link1".to_owned();
    let by = LinkDownBy::PortDown;
    let (client, server) = world.pair();
    world
        .emulator
        .apply(&Action::LinkDown { link, by })
        .expect("nothing happens");
    send(&client, 0..1, 50);
    assert_eq!(received(&server), [0]);
}

fn a_stream_arrives_whole(kind: DeviceKind) {
    let world = World::new(kind, |description| {
        set(description, 0, "rate_bps", json!(100_000_000));
        let loss = json!({"kind": "bernoulli", "probability": 0.01});
        set(description, 0, "loss", loss);
    });
    world.stream(1_000_000);
}

fn frames_cross_a_switch_and_count_as_the_packets_in_them(kind: DeviceKind) {
    let world = World::of(ROUTER_AND_SWITCH, kind, |description| {
        // With IPv6, hosts on layer 2 report their multicast groups, and this test counts packets.
        for interface in description["interfaces"].as_array_mut().expect("a list") {
            interface["ipv6"] = Value::Null;
        }
    });
    let alice = world.socket("alice", "10.1.1.1:4000");
    let bob = world.socket("bob", "10.1.1.2:5000");
    alice.connect("10.1.1.2:5000").expect("a peer");
    // The port of a switch may need time until it is told that there is a carrier.
    thread::sleep(Duration::from_millis(500));
    send(&alice, 0..3, 972);
    assert_eq!(received(&bob), [0, 1, 2]);
    let state = world.emulator.state().expect("it is well");
    assert_eq!(world.experiment.links[0].a, "alice.eth0");
    let forward = state.directions[0].link;
    assert_eq!(forward.delivered_packets, 3);
    // 1000 bytes of IP and the overhead that the rate counts; the header of the frame is not
    // counted twice.
    assert_eq!(forward.wire_bytes, 3 * 1014);
}

fn an_emulator_that_ends_is_an_error_and_not_a_silence(kind: DeviceKind) {
    let mut world = World::new(kind, |_| ());
    world.hosts.remove_devices().expect("they go");
    let (deadline, mut why) = (Instant::now() + Duration::from_secs(5), None);
    while why.is_none() && Instant::now() < deadline {
        why = world.emulator.state().err().map(|why| why.to_string());
    }
    let why = why.expect("it cannot live without devices");
    assert!(why.starts_with("the link emulator ended: "), "{why}");
    assert!(world.emulator.restart(Clock::start()).is_err());
    assert!(world.emulator.finish().is_err());
}

/// Where /dev/net/tun exists, this test runs itself again in a process without it.
#[test]
#[ignore = "needs root"]
fn where_dev_net_tun_is_closed_links_are_veth_pairs() {
    let devices = || {
        let (hosts, _devices) = Hosts::build(&described(EIGHT_LINKS, |_| ())).expect("hosts");
        hosts.settings().expect("settings")["client"]["devices"].clone()
    };
    if !Path::new("/dev/net/tun").exists() {
        assert_eq!(devices(), "veth");
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(devices(), "tun");
    let hidden = Command::new("unshare")
        .args(["--mount", "sh", "-c"])
        .arg("mount -t tmpfs tmpfs /dev/net && exec \"$0\" --ignored --exact \"$1\"")
        .arg(std::env::current_exe().expect("a test program"))
        .arg("where_dev_net_tun_is_closed_links_are_veth_pairs")
        .output();
    let hidden = hidden.expect("unshare of util-linux");
    assert!(hidden.status.success(), "{hidden:?}");
    let said = String::from_utf8_lossy(&hidden.stdout);
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "needs root"]
fn super_packets_pass_where_nothing_is_shaped_and_only_there() {
    const BYTES: usize = 4_000_000;
    let world = World::new(DeviceKind::Tun, |description| {
        set(description, 0, "rate_bps", Value::Null);
        set(description, 0, "delay_ns", json!(0));
    });
    world.stream(BYTES);
    let (bytes, packets) = world.carried();
    assert!(bytes / packets > 3000, "{bytes} bytes in {packets} packets");
    let mut direction = serde_json::to_value(&world.experiment.links[0].forward).expect("JSON");
    direction["rate_bps"] = json!(100_000_000);
    world.apply(
        json!({"kind": "set_link", "link": "link1", "forward": direction, "backward": direction}),
    );
    world.stream(BYTES);
    let (all_bytes, all_packets) = world.carried();
    let (bytes, packets) = (all_bytes - bytes, all_packets - packets);
    assert!(
        bytes <= 1514 * packets,
        "{bytes} bytes in {packets} packets"
    );
}
