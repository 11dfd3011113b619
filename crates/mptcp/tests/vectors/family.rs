//! Vectors as they are in the file, and the table of the functions that compute them.

use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The inputs of a function, and the expected outputs.
#[derive(Deserialize)]
pub struct Vector {
    pub id: String,
    pub variant: String,
    pub inputs: Inputs,
    pub outputs: Value,
    pub rel_tolerance: f64,
}

/// The inputs of a vector, by name.
#[derive(Deserialize)]
#[serde(transparent)]
pub struct Inputs(serde_json::Map<String, Value>);

impl Inputs {
    /// Returns the input of that name, or why there is none of that type.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Result<T, String> {
        let value = self.0.get(name).cloned().unwrap_or(Value::Null);
        serde_json::from_value(value).map_err(|error| format!("input {name}: {error}"))
    }
}

/// The first parts of ids, and the function that computes the outputs: an object with at least
/// those of the vector.
pub type Family = (&'static str, fn(&Inputs) -> Result<Value, String>);

/// Returns the entry with the longest name that an id starts with, compared part by part.
pub fn longest_prefix<'a, T>(
    id: &str,
    entries: impl Iterator<Item = &'a T>,
    name: fn(&T) -> &'static str,
) -> Option<&'a T> {
    let is_prefix = |entry: &&T| id.strip_prefix(name(entry)).is_some_and(ends_a_part);
    entries
        .filter(is_prefix)
        .max_by_key(|entry| name(entry).len())
}

fn ends_a_part(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('.')
}

/// All vectors of the file.
pub fn load() -> Vec<Vector> {
    #[derive(Deserialize)]
    struct File {
        vectors: Vec<Vector>,
    }
    let path = path();
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let file: File =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    file.vectors
}

fn path() -> PathBuf {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors.json");
    std::env::var_os("MPTCPLAB_VECTORS").map_or_else(|| default.into(), PathBuf::from)
}
