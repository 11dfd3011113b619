//! Descriptions of algorithms: names, summaries, sources and parameters.
//!
//! Each congestion control, scheduler and path manager has one row, next to its code. Registries
//! list these rows ([`cc::CONGESTION_CONTROLS`](crate::cc::CONGESTION_CONTROLS),
//! [`sched::SCHEDULERS`](crate::sched::SCHEDULERS) and
//! [`pm::PATH_MANAGERS`](crate::pm::PATH_MANAGERS)). Configuration formats, reference pages and
//! completion lists are made from them.

use std::fmt::{self, Display};

/// Describes an algorithm to users of configuration files and reference pages. `P` is the type that
/// holds the parameters of all algorithms of this kind.
#[derive(Debug)]
pub struct Description<P: 'static> {
    /// The name by which a configuration selects the algorithm.
    pub name: &'static str,
    /// Other names of the algorithm, in lower case and without hyphens and underscores.
    pub aliases: &'static [&'static str],
    /// What the algorithm does, in one sentence without a full stop.
    pub summary: &'static str,
    /// The specification, paper or implementation that defines the algorithm.
    pub source: &'static str,
    /// The parameters in `P` that the algorithm reads.
    pub parameters: &'static [Parameter<P>],
}

/// A row of a registry: the description of an algorithm, and a constructor of type `C`.
#[derive(Debug)]
pub struct Entry<P: 'static, C> {
    /// The names, summary, source and parameters of the algorithm.
    pub description: Description<P>,
    /// The constructor, which creates the algorithm for a connection.
    pub make: C,
}

/// Describes a parameter of an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Parameter<P: 'static> {
    /// The name by which a configuration sets the parameter.
    pub name: &'static str,
    /// The unit of the parameter, such as "packets"; empty if the parameter has none.
    pub unit: &'static str,
    /// What the parameter controls, in words.
    pub meaning: &'static str,
    /// The default in words, if it is not a single value, such as "1/n^2 with n subflows". With
    /// `None`, the default is what `value` reads from `P::default()`.
    pub computed_default: Option<&'static str>,
    /// The type and range of the parameter, and the functions that read and store its value.
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

/// The type and range of a parameter, and the functions that read its value from `P` and store it
/// there. Both `least` and `most` are inclusive.
#[derive(Clone, Copy, Debug)]
pub enum Value<P: 'static> {
    /// A whole number.
    Integer {
        /// The smallest allowed value.
        least: u32,
        /// The largest allowed value.
        most: u32,
        /// The function that returns the stored value, or `None` if the parameter is not set.
        get: fn(&P) -> Option<u32>,
        /// The function that stores a value. The caller checks the range.
        set: fn(&mut P, u32),
    },
    /// A real number.
    Number {
        /// The smallest allowed value.
        least: f64,
        /// The largest allowed value.
        most: f64,
        /// The function that returns the stored value, or `None` if the parameter is not set.
        get: fn(&P) -> Option<f64>,
        /// The function that stores a value. The caller checks the range.
        set: fn(&mut P, f64),
    },
    /// True or false.
    Flag {
        /// The function that returns the stored value.
        get: fn(&P) -> bool,
        /// The function that stores a value.
        set: fn(&mut P, bool),
    },
    /// One of several words.
    Choice {
        /// The allowed words.
        words: &'static [&'static str],
        /// The function that returns the stored value as an index into `words`.
        get: fn(&P) -> usize,
        /// The function that stores a value, given as an index into `words`.
        set: fn(&mut P, usize),
    },
    /// A list of at least one whole number.
    Integers {
        /// The smallest allowed value of an element.
        least: u32,
        /// The largest allowed value of an element.
        most: u32,
        /// The function that stores the list. The caller checks that the list is not empty and that
        /// each element is in the range.
        set: fn(&mut P, Vec<u32>),
    },
    /// A value that names parts of a network. The user of the engine resolves the names to
    /// addresses and stores them in `P`.
    External(External),
}

/// Kinds of parameters that name parts of a network. The engine itself does not know these names.
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
    /// Writes the allowed values in the words of an error message, such as "a whole number from 1
    /// to 9".
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
