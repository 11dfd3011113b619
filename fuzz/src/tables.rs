//! Fuzz target: any bytes as a stream of a bundle. The stream is read as far as it is valid, or
//! refused.
//!
//! Parquet files are excluded, because the reader of the `parquet` crate allocates what a damaged
//! page claims, up to gigabytes. A bundle contains checksums of its Parquet files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use experiment::samples::{Column, read_table};

/// A file of this process, in memory if the machine has a place for it.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    };
    place.join(format!("mptcp-fuzz-{}.csv", std::process::id()))
});

/// Reads the bytes as the CSV file of a run.
pub fn tables(bytes: &[u8]) {
    let path = FILE.as_path();
    fs::write(path, bytes).expect("room for a file");
    let read = read_table(path);
    fs::remove_file(path).expect("it was just written");
    let rows = read.iter().flatten().map(|(_, column)| rows(column));
    let rows: Vec<_> = rows.collect();
    assert!(rows.windows(2).all(|two| two[0] == two[1]));
}

fn rows(column: &Column) -> usize {
    match column {
        Column::Integers(values) => values.len(),
        Column::Floats(values) => values.len(),
        Column::Words { codes, words } => {
            let is_known = |code: &i32| usize::try_from(*code).is_ok_and(|code| code < words.len());
            assert!(codes.iter().all(is_known));
            codes.len()
        }
    }
}
