//! A bucket: the entries of neighbouring objects, packed. The same bytes are in memory and on disk.
//!
//! ```text
//! header  checksum of the rest 8 · checkpoint 8 · contribution replaced 8 · rows 4 · format 4
//! keys    rows x (object 32, generation 4 big-endian), ascending
//! values  rows x 92
//! names   the objects' readable names, one after the other
//! ```
//! An object's floor is a row of generation 0; its name belongs to its first row.

use std::ops::Range;

use cenotaph_core::{
    Covers, Entry, EntryFlags, EventHash, Fingerprint, Generation, NameHash, ObjectId,
    ObjectRecord, ScopeHash, State, TombstoneNo, Version,
};
use compact_str::CompactString;
use smallvec::SmallVec;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::directory::Ordinal;
use super::files::{bytes_at, u32_at, u64_at};
use super::table::ObjectRows;

/// The most objects of a bucket before it is split.
pub(super) const SPLIT_ABOVE: usize = 96;
/// The most bytes of a bucket before it is split, long names and many generations included.
pub(super) const SPLIT_ABOVE_BYTES: usize = 32 * 1024;
/// The objects of a bucket after a split.
pub(super) const TARGET: usize = 64;

const HEADER: usize = 32;
const KEY: usize = 36;
const VALUE: usize = 92;
const FORMAT: u32 = 1;

const LIVE: u8 = 1;
const HAS_PARENT: u8 = 1 << 7;

/// A bucket's bytes, checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket<'a>(&'a [u8]);

impl<'a> Bucket<'a> {
    /// Checks everything that can be checked; none if it is not what was written.
    pub(super) fn check(bytes: &'a [u8]) -> Option<Bucket<'a>> {
        if bytes.len() < HEADER || u32_at(bytes, 28) != FORMAT {
            return None;
        }
        let rows = u32_at(bytes, 24) as usize;
        let fits = bytes.len() >= HEADER + rows.checked_mul(KEY + VALUE)?;
        (fits && xxh3_64(&bytes[8..]) == u64_at(bytes, 0)).then_some(Bucket(bytes))
    }

    /// A bucket that was checked before.
    pub(super) fn trusted(bytes: &'a [u8]) -> Bucket<'a> {
        Bucket(bytes)
    }

    pub(super) fn rows(&self) -> usize {
        u32_at(self.0, 24) as usize
    }

    /// The checkpoint that wrote it.
    pub(super) fn checkpoint(&self) -> u64 {
        u64_at(self.0, 8)
    }

    /// What it replaced, as that counted in the digest; 0 if it replaced nothing.
    pub(super) fn replaced(&self) -> u64 {
        u64_at(self.0, 16)
    }

    fn key(&self, row: usize) -> &'a [u8] {
        let at = HEADER + row * KEY;
        &self.0[at..at + KEY]
    }

    /// The object of a row.
    pub(super) fn ordinal(&self, row: usize) -> Ordinal {
        Ordinal::of(self.key(row))
    }

    fn first_row_of(&self, object: Ordinal) -> usize {
        let (mut low, mut high) = (0, self.rows());
        while low < high {
            let middle = (low + high) / 2;
            if self.ordinal(middle) < object { low = middle + 1 } else { high = middle }
        }
        low
    }

    fn find(&self, object: &ObjectId) -> Option<usize> {
        let object = Ordinal::of(&object.0);
        let first = self.first_row_of(object);
        (first < self.rows() && self.ordinal(first) == object).then_some(first)
    }

    /// One object.
    pub(super) fn object(&self, object: &ObjectId) -> Option<ObjectRows> {
        self.find(object).map(|first| self.object_at(first).0)
    }

    /// One object without its name.
    pub(super) fn record(&self, object: &ObjectId) -> Option<ObjectRecord> {
        self.find(object).map(|first| self.record_at(first).0)
    }

    /// The object whose first row this is, and the row after its last.
    fn object_at(&self, first: usize) -> (ObjectRows, usize) {
        let (record, next) = self.record_at(first);
        let name = String::from_utf8_lossy(self.name(first));
        (ObjectRows { record, name: CompactString::from(name) }, next)
    }

    /// The object whose first row this is, and the row after its last.
    pub(super) fn record_at(&self, first: usize) -> (ObjectRecord, usize) {
        let next = self.row_after(first);
        let (mut floor, mut generations) = (0, SmallVec::new());
        for row in first..next {
            match u32::from_be_bytes(bytes_at(self.key(row), 32)) {
                0 => floor = self.value_floor(row),
                generation => generations.push((Generation(generation), self.entry(row))),
            }
        }
        (ObjectRecord { floor, generations }, next)
    }

    /// The row after the last one of the object whose first row this is.
    fn row_after(&self, first: usize) -> usize {
        let object = self.ordinal(first);
        let rows = self.rows();
        (first + 1..rows).find(|row| self.ordinal(*row) != object).unwrap_or(rows)
    }

    /// Every object, ascending.
    pub(super) fn objects(self) -> impl Iterator<Item = (ObjectId, ObjectRows)> + 'a {
        self.kept().map(move |kept| (kept.object.object(), self.object_at(kept.rows.start).0))
    }

