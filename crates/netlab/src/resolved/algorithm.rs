//! An algorithm named by a flow, with its parameters.

use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// The name of the feature "runs a class from a file".
pub(crate) const OWN_CLASS: &str = "own class";
/// The name of the feature "has the algorithms of a user's crate".
const OWN_SIMULATOR: &str = "own simulator";
/// The name of the feature "registers an eBPF object in a kernel".
pub(crate) const OWN_OBJECT: &str = "own object";
/// The file name suffix of an eBPF object.
const OBJECT: &str = ".bpf.o";

/// The parameters of an algorithm, by name.
pub type Parameters = Map<String, Value>;

/// An algorithm with its parameters. Its JSON is an object with `name` and the parameters, or the
/// name alone if there are none.
#[derive(Clone, Debug, PartialEq)]
pub struct Algorithm {
    /// The name.
    pub name: String,
    /// The parameters given. All others have their defaults.
    pub parameters: Parameters,
}

impl Algorithm {
    /// Returns whether it is the user's own: a class in a file (`./mine.py:MyControl`), an
    /// algorithm in a crate (`crate:my_control`), or an eBPF object (`./mine.bpf.o`).
    pub fn is_users(&self) -> bool {
        self.origin().is_some()
    }

    /// Returns whether it is an eBPF object.
    pub fn is_object(&self) -> bool {
        self.origin() == Some(OWN_OBJECT)
    }

    /// Returns the feature needed to run it, if it is the user's own.
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
