//! Networks for benchmarks, and measurements in them with real sockets.
// Each benchmark uses only a part.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use std::{fs, thread};

use experiment::resolved::Experiment;
use realtime::{Clock, Emulator, Hosts, LiveError, NetworkNamespace};
use rustix::net::sockopt::set_tcp_congestion;
use rustix::thread::gettid;
use serde_json::Value;

/// Two hosts and their links, as `description::parallel_links` describes them.
pub struct World {
    pub experiment: Experiment,
    // In the order in which they must end.
    hosts: Hosts,
    pub emulator: Emulator,
    pub directory: tempfile::TempDir,
}

impl World {
    pub fn new(description: &Value, seed: u64) -> Self {
        let experiment = Experiment::from_json(&description.to_string()).expect("it is valid");
        let directory = tempfile::tempdir().expect("a directory");
        let (hosts, devices) = Hosts::build(&experiment).expect("this needs root");
        let clock = Clock::start();
        let emulator = Emulator::start(&experiment, seed, devices, directory.path(), clock);
        let emulator = emulator.expect("links");
        emulator.restart(Clock::start()).expect("time 0");
        Self {
            experiment,
            hosts,
            emulator,
            directory,
        }
    }

    /// Returns the two ends of a link.
    pub fn ends(&self, link: usize) -> [End<'_>; 2] {
        ["client", "server"].map(|host| {
            let id = format!("{host}.eth{link}");
            let mut interfaces = self.experiment.interfaces.iter();
            let interface = interfaces.find(|interface| interface.id == id);
            let address = interface.and_then(|interface| interface.ipv4.as_deref());
            let address = address.and_then(|address| address.split('/').next()?.parse().ok());
            End {
                namespace: self.hosts.namespace(host).expect("a host here"),
                address: address.expect("an address"),
            }
        })
    }
}

/// A pair of virtual Ethernet devices without the emulator, which shows the kernel's own cost.
pub struct Pair {
    namespaces: [NetworkNamespace; 2],
}

const PAIR_ADDRESSES: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 9, 9, 1)),
    IpAddr::V4(Ipv4Addr::new(10, 9, 9, 2)),
];

impl Pair {
    /// Creates a pair. `None` if the system lacks what `queueing`, arguments of tc(8), asks for.
    pub fn new(queueing: Option<&str>) -> Option<Self> {
        let namespaces = [(); 2].map(|()| NetworkNamespace::new().expect("this needs root"));
        let [one, other] = &namespaces;
        let (thread_id, there) = channel();
        let (is_made, made) = channel::<()>();
        // ip(8) identifies a namespace by a thread in it.
        thread::scope(|scope| {
            scope.spawn(move || {
                other.enter().expect("it is ours");
                thread_id.send(gettid().as_raw_nonzero()).expect("it waits");
                let _ = made.recv();
            });
            let thread = there.recv().expect("it tells");
            let command = format!("ip link add near type veth peer name near netns {thread}");
            assert!(run_in(one, &command));
            drop(is_made);
        });
        for (namespace, address) in namespaces.iter().zip(PAIR_ADDRESSES) {
            assert!(run_in(
                namespace,
                &format!("ip address add {address}/24 dev near")
            ));
            assert!(run_in(namespace, "ip link set near up"));
            // The same values as on the hosts of an experiment.
            for (name, value) in [
                ("tcp_rmem", "4096 131072 33554432"),
                ("tcp_wmem", "4096 16384 33554432"),
            ] {
                let path = format!("/proc/sys/net/ipv4/{name}");
                let written = namespace.run(|| {
                    fs::write(path, value).map_err(|error| LiveError::Failed(error.to_string()))
                });
                written.expect("a setting");
            }
            if let Some(queueing) = queueing
                && !run_in(
                    namespace,
                    &format!("tc qdisc replace dev near root {queueing}"),
                )
            {
                return None;
            }
        }
        Some(Self { namespaces })
    }

    pub fn ends(&self) -> [End<'_>; 2] {
        let [one, other] = &self.namespaces;
        let [here, there] = PAIR_ADDRESSES;
        let end = |namespace, address| End { namespace, address };
        [end(one, here), end(other, there)]
    }
}

fn run_in(namespace: &NetworkNamespace, command: &str) -> bool {
    let mut words = command.split(' ');
    let mut command = Command::new(words.next().expect("a program"));
    let command = command.args(words).stderr(Stdio::null());
    let status = namespace.run(|| {
        command
            .status()
            .map_err(|error| LiveError::Failed(error.to_string()))
    });
    status.is_ok_and(|status| status.success())
}

/// An end of traffic.
#[derive(Clone, Copy)]
pub struct End<'a> {
    namespace: &'a NetworkNamespace,
    address: IpAddr,
}

impl End<'_> {
    pub fn datagrams(&self) -> UdpSocket {
        let bound = || Ok(UdpSocket::bind((self.address, 0)).expect("a socket"));
        self.namespace.run(bound).expect("a namespace")
    }
}

fn connection(from: &End<'_>, to: &End<'_>) -> (TcpStream, TcpStream) {
    let listener = || Ok(TcpListener::bind((to.address, 0)).expect("a socket"));
    let listener = to.namespace.run(listener).expect("a namespace");
    let address = listener.local_addr().expect("an address");
    let connect = || Ok(TcpStream::connect(address).expect("a connection"));
    let sender = from.namespace.run(connect).expect("a namespace");
    set_tcp_congestion(&sender, "cubic").expect("every kernel has it");
    let (receiver, _) = listener.accept().expect("a connection");
    (sender, receiver)
}

