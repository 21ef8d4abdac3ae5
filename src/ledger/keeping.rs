//! Keeps the storage going: appends frames, and begins and follows checkpoints.

use std::time::Duration;

use cenotaph_core::{FactHash, Record};

use super::checkpoint::{CheckpointError, CheckpointReport, Checkpointing, Progress};
use super::committed::Chain;
use super::error::LedgerError;
use super::journal::JournalError;
use super::shared::Shared;
use super::state::Books;
use super::storage::Storage;

/// The blob of the small state in the view.
pub(super) const BOOKS: &str = "books";

/// The bytes of a segment that make a checkpoint due.
const MAX_SEGMENT_BYTES: u64 = 128 << 20;

/// How long a checkpoint may show no progress before it is said.
const QUIET_TOO_LONG: Duration = Duration::from_secs(60);

/// The storage, in the writer's hands.
pub(super) struct Keeping {
    storage: Storage,
    checkpoint_objects: usize,
    told_quiet: bool,
}

impl Keeping {
    pub(super) fn new(storage: Storage, checkpoint_objects: usize) -> Keeping {
        Keeping { storage, checkpoint_objects, told_quiet: false }
    }

    /// Appends a frame; synced when it returns.
    pub(super) fn append(&mut self, records: &[Record]) -> Result<Chain, LedgerError> {
        let mark = self.storage.append(records)?;
        Ok(Chain { frame: mark.frame, last_fact: (mark.fact, mark.fact_hash) })
    }

    pub(super) fn knows_fact(
        &self,
        number: u64,
        hash: Option<FactHash>,
    ) -> Result<bool, LedgerError> {
        match hash {
            Some(hash) => Ok(self.storage.knows_fact(number, &hash)?),
            None => Ok(false),
        }
    }

    /// Follows a checkpoint under way, and begins one when the table is full. Slows the writer, and
    /// so ingest, before the table outgrows its bound.
    pub(super) fn tend(&mut self, shared: &Shared) -> Result<(), LedgerError> {
        loop {
            let state =
                shared.change(|committed| self.storage.poll_checkpoint(committed.tables_mut()))?;
            match state {
                Checkpointing::Idle if self.is_due(shared, 1) => self.begin(shared)?,
                Checkpointing::Writing(progress) => {
                    self.watch(&progress);
                    if !self.is_due(shared, 2) {
                        return Ok(());
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                Checkpointing::Finished(report) => told(&report),
                Checkpointing::Idle => return Ok(()),
            }
        }
    }

    /// Whether there is so many times as much as makes a checkpoint due: in the table, or in the
    /// segment, which a start reads whole and hot objects fill without filling the table.
    fn is_due(&self, shared: &Shared, times: usize) -> bool {
        let objects = self.checkpoint_objects.saturating_mul(times);
        shared.read().tables().active.is_full(objects)
            || self.storage.segment_bytes() >= MAX_SEGMENT_BYTES * times as u64
    }

    /// A last checkpoint, so that the next start has nothing to replay.
    pub(super) fn finish(&mut self, shared: &Shared) -> Result<(), LedgerError> {
        self.settle(shared)?;
        if shared.read().tables().active.changes() > 0 {
            self.begin(shared)?;
            self.settle(shared)?;
        }
        Ok(())
    }

    fn settle(&mut self, shared: &Shared) -> Result<(), LedgerError> {
        loop {
            let state =
                shared.change(|committed| self.storage.poll_checkpoint(committed.tables_mut()))?;
            match state {
                Checkpointing::Idle => return Ok(()),
                Checkpointing::Writing(progress) => {
                    self.watch(&progress);
                    std::thread::sleep(Duration::from_millis(1));
                }
                Checkpointing::Finished(report) => told(&report),
            }
        }
    }

    fn begin(&mut self, shared: &Shared) -> Result<(), LedgerError> {
        shared.change(|committed| {
            let state = small_state(&committed.books)?;
            Ok(self.storage.begin_checkpoint(committed.tables_mut(), state)?)
        })
    }

    fn watch(&mut self, progress: &Progress) {
        let quiet = progress.quiet_for > QUIET_TOO_LONG;
        if quiet && !self.told_quiet {
            tracing::error!(
                step = ?progress.step,
                buckets = progress.buckets,
                quiet_seconds = progress.quiet_for.as_secs(),
                "the checkpoint shows no progress; the journal suffices to start the worker again"
            );
        }
        self.told_quiet = quiet;
    }
}

fn told(report: &CheckpointReport) {
    let CheckpointReport { checkpoint, buckets, segments } = *report;
    tracing::debug!(checkpoint, buckets, segments, "a checkpoint was made");
}

/// The small state of a checkpoint.
pub(super) fn small_state(books: &Books) -> Result<Vec<(String, Vec<u8>)>, LedgerError> {
    let bytes = postcard::to_stdvec(books);
    let bytes = bytes.map_err(|error| LedgerError::Write(format!("books: {error}")))?;
    Ok(vec![(BOOKS.to_owned(), bytes)])
}

/// The small state of a checkpoint; empty where there was none.
pub(super) fn decode(state: &[(String, Vec<u8>)]) -> Result<Books, LedgerError> {
    match state.iter().find(|(name, _)| name == BOOKS) {
        Some((_, bytes)) => postcard::from_bytes(bytes)
            .map_err(|error| LedgerError::ViewDamaged(format!("the books do not decode: {error}"))),
        None => Ok(Books::default()),
    }
}

impl From<JournalError> for LedgerError {
    fn from(error: JournalError) -> LedgerError {
        LedgerError::Write(error.to_string())
    }
}

impl From<CheckpointError> for LedgerError {
    fn from(error: CheckpointError) -> LedgerError {
        LedgerError::Write(error.to_string())
    }
}
