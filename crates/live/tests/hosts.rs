//! Hosts in network namespaces: built as described, changed by events, gone without a trace.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;

use live::{Device, Hosts, Tables};
use netlab::resolved::{Action, Experiment, LinkDownBy};
use serde_json::{Value, json};

fn described(name: &str) -> Value {
    let file = format!("{}/tests/experiments/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

fn read(description: &Value) -> Experiment {
    Experiment::from_json(&description.to_string()).unwrap()
}

fn build(description: &Value) -> (Hosts, Vec<Device>) {
    Hosts::build(&read(description)).unwrap()
}

fn tables_of(hosts: &mut Hosts, id: &str) -> Tables {
    hosts.tables().unwrap().remove(id).unwrap()
}

/// Runs a program in a host and gives what it prints.
fn printed(hosts: &Hosts, host: &str, command: &[&str]) -> String {
    let output = hosts.namespace(host).run(|| {
        Ok(std::process::Command::new(command[0])
            .args(&command[1..])
            .output()
            .unwrap())
    });
    let output = output.unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn interface(id: &str) -> String {
    id.to_owned()
}

#[test]
#[ignore = "needs root"]
fn packets_of_eight_links_leave_by_the_interface_of_their_address() {
    let (mut hosts, devices) = build(&described("eight-links"));
    assert_eq!(devices.len(), 16);
    let tables = tables_of(&mut hosts, "client");
    println!("{}\n{}", tables.rules.join("\n"), tables.routes.join("\n"));
    panic!("{}", printed(&hosts, "client", &["ip", "addr"]));
}
