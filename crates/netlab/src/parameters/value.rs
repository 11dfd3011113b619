//! What a parameter may be.

use std::fmt;
use std::net::Ipv4Addr;

use mptcp::pm::Gateways;
use serde_json::Value;

/// Flags of an endpoint that a description can give.
pub(super) const ENDPOINT_FLAGS: &[&str] = &["signal", "subflow", "backup", "fullmesh", "laminar"];
/// Two that exclude each other on Linux.
const EXCLUSIVE_FLAGS: [&str; 2] = ["signal", "fullmesh"];
/// The one with which Linux takes a port, and the one with which it does not.
const FLAG_WITH_PORT: &str = "signal";
const FLAG_WITHOUT_PORT: &str = "subflow";

/// The values of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values {
    /// A whole number, both bounds included.
    Integer {
        /// The least.
        least: u32,
        /// The most.
        most: u32,
    },
    /// A number, both bounds included.
    Number {
        /// The least.
        least: f64,
        /// The most.
        most: f64,
    },
    /// Yes or no.
    Flag,
    /// One of some words.
    Choice(&'static [&'static str]),
    /// At least one whole number, each within the bounds.
    Integers {
        /// The least.
        least: u32,
        /// The most.
        most: u32,
    },
    /// Lists of routers.
    Gateways,
    /// Interfaces with flags.
    Endpoints,
}

impl Values {
    /// Whether a value is one of them.
    pub fn allow(&self, value: &Value) -> bool {
        match *self {
            Self::Integer { least, most } => is_within(value, least, most),
            Self::Number { least, most } => value
                .as_f64()
                .is_some_and(|number| (least..=most).contains(&number)),
            Self::Flag => value.is_boolean(),
            Self::Choice(words) => value.as_str().is_some_and(|word| words.contains(&word)),
            Self::Integers { least, most } => {
                let numbers = value.as_array();
                numbers.is_some_and(|numbers| {
                    !numbers.is_empty() && numbers.iter().all(|one| is_within(one, least, most))
                })
            }
            Self::Gateways => are_gateways(value),
            Self::Endpoints => {
                let endpoints = value.as_array();
                endpoints.is_some_and(|all| !all.is_empty() && all.iter().all(is_endpoint))
            }
        }
    }
}

fn is_within(value: &Value, least: u32, most: u32) -> bool {
    let number = value.as_u64();
    number.is_some_and(|number| (u64::from(least)..=u64::from(most)).contains(&number))
}

/// Whether there are no more lists, and no more hops in one, than the engine takes.
fn are_gateways(value: &Value) -> bool {
    let Some(lists) = value.as_array() else {
        return false;
    };
    let placeholders = lists.iter().map(|list| {
        let hops = list.as_array().filter(|hops| !hops.is_empty())?;
        let all_named = hops.iter().all(Value::is_string);
        all_named.then(|| vec![Ipv4Addr::UNSPECIFIED.to_string(); hops.len()].join(","))
    });
    let placeholders: Option<Vec<_>> = placeholders.collect();
    placeholders.is_some_and(|lists| lists.join("-").parse::<Gateways>().is_ok())
}

fn is_endpoint(value: &Value) -> bool {
    let Some(fields) = value.as_object() else {
        return false;
    };
    let known = ["interface", "flags", "port"];
    let are_known = fields.keys().all(|field| known.contains(&field.as_str()));
    let is_named = fields.get("interface").is_some_and(Value::is_string);
    let flags = fields.get("flags").and_then(Value::as_array);
    let port = fields.get("port");
    are_known && is_named && flags.is_some_and(|flags| are_flags(flags) && may_have(flags, port))
}

/// Whether an endpoint with these flags may have that port, if it has one.
fn may_have(flags: &[Value], port: Option<&Value>) -> bool {
    let is_announced = has_flag(flags, FLAG_WITH_PORT) && !has_flag(flags, FLAG_WITHOUT_PORT);
    port.is_none_or(|port| is_announced && is_within(port, 1, u16::MAX.into()))
}

fn has_flag(flags: &[Value], name: &str) -> bool {
    flags.iter().any(|flag| flag.as_str() == Some(name))
}

fn are_flags(flags: &[Value]) -> bool {
    let are_known = flags.iter().all(|flag| {
        flag.as_str()
            .is_some_and(|flag| ENDPOINT_FLAGS.contains(&flag))
    });
    let are_exclusive = EXCLUSIVE_FLAGS.iter().all(|name| has_flag(flags, name));
    are_known && !flags.is_empty() && !are_exclusive
}

impl fmt::Display for Values {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Integer { least, most } => write!(to, "a whole number from {least} to {most}"),
            Self::Number { least, most } => write!(to, "a number from {least} to {most}"),
            Self::Flag => to.write_str("true or false"),
            Self::Choice(words) => to.write_str(&words.join(", ")),
            Self::Integers { least, most } => {
                write!(to, "a list of whole numbers from {least} to {most}")
            }
            Self::Gateways => to.write_str(
                "at most 10 lists of 1 to 6 routers, one list for each further subflow, as in [[left], [right, far]]",
            ),
            Self::Endpoints => write!(
                to,
                "a list of endpoints, as in [{{interface: client.eth1, flags: [subflow]}}]; flags are {}, not {} together; with {FLAG_WITH_PORT} and without {FLAG_WITHOUT_PORT} also a port, as in {{interface: server.eth1, port: 7000, flags: [{FLAG_WITH_PORT}]}}",
                ENDPOINT_FLAGS.join(", "),
                EXCLUSIVE_FLAGS.join(" and ")
            ),
        }
    }
}

// What `allow` has let through.

pub(super) fn integer(value: &Value) -> u32 {
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.expect("checked: a whole number")
}

pub(super) fn number(value: &Value) -> f64 {
    value.as_f64().expect("checked: a number")
}

pub(super) fn flag(value: &Value) -> bool {
    value.as_bool().expect("checked: true or false")
}

pub(super) fn word(value: &Value) -> &str {
    value.as_str().expect("checked: a word")
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().expect("checked: a list")
}
