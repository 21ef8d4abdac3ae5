//! The ledger on disk: lock, identity, journal with its witness, and view.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cenotaph_core::{FactHash, Record};

use super::boundary::{self, Boundary};
use super::checkpoint::{CheckpointError, Checkpointing, Running, Step, Work};
use super::files::{self, FileError, failed};
use super::frame::Mark;
use super::identity::{Identity, IdentityError, LedgerId};
use super::journal::{Journal, JournalError, OpenedJournal};
use super::lock::{Lock, LockError};
use super::requests::RequestsKept;
use super::table::{Table, Tables};
use super::view::{FORMAT, Meta, OpenedView, Reader, View, ViewError};

/// How to open it.
#[derive(Clone)]
pub struct Options {
    /// The objects that one table is expected to hold.
    pub table_objects: usize,
    /// The memory of the view's store, in bytes.
    pub cache_bytes: u64,
    /// Journal bytes that are kept whole: up to there, the view can be built anew from the journal
    /// alone.
    pub keep_bytes: u64,
    /// Which deletion requests that changed nothing are remembered.
    pub requests_kept: RequestsKept,
    /// Called when a checkpoint has something to show.
    pub wake: Option<Arc<dyn Fn() + Send + Sync>>,
    /// For tests: where a checkpoint ends as if the process had been killed there.
    pub stop_checkpoint_after: Option<Step>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            table_objects: 250_000,
            cache_bytes: 64 << 20,
            keep_bytes: 1 << 30,
            requests_kept: RequestsKept::default(),
            wake: None,
            stop_checkpoint_after: None,
        }
    }
}

/// The ledger could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another worker has it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Its identity is damaged.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Its journal is damaged.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Its view is damaged, and the journal alone does not hold all of it any more.
    #[error(
        "{what}, and the journal holds no longer all that it was made from: nothing is decided or \
         confirmed with it; put the newest copy of the whole ledger's folder back, or begin anew as \
         docs/operating.md says under \"A damaged view\""
    )]
    ViewDamaged {
        /// What is wrong.
        what: String,
    },
    /// Its view is in somebody's hands.
    #[error(transparent)]
    ViewHeld(ViewError),
    /// A newer version wrote it.
    #[error(
        "the ledger has format {found}, and this version knows {FORMAT}: use the newer version"
    )]
    Newer {
        /// Its format.
        found: u32,
    },
    /// The operating system refused something.
    #[error(transparent)]
    File(#[from] FileError),
}

/// What was met when it was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenReport {
    /// Why the view is built anew, if it is.
    pub rebuilt_view: Option<String>,
    /// Bytes of an unfinished frame that were cut off.
    pub cut_bytes: u64,
    /// A checkpoint had not ended.
    pub unfinished_checkpoint: bool,
}

/// An opened ledger.
pub struct Opened {
    /// The storage.
    pub storage: Storage,
    /// Empty tables.
    pub tables: Tables,
    /// The small state of the last checkpoint.
    pub state: Vec<(String, Vec<u8>)>,
    /// What the view holds; frames after it are to be replayed.
    pub view_mark: Mark,
    /// What was met.
    pub report: OpenReport,
}

/// A frame that is replayed.
pub struct Replayed {
    /// After it.
    pub mark: Mark,
    /// What it says.
    pub records: Vec<Record>,
}

/// The ledger on disk, in its one writer's hands.
pub struct Storage {
    journal: Journal,
    view: View,
    meta: Option<Meta>,
    digest: u64,
    identity: Identity,
    options: Options,
    running: Option<Running>,
    spare: Option<Table>,
    _lock: Lock,
}

fn journal_dir(dir: &Path) -> PathBuf {
    dir.join("journal")
}

fn view_dir(dir: &Path) -> PathBuf {
    dir.join("view")
}

