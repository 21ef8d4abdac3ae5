//! Reads a log in order, a block at a time.
//!
//! Each block is read from the start of the record before the cursor, so that every read also shows
//! whether that record is still what it was, and a line that a block cut off is simply read again.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cenotaph_core::{Cursor, Position};

use super::lines::{newline, record_len};
use super::proof::{self, Last, Proof};
use super::{Log, PARTITION};
use crate::source::{Batch, FeedFault, PartitionReader, RawRecord};

pub(super) struct FileReader {
    log: Arc<Log>,
    /// Nothing that begins here or later is read.
    until: Option<u64>,
    /// It came with a proof: what it finds holds for all who have none.
    leads: bool,
    block_bytes: usize,
    /// Where the next record begins.
    offset: u64,
    /// The record before it, where known.
    last: Option<Last>,
    /// The last record taken from the block, not yet hashed into `last`.
    taken: Option<(u64, u64)>,
    block: Bytes,
    /// Where the block begins in the log.
    block_start: u64,
    /// The line at `offset` is too long, and the block holds a later part of it.
    oversized: bool,
}

/// A complete line at the cursor.
struct Line {
    /// After its `\n`.
    end: u64,
    /// Without the end of the line.
    record: Record,
}

enum Record {
    /// From where to where in the block.
    Held(usize, usize),
    TooLarge(u64),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Filled {
    More,
    Nothing,
}

impl FileReader {
    pub(super) fn new(
        log: Arc<Log>,
        offset: u64,
        last: Option<Last>,
        until: Option<u64>,
    ) -> FileReader {
        FileReader {
            until,
            leads: false,
            block_bytes: log.options.block_bytes.max(1),
            log,
            offset,
            last,
            taken: None,
            block: Bytes::new(),
            block_start: offset,
            oversized: false,
        }
    }

    /// The same, for the reader that came with a proof.
    pub(super) fn leading(self) -> FileReader {
        FileReader { leads: true, ..self }
    }

    /// The same, for a reader that is after few bytes only.
    pub(super) fn with_block_bytes(self, block_bytes: usize) -> FileReader {
        FileReader { block_bytes: block_bytes.min(self.block_bytes), ..self }
    }

    fn block_end(&self) -> u64 {
        self.block_start + self.block.len() as u64
    }

    /// The bytes of the block that belong to the line at the cursor, or come after it.
    fn ahead(&self) -> usize {
        let skip = self.offset.saturating_sub(self.block_start) as usize;
        self.block.len().saturating_sub(skip)
    }

    /// The line at the cursor, if the block holds its end.
    fn line(&self) -> Option<Line> {
        let from = self.block.len() - self.ahead();
        let at = from + newline(&self.block[from..])?;
        let end = self.block_start + at as u64 + 1;
        let length = record_len(&self.block[from..at]);
        let record = if self.oversized {
            Record::TooLarge(end - 1 - self.offset)
        } else if length > self.log.options.max_record_bytes {
            Record::TooLarge(length as u64)
        } else {
            Record::Held(from, from + length)
        };
        Some(Line { end, record })
    }

    /// Moves past a line and makes a record of it.
    fn take(&mut self, line: Line) -> Result<RawRecord, FeedFault> {
        let epoch = self.log.options.epoch;
        let position = Position { partition: PARTITION, epoch, offset: self.offset };
        let (bytes, too_large) = match line.record {
            Record::Held(from, to) => (self.block.slice(from..to), None),
            Record::TooLarge(length) => (Bytes::new(), Some(length)),
        };
        if self.oversized {
            self.last = Some(self.look_at_end(line.end)?);
            self.taken = None;
            self.oversized = false;
        } else {
            self.taken = Some((self.offset, line.end));
        }
        self.offset = line.end;
        Ok(RawRecord { position, bytes, too_large })
    }

    /// The end of an oversized line is read once more: the block may hold only part of it.
    fn look_at_end(&self, end: u64) -> Result<Last, FeedFault> {
        let last = Last { start: self.offset, end, hash: 0 };
        let tail = self.log.read(last.tail_start(), last.tail_len())?;
        self.log.reaches(end, last.tail_start() + tail.len() as u64)?;
        Ok(Last { hash: proof::hash(&tail), ..last })
    }

    /// Hashes the record before the cursor, while the block still holds it as it was read.
    fn seal(&mut self) {
        let Some((start, end)) = self.taken.take() else { return };
        let from = proof::tail_start(start, end).saturating_sub(self.block_start) as usize;
        let to = end.saturating_sub(self.block_start) as usize;
        let hash = proof::hash(&self.block[from..to]);
        self.last = Some(Last { start, end, hash });
    }

