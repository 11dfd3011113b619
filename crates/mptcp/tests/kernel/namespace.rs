//! The network namespace of the kernel's side.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::process::{self, Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A namespace for one test. Dropping it removes the namespace.
pub struct Namespace {
    name: String,
}

impl Namespace {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("mptcp-{}-{number}", process::id());
        run(&["ip", "netns", "add", &name]);
        Self { name }
    }

    /// Returns a command that runs a program in the namespace.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Runs `ip` in the namespace with these arguments.
    pub fn ip(&self, words: &str) {
        let mut all = vec!["ip", "-n", &self.name];
        all.extend(words.split_whitespace());
        run(&all);
    }

    /// Makes this namespace the router of another, which gets these addresses. Packets to them may
    /// have at most `mtu_bytes` bytes.
    pub fn route_to(&self, other: &Self, addresses: impl Iterator<Item = IpAddr>, mtu_bytes: u16) {
        self.ip(&format!(
            "link add beyond type veth peer name back netns {}",
            other.name
        ));
        for (namespace, device, host) in [(self, "beyond", 1), (other, "back", 2)] {
            namespace.ip("link set lo up");
            namespace.ip(&format!("address add 10.8.0.{host}/24 dev {device}"));
            namespace.ip(&format!("address add fd08::{host}/64 dev {device} nodad"));
            namespace.ip(&format!("link set {device} up"));
        }
        self.set("net.ipv4.ip_forward", 1);
        self.set("net.ipv6.conf.all.forwarding", 1);
        other.ip("route add default via 10.8.0.1");
        other.ip("-6 route add default via fd08::1");
        for address in addresses {
            let via = match address {
                IpAddr::V4(_) => "10.8.0.2",
                IpAddr::V6(_) => "fd08::2",
            };
            other.ip(&format!("address add {address} dev lo"));
            self.ip(&format!("route add {address} via {via} mtu {mtu_bytes}"));
        }
    }

    /// Sets a value under `/proc/sys`.
    pub fn set(&self, name: &str, value: impl ToString) {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let text = value.to_string();
        self.inside(|| fs::write(&path, text).unwrap_or_else(|error| panic!("{path}: {error}")));
    }

    /// Returns the kernel's MPTCP counters in the namespace, by the names of `nstat` without their
    /// prefix.
    pub fn counters(&self) -> BTreeMap<String, u64> {
        self.counters_of("MPTcpExt")
    }

    /// Returns the counters with that prefix.
    pub fn counters_of(&self, start: &str) -> BTreeMap<String, u64> {
        let start = format!("{start}: ");
        let text = self.inside(|| fs::read_to_string("/proc/thread-self/net/netstat").unwrap());
        let mut lines = text
            .lines()
            .filter_map(|line| line.strip_prefix(start.as_str()))
            .map(str::split_whitespace);
        let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
        names
            .zip(values)
            .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
            .collect()
    }

    /// Runs `action` in a thread that has entered the namespace.
    pub fn inside<T: Send>(&self, action: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.name)).unwrap();
        let enter = move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            action()
        };
        thread::scope(|scope| scope.spawn(enter).join().unwrap())
    }
}

/// A program that is killed when this is dropped.
pub struct Program(pub Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "delete", &self.name])
            .status();
    }
}

fn run(words: &[&str]) {
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {message}");
}
