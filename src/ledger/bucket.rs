//! A bucket: the entries of neighbouring objects, packed. The same bytes are in memory and on disk.
//!
//! ```text
//! header       checksum of the rest 8 · checkpoint 8 · contribution replaced 8 · rows 4 ·
//!              extensions 4 · collections 4 · format 4
//! collections  each: collection 16 · its first row 4
//! keys         rows x (object hash 16, generation 4 big-endian), ascending within a collection
//! values       rows x 60
//! extensions   each 32: what most entries have nothing of
//! names        the objects' readable names, in the order of the rows
//! ```
//! An object's floor is a row of generation 0; its name belongs to its first row.

mod pack;

use std::ops::Range;

use cenotaph_core::{
    Covers, Entry, EntryFlags, EventHash, Fingerprint, Generation, NameHash, ObjectId,
    ObjectRecord, ScopeHash, State, TombstoneNo, Version,
};
use compact_str::CompactString;
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64;

use super::directory::Ordinal;
use super::files::{bytes_at, u32_at, u64_at};
use super::table::ObjectRows;

pub(super) use pack::{Piece, pack};

/// The most objects of a bucket before it is split.
pub(super) const SPLIT_ABOVE: usize = 96;
/// The most bytes of a bucket before it is split, long names and many generations included.
pub(super) const SPLIT_ABOVE_BYTES: usize = 32 * 1024;
/// The objects of a bucket after a split.
pub(super) const TARGET: usize = 64;

const HEADER: usize = 40;
const COLLECTION: usize = 20;
const KEY: usize = 20;
const VALUE: usize = 60;
const EXTENSION: usize = 32;
const FORMAT: u32 = 1;

const LIVE: u8 = 1;
const HAS_PARENT: u8 = 1 << 7;

/// A bucket's bytes, checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket<'a>(&'a [u8]);

impl<'a> Bucket<'a> {
    /// Checks everything that can be checked; none if it is not what was written.
    pub(super) fn check(bytes: &'a [u8]) -> Option<Bucket<'a>> {
        if bytes.len() < HEADER || u32_at(bytes, 36) != FORMAT {
            return None;
        }
        let bucket = Bucket(bytes);
        let needed = (bucket.rows().checked_mul(KEY + VALUE)?)
            .checked_add(bucket.extensions().checked_mul(EXTENSION)?)?
            .checked_add(bucket.collections().checked_mul(COLLECTION)?)?;
        let fits = bytes.len() - HEADER >= needed;
        (fits && xxh3_64(&bytes[8..]) == u64_at(bytes, 0)).then_some(bucket)
    }

    /// A bucket that was checked before.
    pub(super) fn trusted(bytes: &'a [u8]) -> Bucket<'a> {
        Bucket(bytes)
    }

    fn rows(&self) -> usize {
        u32_at(self.0, 24) as usize
    }

    fn extensions(&self) -> usize {
        u32_at(self.0, 28) as usize
    }

    fn collections(&self) -> usize {
        u32_at(self.0, 32) as usize
    }

    /// The checkpoint that wrote it.
    pub(super) fn checkpoint(&self) -> u64 {
        u64_at(self.0, 8)
    }

    /// What it replaced, as that counted in the digest; 0 if it replaced nothing.
    pub(super) fn replaced(&self) -> u64 {
        u64_at(self.0, 16)
    }

    fn part(&self, start: usize, at: usize, length: usize) -> &'a [u8] {
        let from = start + at * length;
        &self.0[from..from + length]
    }

    fn keys_start(&self) -> usize {
        HEADER + self.collections() * COLLECTION
    }

    fn values_start(&self) -> usize {
        self.keys_start() + self.rows() * KEY
    }

    fn extensions_start(&self) -> usize {
        self.values_start() + self.rows() * VALUE
    }

    fn key(&self, row: usize) -> &'a [u8] {
        self.part(self.keys_start(), row, KEY)
    }

