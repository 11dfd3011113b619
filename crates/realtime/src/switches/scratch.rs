//! The directory of a run for sockets, databases and logs. It is the only part of a run that
//! outlives a killed process, so the next run removes it.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, flock};

use crate::LiveError;

const PREFIX: &str = "mptcplab-switches-";

/// A directory that is removed when it is dropped. A lock shows that its process is alive.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    _lock: File,
}

impl Scratch {
    /// Creates the directory, and removes those of processes that were killed.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn new() -> Result<Self, LiveError> {
        let parent = std::env::temp_dir();
        sweep(&parent);
        let doing = format!("making a directory in {}", parent.display());
        Self::within(&parent).map_err(LiveError::while_(doing))
    }

    fn within(parent: &Path) -> io::Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            // A controller with the rights of the user enters it, but does not list it.
            match DirBuilder::new().mode(0o711).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            // Another run may have swept it before it was locked.
            if let Some(lock) = lock(&path) {
                return Ok(Self { path, _lock: lock });
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a directory within that only this user can enter.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn private(&self, name: &str) -> Result<PathBuf, LiveError> {
        let path = self.path.join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(LiveError::while_(format!("making {}", path.display())))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next run removes what is left.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Locks a directory. Returns `None` if another process has locked or removed it.
fn lock(path: &Path) -> Option<File> {
    let file = File::open(path).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let [held, named] = [file.metadata().ok()?, fs::symlink_metadata(path).ok()?];
    (held.ino() == named.ino()).then_some(file)
}

/// Removes the directories of this user whose process no longer exists.
fn sweep(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let left = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    for entry in left {
        let user = rustix::process::geteuid().as_raw();
        let is_own = entry
            .metadata()
            .is_ok_and(|found| found.is_dir() && found.uid() == user);
        if let Some(_lock) = is_own.then(|| lock(&entry.path())).flatten() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_killed_process_is_removed_and_that_of_a_living_one_stays() {
        let parent = tempfile::tempdir().unwrap();
        let alive = Scratch::within(parent.path()).unwrap();
        let left = parent.path().join(format!("{PREFIX}1-0"));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("conf.db"), "").unwrap();
        sweep(parent.path());
        assert!(alive.path().exists());
        assert!(!left.exists());
        let path = alive.path().to_owned();
        drop(alive);
        assert!(!path.exists());
    }
}
