//! Completes the hosts of experiments that tests and benchmarks write, so that a new field of a
//! host needs no change in them. They include this file by its path.
// Each test and benchmark uses only a part.
#![allow(dead_code)]

use experiment::resolved::{Behaviour, Host};
use serde_json::{Map, Value, json};

/// Reads an experiment whose hosts state only some of their keys.
pub fn experiment(text: &str) -> Value {
    let mut experiment: Value = serde_json::from_str(text).expect("JSON");
    for stated in experiment["hosts"].as_array_mut().expect("hosts") {
        *stated = host(stated.take());
    }
    experiment
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

fn merged(mut usual: Value, mut stated: Value) -> Value {
    object(&mut usual).append(object(&mut stated));
    usual
}

fn object(value: &mut Value) -> &mut Map<String, Value> {
    value.as_object_mut().expect("an object")
}
