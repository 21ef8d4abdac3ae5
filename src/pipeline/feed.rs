//! Where a pipeline's changes come from: the window, or, for one that has fallen out of it, the
//! source itself. A batch is taken, worked on, and only then passed: what fails is taken again.

use std::sync::Arc;
use std::time::Duration;

use cenotaph_core::decide::Acceptance;
use cenotaph_core::{Cursor, Cursors, Identified, Position};

use crate::ledger::Ledger;
use crate::reading::Reading;
use crate::source::{FeedFault, PartitionReader, ReadAtError, SharedSource};
use crate::window::{Chunk, Next, Window};

/// Chunks between a pipeline that comes back and the edge that it could fall off again.
const ENTRY_MARGIN_CHUNKS: usize = 4;

/// One change, with what is known of its position.
#[derive(Debug, Clone)]
pub struct Held {
    /// The change.
    pub identified: Identified,
    /// Whether it was accepted.
    pub acceptance: Acceptance,
}

/// The next changes of one partition.
#[derive(Debug)]
pub struct Batch {
    /// The changes, in order.
    pub changes: Vec<Held>,
    /// The partition.
    pub partition: u32,
    /// The cursor after them.
    pub cursor: Cursor,
    /// What passing this batch does to the feed.
    passes: Passes,
}

#[derive(Debug, Clone, Copy)]
enum Passes {
    /// Part of a chunk, or all of it.
    Chunk { sequence: u64, taken: usize, all: bool },
    /// Records of the source.
    Read,
}

enum Place {
    /// In the window, at a chunk, with so many of its changes passed.
    Window { sequence: u64, passed: usize },
    /// Outside: a reader of the source's own.
    Source(Option<CatchUp>),
}

struct CatchUp {
    partition: u32,
    reader: Box<dyn PartitionReader>,
    until: Cursor,
}

/// The feed of one pipeline.
pub struct Feed {
    window: Arc<Window>,
    source: SharedSource,
    ledger: Ledger,
    reading: Reading,
    place: Place,
    retry: Option<Batch>,
}

impl Feed {
    /// A feed that begins outside the window.
    #[must_use]
    pub fn new(
        window: Arc<Window>,
        source: SharedSource,
        ledger: Ledger,
        reading: Reading,
    ) -> Feed {
        Feed { window, source, ledger, reading, place: Place::Source(None), retry: None }
    }

    /// Begins anew, from whatever cursors come with the next call.
    pub fn rewind(&mut self) {
        self.place = Place::Source(None);
        self.retry = None;
    }

    /// Puts back a batch that could not be applied; the next call answers it again.
    pub fn put_back(&mut self, batch: Batch) {
        self.retry = Some(batch);
    }

    /// Whether it reads from the window.
    #[must_use]
    pub fn in_window(&self) -> bool {
        matches!(self.place, Place::Window { .. })
    }

    /// Reads an owed position again, as a batch of its own that moves no cursor; none if it is no
    /// change.
    ///
    /// # Errors
    /// [`ReadAtError`] if it cannot be read any more.
    pub fn owed(&mut self, position: Position) -> Result<Option<Batch>, ReadAtError> {
        let record = self.source.read_at(position)?;
        let Some(identified) = self.reading.change(record) else { return Ok(None) };
        // Read out of its order: only what is current may be written, or an older version would
        // replace a newer one that was applied meanwhile (I5).
        let changes = vec![Held { identified, acceptance: Acceptance::Gone }];
        let (partition, cursor) = (position.partition, position.cursor());
        Ok(Some(Batch { changes, partition, cursor, passes: Passes::Read }))
    }

    /// The next batch for a pipeline at `cursors`, at most `max_records` changes; none if there is
    /// nothing that ingest has decided and this pipeline has not read.
    ///
    /// # Errors
    /// [`FeedFault`] if the source cannot be read.
    pub fn next(
        &mut self,
        cursors: &Cursors,
        max_records: usize,
        max_bytes: usize,
    ) -> Result<Option<Batch>, FeedFault> {
        if let Some(batch) = self.retry.take() {
            return Ok(Some(batch));
        }
        if let Place::Window { sequence, passed } = self.place {
            match self.window.get(sequence) {
                Next::Chunk(chunk) => {
                    return Ok(Some(from_chunk(
                        &chunk,
                        sequence,
                        passed,
                        cursors,
                        (max_records, max_bytes),
                    )));
                }
                Next::CaughtUp => return Ok(None),
                Next::FallenOut => self.place = Place::Source(None),
            }
        }
        if matches!(self.place, Place::Source(None)) && self.enter_window(cursors) {
            return self.next(cursors, max_records, max_bytes);
        }
        self.catch_up(cursors, max_records, max_bytes)
    }