    fn value(&self, row: usize) -> &'a [u8] {
        self.part(self.values_start(), row, VALUE)
    }

    /// A collection and its first row.
    fn collection(&self, at: usize) -> (u128, usize) {
        let bytes = self.part(HEADER, at, COLLECTION);
        (u128::from_be_bytes(bytes_at(bytes, 0)), u32_at(bytes, 16) as usize)
    }

    /// The rows of a collection.
    fn rows_at(&self, at: usize) -> Range<usize> {
        let next = at + 1;
        let end = if next < self.collections() { self.collection(next).1 } else { self.rows() };
        self.collection(at).1..end
    }

    /// The rows of an object's collection.
    pub(super) fn rows_of(&self, object: Ordinal) -> Range<usize> {
        let found =
            (0..self.collections()).find(|at| self.collection(*at).0 == object.collection());
        found.map_or(0..0, |at| self.rows_at(at))
    }

    /// The object of a row, without its collection.
    pub(super) fn object_hash(&self, row: usize) -> u128 {
        u128::from_be_bytes(bytes_at(self.key(row), 0))
    }

    /// The first row of an object.
    fn find(&self, object: &ObjectId) -> Option<usize> {
        let object = Ordinal::of(&object.0);
        let rows = self.rows_of(object);
        let (mut low, mut high) = (rows.start, rows.end);
        while low < high {
            let middle = (low + high) / 2;
            let below = self.object_hash(middle) < object.object_hash();
            if below { low = middle + 1 } else { high = middle }
        }
        (low < rows.end && self.object_hash(low) == object.object_hash()).then_some(low)
    }

    /// One object.
    pub(super) fn object(&self, object: &ObjectId) -> Option<ObjectRows> {
        let first = self.find(object)?;
        let before = (0..first).map(|row| self.name_length(row)).sum();
        Some(self.object_at(first..self.row_after(first), before))
    }

    fn object_at(&self, rows: Range<usize>, name_at: usize) -> ObjectRows {
        let name = String::from_utf8_lossy(self.name(rows.start, name_at));
        ObjectRows { record: self.record_in(rows), name: CompactString::from(name) }
    }

    /// The object whose first row this is.
    pub(super) fn record_at(&self, first: usize) -> ObjectRecord {
        self.record_in(first..self.row_after(first))
    }

    fn record_in(&self, rows: Range<usize>) -> ObjectRecord {
        let (mut floor, mut generations) = (0, SmallVec::new());
        for row in rows {
            match u32::from_be_bytes(bytes_at(self.key(row), 16)) {
                0 => floor = u32_at(self.value(row), 2),
                generation => generations.push((Generation(generation), self.entry(row))),
            }
        }
        ObjectRecord { floor, generations }
    }

    /// The row after the last one of the object whose first row this is.
    fn row_after(&self, first: usize) -> usize {
        let object = self.object_hash(first);
        let mut ends = (0..self.collections()).map(|at| self.rows_at(at).end);
        let end = ends.find(|end| *end > first).unwrap_or(first + 1);
        (first + 1..end).find(|row| self.object_hash(*row) != object).unwrap_or(end)
    }

    /// Every object, ascending.
    pub(super) fn objects(self) -> impl Iterator<Item = (ObjectId, ObjectRows)> + 'a {
        self.kept().map(move |kept| {
            (kept.object.object(), self.object_at(kept.rows.clone(), kept.name_at))
        })
    }

    /// The rows of every object, ascending.
    pub(super) fn kept(self) -> impl Iterator<Item = Kept<'a>> + 'a {
        let (mut row, mut name_at, mut collection) = (0, 0, 0);
        std::iter::from_fn(move || {
            if row >= self.rows() {
                return None;
            }
            while row >= self.rows_at(collection).end {
                collection += 1;
            }
            let rows = row..self.row_after(row);
            row = rows.end;
            let object = Ordinal::new(self.collection(collection).0, self.object_hash(rows.start));
            let kept = Kept { bucket: self, object, rows, name_at };
            name_at += self.name_length(kept.rows.start);
            Some(kept)
        })
    }

    fn name_length(&self, row: usize) -> usize {
        usize::from(u16::from_le_bytes(bytes_at(self.value(row), 58)))
    }

    /// The name that belongs to a row and lies here among the names; empty where none does.
    fn name(&self, row: usize, at: usize) -> &'a [u8] {
        let names = self.extensions_start() + self.extensions() * EXTENSION;
        self.0.get(names + at..names + at + self.name_length(row)).unwrap_or_default()
    }

    /// The extension of a row; zeros where it has none.
    fn extension(&self, row: usize) -> &'a [u8] {
        match u32_at(self.value(row), 54) {
            0 => &[0; EXTENSION],
            number => self.part(self.extensions_start(), number as usize - 1, EXTENSION),
        }
    }

    fn entry(&self, row: usize) -> Entry {
        let (value, extension) = (self.value(row), self.extension(row));
        let flags = value[1];
        Entry {
            state: if value[0] == LIVE { State::Live } else { State::Removed },
            version: Version::new(u64_at(value, 2)).ok(),
            event: EventHash(bytes_at(value, 10)),
            fingerprint: Fingerprint(bytes_at(value, 26)),
            space: NameHash(bytes_at(value, 42)),
            partition: u32_at(value, 50),
            parent: (flags & HAS_PARENT != 0).then(|| ScopeHash(bytes_at(extension, 0))),
            erased_through: Covers::from_number(u64_at(extension, 16)),
            tombstone: Some(u64_at(extension, 24)).filter(|number| *number != 0).map(TombstoneNo),
            flags: unpack_flags(flags),
        }
    }
}

/// An object as a bucket holds it already: its rows are copied as they are.
#[derive(Debug, Clone)]
pub(super) struct Kept<'a> {
    bucket: Bucket<'a>,
    pub(super) object: Ordinal,
    rows: Range<usize>,
    name_at: usize,
}

fn unpack_flags(flags: u8) -> EntryFlags {
    EntryFlags {
        with_content: flags & 1 != 0,
        suspended: flags & 1 << 1 != 0,
        has_requests: flags & 1 << 2 != 0,
        terminal: flags & 1 << 3 != 0,
        scope_restored: flags & 1 << 4 != 0,
        older_tombstones: flags & 1 << 5 != 0,
    }
}

#[cfg(test)]
mod tests;
