//! The output of a program: its beginning in memory, and the whole in a file if it is long.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;

/// Bytes that are kept in memory.
const IN_MEMORY: usize = 64 * 1024;
/// Bytes that are kept in the file.
const IN_FILE: u64 = 256 * 1024 * 1024;

/// One of the two outputs of a program.
#[derive(Debug)]
pub(super) struct Output {
    beginning: Vec<u8>,
    length: u64,
    path: PathBuf,
    file: Option<File>,
}

impl Output {
    /// Creates an empty output. A long one goes to the file `path`.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            beginning: Vec::new(),
            length: 0,
            path,
            file: None,
        }
    }

    /// Reads at most one piece of the available output. Returns `false` at the end.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn read_from(&mut self, pipe: &mut impl Read) -> io::Result<bool> {
        let mut piece = [0; 16 * 1024];
        match pipe.read(&mut piece) {
            Ok(0) => Ok(false),
            Ok(length) => self.add(&piece[..length]).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            // No process can write to the pipe any more.
            Err(_) => Ok(false),
        }
    }

    fn add(&mut self, piece: &[u8]) -> io::Result<()> {
        self.length += piece.len() as u64;
        let room = IN_MEMORY.saturating_sub(self.beginning.len());
        if self.file.is_none() && piece.len() > room {
            if let Some(directory) = self.path.parent() {
                fs::create_dir_all(directory)?;
            }
            let mut file = File::create(&self.path)?;
            file.write_all(&self.beginning)?;
            self.file = Some(file);
        }
        self.beginning.extend(&piece[..piece.len().min(room)]);
        match &mut self.file {
            Some(file) if self.length <= IN_FILE => file.write_all(piece),
            _ => Ok(()),
        }
    }

    /// Returns the beginning. Bytes that are not text are replaced.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.beginning).into_owned()
    }

    /// Returns the whole output, as far as it was kept.
    pub(super) fn whole(&self) -> io::Result<Vec<u8>> {
        match self.file {
            Some(_) => fs::read(&self.path),
            None => Ok(self.beginning.clone()),
        }
    }

    /// Returns the name of its file in the directory of programs, if it was too long.
    pub(super) fn file_name(&self) -> Option<String> {
        self.file.as_ref()?;
        let name = self.path.file_name()?;
        Some(name.to_string_lossy().into_owned())
    }
}
