//! The view: what the journal adds up to, in sled, so that it need not be added up again. It may be
//! thrown away; what is missing in it or older than it should be is noticed, never taken for truth.
//!
//! One tree, keys prefixed by kind: `e` buckets of entries by lower bound, `t` tombstones by 64,
//! `c` confirmations by destination and look, `r` deletion requests by key, `s` the small state,
//! `m` what all this is. Every value begins with a checksum of its rest. Buckets, tombstones,
//! confirmations and requests also say which checkpoint wrote them and what they replaced, and one
//! digest in `m` adds all of them up: whatever is missing or older than it should be shows at open.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cenotaph_core::{ConfirmedFact, DestinationNo, KeyHash, ObjectId, RequestNote, TombstoneNo};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::bucket::Bucket;
use super::directory::Directory;
use super::files::{FileError, failed, u64_at};
use super::frame::{FrameHash, Mark};
use super::table::{KeptTombstone, ObjectRows, Tables};

pub(super) const META: &[u8] = b"m";
/// Tombstones of one chunk.
pub(super) const TOMBSTONES: u64 = 64;
/// The largest value: sled puts larger ones into files that it never syncs.
pub(super) const MAX_VALUE: usize = 48 * 1024;

/// The view does not hold what it should.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// Something is missing, older than it should be, or not what was written.
    #[error("the ledger's view is damaged: {0}")]
    Damaged(String),
    /// A newer version wrote it.
    #[error("the ledger's view has format {0}")]
    Newer(u32),
    /// Somebody else has its files open.
    #[error("the ledger's view is held by another program; end it, and start the worker again")]
    Held,
    /// The store under it failed.
    #[error("the ledger's view could not be read or written: {0}")]
    Store(#[from] sled::Error),
    /// The operating system refused something.
    #[error(transparent)]
    File(#[from] FileError),
}

fn damaged(what: impl Into<String>) -> ViewError {
    ViewError::Damaged(what.into())
}

/// What a checkpoint wrote last: what the view is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Meta {
    pub(super) format: u32,
    pub(super) ledger: [u8; 16],
    pub(super) checkpoint: u64,
    pub(super) frame: u64,
    pub(super) frame_hash: [u8; 16],
    pub(super) fact: u64,
    pub(super) fact_hash: [u8; 32],
    pub(super) digest: u64,
    pub(super) state_chunks: u32,
}

impl Meta {
    pub(super) fn mark(&self) -> Mark {
        Mark {
            frame: self.frame,
            frame_hash: FrameHash(self.frame_hash),
            fact: self.fact,
            fact_hash: cenotaph_core::FactHash(self.fact_hash),
        }
    }
}

/// The format that this version writes.
pub(super) const FORMAT: u32 = 1;

/// The chunk of tombstones that was read last.
pub(super) type LastChunk = Arc<Mutex<Option<(u64, Arc<Vec<KeptTombstone>>)>>>;

/// The view, opened.
#[derive(Clone)]
pub(super) struct View {
    pub(super) tree: sled::Db,
    pub(super) last_chunk: LastChunk,
    file: PathBuf,
    blobs: PathBuf,
    /// The files in there that are synced.
    pub(super) synced_blobs: Arc<Mutex<BTreeSet<PathBuf>>>,
}

/// The view as it was found.
pub(super) struct OpenedView {
    pub(super) view: View,
    pub(super) directory: Directory,
    pub(super) meta: Option<Meta>,
    pub(super) state: Vec<(String, Vec<u8>)>,
    /// What the buckets that are there count, which after an unfinished checkpoint is not what the
    /// meta record says.
    pub(super) digest: u64,
    pub(super) unfinished: bool,
}