    /// Whether there is more to work on at once.
    #[must_use]
    pub fn has_more(&self) -> bool {
        match self.place {
            Place::Window { sequence, passed } => passed > 0 || self.window.end() > sequence,
            Place::Source(_) => true,
        }
    }

    /// The batch was worked on: goes on behind it.
    pub fn pass(&mut self, batch: &Batch) {
        if let Passes::Chunk { sequence, taken, all } = batch.passes {
            self.place = match all {
                true => Place::Window { sequence: sequence + 1, passed: 0 },
                false => Place::Window { sequence, passed: taken },
            };
        }
    }

    fn enter_window(&mut self, cursors: &Cursors) -> bool {
        // Asked before the ingest cursor: a chunk pushed in between is behind both.
        let end = self.window.end();
        let sequence = self
            .window
            .entry(cursors, ENTRY_MARGIN_CHUNKS)
            .or_else(|| caught_up(&self.ledger.ingest_cursors(), cursors).then_some(end));
        if let Some(sequence) = sequence {
            self.place = Place::Window { sequence, passed: 0 };
        }
        sequence.is_some()
    }

    fn catch_up(
        &mut self,
        cursors: &Cursors,
        max_records: usize,
        max_bytes: usize,
    ) -> Result<Option<Batch>, FeedFault> {
        let Some(mut reader) = self.reader(cursors)? else { return Ok(None) };
        let read = reader.reader.read_batch(max_records, max_bytes, Duration::ZERO)?;
        let mut changes = Vec::with_capacity(read.records.len());
        for record in read.records {
            let position = record.position;
            if let Some(identified) = self.reading.change(record) {
                let acceptance = self.ledger.acceptance(position);
                changes.push(Held { identified, acceptance });
            }
        }
        let partition = reader.partition;
        let cursor = read.cursor;
        // Whoever has read up to where ingest was looks for the window again.
        let done = read.at_end || cursor >= reader.until;
        self.place = Place::Source((!done).then_some(reader));
        Ok(Some(Batch { changes, partition, cursor, passes: Passes::Read }))
    }

    /// The open reader, or one for a partition in which ingest is ahead.
    fn reader(&mut self, cursors: &Cursors) -> Result<Option<CatchUp>, FeedFault> {
        if let Place::Source(reader) = &mut self.place
            && let Some(reader) = reader.take()
        {
            return Ok(Some(reader));
        }
        let ingested = self.ledger.ingest_cursors();
        let behind = ingested.into_iter().find(|(partition, until)| {
            cursors.get(partition).copied().unwrap_or_default() < *until
        });
        let Some((partition, until)) = behind else { return Ok(None) };
        let from = cursors.get(&partition).copied().unwrap_or_default();
        let reader = self.source.reader(partition, from, until)?;
        Ok(Some(CatchUp { partition, reader, until }))
    }
}

fn caught_up(ingested: &Cursors, cursors: &Cursors) -> bool {
    ingested
        .iter()
        .all(|(partition, at)| cursors.get(partition).copied().unwrap_or_default() >= *at)
}

/// How many of these fit into one call; at least one, whatever its size.
fn fitting(changes: &[Identified], max_records: usize, max_bytes: usize) -> usize {
    let mut bytes = 0;
    let fits = |identified: &&Identified| {
        bytes += identified.change.payload.as_ref().map_or(0, bytes::Bytes::len);
        bytes <= max_bytes
    };
    changes.iter().take(max_records).take_while(fits).count().max(1).min(changes.len())
}

fn from_chunk(
    chunk: &Chunk,
    sequence: u64,
    passed: usize,
    cursors: &Cursors,
    (max_records, max_bytes): (usize, usize),
) -> Batch {
    let taken = passed + fitting(&chunk.changes[passed..], max_records, max_bytes);
    let all = taken == chunk.changes.len();
    let read_until = cursors.get(&chunk.partition).copied().unwrap_or_default();
    let changes: Vec<Held> = chunk.changes[passed..taken]
        .iter()
        .filter(|identified| identified.change.position.cursor() >= read_until)
        .map(|identified| Held {
            identified: identified.clone(),
            acceptance: Acceptance::Known(true),
        })
        .collect();
    let cursor = match chunk.changes.get(taken) {
        Some(next) if !all => next.change.position.cursor(),
        _ => chunk.cursor,
    };
    let passes = Passes::Chunk { sequence, taken, all };
    Batch { changes, partition: chunk.partition, cursor: cursor.max(read_until), passes }
}
