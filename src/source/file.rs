//! An append-only log of JSON lines: the embedded default.
//!
//! One partition, number 0. A cursor is the byte at which the next line begins; only complete lines
//! are records, the last, unfinished one is waited for. A `\r` before the `\n` does not belong to the
//! record.
//!
//! **Is it still the same log?** Each time more is read, the path must name the file that was opened,
//! the file must not be shorter than the cursor, and the record before the cursor must read as it
//! did. So a log that was truncated, replaced or rewritten is told from one that has grown; what was
//! changed further back is not seen. A log is only ever appended to; whoever rotates it starts a new
//! feed.

mod identity;
mod lines;
mod proof;
mod reader;
mod standing;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cenotaph_core::{Cursor, Cursors, Position};
use parking_lot::Mutex;

use super::{
    FaultKind, FeedFault, Marks, PartitionInfo, PartitionReader, RawRecord, ReadAtError, Source,
};
use identity::Identity;
use proof::{Last, Proof};
use reader::FileReader;
use standing::Standing;

/// How much is read at once. A record that is kept keeps its block.
pub const DEFAULT_BLOCK_BYTES: usize = 256 * 1024;
/// The longest record.
pub const DEFAULT_MAX_RECORD_BYTES: usize = 1024 * 1024;

const PARTITION: u32 = 0;
/// How much is read at once where one record is wanted.
const ONE_RECORD_BYTES: usize = 8 * 1024;

/// A log and how it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOptions {
    /// Where it is.
    pub path: PathBuf,
    /// The feed's epoch: 0, until an operator has accepted another log in this one's place.
    pub epoch: u32,
    /// How much is read at once.
    pub block_bytes: usize,
    /// The longest record, without the end of its line.
    pub max_record_bytes: usize,
    /// How often a reader that waits looks for more.
    pub poll: Duration,
}

impl FileOptions {
    /// The log at `path`, with what is usual for all else.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> FileOptions {
        FileOptions {
            path: path.into(),
            epoch: 0,
            block_bytes: DEFAULT_BLOCK_BYTES,
            max_record_bytes: DEFAULT_MAX_RECORD_BYTES,
            poll: Duration::from_millis(5),
        }
    }
}

/// The log as a [`Source`]; clones share the open file.
#[derive(Debug, Clone)]
pub struct FileSource {
    log: Arc<Log>,
}

/// The open log, shared by all its readers.
#[derive(Debug)]
struct Log {
    options: FileOptions,
    file: File,
    identity: Identity,
    /// The end of the last complete record, when it was last looked for.
    end: Mutex<u64>,
    standing: Standing,
}

impl FileSource {
    /// Opens the log.
    ///
    /// # Errors
    /// [`FaultKind::Missing`] if it does not exist; [`FaultKind::Unreadable`] if it is not a plain
    /// file that can be read.
    pub fn open(options: FileOptions) -> Result<FileSource, FeedFault> {
        let (file, identity) = identity::open(&options.path)?;
        let log =
            Log { options, file, identity, end: Mutex::new(0), standing: Standing::default() };
        Ok(FileSource { log: Arc::new(log) })
    }

    /// Where the log is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.log.options.path
    }
}

impl Source for FileSource {
    fn partitions(&self) -> Result<Vec<PartitionInfo>, FeedFault> {
        self.log.length()?;
        let Log { identity, options, .. } = &*self.log;
        let feed = identity.to_string();
        Ok(vec![PartitionInfo { partition: PARTITION, feed, epoch: options.epoch }])
    }

    fn read_from(
        &self,
        partition: u32,
        cursor: Cursor,
        proof: &[u8],
    ) -> Result<Box<dyn PartitionReader>, FeedFault> {
        self.log.belongs(partition, cursor)?;
        let proved = self.log.prove(cursor.offset, proof);
        self.log.standing.note(&proved);
        let last = proved?;
        let reader = FileReader::new(Arc::clone(&self.log), cursor.offset, last, None);
        Ok(Box::new(reader.leading()))
    }

    fn reader(
        &self,
        partition: u32,
        cursor: Cursor,
        until: Cursor,
    ) -> Result<Box<dyn PartitionReader>, FeedFault> {
        self.log.belongs(partition, cursor)?;
        self.log.belongs(partition, until)?;
        self.log.proved()?;
        let length = self.log.length()?;
        self.log.reaches(until.offset, length)?;
        self.log.starts_line(cursor.offset)?;
        let log = Arc::clone(&self.log);
        Ok(Box::new(FileReader::new(log, cursor.offset, None, Some(until.offset))))
    }

    fn read_at(&self, position: Position) -> Result<RawRecord, ReadAtError> {
        self.log.belongs(position.partition, position.cursor())?;
        self.log.proved()?;
        let length = self.log.length()?;
        let gone = |why: &str| ReadAtError::Gone { position, why: why.to_owned() };
        if position.offset >= length {
            return Err(gone("the log ends before it"));
        }
        if self.log.starts_line(position.offset).is_err() {
            return Err(gone("no record begins there"));
        }
        let reader = FileReader::new(Arc::clone(&self.log), position.offset, None, None);
        let mut reader = reader.with_block_bytes(ONE_RECORD_BYTES);
        loop {
            let batch = reader.read_batch(1, usize::MAX, Duration::ZERO)?;
            if let Some(record) = batch.records.into_iter().next() {
                return Ok(record);
            }
            if batch.at_end {
                return Err(gone("the record there is not complete"));
            }
        }
    }

