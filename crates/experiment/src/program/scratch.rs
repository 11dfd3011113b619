//! Directories for the tables of runs whose caller is elsewhere.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The beginning of the names of the directories.
const PREFIX: &str = "mptcplab-run-";

/// The size of the blocks in which files are read.
const BLOCK_BYTES: usize = 1 << 16;

/// The directories of this process that exist, for [`Scratch::remove_all`].
static EXISTING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A directory that is removed when it is dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// Locked as long as the directory is in use.
    _lock: File,
}

/// A file of a run.
#[derive(Debug)]
pub(super) struct RunFile {
    name: String,
    path: PathBuf,
    bytes: u64,
    sha256: String,
}

impl Scratch {
    /// Creates a directory in the one for temporary files, with access for its owner only. Removes
    /// those that killed programs of the same user left there.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn create() -> io::Result<Self> {
        let above = std::env::temp_dir();
        remove_abandoned(&above);
        let path = (0..u32::MAX)
            .map(|number| above.join(format!("{PREFIX}{}-{number}", std::process::id())))
            .find(|path| !path.exists())
            .ok_or(io::ErrorKind::AlreadyExists)?;
        make_private(&path)?;
        existing().push(path.clone());
        let lock = File::create(path.join(LOCK))?;
        take(&lock)?;
        Ok(Self { path, _lock: lock })
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes all directories of this process, for programs that end without dropping them.
    pub fn remove_all() {
        for path in existing().drain(..) {
            // A thread may still write into it.
            for _ in 0..3 {
                if fs::remove_dir_all(&path).is_ok() {
                    break;
                }
            }
        }
    }

    /// Returns the files in the directory and below it, with their checksums.
    pub(super) fn files(&self) -> io::Result<Vec<RunFile>> {
        let mut found = Vec::new();
        collect(&self.path, "", &mut found)?;
        Ok(found)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        existing().retain(|path| *path != self.path);
        // The directory is temporary; the next program removes what cannot be removed now.
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl RunFile {
    /// Returns name, size and checksum.
    pub(super) fn as_row(&self) -> Value {
        json!([self.name, self.bytes, self.sha256])
    }

    pub(super) fn open(&self) -> io::Result<impl Read> {
        Ok(File::open(&self.path)?.take(self.bytes))
    }
}

/// The name of the file whose lock tells that a directory is in use.
const LOCK: &str = ".lock";

fn existing() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    EXISTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a file. An error means that another process holds it.
#[cfg(unix)]
fn take(lock: &File) -> io::Result<()> {
    Ok(rustix::fs::flock(
        lock,
        rustix::fs::FlockOperation::NonBlockingLockExclusive,
    )?)
}

/// Does nothing, because [`remove_abandoned`] does nothing.
#[cfg(not(unix))]
fn take(_: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(path)
}

#[cfg(not(unix))]
fn make_private(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

/// Removes directories whose lock is free. Others belong to other users or to programs that run.
#[cfg(unix)]
fn remove_abandoned(above: &Path) {
    let Ok(entries) = fs::read_dir(above) else {
        return;
    };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours && File::open(entry.path().join(LOCK)).is_ok_and(|lock| take(&lock).is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Does nothing, because nothing tells whether a directory is in use.
#[cfg(not(unix))]
fn remove_abandoned(_: &Path) {}

fn collect(directory: &Path, prefix: &str, found: &mut Vec<RunFile>) -> io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(directory)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&entry.path(), &format!("{name}/"), found)?;
        } else if kind.is_file() && name != LOCK {
            let (bytes, sha256) = checksum(&entry.path())?;
            found.push(RunFile {
                name,
                path: entry.path(),
                bytes,
                sha256,
            });
        }
    }
    Ok(())
}

/// Returns the size of a file and its SHA-256 in hex.
fn checksum(path: &Path) -> io::Result<(u64, String)> {
    let (mut file, mut sum, mut bytes) = (File::open(path)?, Sha256::new(), 0);
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        let count = file.read(&mut block)?;
        if count == 0 {
            break;
        }
        sum.update(&block[..count]);
        bytes += count as u64;
    }
    let digits = sum
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok((bytes, digits))
}
