//! A checkpoint: writes a frozen table into the view, on a thread of its own.
//!
//! Buckets go in batches; each carries the number of this checkpoint and what it replaced, so that a
//! checkpoint that did not end is told from damage: the older one stands, and the journal fills the
//! rest. The meta record is written last, after everything else is synced.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cenotaph_core::{KeyHash, ObjectId};
use serde::Serialize;
use sled::IVec;

use super::boundary::{self, Boundary};
use super::bucket::{Bucket, Piece, SPLIT_ABOVE, SPLIT_ABOVE_BYTES, TARGET, pack};
use super::directory::{Directory, Ordinal};
use super::frame::Mark;
use super::journal::{JournalError, rewrite_absorbed};
use super::requests::RequestsKept;
use super::table::{KeptTombstone, ObjectRows, Table};
use super::view::{
    self, FORMAT, META, Meta, Stamp, TOMBSTONES, View, ViewError, bucket_key, confirmation_key,
    request_key, sealed, share, stamp_of, state_key, tombstone_key,
};

/// Buckets of one batch: larger ones make sled hold everybody up.
const BATCH: usize = 64;

/// Where a checkpoint is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Entries.
    Buckets,
    /// Tombstones, confirmations, requests, the small state.
    Rest,
    /// Everything but the meta record is synced.
    Meta,
    /// Segments are rewritten without notes.
    Segments,
}

impl Step {
    const ALL: [Step; 4] = [Step::Buckets, Step::Rest, Step::Meta, Step::Segments];
}

/// A checkpoint could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// One is under way.
    #[error("a checkpoint is under way")]
    Busy,
    /// The view.
    #[error(transparent)]
    View(#[from] ViewError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Its thread is gone.
    #[error("the checkpoint's thread ended without an answer; start the worker again")]
    Lost,
    /// Its thread could not be started.
    #[error("the checkpoint's thread could not be started: {0}; raise the process's limits")]
    Thread(std::io::Error),
    /// A test stopped it here.
    #[error("stopped by a test")]
    Stopped,
}

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// The step.
    pub step: Step,
    /// Buckets written.
    pub buckets: usize,
    /// How long nothing has moved.
    pub quiet_for: Duration,
}

/// What the storage says of it.
#[derive(Debug)]
pub enum Checkpointing {
    /// None is under way.
    Idle,
    /// One is.
    Writing(Progress),
    /// One has ended just now.
    Finished(CheckpointReport),
}

/// What one did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointReport {
    /// Its number.
    pub checkpoint: u64,
    /// Buckets written.
    pub buckets: usize,
    /// Segments rewritten.
    pub segments: usize,
}

/// Everything one needs.
pub(super) struct Work {
    pub(super) view: View,
    pub(super) table: Arc<Table>,
    pub(super) directory: Arc<Directory>,
    pub(super) through: Mark,
    pub(super) ledger: [u8; 16],
    pub(super) state: Vec<(String, Vec<u8>)>,
    pub(super) before: Option<Meta>,
    pub(super) digest: u64,
    pub(super) journal: std::path::PathBuf,
    pub(super) keep_bytes: u64,
    pub(super) requests_kept: RequestsKept,
    pub(super) stop_after: Option<Step>,
}

/// What one has made.
pub(super) struct Done {
    pub(super) directory: Directory,
    pub(super) meta: Meta,
    pub(super) digest: u64,
    pub(super) report: CheckpointReport,
}

/// One under way.
pub(super) struct Running {
    answer: Receiver<Result<Done, CheckpointError>>,
    thread: Option<JoinHandle<()>>,
    watch: Arc<Watch>,
}

struct Watch {
    begun: Instant,
    step: AtomicUsize,
    buckets: AtomicUsize,
    moved_ms: AtomicU64,
}

