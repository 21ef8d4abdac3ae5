//! A frame: the records of one batch, as bytes.

use cenotaph_core::{Fact, FactHash, Note, Record};
use xxhash_rust::xxh3::xxh3_128;

use super::files::{bytes_at, u32_at, u64_at};
use super::identity::LedgerId;

/// The bytes before a frame's records.
pub(super) const FRAME_HEADER: usize = 56;
/// What every frame begins with.
pub(super) const FRAME_MAGIC: [u8; 4] = *b"CNF1";
/// The most bytes of one frame's records: more is a defect of whoever made it.
const MAX_BODY: usize = 1 << 30;
const FIRST_SCRATCH: usize = 16 * 1024;

/// A frame's own hash; each frame carries the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameHash(pub [u8; 16]);

impl FrameHash {
    /// The hash of a frame's bytes.
    pub(super) fn of(frame: &[u8]) -> FrameHash {
        FrameHash(xxh3_128(frame).to_le_bytes())
    }
}

/// A place in the journal: after a frame. The beginning is frame 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The number of the last frame before it.
    pub frame: u64,
    /// That frame's hash.
    pub frame_hash: FrameHash,
    /// The number of the last fact before it.
    pub fact: u64,
    /// That fact's hash.
    pub fact_hash: FactHash,
}

impl Mark {
    /// Before everything. The chain of facts begins with the ledger's id.
    #[must_use]
    pub fn beginning(ledger: LedgerId) -> Mark {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"cenotaph ledger 1\n").update(&ledger.0);
        let fact_hash = FactHash(*hasher.finalize().as_bytes());
        Mark { frame: 0, frame_hash: FrameHash::default(), fact: 0, fact_hash }
    }
}

/// The hash of a fact that follows `previous`.
pub(super) fn chain(previous: &FactHash, fact: &[u8]) -> FactHash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&previous.0).update(fact);
    FactHash(*hasher.finalize().as_bytes())
}

/// Records could not be made a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// There is nothing in it.
    #[error("a frame needs a record")]
    Empty,
    /// It is larger than a frame may be.
    #[error("a frame of more than {MAX_BODY} bytes; cut the batch")]
    TooLarge,
    /// A record has no encoding.
    #[error("a record cannot be encoded")]
    Record,
}

/// Makes frames; keeps its buffers.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    facts: Section,
    notes: Section,
    record: Vec<u8>,
    frame: Vec<u8>,
}

#[derive(Debug, Default)]
struct Section {
    count: u32,
    bytes: Vec<u8>,
}

impl Section {
    fn clear(&mut self) {
        self.count = 0;
        self.bytes.clear();
    }

    fn push(&mut self, index: u32, record: &[u8]) {
        self.count += 1;
        put_varint(&mut self.bytes, index);
        // Records are cut off at MAX_BODY, so the length fits.
        put_varint(&mut self.bytes, record.len() as u32);
        self.bytes.extend_from_slice(record);
    }
}

impl Encoder {
    /// The frame after `mark`, and the mark after it.
    pub(super) fn encode(
        &mut self,
        mark: Mark,
        records: &[Record],
    ) -> Result<(&[u8], Mark), EncodeError> {
        self.facts.clear();
        self.notes.clear();
        let mut after = mark;
        for (index, record) in records.iter().enumerate() {
            let index = u32::try_from(index).map_err(|_| EncodeError::TooLarge)?;
            match record {
                Record::Fact(fact) => {
                    let bytes = serialize(fact, &mut self.record)?;
                    after.fact += 1;
                    after.fact_hash = chain(&after.fact_hash, bytes);
                    self.facts.push(index, bytes);
                }
                Record::Note(note) => {
                    self.notes.push(index, serialize(note, &mut self.record)?);
                }
            }
            if self.facts.bytes.len() + self.notes.bytes.len() > MAX_BODY {
                return Err(EncodeError::TooLarge);
            }
        }
        if records.is_empty() {
            return Err(EncodeError::Empty);
        }
        let header = FrameHeader {
            number: mark.frame + 1,
            first_fact: mark.fact + 1,
            facts: self.facts.count,
            notes: self.notes.count,
            facts_bytes: self.facts.bytes.len() as u32,
            notes_bytes: self.notes.bytes.len() as u32,
            previous: mark.frame_hash,
        };
        assemble(&mut self.frame, &header, &self.facts.bytes, &self.notes.bytes);
        after.frame = header.number;
        after.frame_hash = FrameHash::of(&self.frame);
        Ok((&self.frame, after))
    }

