//! Descriptions of algorithms: names, summaries, sources and parameters.
//!
//! Each congestion control, scheduler and path manager has one row beside its code. Registries list
//! these rows ([`cc::CONGESTION_CONTROLS`](crate::cc::CONGESTION_CONTROLS),
//! [`sched::SCHEDULERS`](crate::sched::SCHEDULERS) and
//! [`pm::PATH_MANAGERS`](crate::pm::PATH_MANAGERS)). Configuration formats, reference pages and
//! completion lists are made from them.

use std::fmt::{self, Display};

/// An algorithm as its users see it. `P` holds the parameters of all algorithms of its kind.
#[derive(Debug)]
pub struct Description<P: 'static> {
    /// The name by which a configuration selects it.
    pub name: &'static str,
    /// Other names for it, in lower case, without hyphens and underscores.
    pub aliases: &'static [&'static str],
    /// What it does, in one sentence without a full stop.
    pub summary: &'static str,
    /// The specification, paper or implementation that defines it.
    pub source: &'static str,
    /// The parameters it reads.
    pub parameters: &'static [Parameter<P>],
}

/// A row of a registry: what users see of an algorithm, and how one is made.
#[derive(Debug)]
pub struct Entry<P: 'static, C> {
    /// Its name and parameters.
    pub description: Description<P>,
    /// Makes one for a connection.
    pub make: C,
}

/// A parameter of an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Parameter<P: 'static> {
    /// Its name.
    pub name: &'static str,
    /// Its unit; empty if it has none.
    pub unit: &'static str,
    /// What it controls, in words.
    pub meaning: &'static str,
    /// The default where no single value is one; otherwise the default is what `value` reads from
    /// `P::default()`.
    pub computed_default: Option<&'static str>,
    /// Its type and range, and where it is stored.
    pub value: Value<P>,
}

impl<P: Default> Parameter<P> {
    /// Returns the default as a user would write it, or in words if it is not a single value.
    pub fn default_text(&self) -> String {
        let computed = self.computed_default.map(str::to_owned);
        computed
            .or_else(|| self.value.read(&P::default()))
            .unwrap_or_default()
    }
}

/// The type and range of a parameter, and the functions that read and store it. Bounds are
/// inclusive.
#[derive(Clone, Copy, Debug)]
pub enum Value<P: 'static> {
    /// A whole number.
    Integer {
        /// The smallest allowed value.
        least: u32,
        /// The largest allowed value.
        most: u32,
        /// Reads it.
        get: fn(&P) -> Option<u32>,
        /// Stores it.
        set: fn(&mut P, u32),
    },
    /// A real number.
    Number {
        /// The smallest allowed value.
        least: f64,
        /// The largest allowed value.
        most: f64,
        /// Reads it.
        get: fn(&P) -> Option<f64>,
        /// Stores it.
        set: fn(&mut P, f64),
    },
    /// True or false.
    Flag {
        /// Reads it.
        get: fn(&P) -> bool,
        /// Stores it.
        set: fn(&mut P, bool),
    },
    /// One of several words.
    Choice {
        /// The words.
        words: &'static [&'static str],
        /// Reads it, as an index into `words`.
        get: fn(&P) -> usize,
        /// Stores it, as an index into `words`.
        set: fn(&mut P, usize),
    },
    /// A list of at least one whole number.
    Integers {
        /// The smallest allowed value of each.
        least: u32,
        /// The largest allowed value of each.
        most: u32,
        /// Stores the list.
        set: fn(&mut P, Vec<u32>),
    },
    /// Something that only the user of the engine can resolve to addresses and then stores in `P`
    /// itself.
    External(External),
}

/// Parameters that name parts of a network, which the engine does not know by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum External {
    /// Lists of routers: [`Gateways`](crate::pm::Gateways).
    Gateways,
    /// Interfaces with flags: [`Endpoint`](crate::pm::Endpoint)s.
    Endpoints,
}

impl<P> Value<P> {
    /// Returns the stored value as text; `None` if there is none.
    fn read(&self, parameters: &P) -> Option<String> {
        match *self {
            Self::Integer { get, .. } => get(parameters).map(|value| value.to_string()),
            Self::Number { get, .. } => get(parameters).map(|value| value.to_string()),
            Self::Flag { get, .. } => Some(get(parameters).to_string()),
            Self::Choice { words, get, .. } => Some(words[get(parameters)].to_owned()),
            Self::Integers { .. } | Self::External(_) => None,
        }
    }
}

impl<P> Display for Value<P> {
    /// Writes the allowed values, as an error message names them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Integer { least, most, .. } => {
                write!(f, "a whole number from {least} to {most}")
            }
            Self::Number { least, most, .. } => write!(f, "a number from {least} to {most}"),
            Self::Flag { .. } => f.write_str("true or false"),
            Self::Choice { words, .. } => f.write_str(&words.join(", ")),
            Self::Integers { least, most, .. } => {
                write!(f, "a list of whole numbers from {least} to {most}")
            }
            Self::External(External::Gateways) => f.write_str("lists of routers"),
            Self::External(External::Endpoints) => f.write_str("a list of endpoints"),
        }
    }
}