impl Watch {
    fn moved(&self, step: Step, buckets: usize) {
        self.step.store(step as usize, Ordering::Relaxed);
        self.buckets.fetch_add(buckets, Ordering::Relaxed);
        let since = self.begun.elapsed().as_millis();
        self.moved_ms.store(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Running {
    pub(super) fn start(
        work: Work,
        wake: Option<Arc<dyn Fn() + Send + Sync>>,
    ) -> Result<Running, CheckpointError> {
        let watch = Arc::new(Watch {
            begun: Instant::now(),
            step: AtomicUsize::new(0),
            buckets: AtomicUsize::new(0),
            moved_ms: AtomicU64::new(0),
        });
        let (sender, answer) = sync_channel(1);
        let watched = Arc::clone(&watch);
        let thread = std::thread::Builder::new()
            .name("ledger-checkpoint".into())
            .spawn(move || {
                // Whoever asked may have gone; what is written stands all the same.
                let _ = sender.send(make(&work, &watched));
                if let Some(wake) = wake {
                    wake();
                }
            })
            .map_err(CheckpointError::Thread)?;
        Ok(Running { answer, thread: Some(thread), watch })
    }

    pub(super) fn poll(&self) -> Option<Result<Done, CheckpointError>> {
        match self.answer.try_recv() {
            Ok(answer) => Some(answer),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(CheckpointError::Lost)),
        }
    }

    pub(super) fn progress(&self) -> Progress {
        let moved = Duration::from_millis(self.watch.moved_ms.load(Ordering::Relaxed));
        let step = self.watch.step.load(Ordering::Relaxed);
        Progress {
            step: Step::ALL.get(step).copied().unwrap_or(Step::Buckets),
            buckets: self.watch.buckets.load(Ordering::Relaxed),
            quiet_for: self.watch.begun.elapsed().saturating_sub(moved),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // It ends by itself: everything it waits for is this disk.
            let _ = thread.join();
        }
    }
}

fn make(work: &Work, watch: &Watch) -> Result<Done, CheckpointError> {
    let checkpoint = work.before.map_or(0, |meta| meta.checkpoint) + 1;
    let mut merged = Merged { digest: work.digest, changed: Vec::new() };
    buckets(work, checkpoint, &mut merged, watch)?;
    boundary::at(Boundary::BucketsWritten, &work.journal);
    stop_if(work, Step::Buckets)?;
    watch.moved(Step::Rest, 0);
    let mut put = Put { work, checkpoint, digest: merged.digest, batch: sled::Batch::default() };
    tombstones(work, &mut put)?;
    confirmations(work, &mut put)?;
    requests(work, &mut put)?;
    let digest = put.finish()?;
    let state_chunks = state(work, checkpoint)?;
    work.view.sync()?;
    boundary::at(Boundary::RestSynced, &work.journal);
    stop_if(work, Step::Rest)?;
    watch.moved(Step::Meta, 0);
    let meta = Meta {
        format: FORMAT,
        ledger: work.ledger,
        checkpoint,
        frame: work.through.frame,
        frame_hash: work.through.frame_hash.0,
        fact: work.through.fact,
        fact_hash: work.through.fact_hash.0,
        digest,
        state_chunks,
    };
    work.view.tree.insert(META, view::encode(&meta)?).map_err(ViewError::from)?;
    boundary::at(Boundary::MetaWritten, &work.journal);
    work.view.sync()?;
    boundary::at(Boundary::MetaSynced, &work.journal);
    stop_if(work, Step::Meta)?;
    watch.moved(Step::Segments, 0);
    drop_older_state(work, checkpoint)?;
    // Nothing depends on that but what sled writes for it, which it would leave unsynced.
    work.view.sync()?;
    boundary::at(Boundary::StateDropped, &work.journal);
    let segments = rewrite_absorbed(&work.journal, &work.through, work.keep_bytes)?;
    let report = CheckpointReport { checkpoint, buckets: merged.changed.len(), segments };
    let directory = work.directory.with(merged.changed);
    Ok(Done { directory, meta, digest, report })
}

fn stop_if(work: &Work, step: Step) -> Result<(), CheckpointError> {
    if work.stop_after == Some(step) { Err(CheckpointError::Stopped) } else { Ok(()) }
}

struct Merged {
    digest: u64,
    changed: Vec<(Ordinal, IVec)>,
}

type Change<'a> = (Ordinal, &'a ObjectRows);

/// Merges the changed objects into the buckets that they belong to.
fn buckets(
    work: &Work,
    checkpoint: u64,
    merged: &mut Merged,
    watch: &Watch,
) -> Result<(), CheckpointError> {
    let objects = work.table.objects.iter();
    let mut changes: Vec<Change<'_>> =
        objects.map(|(id, rows)| (Ordinal::of(&id.0), rows)).collect();
    changes.sort_unstable_by_key(|(object, _)| *object);
    let mut batches = Batches { work, watch, batch: sled::Batch::default(), buckets: 0 };
    let mut packed = Vec::with_capacity(SPLIT_ABOVE_BYTES);
    let mut rest = changes.as_slice();
    while let Some((first, _)) = rest.first() {
        let old = OldBucket::of(work, *first);
        let (own, others) = rest.split_at(rest.partition_point(|(object, _)| old.holds(*object)));
        rest = others;
        let old_own = old.bytes.map_or(0, |bytes| share(&old.bound.object().0, bytes));
        merged.digest = merged.digest.wrapping_sub(old_own);
        let pieces = merge(old.bytes, own);
        for (index, part) in parts(&pieces).enumerate() {
            let bound = if index == 0 { old.bound } else { part[0].object() };
            let replaced = match (index, old.bytes) {
                (0, Some(bytes)) => first_replaced(bytes, checkpoint, old_own),
                _ => 0,
            };
            pack(part, checkpoint, replaced, &mut packed);
            let bytes = IVec::from(packed.as_slice());
            let object = bound.object();
            merged.digest = merged.digest.wrapping_add(share(&object.0, &bytes));
            batches.insert(&object, bytes.clone());
            merged.changed.push((bound, bytes));
            if old.bytes.is_none() {
                batches.write_if_full()?;
            }
        }
        // What was in one bucket before stays in one batch: no kill leaves a part of it out.
        batches.write_if_full()?;
    }
    batches.write()
}

/// Buckets on their way into sled.
struct Batches<'a> {
    work: &'a Work,
    watch: &'a Watch,
    batch: sled::Batch,
    buckets: usize,
}