    /// The rows of every object, ascending.
    pub(super) fn kept(self) -> impl Iterator<Item = Kept<'a>> + 'a {
        let mut row = 0;
        std::iter::from_fn(move || {
            let first = row;
            if first >= self.rows() {
                return None;
            }
            row = self.row_after(first);
            let object = self.ordinal(first);
            Some(Kept { bucket: self, object, rows: first..row })
        })
    }

    fn value(&self, row: usize) -> &'a [u8] {
        let at = HEADER + self.rows() * KEY + row * VALUE;
        &self.0[at..at + VALUE]
    }

    fn value_floor(&self, row: usize) -> u32 {
        u32_at(self.value(row), 2)
    }

    /// The name that belongs to a row; empty where none does.
    fn name(&self, row: usize) -> &'a [u8] {
        let value = self.value(row);
        let (at, length) = (u32_at(value, 86) as usize, u16::from_le_bytes(bytes_at(value, 90)));
        let names = HEADER + self.rows() * (KEY + VALUE);
        self.0.get(names + at..names + at + usize::from(length)).unwrap_or_default()
    }

    fn entry(&self, row: usize) -> Entry {
        let value = self.value(row);
        let flags = value[1];
        Entry {
            state: if value[0] == LIVE { State::Live } else { State::Removed },
            version: Version::new(u64_at(value, 2)).ok(),
            event: EventHash(bytes_at(value, 10)),
            fingerprint: Fingerprint(bytes_at(value, 26)),
            space: NameHash(bytes_at(value, 42)),
            parent: (flags & HAS_PARENT != 0).then(|| ScopeHash(bytes_at(value, 50))),
            erased_through: Covers::from_number(u64_at(value, 66)),
            partition: u32_at(value, 74),
            tombstone: Some(u64_at(value, 78)).filter(|number| *number != 0).map(TombstoneNo),
            flags: unpack_flags(flags),
        }
    }
}

/// How a bucket counts in the digest: by where it stands and what it holds.
pub(super) fn contribution(bound: &ObjectId, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(&bound.0, u64_at(bytes, 0))
}

/// An object as a bucket holds it already: its rows are copied as they are.
#[derive(Debug, Clone)]
pub(super) struct Kept<'a> {
    bucket: Bucket<'a>,
    pub(super) object: Ordinal,
    rows: Range<usize>,
}