    /// Reads on, where the block holds no complete line any more.
    fn fill(&mut self) -> Result<Filled, FeedFault> {
        if !self.leads {
            self.log.proved()?;
        }
        let length = self.log.length()?;
        self.log.reaches(self.until.unwrap_or(self.offset).max(self.offset), length)?;
        if self.oversized && length < self.block_end() {
            // The writer took back a line that it had not finished.
            self.oversized = false;
            self.block = Bytes::new();
            self.block_start = self.offset;
        }
        let end = self.until.map_or(length, |until| until.min(length));
        if end <= self.offset {
            return Ok(Filled::Nothing);
        }
        if end == self.block_end() {
            return match self.until {
                Some(until) if until == end => {
                    Err(self.log.rewritten(until, "no line ends where the reading is to end"))
                }
                _ => Ok(Filled::Nothing),
            };
        }
        if self.oversized {
            return self.fill_oversized(end);
        }
        self.fill_block(end)
    }

    fn fill_block(&mut self, end: u64) -> Result<Filled, FeedFault> {
        self.seal();
        let partial = self.ahead();
        let most = self.log.options.max_record_bytes.saturating_add(2);
        if partial >= most {
            self.oversized = true;
            return self.fill_oversized(end);
        }
        let start = self.last.map_or(self.offset, |last| last.tail_start());
        let overlap = (self.offset - start) as usize;
        let room = partial.saturating_mul(2).min(most).max(self.block_bytes);
        let want = overlap.saturating_add(room).min((end - start) as usize);
        let block = self.log.read(start, want)?;
        if let Some(last) = &self.last {
            self.log.matches(last, &block[..block.len().min(last.tail_len())])?;
        }
        self.block_start = start;
        self.block = block;
        Ok(if self.ahead() > 0 { Filled::More } else { Filled::Nothing })
    }

    fn fill_oversized(&mut self, end: u64) -> Result<Filled, FeedFault> {
        let start = self.block_end();
        let want = self.block_bytes.min((end - start) as usize);
        self.block = self.log.read(start, want)?;
        self.block_start = start;
        Ok(if self.block.is_empty() { Filled::Nothing } else { Filled::More })
    }

    fn batch(&mut self, records: Vec<RawRecord>, at_end: bool) -> Batch {
        self.seal();
        let cursor = Cursor { epoch: self.log.options.epoch, offset: self.offset };
        let proof = Proof { identity: self.log.identity, last: self.last };
        Batch { records, cursor, proof: proof.encode(), at_end }
    }
}

impl FileReader {
    /// Takes records until there are enough, or no more. Answers whether the end was seen.
    fn gather(
        &mut self,
        records: &mut Vec<RawRecord>,
        max_records: usize,
        max_bytes: usize,
        wait: Duration,
    ) -> Result<bool, FeedFault> {
        let (started, mut bytes) = (Instant::now(), 0_usize);
        loop {
            while let Some(line) = self.line() {
                bytes = bytes.saturating_add(match line.record {
                    Record::Held(from, to) => to - from,
                    Record::TooLarge(_) => 0,
                });
                if !records.is_empty() && (records.len() >= max_records || bytes > max_bytes) {
                    return Ok(false);
                }
                records.push(self.take(line)?);
            }
            if records.len() >= max_records.max(1) {
                return Ok(false);
            }
            let filled = self.fill()?;
            let left = wait.saturating_sub(started.elapsed());
            match filled {
                // A line may be too long to be passed in one go.
                Filled::More if self.oversized && left.is_zero() => return Ok(false),
                Filled::More => {}
                Filled::Nothing => {
                    let reached = self.until.is_some_and(|until| self.offset >= until);
                    if !records.is_empty() || reached || left.is_zero() {
                        return Ok(true);
                    }
                    thread::sleep(left.min(self.log.options.poll));
                }
            }
        }
    }
}

impl PartitionReader for FileReader {
    fn read_batch(
        &mut self,
        max_records: usize,
        max_bytes: usize,
        wait: Duration,
    ) -> Result<Batch, FeedFault> {
        let mut records = Vec::new();
        match self.gather(&mut records, max_records, max_bytes, wait) {
            Ok(at_end) => Ok(self.batch(records, at_end)),
            // What was read before the fault was sound, and may be nowhere else any more. The next
            // call meets the fault again.
            Err(_) if !records.is_empty() => Ok(self.batch(records, false)),
            Err(fault) => {
                let found = Err(fault);
                if self.leads {
                    self.log.standing.note(&found);
                }
                found
            }
        }
    }
}
