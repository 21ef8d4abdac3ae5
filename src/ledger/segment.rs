//! A segment of the journal: a header, then frames, one after the other.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use cenotaph_core::FactHash;
use xxhash_rust::xxh3::xxh3_64;

use super::boundary::{self, Boundary};
use super::files::{self, FileError, bytes_at, failed, u64_at};
use super::frame::{FRAME_HEADER, FRAME_MAGIC, Frame, FrameHash, FrameHeader, Mark};
use super::identity::LedgerId;

const MAGIC: [u8; 8] = *b"CNTSEG01";
/// The bytes before a segment's first frame.
pub(super) const SEGMENT_HEADER: usize = 192;
/// The ending of a segment's name.
const ENDING: &str = "seg";

/// What a segment says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) ledger: LedgerId,
    /// Before its first frame.
    pub(super) begin: Mark,
    /// After its last frame, once it was rewritten without notes: then a lost frame is not
    /// mistaken for a dropped one.
    pub(super) end: Option<Mark>,
}

impl SegmentHeader {
    fn to_bytes(self) -> [u8; SEGMENT_HEADER] {
        let mut bytes = [0; SEGMENT_HEADER];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[16..32].copy_from_slice(&self.ledger.0);
        put_mark(&mut bytes, 32, &self.begin);
        if let Some(end) = &self.end {
            bytes[8] = 1;
            put_mark(&mut bytes, 96, end);
        }
        let checksum = xxh3_64(&bytes[..SEGMENT_HEADER - 8]);
        bytes[SEGMENT_HEADER - 8..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<SegmentHeader> {
        if bytes.len() < SEGMENT_HEADER || bytes[..8] != MAGIC {
            return None;
        }
        let checksum = u64_at(bytes, SEGMENT_HEADER - 8);
        let end = (bytes[8] == 1).then(|| take_mark(bytes, 96));
        (xxh3_64(&bytes[..SEGMENT_HEADER - 8]) == checksum).then(|| SegmentHeader {
            ledger: LedgerId(bytes_at(bytes, 16)),
            begin: take_mark(bytes, 32),
            end,
        })
    }
}

/// 64 bytes a mark.
fn put_mark(bytes: &mut [u8], at: usize, mark: &Mark) {
    bytes[at..at + 8].copy_from_slice(&mark.frame.to_le_bytes());
    bytes[at + 8..at + 24].copy_from_slice(&mark.frame_hash.0);
    bytes[at + 24..at + 32].copy_from_slice(&mark.fact.to_le_bytes());
    bytes[at + 32..at + 64].copy_from_slice(&mark.fact_hash.0);
}

fn take_mark(bytes: &[u8], at: usize) -> Mark {
    Mark {
        frame: u64_at(bytes, at),
        frame_hash: FrameHash(bytes_at(bytes, at + 8)),
        fact: u64_at(bytes, at + 24),
        fact_hash: FactHash(bytes_at(bytes, at + 32)),
    }
}

/// The journal does not say what was written.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} is damaged at byte {at}: {what}; put a copy of the ledger's folder back from a backup of \
     it, and do not start with this one: what it lost may be a deletion", path.display()
)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where in it.
    pub at: u64,
    /// What is wrong.
    pub what: String,
}

/// A segment in memory.
pub(super) struct Segment {
    pub(super) path: PathBuf,
    pub(super) header: SegmentHeader,
    bytes: Vec<u8>,
}

/// The name of the segment that begins after `mark`.
pub(super) fn path_of(folder: &Path, begin: &Mark) -> PathBuf {
    folder.join(format!("{:020}.{ENDING}", begin.frame + 1))
}

/// The segments in a folder, in order.
pub(super) fn list(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut paths = files::list(folder)?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == ENDING));
    Ok(paths)
}

/// Makes an empty segment, durably, and answers the file to append to.
pub(super) fn create(folder: &Path, ledger: LedgerId, begin: Mark) -> Result<File, FileError> {
    let path = path_of(folder, &begin);
    let mut file = files::begin(&path)?;
    let header = SegmentHeader { ledger, begin, end: None };
    file.write_all(&header.to_bytes()).map_err(failed("write", &path))?;
    files::finish(&file, &path)?;
    Ok(file)
}

/// Writes a segment's rewritten form beside it and puts it in its place.
pub(super) fn replace(path: &Path, header: SegmentHeader, frames: &[u8]) -> Result<(), FileError> {
    let mut file = files::begin(path)?;
    file.write_all(&header.to_bytes()).map_err(failed("write", path))?;
    file.write_all(frames).map_err(failed("write", path))?;
    boundary::at(Boundary::SegmentWritten, path);
    files::finish(&file, path)?;
    boundary::at(Boundary::SegmentReplaced, path);
    Ok(())
}