/// What a bucket is packed from.
#[derive(Debug, Clone)]
pub(super) enum Piece<'a> {
    /// An object that has not changed.
    Kept(Kept<'a>),
    /// One that has.
    Changed(Ordinal, &'a ObjectRows),
}

impl<'a> Piece<'a> {
    pub(super) fn object(&self) -> Ordinal {
        match self {
            Piece::Kept(kept) => kept.object,
            Piece::Changed(object, _) => *object,
        }
    }

    /// What it takes in a bucket.
    pub(super) fn bytes(&self) -> usize {
        self.rows() * (KEY + VALUE) + self.name().len()
    }

    fn rows(&self) -> usize {
        match self {
            Piece::Kept(kept) => kept.rows.len(),
            Piece::Changed(_, rows) => {
                rows.record.generations.len() + usize::from(rows.record.floor > 0)
            }
        }
    }

    fn name(&self) -> &'a [u8] {
        match self {
            Piece::Kept(kept) => kept.bucket.name(kept.rows.start),
            Piece::Changed(_, rows) => rows.name.as_bytes(),
        }
    }

    fn pack_keys(&self, bytes: &mut Vec<u8>) {
        match self {
            Piece::Kept(Kept { bucket, rows, .. }) => {
                let at = |row| HEADER + row * KEY;
                bytes.extend_from_slice(&bucket.0[at(rows.start)..at(rows.end)]);
            }
            Piece::Changed(object, ObjectRows { record, .. }) => {
                let floor = (record.floor > 0).then_some(0);
                let generations = record.generations.iter().map(|(generation, _)| generation.0);
                for generation in floor.into_iter().chain(generations) {
                    bytes.extend_from_slice(&object.object().0);
                    bytes.extend_from_slice(&generation.to_be_bytes());
                }
            }
        }
    }

    /// Its values; the name, which lies at this place among the names, belongs to the first row.
    fn pack_values(&self, bytes: &mut Vec<u8>, name_at: u32) {
        // Names are at most MAX_NAME_BYTES long, so the length fits.
        let mut name = (name_at, self.name().len() as u16);
        match self {
            Piece::Kept(Kept { bucket, rows, .. }) => {
                let first = bytes.len();
                for row in rows.clone() {
                    bytes.extend_from_slice(bucket.value(row));
                }
                put_name(&mut bytes[first..first + VALUE], name);
            }
            Piece::Changed(_, ObjectRows { record, .. }) => {
                if record.floor > 0 {
                    pack_floor(bytes, record.floor, std::mem::take(&mut name));
                }
                for (_, entry) in &record.generations {
                    pack_entry(bytes, entry, std::mem::take(&mut name));
                }
            }
        }
    }
}

/// Packs neighbouring objects into `bytes`, in place of what they hold.
pub(super) fn pack(pieces: &[Piece<'_>], checkpoint: u64, replaced: u64, bytes: &mut Vec<u8>) {
    let rows: usize = pieces.iter().map(Piece::rows).sum();
    bytes.clear();
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&checkpoint.to_le_bytes());
    bytes.extend_from_slice(&replaced.to_le_bytes());
    bytes.extend_from_slice(&(rows as u32).to_le_bytes());
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    pieces.iter().for_each(|piece| piece.pack_keys(bytes));
    let mut name_at = 0;
    for piece in pieces {
        piece.pack_values(bytes, name_at);
        name_at += piece.name().len() as u32;
    }
    pieces.iter().for_each(|piece| bytes.extend_from_slice(piece.name()));
    let checksum = xxh3_64(&bytes[8..]);
    bytes[..8].copy_from_slice(&checksum.to_le_bytes());
}

fn pack_floor(bytes: &mut Vec<u8>, floor: u32, name: (u32, u16)) {
    let mut value = [0; VALUE];
    value[2..6].copy_from_slice(&floor.to_le_bytes());
    put_name(&mut value, name);
    bytes.extend_from_slice(&value);
}

fn pack_entry(bytes: &mut Vec<u8>, entry: &Entry, name: (u32, u16)) {
    let mut value = [0; VALUE];
    value[0] = if entry.state == State::Live { LIVE } else { 0 };
    value[1] = pack_flags(entry.flags) | if entry.parent.is_some() { HAS_PARENT } else { 0 };
    let version = entry.version.map_or(0, Version::get);
    value[2..10].copy_from_slice(&version.to_le_bytes());
    value[10..26].copy_from_slice(&entry.event.0);
    value[26..42].copy_from_slice(&entry.fingerprint.0);
    value[42..50].copy_from_slice(&entry.space.0);
    value[50..66].copy_from_slice(&entry.parent.unwrap_or_default().0);
    value[66..74].copy_from_slice(&entry.erased_through.to_number().to_le_bytes());
    value[74..78].copy_from_slice(&entry.partition.to_le_bytes());
    let tombstone = entry.tombstone.map_or(0, |number| number.0);
    value[78..86].copy_from_slice(&tombstone.to_le_bytes());
    put_name(&mut value, name);
    bytes.extend_from_slice(&value);
}

fn put_name(value: &mut [u8], (at, length): (u32, u16)) {
    value[86..90].copy_from_slice(&at.to_le_bytes());
    value[90..92].copy_from_slice(&length.to_le_bytes());
}

