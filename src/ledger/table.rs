//! What has changed since the last checkpoint, in memory.

use std::collections::BTreeMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use cenotaph_core::{
    ConfirmedFact, DestinationNo, Fact, KeyHash, Note, ObjectId, ObjectRecord, Record, RequestNote,
    Tombstone,
};
use compact_str::CompactString;
use hashbrown::{DefaultHashBuilder, HashMap};
use indexmap::IndexMap;

use super::directory::Directory;
use super::requests::RequestsKept;
use super::view::{Reader, ViewError};

/// Every generation of an object, and its readable name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectRows {
    /// The generations.
    pub record: ObjectRecord,
    /// The name, in bytes of its own: the stream's names share large read blocks. Empty where none
    /// was given.
    pub name: CompactString,
}

/// A tombstone with the names that its key had.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct KeptTombstone {
    /// The marker.
    pub tombstone: Tombstone,
    /// The object's name.
    pub object: Option<String>,
    /// The parent's name.
    pub parent: Option<String>,
}

/// An object id is a hash already: its last bytes are as good as any other hash of it.
#[derive(Debug, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last_chunk::<8>() {
            self.0 ^= u64::from_le_bytes(*last);
        }
    }
}

/// Hashes object ids.
pub(super) type IdState = BuildHasherDefault<IdHasher>;

/// The rows lie side by side in the order they came in: memory is touched as it fills, and none of
/// it for a single row.
type Objects = IndexMap<ObjectId, ObjectRows, IdState>;

/// What has changed.
#[derive(Debug, Default)]
pub struct Table {
    pub(super) objects: Objects,
    pub(super) tombstones: IndexMap<u64, KeptTombstone, DefaultHashBuilder>,
    pub(super) confirmations: BTreeMap<(DestinationNo, u64), ConfirmedFact>,
    pub(super) requests: HashMap<KeyHash, Vec<RequestNote>>,
}

impl Table {
    /// An empty one with room for twice so many objects, so that it does not stall to grow: it goes
    /// on taking changes in until the one before it is written. Room costs nothing before it is
    /// touched.
    #[must_use]
    pub fn with_room_for(objects: usize) -> Table {
        let room = objects.saturating_mul(2);
        let objects = Objects::with_capacity_and_hasher(room, BuildHasherDefault::default());
        Table { objects, ..Table::default() }
    }

    /// Empty again, with the room that it has.
    pub(super) fn clear(&mut self) {
        self.objects.clear();
        self.tombstones.clear();
        self.confirmations.clear();
        self.requests.clear();
    }

    /// Whether it should be written, where `objects` of them make it due: also the rest of it takes
    /// memory.
    pub(super) fn is_full(&self, objects: usize) -> bool {
        let others = self.tombstones.len() + self.confirmations.len() + self.requests.len();
        self.objects.len() >= objects || others >= objects
    }

    /// How many things of any kind.
    #[must_use]
    pub fn changes(&self) -> usize {
        let requests = self.requests.values().map(Vec::len).sum::<usize>();
        self.objects.len() + self.tombstones.len() + self.confirmations.len() + requests
    }
}

/// The changes since the last checkpoint, those that one is writing, and what the last one wrote.
#[derive(Debug, Default)]
pub struct Tables {
    /// Takes changes in.
    pub active: Table,
    /// Being written.
    pub frozen: Option<Arc<Table>>,
    /// The buckets of the last checkpoint.
    pub(super) directory: Arc<Directory>,
    /// Which deletion requests that changed nothing are remembered.
    pub(super) requests_kept: RequestsKept,
}

impl Tables {
    /// Takes in one record. Doing so twice changes nothing.
    ///
    /// # Errors
    /// [`ViewError`] if what it changes cannot be read.
    pub fn apply(&mut self, record: &Record, reader: &Reader) -> Result<(), ViewError> {
        match record {
            Record::Note(Note::Accepted(accepted)) => {
                let object = &accepted.key.object;
                if !self.active.objects.contains_key(object) {
                    let rows = reader.object(object, self)?.unwrap_or_default();
                    self.active.objects.insert(*object, rows);
                }
                if let Some(rows) = self.active.objects.get_mut(object) {
                    rows.record.floor = accepted.floor;
                    rows.record.set(accepted.key.generation, accepted.entry.clone());
                    if rows.name.is_empty() {
                        rows.name = CompactString::from(&*accepted.object);
                    }
                }
            }
            Record::Fact(Fact::Removed(tombstone)) => {
                let kept = self.active.tombstones.entry(tombstone.number.0);
                kept.or_insert_with(|| KeptTombstone {
                    tombstone: tombstone.clone(),
                    object: None,
                    parent: None,
                });
            }
            Record::Note(Note::TombstoneNamed { number, object, parent }) => {
                // The name stands in the frame of its tombstone.
                if let Some(kept) = self.active.tombstones.get_mut(&number.0) {
                    kept.object = Some(object.clone());
                    kept.parent.clone_from(parent);
                }
            }
            Record::Fact(Fact::Confirmed(confirmed)) => {
                let key = (confirmed.destination, confirmed.look);
                self.active.confirmations.insert(key, confirmed.clone());
            }
            Record::Note(Note::Requested(request)) => {
                let requests = self.active.requests.entry(request.key).or_default();
                self.requests_kept.add(requests, request);
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes in an object as it is now; its row in the active table, if it has one, is known.
    pub(super) fn put(
        &mut self,
        object: ObjectId,
        record: ObjectRecord,
        row: Option<usize>,
        name: &str,
    ) {
        match row.and_then(|row| self.active.objects.get_index_mut(row)) {
            Some((_, rows)) => rows.record = record,
            None => {
                let rows = ObjectRows { record, name: CompactString::from(name) };
                self.active.objects.insert(object, rows);
            }
        }
    }

    /// From the newest to the oldest.
    pub(super) fn layers(&self) -> impl Iterator<Item = &Table> {
        std::iter::once(&self.active).chain(self.frozen.as_deref())
    }
}