/// Reads a segment's header only.
pub(super) fn read_header(path: &Path) -> Result<SegmentHeader, SegmentError> {
    use std::io::Read as _;
    let mut bytes = Vec::with_capacity(SEGMENT_HEADER);
    let file = File::open(path).map_err(failed("open", path))?;
    file.take(SEGMENT_HEADER as u64).read_to_end(&mut bytes).map_err(failed("read", path))?;
    SegmentHeader::from_bytes(&bytes).ok_or_else(|| {
        let what = "its header is not what was written".to_owned();
        SegmentError::Damage(Damage { path: path.to_owned(), at: 0, what })
    })
}

/// A segment could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// It is not what was written.
    #[error(transparent)]
    Damage(#[from] Damage),
    /// It is out of reach.
    #[error(transparent)]
    File(#[from] FileError),
}

/// How far a walk through a segment came.
pub(super) struct Walked {
    /// After the last good frame.
    pub(super) mark: Mark,
    /// The bytes up to there.
    pub(super) length: u64,
    /// Bytes behind it that are no frame.
    pub(super) rest: u64,
}

impl Segment {
    pub(super) fn read(path: &Path) -> Result<Segment, SegmentError> {
        let header = read_header(path)?;
        let bytes = fs::read(path).map_err(failed("read", path))?;
        Ok(Segment { path: path.to_owned(), header, bytes })
    }

    pub(super) fn damage(&self, at: usize, what: impl Into<String>) -> Damage {
        Damage { path: self.path.clone(), at: at as u64, what: what.into() }
    }

    /// Walks through the frames and checks that each follows the one before it. Ends at the first
    /// bytes that are no frame; whether they may be cut off is the caller's to judge, and only if
    /// no frame stands behind them.
    pub(super) fn walk<E: From<SegmentError>>(
        &self,
        mut each: impl FnMut(&Frame<'_>, Mark) -> Result<(), E>,
    ) -> Result<Walked, E> {
        let mut mark = self.header.begin;
        let mut at = SEGMENT_HEADER;
        while let Some(bytes) = self.frame_at(at) {
            let Some(frame) = Frame::read(bytes) else { break };
            mark = self.follow(&frame, mark, at).map_err(|it| E::from(it.into()))?;
            each(&frame, mark)?;
            at += bytes.len();
        }
        if self.a_frame_stands_behind(at, mark.frame) {
            let damage = self.damage(at, "bytes before a whole frame are no frame");
            return Err(SegmentError::Damage(damage).into());
        }
        let rest = (self.bytes.len() - at) as u64;
        Ok(Walked { mark, length: at as u64, rest })
    }

    fn frame_at(&self, at: usize) -> Option<&[u8]> {
        let header = FrameHeader::read(self.bytes.get(at..)?)?;
        self.bytes.get(at..at + FRAME_HEADER + header.body())
    }

    fn follow(&self, frame: &Frame<'_>, before: Mark, at: usize) -> Result<Mark, Damage> {
        let dropped = self.header.end.is_some();
        let number = frame.header.number;
        let follows = if dropped { number > before.frame } else { number == before.frame + 1 };
        if !follows || frame.header.first_fact != before.fact + 1 {
            return Err(self.damage(at, format!("frame {number} does not follow")));
        }
        if !dropped && frame.header.previous != before.frame_hash {
            return Err(self.damage(at, format!("frame {number} follows another frame")));
        }
        let (fact, fact_hash) = frame.chain_from(&before).map_err(|what| self.damage(at, what))?;
        Ok(Mark { frame: number, frame_hash: frame.hash, fact, fact_hash })
    }

    /// A torn frame is the last thing that was written: a whole one behind it means damage.
    fn a_frame_stands_behind(&self, at: usize, last: u64) -> bool {
        let mut from = at + 1;
        while let Some(next) = self.bytes.get(from..).and_then(|rest| {
            rest.windows(FRAME_MAGIC.len()).position(|window| window == FRAME_MAGIC)
        }) {
            let at = from + next;
            let whole = self.frame_at(at).and_then(Frame::read);
            if whole.is_some_and(|frame| frame.header.number > last) {
                return true;
            }
            from = at + 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_and_a_flipped_bit_is_noticed() {
        let begin = Mark::beginning(LedgerId([3; 16]));
        let end = Mark { frame: 9, fact: 4, ..begin };
        for end in [None, Some(end)] {
            let header = SegmentHeader { ledger: LedgerId([3; 16]), begin, end };
            let bytes = header.to_bytes();
            assert_eq!(SegmentHeader::from_bytes(&bytes), Some(header));
            for at in 0..bytes.len() {
                let mut damaged = bytes;
                damaged[at] ^= 1;
                assert_eq!(SegmentHeader::from_bytes(&damaged), None, "byte {at}");
            }
        }
    }
}