impl View {
    /// Opens the view in `dir` and checks every value of it.
    pub(super) fn open(dir: &Path, cache_bytes: u64) -> Result<OpenedView, ViewError> {
        remove_unfinished_snapshots(dir)?;
        let tree = open_store(dir, cache_bytes)?;
        let view = View {
            tree,
            last_chunk: Arc::default(),
            file: dir.join("db"),
            blobs: dir.join("blobs"),
            synced_blobs: Arc::default(),
        };
        let meta = match view.tree.get(META)? {
            Some(bytes) => Some(meta_of(&bytes)?),
            None => None,
        };
        let checkpoint = meta.map_or(0, |meta| meta.checkpoint);
        let mut sum = Sum { checkpoint, ..Sum::default() };
        let mut directory = Directory::default();
        for item in view.tree.scan_prefix(b"e") {
            let (key, bytes) = item?;
            let bound: [u8; 32] =
                key[1..].try_into().map_err(|_| damaged("a bucket's bound is cut"))?;
            let bound = ObjectId(bound);
            let bucket = Bucket::check(&bytes)
                .ok_or_else(|| damaged(format!("bucket {bound} is not what was written")))?;
            sum.add(share(&bound.0, &bytes), bucket.checkpoint(), bucket.replaced());
            directory.push(&bound, bytes);
        }
        view.add_stamped(&mut sum)?;
        if meta.map_or(0, |meta| meta.digest) != sum.expected {
            return Err(damaged("something in it is missing or older than it should be"));
        }
        let state = view.state(meta)?;
        let (digest, unfinished) = (sum.digest, sum.unfinished);
        Ok(OpenedView { view, directory, meta, state, digest, unfinished })
    }

    fn add_stamped(&self, sum: &mut Sum) -> Result<(), ViewError> {
        for (kind, what) in STAMPED {
            for item in self.tree.scan_prefix([kind]) {
                let (key, value) = item?;
                let stamp = stamp_of(&value, what)?;
                sum.add(share(&key, &value), stamp.checkpoint, stamp.replaced);
            }
        }
        Ok(())
    }

    fn state(&self, meta: Option<Meta>) -> Result<Vec<(String, Vec<u8>)>, ViewError> {
        let Some(meta) = meta else { return Ok(Vec::new()) };
        let mut bytes = Vec::new();
        for chunk in 0..meta.state_chunks {
            let value = self.tree.get(state_key(meta.checkpoint, chunk))?;
            let value = value.ok_or_else(|| damaged("a part of the small state is missing"))?;
            bytes.extend_from_slice(checked(&value, "the small state")?);
        }
        postcard::from_bytes(&bytes).map_err(|_| damaged("the small state does not decode"))
    }

    /// Flushes sled, then syncs its files: its own flush is no fsync.
    pub(super) fn sync(&self) -> Result<(), ViewError> {
        self.tree.flush()?;
        self.sync_blobs()?;
        let file = File::open(&self.file).map_err(failed("open", &self.file))?;
        file.sync_data().map_err(failed("sync", &self.file))?;
        Ok(())
    }

    /// What sled does not find room for in its file it puts into files of their own, pages that
    /// have grown too: it never syncs them, and does not open without one. Written once each.
    fn sync_blobs(&self) -> Result<(), ViewError> {
        let mut synced = self.synced_blobs.lock();
        let there: BTreeSet<PathBuf> = super::files::list(&self.blobs)?.into_iter().collect();
        for path in there.difference(&synced) {
            match File::open(path).and_then(|file| file.sync_all()) {
                // sled throws them away by itself.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                synced => synced.map_err(failed("sync", path))?,
            }
        }
        if there.difference(&synced).next().is_some() {
            super::files::sync_folder(&self.blobs)?;
        }
        *synced = there;
        Ok(())
    }

    pub(super) fn reader(&self) -> Reader {
        Reader { tree: self.tree.clone(), last_chunk: Arc::clone(&self.last_chunk) }
    }
}

