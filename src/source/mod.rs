//! Where changes come from: one ordered change stream, in one or more partitions.
//!
//! A [`Source`] is a handle that any thread may use; every method blocks, so it is called from a
//! thread of its own and never from the runtime. One thread reads a partition for the whole worker:
//!
//! ```text
//! read_from(cursor, proof) -> ( read_batch )* ; journal cursor and proof ; … ; safe_to_forget
//! ```
//!
//! A pipeline that fell behind opens a [`Source::reader`] of its own, from its cursor to what ingest
//! has decided; an owed change is read again by [`Source::read_at`].
//!
//! A feed that is no longer the one that was read (truncated, replaced, rewritten) is a
//! [`FeedFault`]. It fails its partition, never the process, and nothing is skipped: a deletion that
//! stood in the lost part would be lost with it. After a fault the reader is of no more use; open
//! another one.

mod fault;
mod file;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cenotaph_core::{Cursor, Cursors, Position};

pub use fault::{FaultKind, FeedFault, ReadAtError};
pub use file::{DEFAULT_BLOCK_BYTES, DEFAULT_MAX_RECORD_BYTES, FileOptions, FileSource};

/// A source that several threads share.
pub type SharedSource = Arc<dyn Source>;

/// What a feed promises. See the [module](self) for who calls what.
pub trait Source: Send + Sync + std::fmt::Debug {
    /// The partitions, each with the identity and the epoch of its feed.
    ///
    /// # Errors
    /// [`FeedFault`] if the feed is not there or is not what it was.
    fn partitions(&self) -> Result<Vec<PartitionInfo>, FeedFault>;

    /// Reads a partition on from `cursor`, for ever. `proof` is what [`Batch::proof`] said at that
    /// cursor; it may be empty only at the very beginning.
    ///
    /// # Errors
    /// [`FeedFault`] if the log before the cursor is not the one that was read.
    fn read_from(
        &self,
        partition: u32,
        cursor: Cursor,
        proof: &[u8],
    ) -> Result<Box<dyn PartitionReader>, FeedFault>;

    /// Reads a partition again from `cursor`, and never at or past `until`, which must be a cursor
    /// that a reader of this feed has answered. No proof is needed, but nothing is read before
    /// [`Source::read_from`] has been given one, nor after that found the feed at fault: another log
    /// in the place of this one would be taken for it.
    ///
    /// # Errors
    /// [`FeedFault`] if the feed does not reach from one to the other, or is not proved.
    fn reader(
        &self,
        partition: u32,
        cursor: Cursor,
        until: Cursor,
    ) -> Result<Box<dyn PartitionReader>, FeedFault>;

    /// Reads one record again, under the same condition.
    ///
    /// # Errors
    /// [`ReadAtError::Gone`] if the feed does not hold a record at this position any more.
    fn read_at(&self, position: Position) -> Result<RawRecord, ReadAtError>;

    /// Where a partition begins and ends now.
    ///
    /// # Errors
    /// [`FeedFault`] if the feed is not there or is not what it was.
    fn marks(&self, partition: u32) -> Result<Marks, FeedFault>;

    /// Nothing before these cursors will be asked for again, on the word of every destination: the
    /// place for offset commits. Advisory; it may be called seldom and may do nothing.
    fn safe_to_forget(&self, cursors: &Cursors);
}

/// Reads one partition in order.
pub trait PartitionReader: Send {
    /// The next records: at least one if there is one, then as many as are there at once, at most
    /// `max_records`, and no more than `max_bytes` unless the first alone is longer. Where there is
    /// none, waits up to `wait` for one; the batch may then be empty, and its cursor may have moved
    /// all the same.
    ///
    /// # Errors
    /// [`FeedFault`] if the feed is no longer the one that was read; records read before that are
    /// answered first.
    fn read_batch(
        &mut self,
        max_records: usize,
        max_bytes: usize,
        wait: Duration,
    ) -> Result<Batch, FeedFault>;
}

/// One partition and the feed behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionInfo {
    /// Its number.
    pub partition: u32,
    /// Which feed this is, in the source's words: another topic of the same name is another feed.
    pub feed: String,
    /// The feed's epoch.
    pub epoch: u32,
}

/// Records in order, and how far they bring the reader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// The records.
    pub records: Vec<RawRecord>,
    /// The cursor after them: progress even where there are no records.
    pub cursor: Cursor,
    /// What [`Source::read_from`] needs to go on at that cursor.
    pub proof: Vec<u8>,
    /// There was no more to read when the source last looked; for a reader with an end, it is
    /// reached.
    pub at_end: bool,
}

/// One record as it was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawRecord {
    /// Where it stands.
    pub position: Position,
    /// Its bytes, without the end of the line. They share a read block with their neighbours.
    pub bytes: Bytes,
    /// Its length, if it is longer than allowed; then there are no bytes.
    pub too_large: Option<u64>,
}

/// Where a partition begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    /// The lowest cursor that can be read from.
    pub low: Cursor,
    /// The cursor after the last complete record.
    pub end: Cursor,
}