    /// A frame without the notes that `keep` does not want; none if nothing is left of it.
    pub(super) fn strip(
        &mut self,
        frame: &Frame<'_>,
        keep: impl Fn(&Note) -> bool,
    ) -> Result<Option<&[u8]>, &'static str> {
        self.notes.clear();
        for item in frame.notes() {
            let (index, bytes) = item?;
            if keep(&decode::<Note>(bytes)?) {
                self.notes.push(index, bytes);
            }
        }
        if frame.header.facts == 0 && self.notes.count == 0 {
            return Ok(None);
        }
        let header = FrameHeader {
            notes: self.notes.count,
            notes_bytes: self.notes.bytes.len() as u32,
            ..frame.header
        };
        assemble(&mut self.frame, &header, frame.facts, &self.notes.bytes);
        Ok(Some(&self.frame))
    }
}

/// One record in a buffer that grows until it fits.
fn serialize<'a, T: serde::Serialize>(
    record: &T,
    buffer: &'a mut Vec<u8>,
) -> Result<&'a [u8], EncodeError> {
    if buffer.is_empty() {
        buffer.resize(FIRST_SCRATCH, 0);
    }
    loop {
        match postcard::to_slice(record, buffer).map(|written| written.len()) {
            Ok(length) => return Ok(&buffer[..length]),
            Err(postcard::Error::SerializeBufferFull) if buffer.len() < MAX_BODY => {
                buffer.resize(buffer.len() * 2, 0);
            }
            Err(postcard::Error::SerializeBufferFull) => return Err(EncodeError::TooLarge),
            Err(_) => return Err(EncodeError::Record),
        }
    }
}

fn decode<'a, T: serde::Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, &'static str> {
    match postcard::take_from_bytes(bytes) {
        Ok((record, [])) => Ok(record),
        Ok(_) => Err("a record is followed by more bytes"),
        Err(_) => Err("a record is not one that this version knows"),
    }
}

fn assemble(frame: &mut Vec<u8>, header: &FrameHeader, facts: &[u8], notes: &[u8]) {
    frame.clear();
    frame.extend_from_slice(&FRAME_MAGIC);
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(&header.number.to_le_bytes());
    frame.extend_from_slice(&header.first_fact.to_le_bytes());
    for number in [header.facts, header.notes, header.facts_bytes, header.notes_bytes] {
        frame.extend_from_slice(&number.to_le_bytes());
    }
    frame.extend_from_slice(&header.previous.0);
    frame.extend_from_slice(facts);
    frame.extend_from_slice(notes);
    let checksum = crc32fast::hash(&frame[8..]);
    frame[4..8].copy_from_slice(&checksum.to_le_bytes());
}

/// What stands before a frame's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// The frame's number.
    pub(super) number: u64,
    /// The number of its first fact, or of the next one if it has none.
    pub(super) first_fact: u64,
    /// How many facts.
    pub(super) facts: u32,
    /// How many notes.
    pub(super) notes: u32,
    facts_bytes: u32,
    notes_bytes: u32,
    /// The hash of the frame before it.
    pub(super) previous: FrameHash,
}