/// The ledger's lock is ours, so whoever still has the store is on the way out: sled's own threads
/// outlive what they were started for. That is no damage, and waited for.
fn open_store(dir: &Path, cache_bytes: u64) -> Result<sled::Db, ViewError> {
    let config = sled::Config::new().path(dir).cache_capacity(cache_bytes).flush_every_ms(None);
    let until = Instant::now() + HELD_FOR;
    loop {
        match config.open() {
            Err(sled::Error::Io(error)) if error.to_string().contains(HELD) => {
                if Instant::now() > until {
                    return Err(ViewError::Held);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => return Ok(opened?),
        }
    }
}

/// What sled says of a store that somebody has; the error has no kind of its own.
const HELD: &str = "could not acquire lock";
/// How long it is waited for.
const HELD_FOR: Duration = Duration::from_secs(10);

/// What the values of a view add up to.
#[derive(Default)]
struct Sum {
    /// The checkpoint that the meta record names.
    checkpoint: u64,
    /// What is there.
    digest: u64,
    /// What the meta record should say: what a checkpoint that did not end has written counts as
    /// what it replaced.
    expected: u64,
    unfinished: bool,
}

impl Sum {
    fn add(&mut self, own: u64, written_by: u64, replaced: u64) {
        let newer = written_by > self.checkpoint;
        self.unfinished |= newer;
        self.digest = self.digest.wrapping_add(own);
        self.expected = self.expected.wrapping_add(if newer { replaced } else { own });
    }
}

/// The kinds of values beside buckets that the digest adds up.
const STAMPED: [(u8, &str); 3] =
    [(b't', "a chunk of tombstones"), (b'c', "a confirmation"), (b'r', "a key's requests")];

/// The format first: what a newer version wrote need not decode.
fn meta_of(value: &[u8]) -> Result<Meta, ViewError> {
    let (format, _) = postcard::take_from_bytes::<u32>(checked(value, "the meta record")?)
        .map_err(|_| damaged("the meta record does not decode"))?;
    if format > FORMAT {
        return Err(ViewError::Newer(format));
    }
    decode::<Meta>(value, "the meta record")
}

/// sled takes a snapshot that was never finished for the newest one, and then does not open.
fn remove_unfinished_snapshots(dir: &Path) -> Result<(), ViewError> {
    for path in super::files::list(dir)? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        if name.starts_with("snap.") && name.ends_with(".generating") {
            fs::remove_file(&path).map_err(failed("remove", &path))?;
        }
    }
    Ok(())
}

/// A value: its checksum, then its bytes.
pub(super) fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(8 + bytes.len());
    value.extend_from_slice(&xxh3_64(bytes).to_le_bytes());
    value.extend_from_slice(bytes);
    value
}

pub(super) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, ViewError> {
    let bytes = postcard::to_stdvec(value).map_err(|error| damaged(error.to_string()))?;
    Ok(sealed(&bytes))
}

fn checked<'a>(value: &'a [u8], what: &str) -> Result<&'a [u8], ViewError> {
    match value.split_first_chunk::<8>() {
        Some((checksum, bytes)) if u64::from_le_bytes(*checksum) == xxh3_64(bytes) => Ok(bytes),
        _ => Err(damaged(format!("{what} is not what was written"))),
    }
}

fn decode<T: DeserializeOwned>(value: &[u8], what: &str) -> Result<T, ViewError> {
    postcard::from_bytes(checked(value, what)?)
        .map_err(|_| damaged(format!("{what} does not decode")))
}

/// Which checkpoint wrote a value, and what the value that it replaced counted in the digest.
pub(super) struct Stamp {
    pub(super) checkpoint: u64,
    pub(super) replaced: u64,
}

/// How a value counts in the digest: by where it stands and what it holds. A bucket stands at its
/// bound.
pub(super) fn share(key: &[u8], value: &[u8]) -> u64 {
    xxh3_64_with_seed(key, value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)))
}

/// A value: the checksum of its rest, its stamp, its bytes.
pub(super) fn encode_stamped<T: Serialize>(value: &T, stamp: Stamp) -> Result<Vec<u8>, ViewError> {
    let mut rest = [stamp.checkpoint.to_le_bytes(), stamp.replaced.to_le_bytes()].concat();
    rest = postcard::to_extend(value, rest).map_err(|error| damaged(error.to_string()))?;
    Ok(sealed(&rest))
}

pub(super) fn stamp_of(value: &[u8], what: &str) -> Result<Stamp, ViewError> {
    let rest = checked(value, what)?;
    if rest.len() < STAMP {
        return Err(damaged(format!("{what} is cut")));
    }
    Ok(Stamp { checkpoint: u64_at(rest, 0), replaced: u64_at(rest, 8) })
}

fn decode_stamped<T: DeserializeOwned>(value: &[u8], what: &str) -> Result<T, ViewError> {
    let bytes = checked(value, what)?.get(STAMP..).unwrap_or_default();
    postcard::from_bytes(bytes).map_err(|_| damaged(format!("{what} does not decode")))
}

/// The bytes of a stamp.
const STAMP: usize = 16;

pub(super) fn bucket_key(bound: &ObjectId) -> Vec<u8> {
    [b"e", &bound.0[..]].concat()
}

pub(super) fn tombstone_key(chunk: u64) -> Vec<u8> {
    [b"t", &chunk.to_be_bytes()[..]].concat()
}

pub(super) fn confirmation_key(destination: DestinationNo, look: u64) -> Vec<u8> {
    [b"c", &destination.0.to_be_bytes()[..], &look.to_be_bytes()].concat()
}

pub(super) fn request_key(key: &KeyHash) -> Vec<u8> {
    [b"r", &key.to_bytes()[..]].concat()
}

