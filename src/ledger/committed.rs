//! The committed state: what has been journalled, synced and shown. Everybody reads it; only the
//! writer changes it, frame by frame.

use cenotaph_core::{
    Cursor, Cursors, FactHash, KeyHash, Note, ObjectId, ObjectKey, ObjectRecord, Record,
    RequestNote, Tombstone, TombstoneNo,
};
use roaring::RoaringTreemap;

use super::draft::{Changed, ChangedObjects};
use super::error::LedgerError;
use super::lookup::{self, Found};
use super::state::{BarrierBook, Books, DestinationBook, from_ranges};
use super::table::{KeptTombstone, Tables};
use super::view::{Reader, ViewError};

/// The most looks read at once when confirmations are gone through.
const LOOKS_PER_READ: u64 = 256;

/// A tombstone with the readable names that its key had.
#[derive(Debug, Clone)]
pub struct NamedTombstone {
    /// The marker.
    pub tombstone: Tombstone,
    /// The key.
    pub key: ObjectKey,
    /// The parent.
    pub parent: Option<String>,
}

/// The committed state.
pub struct Committed {
    /// The small part.
    pub books: Books,
    /// The stop before this start was not a clean one.
    pub after_unclean_stop: bool,
    tables: Tables,
    reader: Reader,
}

impl Committed {
    pub(super) fn new(books: Books, tables: Tables, reader: Reader) -> Committed {
        Committed { books, after_unclean_stop: false, tables, reader }
    }

    /// Takes in one record of a synced frame.
    pub(super) fn apply(&mut self, record: &Record) -> Result<(), LedgerError> {
        self.books.apply(record);
        Ok(self.tables.apply(record, &self.reader)?)
    }

    pub(super) fn tables(&self) -> &Tables {
        &self.tables
    }

    pub(super) fn tables_mut(&mut self) -> &mut Tables {
        &mut self.tables
    }

    /// Every generation of an object; none if it was never met.
    ///
    /// # Errors
    /// [`LedgerError::ViewDamaged`] if the view does not hold what it should.
    pub fn object(&self, object: &ObjectId) -> Result<Option<ObjectRecord>, LedgerError> {
        Ok(self.reader.object(object, &self.tables)?.map(|rows| rows.record))
    }

