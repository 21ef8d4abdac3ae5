//! Source -> envelope -> writer: reads one partition, for ever, ahead of every destination and held
//! back by none. Nothing it reads is acted on by anybody before the writer has journalled it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use cenotaph_core::Cursor;
use parking_lot::Mutex;

use crate::ledger::{
    IngestAnswer, IngestBatch, IngestStop, Ingested, Ledger, LedgerError, Stopped,
};
use crate::reading::Reading;
use crate::source::{Batch, FeedFault, PartitionInfo, PartitionReader, SharedSource};
use crate::stop::Stop;

/// How long a partition that failed is left alone before it is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// How a partition stands, for the API.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartitionStanding {
    /// Why it does not go on, and what to do.
    pub error: Option<String>,
}

/// Bounds of one read.
#[derive(Debug, Clone, Copy)]
pub struct ReadBounds {
    /// The most records in a frame.
    pub max_records: usize,
    /// The most bytes in a frame.
    pub max_bytes: usize,
    /// How long to wait for records.
    pub wait: Duration,
}

/// Why a partition does not go on.
#[derive(Debug, thiserror::Error)]
enum Halt {
    #[error(transparent)]
    Feed(#[from] FeedFault),
    #[error("{0}")]
    Stopped(String),
    #[error("the ledger stands elsewhere than where the log was read from; it is read again")]
    NotNext,
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// The ingest of one partition.
pub struct Ingest {
    /// The source.
    pub source: SharedSource,
    /// The partition.
    pub partition: PartitionInfo,
    /// Decodes.
    pub reading: Reading,
    /// The ledger.
    pub ledger: Ledger,
    /// Bounds.
    pub bounds: ReadBounds,
    /// How it stands.
    pub standing: Arc<Mutex<PartitionStanding>>,
    /// Says when to stop.
    pub stop: Stop,
}

impl Ingest {
    /// Runs until told to stop. A fault of the feed fails the partition, not the process: it is
    /// said, and tried again, because an operator may put the log back.
    ///
    /// # Errors
    /// [`LedgerError`] if the ledger has stopped.
    pub fn run(mut self) -> Result<(), LedgerError> {
        while !self.stop.is_set() {
            match self.read() {
                Ok(()) => break,
                Err(Halt::Ledger(error)) => return Err(error),
                Err(halt) => {
                    self.told(&halt);
                    self.stop.wait(RETRY);
                }
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), Halt> {
        let PartitionInfo { partition, feed, epoch } = self.partition.clone();
        let (cursor, proof) = self.ledger.ingest_position(partition);
        let mut reader = self.source.read_from(partition, cursor, &proof)?;
        let mut read_to = cursor;
        let mut under_way = UnderWay::default();
        // Only a feed that has proved to be the one that was read is noted.
        self.ledger.feed_met(partition, feed, epoch)?;
        let mut goes_on = false;
        while !self.stop.is_set() {
            let ReadBounds { max_records, max_bytes, wait } = self.bounds;
            let batch = match reader.read_batch(max_records, max_bytes, wait) {
                Ok(batch) => batch,
                Err(fault) => {
                    // Whoever tries again must find it decided.
                    under_way.settle(0)?;
                    return Err(fault.into());
                }
            };
            let moved = batch.cursor != read_to;
            if moved {
                // Decoded while the writer is at the batch before it.
                let batch = self.decode(batch, read_to);
                read_to = batch.cursor;
                under_way.add(self.ledger.begin_ingest(batch)?);
            }
            // The first batch is waited for: a record in the way may stand in it.
            if let Some(stopped) = under_way.settle(usize::from(moved && goes_on))? {
                // Read after a record that stands in the way: read again once that is settled.
                reader = self.go_up_to(&stopped)?;
                read_to = self.ledger.ingest_cursor(partition);
            } else if !goes_on {
                goes_on = true;
                self.recovered();
            }
        }
        under_way.settle(0)?;
        Ok(())
    }

    fn decode(&mut self, batch: Batch, begin: Cursor) -> IngestBatch {
        let Batch { records, cursor, proof, .. } = batch;
        let read = records.len() as u64;
        let items = records.into_iter().map(|record| self.reading.item(record)).collect();
        let partition = self.partition.partition;
        IngestBatch { partition, begin, items, read, cursor, proof }
    }

    /// A record stands in the way: decides what is before it, then the partition halts there.
    fn go_up_to(&mut self, stopped: &Stopped) -> Result<Box<dyn PartitionReader>, Halt> {
        if stopped.index == 0 {
            return Err(Halt::Stopped(describe(&stopped.reason)));
        }
        let partition = self.partition.partition;
        let (cursor, proof): (Cursor, Vec<u8>) = self.ledger.ingest_position(partition);
        let mut reader = self.source.read_from(partition, cursor, &proof)?;
        let batch = reader.read_batch(stopped.index, self.bounds.max_bytes, self.bounds.wait)?;
        let batch = self.decode(batch, cursor);
        match self.ledger.begin_ingest(batch)?.wait()? {
            Ingested::Stopped(stopped) => Err(Halt::Stopped(describe(&stopped.reason))),
            Ingested::Decided => Ok(reader),
            Ingested::NotNext => Err(Halt::NotNext),
        }
    }

    fn recovered(&self) {
        let mut standing = self.standing.lock();
        if standing.error.take().is_some() {
            tracing::info!(partition = self.partition.partition, "the partition goes on");
        }
    }

    /// Says it once, not at each attempt.
    fn told(&self, halt: &Halt) {
        let message = halt.to_string();
        let mut standing = self.standing.lock();
        if standing.error.as_ref() != Some(&message) {
            tracing::error!(partition = self.partition.partition, error = %message, "the partition has failed");
            standing.error = Some(message);
        }
    }
}

/// The batches that the writer has: the one that it is at, and the next one, so that it need not
/// wait for it. A batch after a stopped one is not decided.
#[derive(Default)]
struct UnderWay {
    answers: VecDeque<IngestAnswer>,
}

impl UnderWay {
    fn add(&mut self, answer: IngestAnswer) {
        self.answers.push_back(answer);
    }

    /// Waits until at most so many are under way; for all of them, once one was stopped.
    fn settle(&mut self, most: usize) -> Result<Option<Stopped>, Halt> {
        let mut found = None;
        while self.answers.len() > if found.is_some() { 0 } else { most } {
            let Some(answer) = self.answers.pop_front() else { break };
            match answer.wait()? {
                Ingested::Decided => {}
                Ingested::Stopped(stopped) => found = Some(stopped),
                Ingested::NotNext if found.is_some() => {}
                Ingested::NotNext => return Err(Halt::NotNext),
            }
        }
        Ok(found)
    }
}

fn describe(stop: &IngestStop) -> String {
    match stop {
        IngestStop::QuarantineFull { position } => format!(
            "the quarantine is full, and the record at partition {} offset {} belongs there; \
             resolve what waits in it, or raise ledger.quarantine_max",
            position.partition, position.offset
        ),
        IngestStop::Conflict { position, reason } => format!(
            "the record at partition {} offset {} is in conflict ({reason:?}), and the \
             collection's on_conflict is \"stop\"; correct the record's source, or choose another \
             on_conflict",
            position.partition, position.offset
        ),
    }
}
