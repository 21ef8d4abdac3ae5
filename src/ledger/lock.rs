//! One worker a ledger.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use super::files::{FileError, failed};

/// The ledger could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else has it.
    #[error(
        "another worker holds the ledger in {}: one worker a ledger; stop that one, or give this \
         one a folder of its own", .0.display()
    )]
    Held(PathBuf),
    /// The lock file is out of reach.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Held as long as it lives. The system lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of the ledger in `folder`.
    ///
    /// # Errors
    /// [`LockError::Held`] if another worker has it.
    pub fn take(folder: &Path) -> Result<Lock, LockError> {
        let path = folder.join("lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(failed("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(LockError::Held(folder.to_owned())),
            Err(TryLockError::Error(error)) => Err(failed("lock", &path)(error).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_worker_is_refused_until_the_first_has_gone() -> Result<(), LockError> {
        let folder = tempfile::tempdir().map_err(failed("make", Path::new("a folder")))?;
        let first = Lock::take(folder.path())?;
        assert!(matches!(Lock::take(folder.path()), Err(LockError::Held(_))));
        drop(first);
        Lock::take(folder.path()).map(drop)
    }
}
