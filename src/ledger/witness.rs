//! The witness: number and hash of the last synced frame, in a file of its own, so that a journal
//! that lost its end is noticed. Written after each sync by a thread that delays nobody: it is at
//! most one frame's sync behind, and never ahead.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use xxhash_rust::xxh3::xxh3_64;

use super::files::{FileError, bytes_at, failed, u64_at, write_whole};
use super::frame::{FrameHash, Mark};

const SLOT: usize = 64;

/// What it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Witnessed {
    /// The last frame that was synced.
    pub frame: u64,
    /// Its hash.
    pub frame_hash: FrameHash,
}

/// The witness could not be read.
#[derive(Debug, thiserror::Error)]
pub enum WitnessError {
    /// Neither of its slots holds.
    #[error(
        "{} is damaged or missing: without it nobody can tell whether the journal lost its end; \
         put a copy of the ledger's folder back from a backup of it", .0.display()
    )]
    Damaged(PathBuf),
    /// It is out of reach.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Writes it, on a thread of its own.
pub(super) struct Witness {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    wanted: Option<Witnessed>,
    closed: bool,
    failed: Option<String>,
}

/// Makes the file, before the first frame.
pub(super) fn create(path: &Path) -> Result<(), FileError> {
    let mut bytes = [0; 2 * SLOT];
    bytes[..SLOT].copy_from_slice(&to_slot(1, Witnessed::default()));
    write_whole(path, &bytes)
}

/// What it says.
pub(super) fn read(path: &Path) -> Result<Witnessed, WitnessError> {
    let damaged = || WitnessError::Damaged(path.to_owned());
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(damaged()),
        Err(error) => return Err(failed("read", path)(error).into()),
    };
    let slots = bytes.chunks_exact(SLOT).filter_map(from_slot);
    slots.max_by_key(|(sequence, _)| *sequence).map(|(_, said)| said).ok_or_else(damaged)
}

fn to_slot(sequence: u64, said: Witnessed) -> [u8; SLOT] {
    let mut slot = [0; SLOT];
    slot[..8].copy_from_slice(&sequence.to_le_bytes());
    slot[8..16].copy_from_slice(&said.frame.to_le_bytes());
    slot[16..32].copy_from_slice(&said.frame_hash.0);
    let checksum = xxh3_64(&slot[..32]);
    slot[32..40].copy_from_slice(&checksum.to_le_bytes());
    slot
}

fn from_slot(slot: &[u8]) -> Option<(u64, Witnessed)> {
    let sequence = u64_at(slot, 0);
    let holds = xxh3_64(&slot[..32]) == u64_at(slot, 32) && sequence > 0;
    let said = Witnessed { frame: u64_at(slot, 8), frame_hash: FrameHash(bytes_at(slot, 16)) };
    holds.then_some((sequence, said))
}

impl Witness {
    /// Goes on writing the file at `path`.
    pub(super) fn start(path: &Path) -> Result<Witness, FileError> {
        let bytes = std::fs::read(path).map_err(failed("read", path))?;
        let last = bytes.chunks_exact(SLOT).filter_map(from_slot).map(|slot| slot.0).max();
        let file = OpenOptions::new().write(true).open(path).map_err(failed("open", path))?;
        let shared = Arc::new(Shared::default());
        let writes = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("ledger-witness".into())
            .spawn(move || write(&file, last.unwrap_or(0), &writes))
            .map_err(failed("start a thread for", path))?;
        Ok(Witness { shared, thread: Some(thread) })
    }

    /// The frame at `mark` is synced. Answers what went wrong before, if something did.
    pub(super) fn note(&self, mark: &Mark) -> Result<(), String> {
        let mut state = self.shared.state.lock();
        state.wanted = Some(Witnessed { frame: mark.frame, frame_hash: mark.frame_hash });
        self.shared.changed.notify_one();
        state.failed.clone().map_or(Ok(()), Err)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It ends by itself; what it last wrote stands.
            let _ = thread.join();
        }
    }
}

/// Two slots by turns: a torn write leaves the other one.
fn write(file: &File, mut sequence: u64, shared: &Shared) {
    loop {
        let said = {
            let mut state = shared.state.lock();
            while state.wanted.is_none() && !state.closed {
                shared.changed.wait(&mut state);
            }
            match state.wanted.take() {
                Some(said) => said,
                None => return,
            }
        };
        sequence += 1;
        let at = (sequence % 2) * SLOT as u64;
        let written = file.write_all_at(&to_slot(sequence, said), at);
        if let Err(error) = written.and_then(|()| file.sync_data()) {
            shared.state.lock().failed = Some(error.to_string());
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_was_noted_last_and_survives_a_torn_slot() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("witness");
        assert!(matches!(read(&path), Err(WitnessError::Damaged(_))));
        create(&path).unwrap();
        assert_eq!(read(&path).unwrap(), Witnessed::default());
        for round in 1..=5 {
            let witness = Witness::start(&path).unwrap();
            let mark = Mark {
                frame: round,
                ..Mark::beginning(crate::ledger::identity::LedgerId([1; 16]))
            };
            witness.note(&mark).unwrap();
            drop(witness);
            assert_eq!(read(&path).unwrap().frame, round);
        }
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            let said = read(&path).unwrap().frame;
            assert!((4..=5).contains(&said), "byte {at}: {said}");
        }
        std::fs::write(&path, [0; 128]).unwrap();
        assert!(matches!(read(&path), Err(WitnessError::Damaged(_))));
    }
}