impl Batches<'_> {
    fn insert(&mut self, bound: &ObjectId, bytes: IVec) {
        self.batch.insert(bucket_key(bound), bytes);
        self.buckets += 1;
    }

    fn write_if_full(&mut self) -> Result<(), CheckpointError> {
        if self.buckets >= BATCH { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), CheckpointError> {
        let batch = std::mem::take(&mut self.batch);
        self.work.view.tree.apply_batch(batch).map_err(ViewError::from)?;
        self.watch.moved(Step::Buckets, std::mem::take(&mut self.buckets));
        Ok(())
    }
}

/// The bucket that an object belongs to, as it is before this checkpoint.
struct OldBucket<'a> {
    bound: Ordinal,
    /// None where there is none yet.
    bytes: Option<&'a IVec>,
    /// The next one's bound.
    until: Option<Ordinal>,
}

impl<'a> OldBucket<'a> {
    fn of(work: &'a Work, object: Ordinal) -> OldBucket<'a> {
        let directory = &work.directory;
        match directory.place_of(object) {
            Some(place) => OldBucket {
                bound: directory.bound(place).unwrap_or(object),
                bytes: directory.bytes(place),
                until: directory.bound(place + 1),
            },
            // The very first begins below everything.
            None => OldBucket {
                bound: Ordinal::of(&ObjectId::default().0),
                bytes: None,
                until: directory.bound(0),
            },
        }
    }

    fn holds(&self, object: Ordinal) -> bool {
        self.until.is_none_or(|until| object < until)
    }
}

/// What a bucket replaced first in this checkpoint: one that an unfinished try of the same number
/// has written already replaced what stood before that.
fn first_replaced(old: &[u8], checkpoint: u64, own: u64) -> u64 {
    let bucket = Bucket::trusted(old);
    if bucket.checkpoint() == checkpoint { bucket.replaced() } else { own }
}

/// The objects of a bucket with their changes, ascending.
fn merge<'a>(old: Option<&'a IVec>, changes: &[Change<'a>]) -> Vec<Piece<'a>> {
    let mut pieces = Vec::with_capacity(changes.len() + SPLIT_ABOVE);
    let mut kept = old.into_iter().flat_map(|bytes| Bucket::trusted(bytes).kept()).peekable();
    for (object, rows) in changes {
        while let Some(before) = kept.next_if(|kept| kept.object < *object) {
            pieces.push(Piece::Kept(before));
        }
        kept.next_if(|kept| kept.object == *object);
        pieces.push(Piece::Changed(*object, rows));
    }
    pieces.extend(kept.map(Piece::Kept));
    pieces
}

/// All of it, or parts of a bucket each where it is too large for one.
fn parts<'p, 'a>(pieces: &'p [Piece<'a>]) -> impl Iterator<Item = &'p [Piece<'a>]> {
    let bytes: usize = pieces.iter().map(Piece::bytes).sum();
    let fits = pieces.len() <= SPLIT_ABOVE && bytes <= SPLIT_ABOVE_BYTES;
    let mut rest = pieces;
    std::iter::from_fn(move || {
        let end = if fits { rest.len() } else { part_end(rest) };
        let (part, others) = rest.split_at(end);
        rest = others;
        (!part.is_empty()).then_some(part)
    })
}

