//! A bucket: the entries of neighbouring objects, packed. The same bytes are in memory and on disk.
//!
//! ```text
//! header  checksum of the rest 8 · checkpoint 8 · contribution replaced 8 · rows 4 · format 4
//! keys    rows x (object 32, generation 4 big-endian), ascending
//! values  rows x 92
//! names   the objects' readable names, one after the other
//! ```
//! An object's floor is a row of generation 0; its name belongs to its first row.

use cenotaph_core::{
    Covers, Entry, EntryFlags, EventHash, Fingerprint, Generation, NameHash, ObjectId,
    ObjectRecord, ScopeHash, State, TombstoneNo, Version,
};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

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

    fn rows(&self) -> usize {
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

    fn first_row_of(&self, object: &ObjectId) -> usize {
        let (mut low, mut high) = (0, self.rows());
        while low < high {
            let middle = (low + high) / 2;
            if self.key(middle)[..32] < object.0[..] { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// One object.
    pub(super) fn object(&self, object: &ObjectId) -> Option<ObjectRows> {
        let first = self.first_row_of(object);
        let is_its = first < self.rows() && self.key(first)[..32] == object.0;
        is_its.then(|| self.object_at(first).0)
    }

    /// One object without its name.
    pub(super) fn record(&self, object: &ObjectId) -> Option<ObjectRecord> {
        let first = self.first_row_of(object);
        let is_its = first < self.rows() && self.key(first)[..32] == object.0;
        is_its.then(|| self.record_at(first).0)
    }

    /// The object whose first row this is, and the row after its last.
    fn object_at(&self, first: usize) -> (ObjectRows, usize) {
        let (record, next) = self.record_at(first);
        (ObjectRows { record, name: self.name(first) }, next)
    }

    fn record_at(&self, first: usize) -> (ObjectRecord, usize) {
        let object = &self.key(first)[..32];
        let mut record = ObjectRecord::default();
        let mut row = first;
        while row < self.rows() && self.key(row)[..32] == *object {
            let generation = u32::from_be_bytes(bytes_at(self.key(row), 32));
            if generation == 0 {
                record.floor = self.value_floor(row);
            } else {
                record.generations.push((Generation(generation), self.entry(row)));
            }
            row += 1;
        }
        (record, row)
    }

    /// Every object, ascending.
    pub(super) fn objects(self) -> impl Iterator<Item = (ObjectId, ObjectRows)> + 'a {
        let mut row = 0;
        std::iter::from_fn(move || {
            if row >= self.rows() {
                return None;
            }
            let object = ObjectId(bytes_at(self.key(row), 0));
            let (rows, next) = self.object_at(row);
            row = next;
            Some((object, rows))
        })
    }

    fn value(&self, row: usize) -> &'a [u8] {
        let at = HEADER + self.rows() * KEY + row * VALUE;
        &self.0[at..at + VALUE]
    }

    fn value_floor(&self, row: usize) -> u32 {
        u32_at(self.value(row), 2)
    }

    fn name(&self, row: usize) -> Option<Box<str>> {
        let value = self.value(row);
        let (at, length) = (u32_at(value, 86) as usize, u16::from_le_bytes(bytes_at(value, 90)));
        let names = self.0.get(HEADER + self.rows() * (KEY + VALUE)..)?;
        let name = names.get(at..at + usize::from(length))?;
        if name.is_empty() { None } else { std::str::from_utf8(name).ok().map(Box::from) }
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

/// Packs neighbouring objects.
pub(super) fn pack(objects: &[(ObjectId, ObjectRows)], checkpoint: u64, replaced: u64) -> Vec<u8> {
    let rows: usize = objects.iter().map(|(_, rows)| row_count(rows)).sum();
    let names: usize =
        objects.iter().map(|(_, rows)| rows.name.as_ref().map_or(0, |n| n.len())).sum();
    let mut bytes = Vec::with_capacity(HEADER + rows * (KEY + VALUE) + names);
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&checkpoint.to_le_bytes());
    bytes.extend_from_slice(&replaced.to_le_bytes());
    bytes.extend_from_slice(&(rows as u32).to_le_bytes());
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    for (object, rows) in objects {
        let floor = (rows.record.floor > 0).then_some(0);
        let generations = rows.record.generations.iter().map(|(generation, _)| generation.0);
        for generation in floor.into_iter().chain(generations) {
            bytes.extend_from_slice(&object.0);
            bytes.extend_from_slice(&generation.to_be_bytes());
        }
    }
    let mut name_at = 0_u32;
    for (_, rows) in objects {
        // Names are at most MAX_NAME_BYTES long, so the length fits.
        let length = rows.name.as_ref().map_or(0, |name| name.len()) as u16;
        let mut name = (name_at, length);
        if rows.record.floor > 0 {
            pack_floor(&mut bytes, rows.record.floor, std::mem::take(&mut name));
        }
        for (_, entry) in &rows.record.generations {
            pack_entry(&mut bytes, entry, std::mem::take(&mut name));
        }
        name_at += u32::from(length);
    }
    for name in objects.iter().filter_map(|(_, rows)| rows.name.as_ref()) {
        bytes.extend_from_slice(name.as_bytes());
    }
    let checksum = xxh3_64(&bytes[8..]);
    bytes[..8].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// What an object takes in a bucket.
pub(super) fn packed_bytes(rows: &ObjectRows) -> usize {
    row_count(rows) * (KEY + VALUE) + rows.name.as_ref().map_or(0, |name| name.len())
}

fn row_count(rows: &ObjectRows) -> usize {
    rows.record.generations.len() + usize::from(rows.record.floor > 0)
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

fn put_name(value: &mut [u8; VALUE], (at, length): (u32, u16)) {
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
                rows.name = (id % 5 != 0).then(|| format!("nämé {id}").into());
                (ObjectId([id; 32]), rows)
            })
            .collect()
    }

    #[test]
    fn what_is_packed_comes_back() {
        let objects = sample();
        let bytes = pack(&objects, 5, 77);
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
        let bytes = pack(&sample(), 1, 0);
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
