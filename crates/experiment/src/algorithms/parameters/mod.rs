//! The engine's algorithms and their parameters as descriptions name them.

mod path_manager;
mod value;

use std::fmt;

use mptcp::algorithm::{Description, Parameter};
use mptcp::cc::{self, CONGESTION_CONTROLS};
use mptcp::pm::PATH_MANAGERS;
use mptcp::sched::{self, SCHEDULERS, SubflowOrder};

pub use path_manager::path_manager;
pub(crate) use path_manager::{names_in, ports_in, router_address};

use crate::resolved::Algorithm;

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

    /// Returns the field of a flow that names an algorithm of this kind.
    pub fn field(self) -> &'static str {
        match self {
            Self::Control => "cc",
            Self::Scheduler => "scheduler",
            Self::PathManager => "path_manager",
        }
    }

    /// Returns the engine's algorithms of this kind.
    pub fn algorithms(self) -> Vec<Described> {
        match self {
            Self::Control => {
                let all = CONGESTION_CONTROLS.iter();
                all.map(|control| described(&control.description)).collect()
            }
            Self::Scheduler => {
                let all = SCHEDULERS.iter();
                all.map(|entry| described(&entry.description)).collect()
            }
            Self::PathManager => {
                let all = PATH_MANAGERS.iter();
                all.map(|entry| described(&entry.description)).collect()
            }
        }
    }
}

/// An algorithm of the engine, with the properties that all kinds have.
#[derive(Clone, Debug)]
pub struct Described {
    /// Its name.
    pub name: &'static str,
    /// Other names for it, in lower case, without hyphens and underscores.
    pub aliases: &'static [&'static str],
    /// What it does, in one sentence without a full stop.
    pub summary: &'static str,
    /// The specification, paper or implementation that defines it.
    pub source: &'static str,
    /// Its parameters.
    pub parameters: Vec<DescribedParameter>,
}

/// A parameter of an algorithm, with the properties that all kinds have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedParameter {
    /// Its name.
    pub name: &'static str,
    /// Its unit; empty if it has none.
    pub unit: &'static str,
    /// Its allowed values.
    pub values: String,
    /// Its default.
    pub default: String,
    /// What it controls.
    pub meaning: &'static str,
}

fn described<P: Default + 'static>(one: &Description<P>) -> Described {
    let parameter = |it: &Parameter<P>| DescribedParameter {
        name: it.name,
        unit: it.unit,
        values: value::allowed(&it.value),
        default: it.default_text(),
        meaning: it.meaning,
    };
    Described {
        name: one.name,
        aliases: one.aliases,
        summary: one.summary,
        source: one.source,
        parameters: one.parameters.iter().map(parameter).collect(),
    }
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

/// Checks the parameters of one of the engine's algorithms. The parameters of a user's own
/// algorithm are not checked, because only that algorithm knows them.
///
/// # Errors
/// Returns the first parameter that the algorithm does not have or whose value is not allowed.
pub fn check(kind: Kind, algorithm: &Algorithm) -> Result<(), Refusal> {
    if algorithm.is_users() {
        return Ok(());
    }
    match kind {
        Kind::Control => check_all(
            CONGESTION_CONTROLS.iter().map(|it| &it.description),
            algorithm,
        ),
        Kind::Scheduler => check_all(SCHEDULERS.iter().map(|it| &it.description), algorithm),
        Kind::PathManager => check_all(PATH_MANAGERS.iter().map(|it| &it.description), algorithm),
    }
}

fn check_all<P: 'static>(
    all: impl Iterator<Item = &'static Description<P>>,
    algorithm: &Algorithm,
) -> Result<(), Refusal> {
    let parameters = parameters_of(all, &algorithm.name);
    for (name, value) in &algorithm.parameters {
        check_one(parameters, algorithm, name, value)?;
    }
    Ok(())
}

fn check_one<P: 'static>(
    parameters: &[Parameter<P>],
    algorithm: &Algorithm,
    name: &str,
    value: &serde_json::Value,
) -> Result<(), Refusal> {
    let refusal = |found: String, allowed: String| Refusal {
        parameter: name.to_owned(),
        found,
        allowed,
    };
    match parameters.iter().find(|one| one.name == name) {
        None => {
            let names: Vec<_> = parameters.iter().map(|one| one.name).collect();
            let allowed = match names[..] {
                [] => format!("nothing: {} has no parameters", algorithm.name),
                _ => names.join(", "),
            };
            Err(refusal(
                format!("an unknown parameter of {}", algorithm.name),
                allowed,
            ))
        }
        Some(one) if !value::is_allowed(&one.value, value) => {
            Err(refusal(value.to_string(), value::allowed(&one.value)))
        }
        Some(_) => Ok(()),
    }
}

/// Returns the parameters of the algorithm named `name`; none for a user's own.
fn parameters_of<P: 'static>(
    mut all: impl Iterator<Item = &'static Description<P>>,
    name: &str,
) -> &'static [Parameter<P>] {
    let found = all.find(|one| one.name == name);
    found.map_or(&[], |one| one.parameters)
}

/// Stores the parameters that a description gives an algorithm; the others keep their values.
fn apply<P: 'static>(
    all: impl Iterator<Item = &'static Description<P>>,
    algorithm: &Algorithm,
    parameters: &mut P,
) {
    for one in parameters_of(all, &algorithm.name) {
        if let Some(given) = algorithm.parameters.get(one.name) {
            value::store(&one.value, given, parameters);
        }
    }
}

/// Returns the parameters of a congestion control. `seed` is for controls that draw random numbers.
pub fn control(algorithm: &Algorithm, seed: u64) -> cc::Parameters {
    let mut parameters = cc::Parameters::default();
    parameters.bbr.seed = seed;
    let all = CONGESTION_CONTROLS.iter().map(|it| &it.description);
    apply(all, algorithm, &mut parameters);
    parameters
}

/// Returns the parameters of a scheduler. Its host lists equal subflows in `order`.
pub fn scheduler(algorithm: &Algorithm, order: SubflowOrder) -> sched::Parameters {
    let mut parameters = sched::Parameters {
        order,
        ..sched::Parameters::default()
    };
    apply(
        SCHEDULERS.iter().map(|it| &it.description),
        algorithm,
        &mut parameters,
    );
    parameters
}
