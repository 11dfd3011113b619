//! The JSON Schema of the resolved form, made from its types.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde_json::{Map, Value};

use super::{Experiment, SCHEMA};

/// Returns the JSON Schema (2020-12) of the resolved form. Every key of every object is required,
/// and no other is allowed. The variants of a type are titled by the type and their kind.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(close));
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<Experiment>();
    schema.insert("title".to_owned(), SCHEMA.into());
    if let Some(types) = schema.get_mut("$defs").and_then(Value::as_object_mut) {
        title_variants(types);
    }
    schema.into()
}

/// Requires all properties of an object, and allows no other unless it says so.
fn close(schema: &mut Schema) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let keys: Vec<_> = properties.keys().cloned().collect();
        schema.insert("required".to_owned(), keys.into());
        let object = schema.ensure_object();
        object.entry("additionalProperties").or_insert(false.into());
    }
}

fn title_variants(types: &mut Map<String, Value>) {
    for (name, one) in types {
        let variants = one.get_mut("oneOf").and_then(Value::as_array_mut);
        for variant in variants.into_iter().flatten() {
            let kind = variant.pointer("/properties/kind/const");
            if let Some(kind) = kind.and_then(Value::as_str) {
                variant["title"] = format!("{name}{}", camel_case(kind)).into();
            }
        }
    }
}

fn camel_case(snake_case: &str) -> String {
    let words = snake_case.split('_');
    words
        .map(|word| word[..1].to_uppercase() + &word[1..])
        .collect()
}
