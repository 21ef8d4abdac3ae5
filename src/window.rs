//! The newest accepted changes, in memory, for every pipeline at once: in steady state the stream is
//! read and decoded once and fanned out. Bounded in bytes; whoever has fallen out of it reads the
//! source again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cenotaph_core::{Cursor, Cursors, Identified};
use parking_lot::Mutex;
use tokio::sync::watch;

/// What one frame of ingest accepted, and how far it read.
#[derive(Debug)]
pub struct Chunk {
    /// Where ingest stood before it, in every partition.
    pub begins_at: Cursors,
    /// The partition that it read.
    pub partition: u32,
    /// How far.
    pub cursor: Cursor,
    /// The accepted changes that carry content, in order.
    pub changes: Vec<Identified>,
    bytes: u64,
    in_flight: Arc<AtomicU64>,
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.in_flight.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What a pipeline gets when it asks for the chunk after its own.
#[derive(Debug)]
pub enum Next {
    /// The chunk.
    Chunk(Arc<Chunk>),
    /// Nothing newer was accepted.
    CaughtUp,
    /// It has been evicted: read the source from your own cursor.
    FallenOut,
}

/// The window.
#[derive(Debug)]
pub struct Window {
    inner: Mutex<Inner>,
    max_bytes: u64,
    in_flight: Arc<AtomicU64>,
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The sequence number of the chunk at the front.
    first: u64,
    chunks: VecDeque<Arc<Chunk>>,
    bytes: u64,
}

/// What a change costs in memory beside its payload: names, hashes and the struct itself.
const CHANGE_OVERHEAD_BYTES: u64 = 512;

impl Window {
    /// An empty window of at most `max_bytes`.
    #[must_use]
    pub fn new(max_bytes: u64) -> Window {
        Window {
            inner: Mutex::default(),
            max_bytes,
            in_flight: Arc::default(),
            newest: watch::Sender::new(0),
        }
    }

    /// Adds what a frame accepted; evicts the oldest until the rest fits.
    pub fn push(
        &self,
        begins_at: Cursors,
        partition: u32,
        cursor: Cursor,
        changes: Vec<Identified>,
    ) {
        let bytes = changes.iter().map(weight).sum::<u64>() + CHANGE_OVERHEAD_BYTES;
        self.in_flight.fetch_add(bytes, Ordering::Relaxed);
        let in_flight = Arc::clone(&self.in_flight);
        let chunk = Chunk { begins_at, partition, cursor, changes, bytes, in_flight };
        let mut evicted = Vec::new();
        let newest = {
            let mut inner = self.inner.lock();
            inner.bytes += bytes;
            inner.chunks.push_back(Arc::new(chunk));
            while inner.bytes > self.max_bytes && inner.chunks.len() > 1 {
                if let Some(oldest) = inner.chunks.pop_front() {
                    inner.bytes -= oldest.bytes;
                    inner.first += 1;
                    evicted.push(oldest);
                }
            }
            inner.first + inner.chunks.len() as u64
        };
        // Dropped outside the lock: freeing a chunk's payloads takes a while.
        drop(evicted);
        self.newest.send_replace(newest);
    }

    /// The chunk with this sequence number.
    #[must_use]
    pub fn get(&self, sequence: u64) -> Next {
        let inner = self.inner.lock();
        match sequence.checked_sub(inner.first) {
            None => Next::FallenOut,
            Some(at) => match usize::try_from(at).ok().and_then(|at| inner.chunks.get(at)) {
                Some(chunk) => Next::Chunk(Arc::clone(chunk)),
                None => Next::CaughtUp,
            },
        }
    }

    /// The newest chunk from which a pipeline at `cursors` misses nothing, provided that chunk is
    /// well inside the window: at least `margin` chunks are older than it, or none was evicted yet.
    #[must_use]
    pub fn entry(&self, cursors: &Cursors, margin: usize) -> Option<u64> {
        let inner = self.inner.lock();
        let found = inner.chunks.iter().rposition(|chunk| covers(&chunk.begins_at, cursors))?;
        (inner.first == 0 || found >= margin).then(|| inner.first + found as u64)
    }

    /// Where the next chunk will stand.
    #[must_use]
    pub fn end(&self) -> u64 {
        let inner = self.inner.lock();
        inner.first + inner.chunks.len() as u64
    }

    /// Tells when chunks are added.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// The bytes held, by the window and by the pipelines that still work on what it evicted.
    #[must_use]
    pub fn bytes_in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }
}

/// Whether a chunk that begins at `begin` comes after everything that `cursors` have not read.
fn covers(begin: &Cursors, cursors: &Cursors) -> bool {
    begin.iter().all(|(partition, at)| *at <= cursors.get(partition).copied().unwrap_or_default())
}

fn weight(identified: &Identified) -> u64 {
    CHANGE_OVERHEAD_BYTES
        + identified.change.payload.as_ref().map_or(0, |payload| payload.len() as u64)
}