impl FrameHeader {
    /// Reads a header; what is none is none.
    pub(super) fn read(bytes: &[u8]) -> Option<FrameHeader> {
        if bytes.len() < FRAME_HEADER || bytes[..4] != FRAME_MAGIC {
            return None;
        }
        let header = FrameHeader {
            number: u64_at(bytes, 8),
            first_fact: u64_at(bytes, 16),
            facts: u32_at(bytes, 24),
            notes: u32_at(bytes, 28),
            facts_bytes: u32_at(bytes, 32),
            notes_bytes: u32_at(bytes, 36),
            previous: FrameHash(bytes_at(bytes, 40)),
        };
        (header.body() <= 2 * MAX_BODY).then_some(header)
    }

    /// The length of the records.
    pub(super) fn body(&self) -> usize {
        self.facts_bytes as usize + self.notes_bytes as usize
    }
}

/// A frame whose checksum holds.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    pub(super) header: FrameHeader,
    pub(super) hash: FrameHash,
    facts: &'a [u8],
    notes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads a frame of exactly these bytes; none if they are not what was written.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Frame<'a>> {
        let header = FrameHeader::read(bytes)?;
        if bytes.len() != FRAME_HEADER + header.body()
            || crc32fast::hash(&bytes[8..]) != u32_at(bytes, 4)
        {
            return None;
        }
        let (facts, notes) = bytes[FRAME_HEADER..].split_at(header.facts_bytes as usize);
        Some(Frame { header, hash: FrameHash::of(bytes), facts, notes })
    }

    /// Its facts as bytes, each with its index.
    pub(super) fn facts(&self) -> Items<'a> {
        Items { rest: self.facts, left: self.header.facts }
    }

    fn notes(&self) -> Items<'a> {
        Items { rest: self.notes, left: self.header.notes }
    }

    /// The fact number and hash after this frame.
    pub(super) fn chain_from(&self, mark: &Mark) -> Result<(u64, FactHash), &'static str> {
        let (mut number, mut hash) = (mark.fact, mark.fact_hash);
        for item in self.facts() {
            number += 1;
            hash = chain(&hash, item?.1);
        }
        Ok((number, hash))
    }

    /// Its records, in the order they were decided in.
    pub(super) fn records(&self) -> Result<Vec<Record>, &'static str> {
        let mut records = Vec::with_capacity((self.header.facts + self.header.notes) as usize);
        let (mut facts, mut notes) = (self.facts().peekable(), self.notes().peekable());
        loop {
            let fact_first = match (facts.peek(), notes.peek()) {
                (Some(Err(why)), _) | (_, Some(Err(why))) => return Err(why),
                (Some(Ok(fact)), Some(Ok(note))) => fact.0 < note.0,
                (Some(Ok(_)), None) => true,
                (None, Some(Ok(_))) => false,
                (None, None) => return Ok(records),
            };
            if fact_first {
                if let Some(Ok((_, bytes))) = facts.next() {
                    records.push(Record::Fact(decode::<Fact>(bytes)?));
                }
            } else if let Some(Ok((_, bytes))) = notes.next() {
                records.push(Record::Note(decode::<Note>(bytes)?));
            }
        }
    }
}

/// The records of one section, each with its index in the frame.
#[derive(Debug, Clone)]
pub(super) struct Items<'a> {
    rest: &'a [u8],
    left: u32,
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<(u32, &'a [u8]), &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return if self.rest.is_empty() {
                None
            } else {
                self.rest = &[];
                Some(Err("a frame holds more than it says"))
            };
        }
        self.left -= 1;
        let item = take_varint(&mut self.rest).zip(take_varint(&mut self.rest));
        let Some((index, length)) = item.filter(|item| item.1 as usize <= self.rest.len()) else {
            (self.left, self.rest) = (0, &[]);
            return Some(Err("a frame holds less than it says"));
        };
        let (record, rest) = self.rest.split_at(length as usize);
        self.rest = rest;
        Some(Ok((index, record)))
    }
}

fn put_varint(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut number = 0;
    for shift in (0..35).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return u32::try_from(number).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests;
