//! Lays the examples out for maturin, which puts them into the wheel (pyproject.toml).

use std::path::{Path, PathBuf};
use std::{env, fs, io};

const EXAMPLES: &str = "../../examples";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={EXAMPLES}");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it")).join("examples");
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    copy(Path::new(EXAMPLES), &out)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, target) = (entry.file_name(), to.join(entry.file_name()));
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), target)?;
        } else if name != "target" && name != "__pycache__" {
            copy(&entry.path(), &target)?;
        }
    }
    Ok(())
}
