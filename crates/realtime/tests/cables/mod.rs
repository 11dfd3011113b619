//! Two hosts that are joined by two cables.
// Each test uses only a part.
#![allow(dead_code)]

#[path = "../../../experiment/tests/complete/mod.rs"]
mod complete;

use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use experiment::resolved::Experiment;
use realtime::NetworkNamespace;
use serde_json::Value;

/// Longer than any of these tests takes, so that a flow that hangs is noticed.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A network namespace for each host. The client has 10.1.1.1 and 10.1.2.1; the server has the same
/// ending in 2.
pub struct Hosts {
    pub client: Arc<NetworkNamespace>,
    pub server: Arc<NetworkNamespace>,
}

impl Hosts {
    /// Returns hosts that allow connections of eight subflows.
    pub fn new() -> Self {
        let hosts = Self::joined();
        for namespace in [&hosts.client, &hosts.server] {
            ip(namespace, "mptcp limits set subflow 8 add_addr_accepted 8");
        }
        hosts
    }

    /// Returns hosts with nothing but the cables and their addresses.
    pub fn joined() -> Self {
        let namespace = || Arc::new(NetworkNamespace::new().unwrap());
        let hosts = Self {
            client: namespace(),
            server: namespace(),
        };
        let process = std::process::id();
        let server = hosts.server.as_fd().as_raw_fd();
        for cable in 1..=2 {
            ip(
                &hosts.client,
                &format!(
                    "link add eth{cable} type veth peer name eth{cable} netns /proc/{process}/fd/{server}"
                ),
            );
        }
        for (namespace, end) in [(&hosts.client, 1), (&hosts.server, 2)] {
            for cable in 1..=2 {
                ip(
                    namespace,
                    &format!("address add 10.1.{cable}.{end}/24 dev eth{cable}"),
                );
                ip(namespace, &format!("link set eth{cable} up"));
            }
        }
        hosts
    }

    pub fn namespace(&self, id: &str) -> &Arc<NetworkNamespace> {
        match id {
            "client" => &self.client,
            _ => &self.server,
        }
    }
}

/// Runs `ip` in a host.
pub fn ip(namespace: &NetworkNamespace, arguments: &str) {
    let action = || {
        let output = Command::new("ip")
            .args(arguments.split(' '))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "ip {arguments}: {said}");
        Ok(())
    };
    namespace.run(action).unwrap();
}

/// Waits until a condition holds.
pub fn wait_until(what: &str, mut is_there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the experiment of these two hosts, changed by `change`.
pub fn experiment(change: impl FnOnce(&mut Value)) -> Experiment {
    let mut resolved = complete::experiment(include_str!("../traffic/two_paths.json"));
    change(&mut resolved);
    Experiment::from_json(&resolved.to_string()).unwrap()
}