/// Returns the goodput of one TCP connection on each pair of ends at the same time, in bit/s,
/// summed and measured after a warm-up. Calls `watch` at the start and end of the measurement.
pub fn goodput_bps(
    pairs: &[[End<'_>; 2]],
    warm_up: Duration,
    measured: Duration,
    mut watch: impl FnMut(),
) -> f64 {
    let is_over = AtomicBool::new(false);
    let connections: Vec<_> = pairs
        .iter()
        .map(|[from, to]| connection(from, to))
        .collect();
    // The connections share start and end, so that they compete during the whole measurement.
    let begun = Instant::now();
    let marks = Barrier::new(pairs.len() + 1);
    thread::scope(|scope| {
        let receivers: Vec<_> = connections
            .into_iter()
            .map(|(mut sender, mut receiver)| {
                let (is_over, marks) = (&is_over, &marks);
                scope.spawn(move || {
                    let block = vec![0; 1 << 18];
                    while !is_over.load(Ordering::Relaxed) && sender.write_all(&block).is_ok() {}
                });
                scope.spawn(move || {
                    read_for(&mut receiver, begun + warm_up);
                    marks.wait();
                    let begun = Instant::now();
                    let bytes = read_for(&mut receiver, begun + measured);
                    let rate = bytes as f64 * 8.0 / begun.elapsed().as_secs_f64();
                    marks.wait();
                    is_over.store(true, Ordering::Relaxed);
                    // Data in flight is lost with the connection, so no thread waits for it.
                    let _ = receiver.shutdown(std::net::Shutdown::Both);
                    rate
                })
            })
            .collect();
        marks.wait();
        watch();
        marks.wait();
        watch();
        receivers
            .into_iter()
            .map(|receiver| receiver.join().expect("it reads"))
            .sum()
    })
}

fn read_for(stream: &mut TcpStream, until: Instant) -> usize {
    let mut buffer = vec![0; 1 << 18];
    let mut total = 0;
    while Instant::now() < until {
        match stream.read(&mut buffer).expect("it is connected") {
            0 => break,
            bytes => total += bytes,
        }
    }
    total
}

/// Gives the thread real-time priority, so that the link is measured and not the load of the
/// machine. Without the privilege both are.
pub fn run_before_ordinary_threads() {
    let thread = gettid().as_raw_nonzero().to_string();
    let mut command = Command::new("chrt");
    let _ = command.args(["--fifo", "--pid", "1", &thread]).status();
}

/// Returns sorted round-trip times of datagrams of 64 bytes, sent one at a time.
pub fn round_trips([from, to]: [End<'_>; 2], count: usize) -> Vec<Duration> {
    let (here, there) = datagram_pair([from, to]);
    // On a busy machine the other end may need time to start.
    let patience = Some(Duration::from_secs(10));
    here.set_read_timeout(patience).expect("a time");
    thread::scope(|scope| {
        scope.spawn(|| {
            run_before_ordinary_threads();
            let mut buffer = [0; 64];
            loop {
                let (bytes, from) = there.recv_from(&mut buffer).expect("a datagram");
                if bytes < 64 {
                    break;
                }
                there.send_to(&buffer[..bytes], from).expect("it is sent");
            }
        });
        let pinger = scope.spawn(|| {
            run_before_ordinary_threads();
            let mut times: Vec<Duration> = (0..count).map(|_| round_trip(&here)).collect();
            // Ends the other thread.
            here.send(&[]).expect("it is sent");
            times.sort();
            times
        });
        pinger.join().expect("it measures")
    })
}

fn round_trip(socket: &UdpSocket) -> Duration {
    let mut buffer = [0; 64];
    let sent = Instant::now();
    socket.send(&buffer).expect("it is sent");
    socket.recv(&mut buffer).expect("an answer");
    let time = sent.elapsed();
    thread::sleep(Duration::from_millis(1));
    time
}

pub fn quantile<T: Copy>(sorted: &[T], q: f64) -> T {
    sorted[((sorted.len() - 1) as f64 * q).round() as usize]
}

/// Returns the processor time that the emulator's thread has used.
pub fn emulator_time() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").expect("a list");
    let mut tasks = tasks.filter_map(|task| Some(task.ok()?.path()));
    let of_emulator = tasks.find(|task| {
        fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "emulator")
    });
    let statistics = of_emulator.and_then(|task| fs::read_to_string(task.join("schedstat")).ok());
    let used = statistics.and_then(|text| text.split(' ').next()?.parse().ok());
    Duration::from_nanos(used.expect("the kernel keeps account of threads"))
}

/// Measures the share of a processor that the emulator used between two calls of `mark`.
#[derive(Default)]
pub struct Share {
    begun: Option<(Instant, Duration)>,
    pub value: f64,
}

impl Share {
    pub fn mark(&mut self) {
        match self.begun {
            None => self.begun = Some((Instant::now(), emulator_time())),
            Some((begun, used)) => {
                let used = emulator_time() - used;
                self.value = used.as_secs_f64() / begun.elapsed().as_secs_f64();
            }
        }
    }
}

/// Returns two sockets, the first of which is connected to the second.
pub fn datagram_pair([from, to]: [End<'_>; 2]) -> (UdpSocket, UdpSocket) {
    let (here, there) = (from.datagrams(), to.datagrams());
    let address: SocketAddr = there.local_addr().expect("an address");
    here.connect(address).expect("it is an address");
    (here, there)
}
