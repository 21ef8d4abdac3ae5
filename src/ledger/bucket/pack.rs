//! Packs a bucket: what has not changed is copied as it is, what has is packed anew.

use cenotaph_core::{Entry, EntryFlags, State, Version};
use xxhash_rust::xxh3::xxh3_64;

use super::{EXTENSION, FORMAT, HAS_PARENT, HEADER, KEY, Kept, LIVE, VALUE};
use crate::ledger::directory::Ordinal;
use crate::ledger::table::ObjectRows;

/// What a bucket is packed from.
#[derive(Debug, Clone)]
pub(in crate::ledger) enum Piece<'a> {
    /// An object that has not changed.
    Kept(Kept<'a>),
    /// One that has.
    Changed(Ordinal, &'a ObjectRows),
}

impl<'a> Piece<'a> {
    pub(in crate::ledger) fn object(&self) -> Ordinal {
        match self {
            Piece::Kept(kept) => kept.object,
            Piece::Changed(object, _) => *object,
        }
    }

    /// The most that it takes in a bucket.
    pub(in crate::ledger) fn bytes(&self) -> usize {
        self.rows() * (KEY + VALUE + EXTENSION) + self.name().len()
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
            Piece::Kept(kept) => kept.bucket.name(kept.rows.start, kept.name_at),
            Piece::Changed(_, rows) => rows.name.as_bytes(),
        }
    }

    fn pack_keys(&self, bytes: &mut Vec<u8>) {
        match self {
            Piece::Kept(Kept { bucket, rows, .. }) => {
                let at = |row| bucket.keys_start() + row * KEY;
                bytes.extend_from_slice(&bucket.0[at(rows.start)..at(rows.end)]);
            }
            Piece::Changed(object, ObjectRows { record, .. }) => {
                let floor = (record.floor > 0).then_some(0);
                let generations = record.generations.iter().map(|(generation, _)| generation.0);
                for generation in floor.into_iter().chain(generations) {
                    bytes.extend_from_slice(&object.object_hash().to_be_bytes());
                    bytes.extend_from_slice(&generation.to_be_bytes());
                }
            }
        }
    }

    /// Its values; the name belongs to the first row.
    fn pack_values(&self, bytes: &mut Vec<u8>, extensions: &mut Vec<u8>) {
        let first = bytes.len();
        match self {
            Piece::Kept(Kept { bucket, rows, .. }) => {
                for row in rows.clone() {
                    let value = bytes.len();
                    bytes.extend_from_slice(bucket.value(row));
                    extend(&mut bytes[value..], bucket.extension(row), extensions);
                }
            }
            Piece::Changed(_, ObjectRows { record, .. }) => {
                if record.floor > 0 {
                    pack_floor(bytes, record.floor);
                }
                for (_, entry) in &record.generations {
                    pack_entry(bytes, entry, extensions);
                }
            }
        }
        // Names are at most MAX_NAME_BYTES long, so the length fits.
        if let Some(length) = bytes.get_mut(first + 58..first + 60) {
            length.copy_from_slice(&(self.name().len() as u16).to_le_bytes());
        }
    }
}

/// Packs neighbouring objects into `bytes`, in place of what they hold.
pub(in crate::ledger) fn pack(
    pieces: &[Piece<'_>],
    checkpoint: u64,
    replaced: u64,
    bytes: &mut Vec<u8>,
) {
    bytes.clear();
    bytes.resize(HEADER, 0);
    let (rows, collections) = pack_collections(pieces, bytes);
    debug_assert!(pieces.iter().all(|piece| piece.rows() > 0), "a name needs its row");
    pieces.iter().for_each(|piece| piece.pack_keys(bytes));
    let mut extensions = Vec::new();
    pieces.iter().for_each(|piece| piece.pack_values(bytes, &mut extensions));
    bytes.extend_from_slice(&extensions);
    pieces.iter().for_each(|piece| bytes.extend_from_slice(piece.name()));
    bytes[8..16].copy_from_slice(&checkpoint.to_le_bytes());
    bytes[16..24].copy_from_slice(&replaced.to_le_bytes());
    let extensions = (extensions.len() / EXTENSION) as u32;
    for (at, number) in [(24, rows), (28, extensions), (32, collections), (36, FORMAT)] {
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
    let checksum = xxh3_64(&bytes[8..]);
    bytes[..8].copy_from_slice(&checksum.to_le_bytes());
}

/// The collections, each with its first row. Answers how many rows and how many collections.
fn pack_collections(pieces: &[Piece<'_>], bytes: &mut Vec<u8>) -> (u32, u32) {
    let (mut rows, mut collections, mut last) = (0_u32, 0, None);
    for piece in pieces {
        let collection = piece.object().collection();
        if last != Some(collection) {
            bytes.extend_from_slice(&collection.to_be_bytes());
            bytes.extend_from_slice(&rows.to_le_bytes());
            (last, collections) = (Some(collection), collections + 1);
        }
        rows += piece.rows() as u32;
    }
    (rows, collections)
}

fn pack_floor(bytes: &mut Vec<u8>, floor: u32) {
    let mut value = [0; VALUE];
    value[2..6].copy_from_slice(&floor.to_le_bytes());
    bytes.extend_from_slice(&value);
}

fn pack_entry(bytes: &mut Vec<u8>, entry: &Entry, extensions: &mut Vec<u8>) {
    let mut value = [0; VALUE];
    value[0] = if entry.state == State::Live { LIVE } else { 0 };
    value[1] = pack_flags(entry.flags) | if entry.parent.is_some() { HAS_PARENT } else { 0 };
    let version = entry.version.map_or(0, Version::get);
    value[2..10].copy_from_slice(&version.to_le_bytes());
    value[10..26].copy_from_slice(&entry.event.0);
    value[26..42].copy_from_slice(&entry.fingerprint.0);
    value[42..50].copy_from_slice(&entry.space.0);
    value[50..54].copy_from_slice(&entry.partition.to_le_bytes());
    let mut extension = [0; EXTENSION];
    extension[..16].copy_from_slice(&entry.parent.unwrap_or_default().0);
    extension[16..24].copy_from_slice(&entry.erased_through.to_number().to_le_bytes());
    let tombstone = entry.tombstone.map_or(0, |number| number.0);
    extension[24..].copy_from_slice(&tombstone.to_le_bytes());
    extend(&mut value, &extension, extensions);
    bytes.extend_from_slice(&value);
}

/// Gives a value its extension, if there is anything in it.
fn extend(value: &mut [u8], extension: &[u8], extensions: &mut Vec<u8>) {
    let mut number = 0;
    if extension.iter().any(|byte| *byte != 0) {
        extensions.extend_from_slice(extension);
        number = (extensions.len() / EXTENSION) as u32;
    }
    value[54..58].copy_from_slice(&number.to_le_bytes());
}

fn pack_flags(flags: EntryFlags) -> u8 {
    u8::from(flags.with_content)
        | u8::from(flags.suspended) << 1
        | u8::from(flags.has_requests) << 2
        | u8::from(flags.terminal) << 3
        | u8::from(flags.scope_restored) << 4
        | u8::from(flags.older_tombstones) << 5
}
