//! Change logs from a seed: the same numbers give the same bytes.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The collection under the default policy.
pub const DOCS: &str = "docs";
/// The collection whose removed identities come back with a higher version.
pub const HOT: &str = "hot";

const TENANTS: u64 = 8;
const VOCABULARY: u64 = 20_000;
/// Lines are gathered until there is this much to write.
const WRITE_BYTES: usize = 1 << 20;

/// Numbers that look random: `splitmix64`.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Whose changes a log holds.
#[derive(Debug, Clone, Copy)]
pub enum Keys {
    /// Each upsert makes a new object; deletions remove one that was made before.
    New,
    /// All changes are of so many objects, in random order.
    Hot(u64),
}

/// What a log is like.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub changes: u64,
    pub keys: Keys,
    /// The words of an upsert's body, in bytes.
    pub text_bytes: usize,
    /// Deletions in a hundred changes.
    pub deletes_percent: u64,
    pub seed: u64,
}

/// A log on disk.
#[derive(Debug, Clone)]
pub struct Log {
    pub path: PathBuf,
    pub lines: u64,
    pub bytes: u64,
    /// How many objects it makes: their numbers are below this.
    pub objects: u64,
}

/// Writes a log.
pub fn write_log(path: &Path, shape: &Shape) -> anyhow::Result<Log> {
    let mut file = File::create(path)?;
    let mut lines = Lines::new(shape.seed, shape.text_bytes);
    let mut made = Made::new(shape);
    let mut bytes = 0;
    for event in 0..shape.changes {
        match made.next(&mut lines.random) {
            Step::Upsert { object, version } => {
                lines.upsert(made.collection, event, object, version)?
            }
            Step::Delete { object, version } => {
                lines.delete(made.collection, event, object, version)?
            }
        }
        if lines.out.len() >= WRITE_BYTES || event + 1 == shape.changes {
            file.write_all(&lines.out)?;
            bytes += lines.out.len() as u64;
            lines.out.clear();
        }
    }
    // What is still being written back would slow whoever is measured first.
    file.sync_all()?;
    let objects = made.versions.len() as u64;
    Ok(Log { path: path.to_path_buf(), lines: shape.changes, bytes, objects })
}

/// The deletion of an object, as a line.
pub fn deletion(event: u64, object: u64, version: u64) -> anyhow::Result<Vec<u8>> {
    let mut lines = Lines::new(0, 0);
    lines.delete(DOCS, event, object, version)?;
    Ok(lines.out)
}

enum Step {
    Upsert { object: u64, version: u64 },
    Delete { object: u64, version: u64 },
}

/// The objects so far.
struct Made {
    keys: Keys,
    collection: &'static str,
    deletes_percent: u64,
    /// The last version of each; 0 where there was none.
    versions: Vec<u32>,
}

impl Made {
    fn new(shape: &Shape) -> Made {
        let (collection, versions) = match shape.keys {
            Keys::New => (DOCS, Vec::new()),
            Keys::Hot(objects) => (HOT, vec![0; objects as usize]),
        };
        Made { keys: shape.keys, collection, deletes_percent: shape.deletes_percent, versions }
    }

    fn next(&mut self, random: &mut Random) -> Step {
        let delete = random.below(100) < self.deletes_percent && !self.versions.is_empty();
        if delete {
            let object = random.below(self.versions.len() as u64);
            // A terminal identity is removed once.
            if matches!(self.keys, Keys::Hot(_)) || self.versions[object as usize] == 1 {
                return Step::Delete { object, version: self.raise(object) };
            }
        }
        let object = match self.keys {
            Keys::New => {
                self.versions.push(0);
                self.versions.len() as u64 - 1
            }
            Keys::Hot(objects) => random.below(objects),
        };
        Step::Upsert { object, version: self.raise(object) }
    }

    fn raise(&mut self, object: u64) -> u64 {
        let version = &mut self.versions[object as usize];
        *version += 1;
        u64::from(*version)
    }
}

/// Makes lines.
struct Lines {
    random: Random,
    text_bytes: usize,
    out: Vec<u8>,
}

impl Lines {
    fn new(seed: u64, text_bytes: usize) -> Lines {
        Lines { random: Random::new(seed), text_bytes, out: Vec::with_capacity(2 * WRITE_BYTES) }
    }

    fn head(
        &mut self,
        op: &str,
        collection: &str,
        event: u64,
        object: u64,
        version: u64,
    ) -> std::io::Result<()> {
        let tenant = mix(object) % TENANTS;
        write!(
            self.out,
            r#"{{"event_id":"evt-{event:010}","op":"{op}","tenant":"T{tenant}","collection":"{collection}","object":"document-{object:08}","version":{version},"source":"catalog","type":"document.changed","occurred_at":"2026-11-{:02}T{:02}:{:02}:30Z""#,
            1 + event % 28,
            event % 24,
            event % 60,
        )
    }

    fn upsert(
        &mut self,
        collection: &str,
        event: u64,
        object: u64,
        version: u64,
    ) -> std::io::Result<()> {
        self.head("upsert", collection, event, object, version)?;
        write!(self.out, r#","payload":{{"title":""#)?;
        self.words(24);
        write!(self.out, r#"","body":""#)?;
        self.words(self.text_bytes);
        writeln!(self.out, r#"","year":{}}}}}"#, 1900 + object % 126)
    }

    fn delete(
        &mut self,
        collection: &str,
        event: u64,
        object: u64,
        version: u64,
    ) -> std::io::Result<()> {
        self.head("delete", collection, event, object, version)?;
        self.out.extend_from_slice(b"}\n");
        Ok(())
    }

    /// Words of a language in which the first ones are the most frequent.
    fn words(&mut self, bytes: usize) {
        let end = self.out.len() + bytes;
        loop {
            let rank = self.random.below(VOCABULARY) * self.random.below(VOCABULARY) / VOCABULARY;
            let mut letters = mix(rank);
            for _ in 0..4 + letters % 7 {
                self.out.push(b'a' + (letters % 26) as u8);
                letters /= 26;
            }
            if self.out.len() >= end {
                return;
            }
            self.out.push(b' ');
        }
    }
}