fn pack_flags(flags: EntryFlags) -> u8 {
    u8::from(flags.with_content)
        | u8::from(flags.suspended) << 1
        | u8::from(flags.has_requests) << 2
        | u8::from(flags.terminal) << 3
        | u8::from(flags.scope_restored) << 4
        | u8::from(flags.older_tombstones) << 5
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
mod tests {
    use super::*;

    fn entry(version: u64, parent: bool, bit: u8) -> Entry {
        Entry {
            state: if version.is_multiple_of(2) { State::Live } else { State::Removed },
            version: Version::new(version).ok(),
            event: EventHash([version as u8; 16]),
            fingerprint: Fingerprint([bit; 16]),
            space: NameHash([9; 8]),
            parent: parent.then_some(ScopeHash([7; 16])),
            erased_through: Covers::from_number(u64::MAX - version),
            partition: 3,
            tombstone: (version > 2).then_some(TombstoneNo(version)),
            flags: unpack_flags(1 << (bit % 6)),
        }
    }

    fn sample() -> Vec<(ObjectId, ObjectRows)> {
        (0..40_u8)
            .map(|id| {
                let mut rows = ObjectRows::default();
                rows.record.floor = u32::from(id % 3);
                for generation in 1..=u32::from(id % 4) + 1 {
                    let entry = entry(u64::from(id) + u64::from(generation) - 1, id % 2 == 0, id);
                    rows.record.set(Generation(generation), entry);
                }
                if id % 5 != 0 {
                    rows.name = format!("nämé {id}").into();
                }
                (ObjectId([id; 32]), rows)
            })
            .collect()
    }

    fn pack_all(objects: &[(ObjectId, ObjectRows)], checkpoint: u64, replaced: u64) -> Vec<u8> {
        let piece = |(object, rows)| Piece::Changed(ordinal(object), rows);
        let pieces: Vec<_> = objects.iter().map(|(object, rows)| piece((object, rows))).collect();
        packed(&pieces, checkpoint, replaced)
    }

    fn packed(pieces: &[Piece<'_>], checkpoint: u64, replaced: u64) -> Vec<u8> {
        let mut bytes = b"what was packed before".to_vec();
        pack(pieces, checkpoint, replaced, &mut bytes);
        bytes
    }

    fn ordinal(object: &ObjectId) -> Ordinal {
        Ordinal::of(&object.0)
    }

    #[test]
    fn what_is_kept_is_packed_like_what_is_given() {
        let objects = sample();
        let whole = pack_all(&objects, 5, 77);
        let bucket = Bucket::check(&whole).unwrap();
        let kept: Vec<Piece<'_>> = bucket.kept().map(Piece::Kept).collect();
        assert_eq!(packed(&kept, 5, 77), whole);
        let (mixed, half): (Vec<Piece<'_>>, _) =
            (
                kept.iter()
                    .zip(&objects)
                    .enumerate()
                    .filter(|(at, _)| at % 3 != 0)
                    .map(|(at, (kept, (object, rows)))| {
                        if at % 2 == 0 {
                            kept.clone()
                        } else {
                            Piece::Changed(ordinal(object), rows)
                        }
                    })
                    .collect(),
                objects.iter().enumerate().filter(|(at, _)| at % 3 != 0).map(|(_, it)| it.clone()),
            );
        assert_eq!(packed(&mixed, 6, 1), pack_all(&half.collect::<Vec<_>>(), 6, 1));
    }

    #[test]
    fn what_is_packed_comes_back() {
        let objects = sample();
        let bytes = pack_all(&objects, 5, 77);
        let bucket = Bucket::check(&bytes).unwrap();
        assert_eq!((bucket.checkpoint(), bucket.replaced()), (5, 77));
        for (object, rows) in &objects {
            assert_eq!(bucket.object(object).as_ref(), Some(rows));
        }
        assert_eq!(bucket.object(&ObjectId([200; 32])), None);
        assert_eq!(bucket.objects().collect::<Vec<_>>(), objects);
    }

    #[test]
    fn a_flipped_bit_or_a_cut_is_noticed() {
        let bytes = pack_all(&sample(), 1, 0);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert!(Bucket::check(&damaged).is_none(), "byte {at}");
        }
        for length in 0..bytes.len() {
            assert!(Bucket::check(&bytes[..length]).is_none(), "length {length}");
        }
    }
}
