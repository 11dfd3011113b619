//! Runs the test vectors of routers, as `crates/mptcp/tests/vectors` runs those of the engine.
//! `make vectors` adds up both.

#[path = "../../mptcp/tests/vectors/comparison.rs"]
mod comparison;
#[path = "../../mptcp/tests/vectors/family.rs"]
mod family;

use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

use experiment::next_hop::{FiveTuple, by_threshold, upper_bounds};
use serde_json::{Map, Value, json};

use comparison::differences;
use family::{Family, Inputs, Vector, longest_prefix};

const FAMILIES: &[Family] = &[("ecmp.bounds", bounds), ("ecmp.fnv", hash)];

/// Returns the shares of next hops, and the selections for hashes at the borders of eighths.
fn bounds(inputs: &Inputs) -> Result<Value, String> {
    let bounds = upper_bounds(&inputs.get::<Vec<u32>>("weights")?);
    let hashes = (0..8_u32).flat_map(|eighth| [eighth << 28, (eighth << 28) + (1 << 28) - 1]);
    let picks = hashes.map(|hash| (hash.to_string(), json!(by_threshold(hash << 1, &bounds))));
    Ok(json!({"upper_bounds": bounds, "pick_for_hash": Map::from_iter(picks)}))
}

fn hash(inputs: &Inputs) -> Result<Value, String> {
    let end = |address: &str, port: &str| -> Result<SocketAddr, String> {
        Ok(SocketAddr::new(
            inputs.get::<IpAddr>(address)?,
            inputs.get(port)?,
        ))
    };
    let tuple = FiveTuple {
        source: end("src", "sport")?,
        destination: end("dst", "dport")?,
        protocol: inputs.get("proto")?,
    };
    let hash = tuple.hash_l4();
    let equal = |count| by_threshold(hash, &upper_bounds(&vec![1; count]));
    Ok(json!({
        "hash": hash, "threshold_2": equal(2), "threshold_4": equal(4), "modulo_4": hash % 4,
    }))
}

fn difference(vector: &Vector) -> Result<(), String> {
    let families = FAMILIES.iter();
    let (_, compute) = longest_prefix(&vector.id, families, |(name, _)| name)
        .ok_or("no family of vectors has such an id")?;
    differences(vector, &compute(&vector.inputs)?)
}

fn main() -> ExitCode {
    let vectors = family::load();
    let (mut passed, mut failed) = (0, 0);
    for vector in vectors
        .iter()
        .filter(|vector| vector.id.starts_with("ecmp."))
    {
        match difference(vector) {
            Ok(()) => passed += 1,
            Err(why) => {
                failed += 1;
                println!("failed {}: {why}", vector.id);
            }
        }
    }
    println!("vectors: {passed} passed, {failed} failed, 0 pending");
    ExitCode::from(u8::from(failed > 0))
}
