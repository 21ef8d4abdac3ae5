//! Which file a path names.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::source::{FaultKind, FeedFault};

/// A file, whatever its name: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "file:{}:{}", self.device, self.inode)
    }
}

/// Opens a plain file. The kind is asked before, because opening a pipe waits for its writer.
pub(super) fn open(path: &Path) -> Result<(File, Identity), FeedFault> {
    let named = std::fs::metadata(path).map_err(|error| from_io(path, &error))?;
    plain(path, &named)?;
    let file = File::open(path).map_err(|error| from_io(path, &error))?;
    let opened = file.metadata().map_err(|error| from_io(path, &error))?;
    plain(path, &opened)?;
    Ok((file, Identity::of(&opened)))
}

impl Identity {
    fn of(about: &Metadata) -> Identity {
        Identity { device: about.dev(), inode: about.ino() }
    }

    /// Whether the path still names this file.
    pub(super) fn check_path(self, path: &Path) -> Result<(), FeedFault> {
        let named = std::fs::metadata(path).map_err(|error| from_io(path, &error))?;
        let named = Identity::of(&named);
        if named == self {
            return Ok(());
        }
        let detail = format!("{self} was read, and the path names {named}");
        Err(fault(FaultKind::Rotated, path, detail))
    }
}

fn plain(path: &Path, about: &Metadata) -> Result<(), FeedFault> {
    if about.is_file() {
        return Ok(());
    }
    let what = if about.is_dir() { "a directory" } else { "not a plain file" };
    Err(fault(FaultKind::Unreadable, path, format!("it is {what}")))
}

fn from_io(path: &Path, error: &io::Error) -> FeedFault {
    match error.kind() {
        io::ErrorKind::NotFound => fault(FaultKind::Missing, path, "the log does not exist"),
        _ => fault(FaultKind::Unreadable, path, error.to_string()),
    }
}

fn fault(kind: FaultKind, path: &Path, detail: impl Into<String>) -> FeedFault {
    FeedFault::new(kind, path.display().to_string(), super::PARTITION, None, detail)
}
