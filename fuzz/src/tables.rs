//! What must hold of any bytes as a table of a bundle: it is read, as far as it goes, or refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use netlab::samples::{Column, read_table};

/// The files of Parquet begin so.
const PARQUET: &[u8] = b"PAR1";
/// Files that nobody else has.
static FILES: LazyLock<[PathBuf; 2]> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    };
    ["arrows", "parquet"]
        .map(|kind| place.join(format!("mptcp-fuzz-{}.{kind}", std::process::id())))
});

/// Takes the bytes as a file: an Arrow stream, or Parquet.
pub fn tables(bytes: &[u8]) {
    let path = &FILES[usize::from(bytes.starts_with(PARQUET))];
    fs::write(path, bytes).expect("room for a file");
    let read = read_table(path);
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
