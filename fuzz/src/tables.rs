//! Fuzz target: any bytes as a stream of a bundle. The stream is read as far as it is valid, or
//! refused.
//!
//! Parquet files are excluded, because the reader of the `parquet` crate allocates what a damaged
//! page claims, up to gigabytes. A bundle contains checksums of its Parquet files.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::{fs, panic};

use experiment::samples::{Column, read_table};

/// A file of this process, in memory if the machine has a place for it.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    };
    place.join(format!("mptcp-fuzz-{}.arrows", std::process::id()))
});

/// Reads the bytes as an Arrow stream.
pub fn tables(bytes: &[u8]) {
    let path = FILE.as_path();
    fs::write(path, bytes).expect("room for a file");
    // `read_table` reports panics of the `arrow-ipc` crate as errors. Their messages would fill the
    // terminal.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| ()));
    let read = read_table(path);
    panic::set_hook(hook);
    fs::remove_file(path).expect("it was just written");
    let rows = read.iter().flatten().map(|(_, column)| rows(column));
    let rows: Vec<_> = rows.collect();
    assert!(rows.windows(2).all(|two| two[0] == two[1]));
}

fn rows(column: &Column) -> usize {
    match column {
        Column::Integers(values) => values.values().len(),
        Column::Floats(values) => values.values().len(),
        Column::Words { codes, words } => {
            let is_known = |code: &i32| usize::try_from(*code).is_ok_and(|code| code < words.len());
            assert!(codes.values().iter().all(is_known));
            codes.values().len()
        }
    }
}