impl Storage {
    /// Opens the ledger in `dir`, or makes one there.
    ///
    /// # Errors
    /// [`OpenError`] if it cannot be trusted.
    pub fn open(dir: &Path, options: Options) -> Result<Opened, OpenError> {
        files::make_folder(dir)?;
        let lock = Lock::take(dir)?;
        let identity = identity(dir)?;
        let ledger = identity.ledger;
        let mut report = OpenReport::default();
        let found = found_view(dir, ledger, &options)?;
        let says = found.as_ref().ok().and_then(|view| view.meta).map(|meta| meta.mark());
        let OpenedJournal { journal, cut_bytes, complete, view_is_older } =
            Journal::open(&journal_dir(dir), ledger, says)?;
        report.cut_bytes = cut_bytes;
        let found = found.and_then(|view| match (view_is_older, view.meta) {
            (false, _) => Ok(view),
            (true, Some(_)) => Err("the ledger's view is older than it was".to_owned()),
            (true, None) => Err("the ledger's view is missing".to_owned()),
        });
        let view = match found {
            Ok(view) => view,
            Err(what) if complete => {
                report.rebuilt_view = Some(what);
                fresh_view(dir, &options)?
            }
            Err(what) => return Err(OpenError::ViewDamaged { what }),
        };
        boundary::at(Boundary::ViewOpened, dir);
        report.unfinished_checkpoint = view.unfinished;
        let view_mark = view.meta.map_or(Mark::beginning(ledger), |meta| meta.mark());
        let OpenedView { view, directory, meta, state, digest, .. } = view;
        let active = Table::with_room_for(options.table_objects);
        let (directory, requests_kept) = (Arc::new(directory), options.requests_kept);
        let tables = Tables { active, frozen: None, directory, requests_kept };
        let storage = Storage {
            journal,
            view,
            meta,
            digest,
            identity,
            options,
            running: None,
            spare: None,
            _lock: lock,
        };
        Ok(Opened { storage, tables, state, view_mark, report })
    }

    /// Who this ledger is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// After the last frame of the journal.
    #[cfg(test)]
    fn mark(&self) -> Mark {
        self.journal.mark()
    }

    /// Reads what is committed.
    #[must_use]
    pub fn reader(&self) -> Reader {
        self.view.reader()
    }

    /// The frames after `from`, in order.
    ///
    /// # Errors
    /// [`JournalError`] if they do not say what was written; the caller's own.
    pub fn replay<E: From<JournalError>>(
        &self,
        from: Mark,
        mut each: impl FnMut(Replayed) -> Result<(), E>,
    ) -> Result<(), E> {
        self.journal.replay(from, |mark, records| each(Replayed { mark, records }))
    }

    /// Appends a frame; synced when it returns.
    ///
    /// # Errors
    /// [`JournalError`]; after one of the operating system's, nothing is ever appended again.
    pub fn append(&mut self, records: &[Record]) -> Result<Mark, JournalError> {
        self.journal.append(records)
    }

    /// The bytes of the segment that is being written.
    pub(super) fn segment_bytes(&self) -> u64 {
        self.journal.segment_bytes()
    }

    /// Whether the chain has this fact with this hash.
    ///
    /// # Errors
    /// [`JournalError`] if the journal cannot be read.
    pub fn knows_fact(&self, number: u64, hash: &FactHash) -> Result<bool, JournalError> {
        self.journal.knows_fact(number, hash)
    }

    /// Freezes the active table and begins to write it into the view. `state` is the small state as
    /// it is after the last frame, which is what the checkpoint will be through.
    ///
    /// # Errors
    /// [`CheckpointError::Busy`] if one is under way.
    pub fn begin_checkpoint(
        &mut self,
        tables: &mut Tables,
        state: Vec<(String, Vec<u8>)>,
    ) -> Result<(), CheckpointError> {
        if self.running.is_some() || tables.frozen.is_some() {
            return Err(CheckpointError::Busy);
        }
        self.journal.rotate()?;
        self.checkpoint_through(tables, state, self.journal.mark())
    }