fn part_end(pieces: &[Piece<'_>]) -> usize {
    let mut bytes = 0;
    let full = pieces.iter().take(TARGET).position(|piece| {
        bytes += piece.bytes();
        bytes >= SPLIT_ABOVE_BYTES / 2
    });
    full.map_or(pieces.len().min(TARGET), |last| last + 1)
}

/// Writes values that the digest counts, in place of what stood there.
struct Put<'a> {
    work: &'a Work,
    checkpoint: u64,
    digest: u64,
    batch: sled::Batch,
}

impl Put<'_> {
    fn put<T: Serialize>(&mut self, key: Vec<u8>, value: &T, what: &str) -> Result<(), ViewError> {
        let old = self.work.view.tree.get(&key)?;
        let (own, replaced) = match &old {
            None => (0, 0),
            Some(old) => {
                let (own, stamp) = (share(&key, old), stamp_of(old, what)?);
                // One that an unfinished try of the same number has written already replaced what
                // stood before that.
                (own, if stamp.checkpoint == self.checkpoint { stamp.replaced } else { own })
            }
        };
        let stamp = Stamp { checkpoint: self.checkpoint, replaced };
        let value = view::encode_stamped(value, stamp)?;
        self.digest = self.digest.wrapping_sub(own).wrapping_add(share(&key, &value));
        self.batch.insert(key, value);
        Ok(())
    }

    /// One batch a kind: nobody reads half of it.
    fn write(&mut self) -> Result<(), ViewError> {
        Ok(self.work.view.tree.apply_batch(std::mem::take(&mut self.batch))?)
    }

    fn finish(mut self) -> Result<u64, ViewError> {
        self.write()?;
        Ok(self.digest)
    }
}

fn tombstones(work: &Work, put: &mut Put<'_>) -> Result<(), ViewError> {
    let reader = work.view.reader();
    let mut chunks: BTreeMap<u64, BTreeMap<u64, KeptTombstone>> = BTreeMap::new();
    for (number, kept) in &work.table.tombstones {
        chunks.entry(number / TOMBSTONES).or_default().insert(*number, kept.clone());
    }
    for (number, changed) in chunks {
        let old = reader.tombstone_chunk(number)?;
        let mut chunk: BTreeMap<u64, KeptTombstone> =
            old.into_iter().map(|kept| (kept.tombstone.number.0, kept)).collect();
        chunk.extend(changed);
        let chunk: Vec<KeptTombstone> = chunk.into_values().collect();
        put.put(tombstone_key(number), &chunk, "a chunk of tombstones")?;
    }
    put.write()
}

fn confirmations(work: &Work, put: &mut Put<'_>) -> Result<(), ViewError> {
    for ((destination, look), confirmed) in &work.table.confirmations {
        put.put(confirmation_key(*destination, *look), confirmed, "a confirmation")?;
    }
    put.write()
}

fn requests(work: &Work, put: &mut Put<'_>) -> Result<(), ViewError> {
    let reader = work.view.reader();
    let mut keys: Vec<&KeyHash> = work.table.requests.keys().collect();
    keys.sort_unstable();
    for key in keys {
        let mut requests = reader.request_chunk(key)?;
        for request in work.table.requests.get(key).into_iter().flatten() {
            work.requests_kept.add(&mut requests, request);
        }
        put.put(request_key(key), &requests, "a key's deletion requests")?;
    }
    put.write()
}

/// The small state, under this checkpoint's number: the one before it stands until the meta record
/// names this one.
fn state(work: &Work, checkpoint: u64) -> Result<u32, ViewError> {
    let bytes = postcard::to_stdvec(&work.state)
        .map_err(|error| ViewError::Damaged(format!("the small state: {error}")))?;
    let mut batch = sled::Batch::default();
    let mut chunks = 0;
    for chunk in bytes.chunks(view::MAX_VALUE) {
        batch.insert(state_key(checkpoint, chunks), sealed(chunk));
        chunks += 1;
    }
    work.view.tree.apply_batch(batch)?;
    Ok(chunks)
}

fn drop_older_state(work: &Work, checkpoint: u64) -> Result<(), ViewError> {
    let mut batch = sled::Batch::default();
    for key in work.view.tree.range(b"s".to_vec()..state_key(checkpoint, 0)).keys() {
        batch.remove(key?);
    }
    Ok(work.view.tree.apply_batch(batch)?)
}
