//! Parameters of algorithms as JSON: the allowed values and how they are stored in the engine's
//! parameters.

use std::net::Ipv4Addr;

use mptcp::algorithm::{External, Value};
use mptcp::pm::Gateways;
use serde_json::Value as Json;

/// Flags of an endpoint that a description can set.
pub(super) const ENDPOINT_FLAGS: &[&str] = &["signal", "subflow", "backup", "fullmesh", "laminar"];
/// Two flags that exclude each other on Linux.
const EXCLUSIVE_FLAGS: [&str; 2] = ["signal", "fullmesh"];
/// The flag with which Linux accepts a port, and the flag with which it does not.
const FLAG_WITH_PORT: &str = "signal";
const FLAG_WITHOUT_PORT: &str = "subflow";

/// Returns whether a description may give a parameter `value`.
pub(super) fn is_allowed<P: 'static>(parameter: &Value<P>, value: &Json) -> bool {
    match *parameter {
        Value::Integer { least, most, .. } => is_within(value, least, most),
        Value::Number { least, most, .. } => value
            .as_f64()
            .is_some_and(|number| (least..=most).contains(&number)),
        Value::Flag { .. } => value.is_boolean(),
        Value::Choice { words, .. } => value.as_str().is_some_and(|word| words.contains(&word)),
        Value::Integers { least, most, .. } => {
            let numbers = value.as_array();
            numbers.is_some_and(|numbers| {
                !numbers.is_empty() && numbers.iter().all(|one| is_within(one, least, most))
            })
        }
        Value::External(External::Gateways) => are_gateways(value),
        Value::External(External::Endpoints) => {
            let endpoints = value.as_array();
            endpoints.is_some_and(|all| !all.is_empty() && all.iter().all(is_endpoint))
        }
    }
}

/// Returns the values that a description may give, as an error message and the reference name them.
pub(super) fn allowed<P: 'static>(parameter: &Value<P>) -> String {
    match parameter {
        Value::External(External::Gateways) => "at most 10 lists of 1 to 6 routers, one list per additional subflow, as in [[left], [right, far]]".to_owned(),
        Value::External(External::Endpoints) => format!(
            "a list of endpoints, as in [{{interface: client.eth1, flags: [subflow]}}]; flags are {}, but {} cannot be combined; an endpoint with {FLAG_WITH_PORT} and without {FLAG_WITHOUT_PORT} may also have a port, as in {{interface: server.eth1, port: 7000, flags: [{FLAG_WITH_PORT}]}}",
            ENDPOINT_FLAGS.join(", "),
            EXCLUSIVE_FLAGS.join(" and ")
        ),
        known => known.to_string(),
    }
}

/// Stores an allowed `value`.
pub(super) fn store<P: 'static>(parameter: &Value<P>, value: &Json, parameters: &mut P) {
    match *parameter {
        Value::Integer { set, .. } => set(parameters, integer(value)),
        Value::Number { set, .. } => set(parameters, value.as_f64().expect("checked: a number")),
        Value::Flag { set, .. } => set(parameters, value.as_bool().expect("checked: a flag")),
        Value::Choice { words, set, .. } => {
            let chosen = words.iter().position(|one| *one == word(value));
            set(parameters, chosen.expect("checked: one of the words"));
        }
        Value::Integers { set, .. } => set(parameters, list(value).iter().map(integer).collect()),
        Value::External(_) => {}
    }
}

fn is_within(value: &Json, least: u32, most: u32) -> bool {
    let number = value.as_u64();
    number.is_some_and(|number| (u64::from(least)..=u64::from(most)).contains(&number))
}

/// Returns whether the engine accepts the number of lists and the hops of each list.
fn are_gateways(value: &Json) -> bool {
    let Some(lists) = value.as_array() else {
        return false;
    };
    let placeholders = lists.iter().map(|list| {
        let hops = list.as_array().filter(|hops| !hops.is_empty())?;
        let all_named = hops.iter().all(Json::is_string);
        all_named.then(|| vec![Ipv4Addr::UNSPECIFIED.to_string(); hops.len()].join(","))
    });
    let placeholders: Option<Vec<_>> = placeholders.collect();
    placeholders.is_some_and(|lists| lists.join("-").parse::<Gateways>().is_ok())
}

fn is_endpoint(value: &Json) -> bool {
    let Some(fields) = value.as_object() else {
        return false;
    };
    let known = ["interface", "flags", "port"];
    let are_known = fields.keys().all(|field| known.contains(&field.as_str()));
    let is_named = fields.get("interface").is_some_and(Json::is_string);
    let flags = fields.get("flags").and_then(Json::as_array);
    let port = fields.get("port");
    are_known && is_named && flags.is_some_and(|flags| are_flags(flags) && may_have(flags, port))
}

/// Returns whether an endpoint with these flags may have `port`, if it has one.
fn may_have(flags: &[Json], port: Option<&Json>) -> bool {
    let is_announced = has_flag(flags, FLAG_WITH_PORT) && !has_flag(flags, FLAG_WITHOUT_PORT);
    port.is_none_or(|port| is_announced && is_within(port, 1, u16::MAX.into()))
}

fn has_flag(flags: &[Json], name: &str) -> bool {
    flags.iter().any(|flag| flag.as_str() == Some(name))
}

fn are_flags(flags: &[Json]) -> bool {
    let are_known = flags.iter().all(|flag| {
        flag.as_str()
            .is_some_and(|flag| ENDPOINT_FLAGS.contains(&flag))
    });
    let are_exclusive = EXCLUSIVE_FLAGS.iter().all(|name| has_flag(flags, name));
    are_known && !flags.is_empty() && !are_exclusive
}

// Readers of values that `is_allowed` accepted.

pub(super) fn integer(value: &Json) -> u32 {
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.expect("checked: a whole number")
}

pub(super) fn word(value: &Json) -> &str {
    value.as_str().expect("checked: a word")
}

pub(super) fn list(value: &Json) -> &[Json] {
    value.as_array().expect("checked: a list")
}
