//! The parameters of the engine's algorithms that a description can set: one table for each kind of algorithm.

mod control;
mod path_manager;
mod scheduler;
mod value;

use std::fmt;

pub use control::{CONTROL, control};
pub use path_manager::{PATH_MANAGER, path_manager};
pub(crate) use path_manager::{names_in, ports_in, recreation, router_address};
pub use scheduler::{SCHEDULER, scheduler};
pub use value::Values;

use crate::resolved::{Algorithm, Parameters};

/// A parameter of some algorithms, and where it goes.
#[derive(Debug)]
pub struct Parameter<P> {
    /// The algorithms that take it.
    pub algorithms: &'static [&'static str],
    /// Its name.
    pub name: &'static str,
    /// Its unit; empty if it has none.
    pub unit: &'static str,
    /// What it may be.
    pub values: Values,
    /// What it is if it is not given.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// Takes over a value that is allowed.
    set: fn(&mut P, &serde_json::Value),
}

/// A kind of algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Congestion control.
    Control,
    /// Scheduler.
    Scheduler,
    /// Path manager.
    PathManager,
}

impl Kind {
    /// All of them, in the order of their fields in a flow.
    pub const ALL: [Self; 3] = [Self::Control, Self::Scheduler, Self::PathManager];

    /// The field of a flow that names one.
    pub fn field(self) -> &'static str {
        match self {
            Self::Control => "cc",
            Self::Scheduler => "scheduler",
            Self::PathManager => "path_manager",
        }
    }

    /// The parameters of all algorithms of this kind.
    pub fn parameters(self) -> Vec<Described> {
        match self {
            Self::Control => described(CONTROL),
            Self::Scheduler => described(SCHEDULER),
            Self::PathManager => described(PATH_MANAGER),
        }
    }
}

/// A parameter as far as it is the same for all kinds.
#[derive(Clone, Copy, Debug)]
pub struct Described {
    /// The algorithms that take it.
    pub algorithms: &'static [&'static str],
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// What it may be.
    pub values: Values,
    /// What it is if it is not given.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

fn described<P>(table: &[Parameter<P>]) -> Vec<Described> {
    let table = table.iter();
    table
        .map(|one| Described {
            algorithms: one.algorithms,
            name: one.name,
            unit: one.unit,
            values: one.values,
            default: one.default,
            meaning: one.meaning,
        })
        .collect()
}

/// Why a parameter of an algorithm is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its name.
    pub parameter: String,
    /// What was found.
    pub found: String,
    /// What is allowed.
    pub allowed: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            parameter,
            found,
            allowed,
        } = self;
        write!(to, "{parameter}: found {found}, allowed is {allowed}")
    }
}

/// Checks what one of the engine's algorithms is given. What a user's own takes, only that knows.
///
/// # Errors
/// The first parameter that it does not take, or not with that value.
pub fn check(kind: Kind, algorithm: &Algorithm) -> Result<(), Refusal> {
    if algorithm.is_users() {
        return Ok(());
    }
    let mut taken = kind.parameters();
    taken.retain(|one| one.algorithms.contains(&algorithm.name.as_str()));
    for (name, value) in &algorithm.parameters {
        check_one(&taken, algorithm, name, value)?;
    }
    Ok(())
}

fn check_one(
    taken: &[Described],
    algorithm: &Algorithm,
    name: &str,
    value: &serde_json::Value,
) -> Result<(), Refusal> {
    let refusal = |found: String, allowed: String| Refusal {
        parameter: name.to_owned(),
        found,
        allowed,
    };
    match taken.iter().find(|one| one.name == name) {
        None => {
            let names: Vec<_> = taken.iter().map(|one| one.name).collect();
            let allowed = match names[..] {
                [] => format!("nothing: {} has no parameters", algorithm.name),
                _ => names.join(", "),
            };
            Err(refusal(
                format!("an unknown parameter of {}", algorithm.name),
                allowed,
            ))
        }
        Some(one) if !one.values.allow(value) => {
            Err(refusal(value.to_string(), one.values.to_string()))
        }
        Some(_) => Ok(()),
    }
}

/// Gives an algorithm what is written of it; what is not keeps its value.
fn apply<P>(table: &[Parameter<P>], name: &str, given: &Parameters, to: &mut P) {
    let taken = table.iter().filter(|one| one.algorithms.contains(&name));
    for one in taken {
        if let Some(value) = given.get(one.name) {
            (one.set)(to, value);
        }
    }
}
