//! A log to try things on, and words for what is read of it.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use cenotaph::source::{
    Batch, FeedFault, FileOptions, FileSource, PartitionReader, RawRecord, Source,
};
use cenotaph_core::Cursor;
use tempfile::TempDir;

/// No waiting.
pub const NOW: Duration = Duration::ZERO;
/// Longer than anything here should take.
pub const SOON: Duration = Duration::from_secs(5);

/// A log in a directory of its own.
pub struct Log {
    pub dir: TempDir,
}

impl Log {
    pub fn new(content: impl AsRef<[u8]>) -> Log {
        let log = Log { dir: TempDir::new().unwrap() };
        fs::write(log.path(), content).unwrap();
        log
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("changes.jsonl")
    }

    pub fn append(&self, bytes: impl AsRef<[u8]>) {
        OpenOptions::new()
            .append(true)
            .open(self.path())
            .unwrap()
            .write_all(bytes.as_ref())
            .unwrap();
    }

    pub fn cut(&self, length: u64) {
        OpenOptions::new().write(true).open(self.path()).unwrap().set_len(length).unwrap();
    }

    /// Overwrites in place: the same file, other bytes.
    pub fn overwrite(&self, bytes: impl AsRef<[u8]>) {
        let mut file = OpenOptions::new().write(true).truncate(true).open(self.path()).unwrap();
        file.write_all(bytes.as_ref()).unwrap();
    }

    pub fn options(&self) -> FileOptions {
        FileOptions::new(self.path())
    }

    pub fn open(&self) -> FileSource {
        proved(self.options())
    }
}

/// An open log that somebody has begun to read, so that others may.
pub fn proved(options: FileOptions) -> FileSource {
    let source = FileSource::open(options).unwrap();
    from_start(&source);
    source
}

pub fn at(offset: u64) -> Cursor {
    Cursor { epoch: 0, offset }
}

pub fn from_start(source: &FileSource) -> Box<dyn PartitionReader> {
    source.read_from(0, at(0), &[]).unwrap()
}

pub fn all(reader: &mut dyn PartitionReader) -> Batch {
    let mut whole = Batch::default();
    loop {
        let batch = reader.read_batch(1000, usize::MAX, NOW).unwrap();
        whole.records.extend(batch.records);
        (whole.cursor, whole.proof, whole.at_end) = (batch.cursor, batch.proof, batch.at_end);
        if whole.at_end {
            return whole;
        }
    }
}

pub fn texts(records: &[RawRecord]) -> Vec<(u64, String)> {
    let text = |record: &RawRecord| match record.too_large {
        None => String::from_utf8(record.bytes.to_vec()).unwrap(),
        Some(length) => format!("<{length}>"),
    };
    records.iter().map(|record| (record.position.offset, text(record))).collect()
}

pub fn expect(expected: &[(u64, &str)]) -> Vec<(u64, String)> {
    expected.iter().map(|(offset, text)| (*offset, (*text).to_owned())).collect()
}

pub fn fault<T>(result: Result<T, FeedFault>) -> FeedFault {
    match result {
        Err(fault) => fault,
        Ok(_) => panic!("no fault"),
    }
}
