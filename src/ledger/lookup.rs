//! Looks up many objects at once, a step of all of them before the next step of any: what an object
//! waits for in memory, the others do not wait for again.

use std::borrow::Cow;

use cenotaph_core::{ObjectId, ObjectRecord};

use super::bucket::Bucket;
use super::directory::{Directory, Ordinal};
use super::table::Tables;

/// Objects that are in step. More of them would drive each other out of the processor's cache.
const IN_STEP: usize = 32;

/// What is known of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Found<'a> {
    /// Its record; an empty one where it was never met.
    pub(super) record: Cow<'a, ObjectRecord>,
    /// Its row in the active table, if it has one: it keeps it until the table is frozen.
    pub(super) row: Option<usize>,
}

/// What is known of each object.
pub(super) fn records<'a>(tables: &'a Tables, objects: &[ObjectId]) -> Vec<Found<'a>> {
    let mut missing = Vec::with_capacity(objects.len());
    let mut found = Vec::with_capacity(objects.len());
    for (at, object) in objects.iter().enumerate() {
        let changed = changed(tables, object);
        if changed.is_none() {
            missing.push(at);
        }
        found.push(changed.unwrap_or_default());
    }
    for group in missing.chunks(IN_STEP) {
        let wanted: Vec<Ordinal> = group.iter().map(|at| Ordinal::of(&objects[*at].0)).collect();
        let rows = in_directory(&tables.directory, &wanted);
        for (at, row) in group.iter().zip(rows) {
            if let Some((bucket, row)) = row {
                found[*at].record = Cow::Owned(bucket.record_at(row));
            }
        }
    }
    found
}

fn changed<'a>(tables: &'a Tables, object: &ObjectId) -> Option<Found<'a>> {
    if let Some((row, _, rows)) = tables.active.objects.get_full(object) {
        return Some(Found { record: Cow::Borrowed(&rows.record), row: Some(row) });
    }
    let rows = tables.frozen.as_ref()?.objects.get(object)?;
    Some(Found { record: Cow::Borrowed(&rows.record), row: None })
}

/// The bucket and the first row of each object that is there.
fn in_directory<'a>(
    directory: &'a Directory,
    wanted: &[Ordinal],
) -> Vec<Option<(Bucket<'a>, usize)>> {
    let places = directory.places_of(wanted);
    let buckets: Vec<Option<Bucket<'a>>> = places
        .into_iter()
        .map(|place| directory.bytes(place?).map(|bytes| Bucket::trusted(bytes)))
        .collect();
    // Where each one's row may be: the first of the rows, and how many they are.
    let rows_of = |(bucket, object): (&Option<Bucket<'a>>, &Ordinal)| {
        bucket.map_or(0..0, |bucket| bucket.rows_of(*object))
    };
    let all: Vec<_> = buckets.iter().zip(wanted).map(rows_of).collect();
    let mut ranges: Vec<_> = all.iter().map(|rows| (rows.start, rows.len())).collect();
    while ranges.iter().any(|(_, length)| *length > 1) {
        for ((range, bucket), object) in ranges.iter_mut().zip(&buckets).zip(wanted) {
            let (Some(bucket), (first, length)) = (bucket, range) else { continue };
            let half = *length / 2;
            let below = half > 0 && bucket.object_hash(*first + half - 1) < object.object_hash();
            *first += usize::from(below) * half;
            *length -= half;
        }
    }
    let mut found = Vec::with_capacity(wanted.len());
    for (((bucket, rows), (first, length)), object) in
        buckets.iter().zip(all).zip(ranges).zip(wanted)
    {
        found.push(bucket.and_then(|bucket| {
            let below = length > 0 && bucket.object_hash(first) < object.object_hash();
            let row = first + usize::from(below);
            let is_its = row < rows.end && bucket.object_hash(row) == object.object_hash();
            is_its.then_some((bucket, row))
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cenotaph_core::{
        Covers, Entry, EntryFlags, EventHash, Fingerprint, Generation, NameHash, State,
        TombstoneNo, Version,
    };
    use proptest::prelude::*;
    use sled::IVec;

    use super::super::bucket::{Piece, pack};
    use super::super::table::{ObjectRows, Table};
    use super::*;

    fn id(number: u16) -> ObjectId {
        let mut bytes = [0; 32];
        // A few collections, with several objects each.
        bytes[0] = (number / 64) as u8;
        bytes[16..18].copy_from_slice(&number.to_be_bytes());
        ObjectId(bytes)
    }

    /// Some with a floor, and with one to three generations.
    fn rows(number: u16) -> ObjectRows {
        let mut rows = ObjectRows::default();
        rows.record.floor = u32::from(number % 2);
        for generation in 1..=u32::from(number % 3) + 1 {
            let entry = Entry {
                state: State::Live,
                version: Version::new(u64::from(number) + 1).ok(),
                event: EventHash([generation as u8; 16]),
                fingerprint: Fingerprint([number as u8; 16]),
                space: NameHash::default(),
                parent: None,
                erased_through: Covers::NOTHING,
                partition: 0,
                tombstone: number.is_multiple_of(5).then_some(TombstoneNo(1)),
                flags: EntryFlags::default(),
            };
            rows.record.set(Generation(generation), entry);
        }
        rows
    }

    fn directory(bounds: &[u16], objects: &[u16]) -> Directory {
        let mut directory = Directory::default();
        for (at, bound) in bounds.iter().enumerate() {
            let until = bounds.get(at + 1).copied().unwrap_or(u16::MAX);
            let own = objects.iter().filter(|it| (*bound..until).contains(*it));
            let own: Vec<_> = own.map(|it| (Ordinal::of(&id(*it).0), rows(*it))).collect();
            let pieces: Vec<_> =
                own.iter().map(|(object, rows)| Piece::Changed(*object, rows)).collect();
            let mut bytes = Vec::new();
            pack(&pieces, 1, 0, &mut bytes);
            directory.push(&id(*bound), IVec::from(bytes));
        }
        directory
    }

    proptest! {
        /// Whatever lies where: each object is found with the record that it has, or not at all.
        #[test]
        fn each_object_is_found_with_its_own_record(
            bounds in prop::collection::btree_set(1..200_u16, 0..12),
            stored in prop::collection::btree_set(0..200_u16, 0..120),
            active in prop::collection::btree_set(0..200_u16, 0..20),
            asked in prop::collection::vec(0..210_u16, 0..100),
        ) {
            let bounds: Vec<u16> = std::iter::once(0).chain(bounds).collect();
            let stored: Vec<u16> = stored.into_iter().collect();
            let mut table = Table::default();
            for number in &active {
                table.objects.insert(id(*number), rows(number + 1000));
            }
            let directory = Arc::new(directory(&bounds, &stored));
            let tables = Tables { active: table, directory, ..Tables::default() };
            let objects: Vec<ObjectId> = asked.iter().map(|number| id(*number)).collect();
            let found = records(&tables, &objects);
            for (number, found) in asked.iter().zip(found) {
                let expected = if active.contains(number) {
                    rows(number + 1000).record
                } else if stored.contains(number) {
                    rows(*number).record
                } else {
                    ObjectRecord::default()
                };
                prop_assert_eq!(found.record.into_owned(), expected, "{}", number);
                prop_assert_eq!(found.row.is_some(), active.contains(number), "{}", number);
            }
        }
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        assert_eq!(records(&Tables::default(), &[id(1)]), vec![Found::default()]);
        assert!(records(&Tables::default(), &[]).is_empty());
    }
}
