//! An algorithm that a flow asks for: its name, and what it is given.

use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// The feature that running a class in a file is.
pub(crate) const OWN_CLASS: &str = "own class";
/// The feature that having the algorithms of a user's crate is.
const OWN_SIMULATOR: &str = "own simulator";

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
    /// Whether it is a user's own: a class in a file, `./mine.py:MyControl`, or in a crate, `crate:my_control`.
    pub fn is_users(&self) -> bool {
        self.name.contains(':')
    }

    /// Of a user's own: the feature that running it is.
    pub(crate) fn origin(&self) -> Option<&'static str> {
        let is_in_crate = self.name.starts_with("crate:");
        self.is_users().then_some(match is_in_crate {
            true => OWN_SIMULATOR,
            false => OWN_CLASS,
        })
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
