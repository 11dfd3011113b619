//! Completes experiments that tests and benchmarks write, so that a new field of the resolved form
//! needs no change in them. They include this file by its path.
// Each test and benchmark uses only a part.
#![allow(dead_code)]

pub mod carriers;

use experiment::resolved::{Behaviour, Host, SCHEMA};
use serde_json::{Map, Value, json};

/// Reads an experiment that states only some of its keys.
pub fn experiment(text: &str) -> Value {
    whole(serde_json::from_str(text).expect("JSON"))
}

/// Returns an experiment with the keys of `stated`, and otherwise without anything in it. What it
/// has is completed, too.
pub fn whole(stated: Value) -> Value {
    let usual = json!({
        "schema": SCHEMA, "name": "test", "title": null, "description": null, "profiles": [], "parameters": {},
        "duration_ns": 1_000_000_000, "vary": {}, "hosts": [], "nodes": [], "interfaces": [], "subnets": [], "media": [],
        "links": [], "access": [], "middleboxes": [], "control": null, "flows": [], "events": [], "measure": {},
        "expect": [],
        "user_code": [], "origins": {},
    });
    let mut whole = merged(usual, stated);
    let vary = json!({"start_ns": 0, "rtt_ppm": 0, "events_ppm": 0});
    whole["vary"] = merged(vary, whole["vary"].take());
    let measure = json!({"every_ns": 100_000_000, "captures": [], "unit_bytes": 64_000, "probe_rtt_ns": null});
    whole["measure"] = merged(measure, whole["measure"].take());
    complete_each(&mut whole["hosts"], host);
    complete_each(&mut whole["nodes"], node);
    complete_each(&mut whole["interfaces"], interface);
    complete_each(&mut whole["links"], link);
    complete_each(&mut whole["flows"], flow);
    complete_each(&mut whole["events"], event);
    whole
}

fn complete_each(list: &mut Value, complete: fn(Value) -> Value) {
    for stated in list.as_array_mut().expect("a list") {
        *stated = complete(stated.take());
    }
}

/// Returns a host with the keys of `stated`, and otherwise like the usual host. A behaviour in
/// `stated` is likewise completed by the preset of its name.
pub fn host(mut stated: Value) -> Value {
    let behaviours = stated["behaviour"].as_array_mut();
    for behaviour in behaviours.into_iter().flatten() {
        let presets = Behaviour::presets().map(|preset| json!(preset));
        let preset = presets
            .into_iter()
            .find(|it| it["name"] == behaviour["name"]);
        *behaviour = merged(preset.expect("the name of a preset"), behaviour.take());
    }
    if stated["behaviour"].is_null() {
        object(&mut stated).remove("behaviour");
    }
    merged(json!(Host::usual("")), stated)
}

/// Returns a router, switch or access point with the keys of `stated`.
pub fn node(stated: Value) -> Value {
    merged(json!({"next_hop": null}), stated)
}

/// Returns an interface with the keys of `stated`, and otherwise up, without addresses and device.
/// Its node is the part of its id before the dot.
pub fn interface(stated: Value) -> Value {
    let id = stated["id"].as_str().expect("an id");
    let node = id.split('.').next();
    let usual = json!({
        "node": node, "subnet": 0, "ipv4": null, "ipv6": null, "mtu_bytes": 1500, "up": true, "device": null,
    });
    merged(usual, stated)
}

/// Returns a link with the keys of `stated`, and otherwise one of IP without a medium. Its
/// directions are completed, too.
pub fn link(stated: Value) -> Value {
    let usual = json!({"medium": null, "layer": 3, "real": false, "forward": {}, "backward": {}});
    let mut link = merged(usual, stated);
    for way in ["forward", "backward"] {
        link[way] = direction(link[way].take());
    }
    link
}

/// Returns a direction of a link with the keys of `stated`, and otherwise infinitely fast and
/// without delay and loss, with 14 bytes of overhead and room for 100 packets.
pub fn direction(stated: Value) -> Value {
    let queue = json!({"kind": "drop_tail", "limit_packets": 100, "limit_bytes": null});
    let usual = json!({
        "rate_bps": null, "overhead_bytes": 14, "framing": "plain", "delay_ns": 0, "jitter_ns": 0, "reorder": false,
        "loss": {"kind": "none"}, "loss_at": "ingress", "queue": queue, "trace": null,
    });
    merged(usual, stated)
}

/// Returns a flow with the keys of `stated`, and otherwise one of UDP that the sender opens at the
/// start. Its paths are completed, too.
pub fn flow(stated: Value) -> Value {
    let usual = json!({
        "group": stated["id"], "opened_by": "from", "transport": "udp", "cc": [], "scheduler": [], "path_manager": [],
        "start_ns": 0, "handshake": "primary", "via": null, "policy": null, "ceiling_bps": null,
    });
    let mut flow = merged(usual, stated);
    complete_each(&mut flow["paths"], path);
    flow
}

/// Returns a path with the keys of `stated`, and otherwise without routers that choose next hops,
/// rate, capacity and delay.
pub fn path(stated: Value) -> Value {
    let usual = json!({"routed": false, "rate_bps": null, "ceiling_bps": null, "rtt_ns": 0});
    merged(usual, stated)
}

fn event(stated: Value) -> Value {
    merged(json!({"parent": null}), stated)
}

fn merged(mut usual: Value, mut stated: Value) -> Value {
    object(&mut usual).append(object(&mut stated));
    usual
}

fn object(value: &mut Value) -> &mut Map<String, Value> {
    value.as_object_mut().expect("an object")
}
