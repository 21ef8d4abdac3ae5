//! Files that survive a crash: written whole under another name, synced, renamed, the folder synced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The ending of a file that is not there yet: what a crash leaves of it is removed at open.
pub(super) const UNFINISHED: &str = "new";

/// The operating system refused something.
#[derive(Debug, thiserror::Error)]
#[error("could not {doing} {path}: {source}; free or mend the disk, then start the worker again", path = path.display())]
pub struct FileError {
    /// What was tried, as a verb.
    pub doing: &'static str,
    /// With which file or folder.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// Names what was tried, for `map_err`.
pub(super) fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    move |source| FileError { doing, path: path.to_owned(), source }
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(folder: &Path) -> Result<(), FileError> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(failed("sync", folder))
}

/// Makes a folder that is there after a crash too.
pub(super) fn make_folder(folder: &Path) -> Result<(), FileError> {
    fs::create_dir_all(folder).map_err(failed("make", folder))?;
    folder.parent().filter(|parent| parent.is_dir()).map_or(Ok(()), sync_folder)
}

/// The unfinished form of a file: its name, followed by [`UNFINISHED`].
pub(super) fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(UNFINISHED);
    PathBuf::from(name)
}

/// Opens the unfinished form of `path` for writing; only its owner may read it.
pub(super) fn begin(path: &Path) -> Result<File, FileError> {
    let mut options = OpenOptions::new();
    options.write(true).read(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let path = unfinished(path);
    options.open(&path).map_err(failed("create", &path))
}

/// Syncs an unfinished file and puts it in its place, whatever was there before.
pub(super) fn finish(file: &File, path: &Path) -> Result<(), FileError> {
    let from = unfinished(path);
    file.sync_all().map_err(failed("sync", &from))?;
    fs::rename(&from, path).map_err(failed("rename", &from))?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Writes a whole file, durably.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let mut file = begin(path)?;
    file.write_all(bytes).map_err(failed("write", path))?;
    finish(&file, path)
}

/// Removes what a crash left of files that were never finished.
pub(super) fn remove_unfinished(folder: &Path) -> Result<(), FileError> {
    for path in list(folder)? {
        if path.extension().is_some_and(|ending| ending == UNFINISHED) {
            fs::remove_file(&path).map_err(failed("remove", &path))?;
        }
    }
    Ok(())
}

/// What stands in a folder, sorted; nothing where there is no folder.
pub(super) fn list(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("list", folder)(error)),
    };
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<PathBuf>>>()
        .map_err(failed("list", folder))?;
    paths.sort();
    Ok(paths)
}

/// Takes `N` bytes at `at`. The caller has checked that they are there.
pub(super) fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut taken = [0; N];
    taken.copy_from_slice(&bytes[at..at + N]);
    taken
}

/// A little-endian u64 at `at`.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes_at(bytes, at))
}

/// A little-endian u32 at `at`.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes_at(bytes, at))
}
