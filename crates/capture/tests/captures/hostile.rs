//! Tests that changed and cut files are answered, always in the same way.

use std::path::{Path, PathBuf};

use capture::Explained;
use proptest::prelude::*;

fn recorded() -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mptcp/tests/captures");
    let files = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut captures: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|end| end == "pcap"))
        .collect();
    captures.sort();
    captures
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

/// Returns the document of these bytes, or why there is none.
fn explained(path: &Path, bytes: &[u8]) -> String {
    std::fs::write(path, bytes).unwrap();
    let explained = Explained::open(&[path], None).and_then(|mut explained| {
        while explained.advance(1000)? {}
        Ok(serde_json::to_string(&explained.document()).unwrap())
    });
    explained.unwrap_or_else(|error| error.to_string())
}

proptest! {
    #[test]
    fn changed_bytes_and_a_cut_end(
        which in 0usize..8,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let captures = recorded();
        let mut bytes = captures[which % captures.len()].clone();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("capture");
        prop_assert_eq!(explained(&path, &bytes), explained(&path, &bytes));
    }
}
