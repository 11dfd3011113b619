//! Compares computed outputs with the expected ones.

use serde_json::Value;

use crate::family::Vector;

/// Below this a number counts as 0, because a difference of nearly equal numbers has no relative
/// precision.
const ZERO: f64 = 1e-12;

/// Returns where the outputs of a vector differ. Additional outputs do not matter.
pub fn differences(vector: &Vector, found: &Value) -> Result<(), String> {
    let expected = vector.outputs.as_object().ok_or("outputs: no object")?;
    for (name, expected) in expected {
        let found = found.get(name).unwrap_or(&Value::Null);
        if !agree(vector, expected, found) {
            return Err(format!("{name} is {found}, not {expected}"));
        }
    }
    Ok(())
}

fn agree(vector: &Vector, expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Number(expected), Value::Number(found)) => {
            // Integers of a kernel are exact. Its vectors also have the real number, for
            // comparison.
            if vector.variant == "kernel" && !expected.is_f64() {
                return found.as_i128() == expected.as_i128();
            }
            let numbers = expected.as_f64().zip(found.as_f64());
            numbers.is_some_and(|(expected, found)| is_near(expected, found, vector.rel_tolerance))
        }
        (Value::Array(expected), Value::Array(found)) => {
            let mut pairs = expected.iter().zip(found);
            expected.len() == found.len() && pairs.all(|(one, other)| agree(vector, one, other))
        }
        (Value::Object(expected), Value::Object(found)) => {
            let mut fields = expected.iter();
            fields.all(|(name, one)| found.get(name).is_some_and(|it| agree(vector, one, it)))
        }
        _ => expected == found,
    }
}

fn is_near(expected: f64, found: f64, rel_tolerance: f64) -> bool {
    (found - expected).abs() <= (rel_tolerance * expected.abs()).max(ZERO)
}