pub(super) fn state_key(checkpoint: u64, chunk: u32) -> Vec<u8> {
    [b"s", &checkpoint.to_be_bytes()[..], &chunk.to_be_bytes()].concat()
}

/// Reads the committed state: the tables before the view.
#[derive(Clone)]
pub struct Reader {
    tree: sled::Db,
    last_chunk: LastChunk,
}

impl Reader {
    /// An object.
    ///
    /// # Errors
    /// [`ViewError`] if it cannot be read.
    pub fn object(
        &self,
        object: &ObjectId,
        tables: &Tables,
    ) -> Result<Option<ObjectRows>, ViewError> {
        if let Some(rows) = tables.layers().find_map(|table| table.objects.get(object)) {
            return Ok(Some(rows.clone()));
        }
        Ok(tables.directory.bucket_of(object).and_then(|bucket| bucket.object(object)))
    }

    /// A tombstone.
    ///
    /// # Errors
    /// [`ViewError`] if it cannot be read.
    pub fn tombstone(
        &self,
        number: TombstoneNo,
        tables: &Tables,
    ) -> Result<Option<KeptTombstone>, ViewError> {
        if let Some(kept) = tables.layers().find_map(|table| table.tombstones.get(&number.0)) {
            return Ok(Some(kept.clone()));
        }
        let chunk = self.shared_chunk(number.0 / TOMBSTONES)?;
        Ok(chunk.iter().find(|kept| kept.tombstone.number == number).cloned())
    }

    /// Tombstones are asked for in order: the chunk of the last one serves its neighbours.
    fn shared_chunk(&self, chunk: u64) -> Result<Arc<Vec<KeptTombstone>>, ViewError> {
        if let Some((number, kept)) = &*self.last_chunk.lock()
            && *number == chunk
        {
            return Ok(Arc::clone(kept));
        }
        let kept = Arc::new(self.tombstone_chunk(chunk)?);
        *self.last_chunk.lock() = Some((chunk, Arc::clone(&kept)));
        Ok(kept)
    }

    pub(super) fn tombstone_chunk(&self, chunk: u64) -> Result<Vec<KeptTombstone>, ViewError> {
        match self.tree.get(tombstone_key(chunk))? {
            Some(value) => decode_stamped(&value, "a chunk of tombstones"),
            None => Ok(Vec::new()),
        }
    }

    /// The confirmations of a destination by look, ascending. Looks are numbered without gaps: one
    /// that is missing is damage.
    ///
    /// # Errors
    /// [`ViewError`] if one cannot be read.
    pub fn confirmations(
        &self,
        destination: DestinationNo,
        looks: RangeInclusive<u64>,
        tables: &Tables,
    ) -> Result<Vec<ConfirmedFact>, ViewError> {
        let mut found: BTreeMap<u64, ConfirmedFact> = BTreeMap::new();
        for look in looks.clone() {
            if let Some(value) = self.tree.get(confirmation_key(destination, look))? {
                found.insert(look, decode_stamped(&value, "a confirmation")?);
            }
        }
        let layers: Vec<_> = tables.layers().collect();
        for table in layers.into_iter().rev() {
            let range = (destination, *looks.start())..=(destination, *looks.end());
            for ((_, look), confirmed) in table.confirmations.range(range) {
                found.insert(*look, confirmed.clone());
            }
        }
        looks
            .map(|look| {
                let missing = || damaged(format!("look {look} of destination {}", destination.0));
                found.remove(&look).ok_or_else(missing)
            })
            .collect()
    }

    /// The deletion requests of a key that changed nothing and are still remembered now, the oldest
    /// first.
    ///
    /// # Errors
    /// [`ViewError`] if they cannot be read.
    pub fn requests(
        &self,
        key: &KeyHash,
        tables: &Tables,
        now_ms: i64,
    ) -> Result<Vec<RequestNote>, ViewError> {
        let mut requests = self.request_chunk(key)?;
        let layers: Vec<_> = tables.layers().collect();
        for request in layers.iter().rev().flat_map(|it| it.requests.get(key)).flatten() {
            tables.requests_kept.add(&mut requests, request);
        }
        tables.requests_kept.cut(&mut requests, now_ms);
        Ok(requests)
    }

    pub(super) fn request_chunk(&self, key: &KeyHash) -> Result<Vec<RequestNote>, ViewError> {
        match self.tree.get(request_key(key))? {
            Some(value) => decode_stamped(&value, "a key's deletion requests"),
            None => Ok(Vec::new()),
        }
    }
}
