//! An algorithm that a flow asks for: its name, and what it is given.

use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// The feature that running a class in a file is.
pub(crate) const OWN_CLASS: &str = "own class";
/// The feature that having the algorithms of a user's crate is.
const OWN_SIMULATOR: &str = "own simulator";
/// The feature that registering an eBPF object in a kernel is.
pub(crate) const OWN_OBJECT: &str = "own object";
/// How the file of such an object ends.
const OBJECT: &str = ".bpf.o";

/// The parameters of an algorithm, by name.
pub type Parameters = Map<String, Value>;

/// An algorithm with its parameters. Its JSON is an object with `name` and the parameters; without any, the name alone will do.
#[derive(Clone, Debug, PartialEq)]
pub struct Algorithm {
    /// Its name.
    pub name: String,
    /// What it is given; each that is not has its default.
    pub parameters: Parameters,
}

impl Algorithm {
    /// Whether it is a user's own: a class in a file, `./mine.py:MyControl`, in a crate, `crate:my_control`, or an eBPF
    /// object, `./mine.bpf.o`.
    pub fn is_users(&self) -> bool {
        self.origin().is_some()
    }

    /// Whether it is an eBPF object.
    pub fn is_object(&self) -> bool {
        self.origin() == Some(OWN_OBJECT)
    }

    /// Of a user's own: the feature that running it is.
    pub(crate) fn origin(&self) -> Option<&'static str> {
        let name = &self.name;
        match name {
            _ if name.starts_with("crate:") => Some(OWN_SIMULATOR),
            _ if name.contains(':') => Some(OWN_CLASS),
            _ if name.ends_with(OBJECT) => Some(OWN_OBJECT),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Algorithm {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut parameters = match Value::deserialize(from)? {
            Value::String(name) => {
                return Ok(Self {
                    name,
                    parameters: Parameters::new(),
                });
            }
            Value::Object(object) => object,
            other => {
                let found = other.to_string();
                let allowed = "the name of an algorithm, or an object with its name and parameters";
                return Err(D::Error::invalid_type(Unexpected::Other(&found), &allowed));
            }
        };
        match parameters.remove("name") {
            Some(Value::String(name)) => Ok(Self { name, parameters }),
            _ => Err(D::Error::missing_field("name")),
        }
    }
}

impl Serialize for Algorithm {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut object = Map::from_iter([("name".to_owned(), Value::from(self.name.clone()))]);
        object.extend(self.parameters.clone());
        object.serialize(to)
    }
}