    /// The same through an earlier frame, up to which everything is in the table: for a replay that
    /// is not at its end.
    ///
    /// # Errors
    /// [`CheckpointError::Busy`] if one is under way.
    pub(super) fn checkpoint_through(
        &mut self,
        tables: &mut Tables,
        state: Vec<(String, Vec<u8>)>,
        through: Mark,
    ) -> Result<(), CheckpointError> {
        if self.running.is_some() || tables.frozen.is_some() {
            return Err(CheckpointError::Busy);
        }
        let room = self.options.table_objects;
        let fresh = self.spare.take().unwrap_or_else(|| Table::with_room_for(room));
        let table = Arc::new(std::mem::replace(&mut tables.active, fresh));
        tables.frozen = Some(Arc::clone(&table));
        boundary::at(Boundary::Frozen, self.journal.folder());
        let work = Work {
            view: self.view.clone(),
            table,
            directory: Arc::clone(&tables.directory),
            through,
            ledger: self.identity.ledger.0,
            state,
            before: self.meta,
            digest: self.digest,
            journal: self.journal.folder().to_owned(),
            keep_bytes: self.options.keep_bytes,
            requests_kept: self.options.requests_kept,
            stop_after: self.options.stop_checkpoint_after,
        };
        self.running = Some(Running::start(work, self.options.wake.clone())?);
        Ok(())
    }

    /// Looks how the checkpoint is, and shows what it has made. Never waits for it.
    ///
    /// # Errors
    /// [`CheckpointError`] if it could not be made.
    pub fn poll_checkpoint(
        &mut self,
        tables: &mut Tables,
    ) -> Result<Checkpointing, CheckpointError> {
        let Some(running) = &self.running else { return Ok(Checkpointing::Idle) };
        let Some(ended) = running.poll() else {
            return Ok(Checkpointing::Writing(running.progress()));
        };
        self.running = None;
        let done = ended?;
        self.meta = Some(done.meta);
        self.digest = done.digest;
        tables.directory = Arc::new(done.directory);
        *self.view.last_chunk.lock() = None;
        // The directory holds it now. Its room serves the next one.
        self.spare = tables.frozen.take().and_then(|frozen| Arc::try_unwrap(frozen).ok());
        if let Some(spare) = &mut self.spare {
            spare.clear();
        }
        Ok(Checkpointing::Finished(done.report))
    }
}

fn identity(dir: &Path) -> Result<Identity, OpenError> {
    let path = dir.join("identity");
    if let Some(identity) = Identity::read(&path)? {
        return Ok(identity);
    }
    let journal = journal_dir(dir);
    if view_dir(dir).exists() || Journal::is_begun(&journal)? {
        return Err(IdentityError::Missing(path).into());
    }
    // A first start that did not end may have left one.
    remove_folder(&journal)?;
    let identity = Identity::random()?;
    Journal::make(&journal, identity.ledger)?;
    boundary::at(Boundary::JournalMade, dir);
    // Last: where there is an identity, a journal that is not there is missing.
    identity.write(&path)?;
    boundary::at(Boundary::IdentityMade, dir);
    Ok(identity)
}

/// The view as it is, or why it cannot be believed. A format that this version does not know is
/// nobody's damage.
fn found_view(
    dir: &Path,
    ledger: LedgerId,
    options: &Options,
) -> Result<Result<OpenedView, String>, OpenError> {
    match View::open(&view_dir(dir), options.cache_bytes) {
        Err(ViewError::Newer(found)) => Err(OpenError::Newer { found }),
        Err(ViewError::Held) => Err(OpenError::ViewHeld(ViewError::Held)),
        Err(error) => Ok(Err(error.to_string())),
        Ok(view) if view.meta.is_some_and(|meta| meta.ledger != ledger.0) => {
            Ok(Err("the view belongs to another ledger".to_owned()))
        }
        Ok(view) => Ok(Ok(view)),
    }
}

fn remove_folder(path: &Path) -> Result<(), FileError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(failed("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Throws the view away and begins one, to be filled from the journal.
fn fresh_view(dir: &Path, options: &Options) -> Result<OpenedView, OpenError> {
    let path = view_dir(dir);
    remove_folder(&path)?;
    View::open(&path, options.cache_bytes)
        .map_err(|error: ViewError| OpenError::ViewDamaged { what: error.to_string() })
}

#[cfg(test)]
mod damage;
#[cfg(test)]
mod tests;
