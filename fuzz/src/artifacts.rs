//! Storage of inputs on which a target failed.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::PathBuf;

use mptcp_fuzz::Target;

use crate::folder;

/// Stores an input on which the target failed. Returns how to replay it.
pub fn report(target: &Target, failure: &str, input: &[u8]) -> String {
    let name = target.name;
    match keep(target, failure, input) {
        Ok(path) => format!(
            "{name}: a {failure}; again: cargo run --release --manifest-path {} -- --target {name} --replay {}",
            folder("Cargo.toml").display(),
            path.display()
        ),
        Err(why) => {
            format!("{name}: a {failure} that cannot be kept: {why}; the input was {input:?}")
        }
    }
}

/// Writes an input to a file named after its hash.
fn keep(target: &Target, failure: &str, input: &[u8]) -> io::Result<PathBuf> {
    let folder = folder("artifacts").join(target.name);
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let path = folder.join(format!("{failure}-{:016x}", hasher.finish()));
    fs::create_dir_all(&folder)?;
    fs::write(&path, input)?;
    Ok(path)
}
