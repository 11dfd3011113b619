//! An algorithm named by a flow, with its parameters.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// The form in which a user wrote an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A class in a file of Python (`./mine.py:MyControl`).
    Class,
    /// A crate, compiled into a simulator (`crate:my_control`).
    Crate,
    /// An eBPF object (`./mine.bpf.o`).
    Object,
}

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
    /// Returns whether it is the user's own.
    pub fn is_users(&self) -> bool {
        self.origin().is_some()
    }

    /// Returns whether it is an eBPF object.
    pub fn is_object(&self) -> bool {
        self.origin() == Some(Origin::Object)
    }

    /// Returns its form if it is the user's own.
    pub fn origin(&self) -> Option<Origin> {
        let name = &self.name;
        match name {
            _ if name.starts_with("crate:") => Some(Origin::Crate),
            _ if name.contains(':') => Some(Origin::Class),
            _ if name.ends_with(OBJECT) => Some(Origin::Object),
            _ => None,
        }
    }
}

impl JsonSchema for Algorithm {
    fn schema_name() -> Cow<'static, str> {
        "Algorithm".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An algorithm: its name, or an object with its name and its parameters.",
            "anyOf": [
                {"type": "string"},
                {
                    "title": "AlgorithmWithParameters",
                    "type": "object",
                    "properties": {"name": {"type": "string"}},
                    "additionalProperties": true,
                },
            ],
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
