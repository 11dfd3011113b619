//! Two hosts that are joined by two cables, and experiments between them.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::ops::Deref;
use std::sync::mpsc;
use std::time::Duration;

use experiment::resolved::Experiment;
use experiment::samples::Unit;
use realtime::applications::traffic::{Traffic, port_of_flow};
use realtime::{Clock, LiveError, NetworkNamespace};
use serde_json::{Value, json};

use crate::cables::{self, ip, wait_until};

/// The two hosts, also with IPv6, between which traffic runs.
pub struct Hosts(cables::Hosts);

impl Hosts {
    /// Returns hosts whose cables carry packets.
    pub fn new() -> Self {
        let hosts = Self(cables::Hosts::joined());
        for (namespace, end) in [(&hosts.client, 1), (&hosts.server, 2)] {
            ip(namespace, "link set lo up");
            for cable in 1..=2 {
                ip(
                    namespace,
                    &format!("address add fd00:1:{cable}::{end}/64 dev eth{cable} nodad"),
                );
            }
        }
        for cable in 1..=2 {
            hosts.wait_for_cable(cable);
        }
        hosts
    }

    /// Waits until packets pass. A device takes packets only some time after it was told that its
    /// cable is there.
    fn wait_for_cable(&self, cable: u8) {
        let bind = |namespace: &NetworkNamespace, end: u8| {
            let make = || {
                let socket = UdpSocket::bind((Ipv4Addr::new(10, 1, cable, end), 9)).unwrap();
                let patience = Some(Duration::from_millis(5));
                socket.set_read_timeout(patience).unwrap();
                Ok((socket.local_addr().unwrap(), socket))
            };
            namespace.run(make).unwrap()
        };
        let (client, server) = (bind(&self.client, 1), bind(&self.server, 2));
        for ((_, from), (to, at)) in [(&client, &server), (&server, &client)] {
            wait_until("a cable", || {
                from.send_to(b"there", to).is_ok() && at.recv(&mut [0; 8]).is_ok()
            });
        }
    }

    /// Returns prepared traffic and the receiver of its units.
    pub fn prepare(
        &self,
        experiment: &Experiment,
    ) -> Result<
        (
            realtime::applications::traffic::PreparedTraffic,
            mpsc::Receiver<Unit>,
        ),
        LiveError,
    > {
        let (units_in, units) = mpsc::channel();
        let traffic = Traffic::prepare(experiment, 1, |id| Some(self.namespace(id)), units_in)?;
        Ok((traffic, units))
    }

    pub fn start(&self, experiment: &Experiment) -> (Traffic, mpsc::Receiver<Unit>) {
        let (traffic, units) = self.prepare(experiment).unwrap();
        (traffic.start(Clock::start()), units)
    }

    /// Runs until all finite flows have ended. Returns the units.
    pub fn run(&self, experiment: &Experiment) -> (Traffic, Vec<Unit>) {
        let (mut traffic, units) = self.start(experiment);
        wait_until("the flows to end", || {
            traffic.flows_are_done() == Some(true)
        });
        traffic.stop().unwrap();
        (traffic, units.try_iter().collect())
    }
}

impl Deref for Hosts {
    type Target = cables::Hosts;

    fn deref(&self) -> &cables::Hosts {
        &self.0
    }
}

/// Sets a kernel setting of a host, such as `net/ipv4/tcp_syn_retries`.
pub fn set(namespace: &NetworkNamespace, setting: &str, value: &str) {
    let action = || {
        fs::write(format!("/proc/sys/{setting}"), value).unwrap();
        Ok(())
    };
    namespace.run(action).unwrap();
}

/// Returns the experiment with these flows, each given by its differences from a TCP flow from
/// client to server.
pub fn experiment(flows: &[Value]) -> Experiment {
    experiment_with(flows, |_| {})
}

/// The same, changed further by `change`.
pub fn experiment_with(flows: &[Value], change: impl FnOnce(&mut Value)) -> Experiment {
    cables::experiment(|resolved| {
        let template = resolved["flows"][0].clone();
        let flows = flows.iter().enumerate();
        resolved["flows"] = flows
            .map(|(index, changes)| flow(&template, index, changes))
            .collect();
        change(resolved);
    })
}

fn flow(template: &Value, index: usize, changes: &Value) -> Value {
    let mut flow = template.clone();
    flow["id"] = json!(format!("flow{index}"));
    let flow_fields = flow.as_object_mut().unwrap();
    flow_fields.extend(changes.as_object().unwrap().clone());
    if flow["from"] == "server" {
        for path in flow["paths"].as_array_mut().unwrap() {
            reverse(path);
        }
    }
    flow
}

fn reverse(path: &mut Value) {
    let local = path["local"].take();
    path["local"] = path["remote"].take();
    path["remote"] = local;
    for hop in path["hops"].as_array_mut().unwrap() {
        hop["direction"] = json!("backward");
    }
}

/// Returns an application as in the JSON.
pub fn app(kind: &str, fields: Value) -> Value {
    let mut app = json!({"kind": kind});
    let app_fields = app.as_object_mut().unwrap();
    app_fields.extend(fields.as_object().unwrap().clone());
    app
}

pub fn bulk(bytes: u64) -> Value {
    app("bulk", json!({"bytes": bytes, "duration_ns": null}))
}

pub fn endless_bulk() -> Value {
    app("bulk", json!({"bytes": null, "duration_ns": null}))
}

/// Returns the port of a flow, as text.
pub fn port(index: usize) -> String {
    port_of_flow(index).unwrap().to_string()
}