    fn marks(&self, partition: u32) -> Result<Marks, FeedFault> {
        let at = |offset| Cursor { epoch: self.log.options.epoch, offset };
        self.log.belongs(partition, at(0))?;
        let length = self.log.length()?;
        let known = *self.log.end.lock();
        self.log.reaches(known, length)?;
        let end = lines::last_end(&self.log, known, length)?;
        let mut last = self.log.end.lock();
        *last = end.max(*last);
        Ok(Marks { low: at(0), end: at(end) })
    }

    fn safe_to_forget(&self, _cursors: &Cursors) {}
}

impl Log {
    /// How long the log is, once its path is known to name it still.
    fn length(&self) -> Result<u64, FeedFault> {
        self.identity.check_path(&self.options.path)?;
        let about = self.file.metadata().map_err(|error| self.unreadable(None, &error))?;
        Ok(about.len())
    }

    fn belongs(&self, partition: u32, cursor: Cursor) -> Result<(), FeedFault> {
        if partition != PARTITION {
            let detail = format!("a file has partition {PARTITION} only, not {partition}");
            return Err(self.fault(FaultKind::NoSuchPartition, None, detail));
        }
        if cursor.epoch != self.options.epoch {
            let epoch = self.options.epoch;
            let detail = format!("the cursor is of epoch {}, the log of {epoch}", cursor.epoch);
            return Err(self.fault(FaultKind::CursorForeign, Some(cursor.offset), detail));
        }
        Ok(())
    }

    /// Whether the log is as long as what was read of it.
    fn reaches(&self, offset: u64, length: u64) -> Result<(), FeedFault> {
        if offset <= length {
            return Ok(());
        }
        let detail = format!("{offset} bytes were read of it, and it is {length} bytes long");
        Err(self.fault(FaultKind::Truncated, Some(offset), detail))
    }

    /// Whether a line begins at `offset`.
    fn starts_line(&self, offset: u64) -> Result<(), FeedFault> {
        let Some(before) = offset.checked_sub(1) else { return Ok(()) };
        match &*self.read(before, 1)? {
            b"\n" => Ok(()),
            [] => self.reaches(offset, before),
            _ => Err(self.rewritten(offset, "no line ends before the cursor any more")),
        }
    }

    /// Whether a reader with a proof has found this to be the log that was read.
    fn proved(&self) -> Result<(), FeedFault> {
        self.standing.proved().map_err(|fault| {
            fault.unwrap_or_else(|| {
                let detail = "nobody has shown yet that this is the log that was read";
                self.fault(FaultKind::Unproved, None, detail)
            })
        })
    }

    /// What the reader knows of the record before its cursor, if the proof holds.
    fn prove(&self, offset: u64, proof: &[u8]) -> Result<Option<Last>, FeedFault> {
        let length = self.length()?;
        let proof = Proof::decode(proof)
            .map_err(|detail| self.fault(FaultKind::CursorForeign, Some(offset), detail))?;
        let Some(proof) = proof else {
            return match offset {
                0 => Ok(None),
                _ => {
                    let detail = "a cursor past the beginning needs its proof";
                    Err(self.fault(FaultKind::CursorForeign, Some(offset), detail))
                }
            };
        };
        self.holds(offset, length, &proof).map_err(|fault| {
            if proof.is_of(self.identity) {
                return fault;
            }
            let detail = format!(
                "{} was read, and the path names {}, which reads otherwise",
                proof.identity, self.identity
            );
            self.fault(FaultKind::Rotated, Some(offset), detail)
        })
    }

    /// The same whatever file it is: a log that was copied or put back from a backup is the log that
    /// was read, if the record before the cursor is where it was and what it was.
    fn holds(&self, offset: u64, length: u64, proof: &Proof) -> Result<Option<Last>, FeedFault> {
        self.reaches(offset, length)?;
        match proof.last {
            Some(last) if last.end == offset && last.start < offset => {
                let tail = self.read(last.tail_start(), last.tail_len())?;
                self.matches(&last, &tail)?;
            }
            None if offset == 0 => {}
            _ => {
                let detail = "the proof belongs to another cursor";
                return Err(self.fault(FaultKind::CursorForeign, Some(offset), detail));
            }
        }
        Ok(proof.last)
    }

    /// Whether the record before the cursor reads as it did.
    fn matches(&self, last: &Last, tail: &[u8]) -> Result<(), FeedFault> {
        if tail.len() < last.tail_len() {
            return self.reaches(last.end, last.tail_start() + tail.len() as u64);
        }
        if proof::hash(tail) == last.hash {
            return Ok(());
        }
        let detail = format!("the record that begins at {} reads otherwise now", last.start);
        Err(self.rewritten(last.end, detail))
    }

    /// Up to `length` bytes from `offset`; fewer only where the log ends.
    fn read(&self, offset: u64, length: usize) -> Result<Bytes, FeedFault> {
        let mut bytes = vec![0; length];
        let read = lines::read_full(&self.file, &mut bytes, offset)
            .map_err(|error| self.unreadable(Some(offset), &error))?;
        bytes.truncate(read);
        Ok(Bytes::from(bytes))
    }

    fn rewritten(&self, offset: u64, detail: impl Into<String>) -> FeedFault {
        self.fault(FaultKind::Rewritten, Some(offset), detail)
    }

    fn unreadable(&self, offset: Option<u64>, error: &std::io::Error) -> FeedFault {
        self.fault(FaultKind::Unreadable, offset, error.to_string())
    }

    fn fault(&self, kind: FaultKind, offset: Option<u64>, detail: impl Into<String>) -> FeedFault {
        FeedFault::new(kind, self.options.path.display().to_string(), PARTITION, offset, detail)
    }
}