    /// The same of many at once, which is faster.
    pub(super) fn objects(&self, objects: &[ObjectId]) -> Vec<Found<'_>> {
        lookup::records(&self.tables, objects)
    }

    /// The deletion requests of a key that changed nothing and are still remembered.
    ///
    /// # Errors
    /// [`LedgerError::ViewDamaged`] if the view does not hold what it should.
    pub fn requests(&self, key: &KeyHash, now_ms: i64) -> Result<Vec<RequestNote>, LedgerError> {
        Ok(self.reader.requests(key, &self.tables, now_ms)?)
    }

    /// A tombstone with its names.
    ///
    /// # Errors
    /// [`LedgerError::ViewDamaged`] if there is none of this number, or its names are missing: the
    /// ledger hands out no number without both.
    pub fn tombstone(&self, number: TombstoneNo) -> Result<NamedTombstone, LedgerError> {
        let missing = |what: &str| LedgerError::ViewDamaged(format!("tombstone {number} {what}"));
        let kept = self.reader.tombstone(number, &self.tables)?;
        let KeptTombstone { tombstone, object, parent } =
            kept.ok_or_else(|| missing("is missing"))?;
        let object = object.ok_or_else(|| missing("has lost its name"))?;
        let name = self
            .books
            .collection_name(&tombstone.key.object.collection())
            .ok_or_else(|| missing("is of a collection without a name"))?;
        let key = ObjectKey::new(
            name.tenant.as_str(),
            name.collection.as_str(),
            object.as_str(),
            tombstone.key.generation,
        )
        .map_err(|error| missing(&format!("has an unusable name: {error}")))?;
        Ok(NamedTombstone { tombstone, key, parent })
    }

    /// A tombstone without its names.
    pub(super) fn marker(&self, number: TombstoneNo) -> Result<Tombstone, LedgerError> {
        let kept = self.reader.tombstone(number, &self.tables)?;
        let missing = || LedgerError::ViewDamaged(format!("tombstone {number} is missing"));
        kept.map(|kept| kept.tombstone).ok_or_else(missing)
    }

    /// Takes in a synced batch of the stream: its records, whose changes of objects are given added
    /// up, so that they need not be looked up again.
    pub(super) fn apply_batch(
        &mut self,
        records: &[Record],
        objects: &mut ChangedObjects,
    ) -> Result<(), LedgerError> {
        for record in records {
            self.books.apply(record);
            if !matches!(record, Record::Note(Note::Accepted(_))) {
                self.tables.apply(record, &self.reader)?;
            }
        }
        for (object, Changed { record, row, name }) in objects.drain() {
            self.tables.put(object, record, row, &name);
        }
        Ok(())
    }

    /// Whether a tombstone belongs to a barrier's scope. One whose collection has no name counts as
    /// belonging: a barrier rather waits too long.
    pub(super) fn is_in_scope(
        &self,
        number: TombstoneNo,
        barrier: &BarrierBook,
    ) -> Result<bool, LedgerError> {
        let Some(scope) = &barrier.scope_name else { return Ok(true) };
        let named = self.tombstone(number)?;
        let collection = scope.collection.as_ref();
        let in_collection =
            collection.is_none_or(|collection| *named.key.collection == **collection);
        let in_parent = scope.parent.is_none() || named.tombstone.parent == barrier.scope;
        Ok(*named.key.tenant == *scope.tenant && in_collection && in_parent)
    }

    /// Everything that a destination confirmed after the commit with this stamp; everything it ever
    /// confirmed where there is none.
    pub(super) fn confirmed_since(
        &self,
        book: &DestinationBook,
        stamp: Option<(u64, u64)>,
    ) -> Result<RoaringTreemap, LedgerError> {
        let mut numbers = RoaringTreemap::new();
        let mut last = book.looks;
        while last > 0 {
            let first = last.saturating_sub(LOOKS_PER_READ - 1).max(1);
            let looks = self.reader.confirmations(book.number, first..=last, &self.tables)?;
            for confirmed in looks.iter().rev() {
                let known = confirmed.evidence.control;
                if stamp.is_some_and(|stamp| known.is_some_and(|seen| seen <= stamp)) {
                    return Ok(numbers);
                }
                numbers |= from_ranges(&confirmed.tombstones);
            }
            last = first - 1;
        }
        Ok(numbers)
    }

    /// The look that confirmed a tombstone at a destination last, with its evidence.
    ///
    /// # Errors
    /// [`LedgerError::ViewDamaged`] if the view does not hold what it should.
    pub fn confirmation(
        &self,
        book: &DestinationBook,
        number: TombstoneNo,
    ) -> Result<Option<cenotaph_core::ConfirmedFact>, LedgerError> {
        let mut last = book.looks;
        while last > 0 {
            let first = last.saturating_sub(LOOKS_PER_READ - 1).max(1);
            let looks = self.reader.confirmations(book.number, first..=last, &self.tables)?;
            let holds = |confirmed: &&cenotaph_core::ConfirmedFact| {
                let mut ranges = confirmed.tombstones.iter();
                ranges.any(|range| (range.first..=range.last).contains(&number.0))
            };
            if let Some(confirmed) = looks.iter().rev().find(holds) {
                return Ok(Some(confirmed.clone()));
            }
            last = first - 1;
        }
        Ok(None)
    }

    /// How far ingest is, in every partition.
    #[must_use]
    pub fn ingest_cursors(&self) -> Cursors {
        self.books.feeds.iter().map(|(partition, feed)| (*partition, feed.cursor)).collect()
    }

    /// How far ingest is in one partition, and the proof that belongs to it.
    #[must_use]
    pub fn ingest_position(&self, partition: u32) -> (Cursor, Vec<u8>) {
        let feed = self.books.feeds.get(&partition);
        feed.map(|feed| (feed.cursor, feed.proof.clone())).unwrap_or_default()
    }

    /// How far a destination is behind ingest, in the units of the source.
    #[must_use]
    pub fn lag_of(&self, book: &DestinationBook) -> u64 {
        let behind = |(partition, at): (u32, Cursor)| {
            let has = book.cursors.get(&partition).copied().unwrap_or_default();
            at.offset.saturating_sub(if has.epoch == at.epoch { has.offset } else { 0 })
        };
        self.ingest_cursors().into_iter().map(behind).sum()
    }

    /// Whether a barrier waits for ingest to come to it.
    pub(super) fn waits_for_ingest(&self) -> bool {
        let mut barriers = self.books.barriers.values();
        barriers.any(|barrier| barrier.opened_at_ms.is_none() && barrier.through.is_none())
    }
}

/// Where the chain of facts stands after a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    pub(super) frame: u64,
    pub(super) last_fact: (u64, FactHash),
}

/// Applies a frame's records to the committed state.
pub(super) fn apply(
    committed: &mut Committed,
    records: &[Record],
    chain: Chain,
) -> Result<(), LedgerError> {
    for record in records {
        committed.apply(record)?;
    }
    committed.books.chained(chain.frame, chain.last_fact);
    Ok(())
}

impl From<ViewError> for LedgerError {
    fn from(error: ViewError) -> LedgerError {
        LedgerError::ViewDamaged(error.to_string())
    }
}
