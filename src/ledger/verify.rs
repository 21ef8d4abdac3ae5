//! Checks a ledger's files, worker stopped: every chain, checksum and count. Writes nothing: a torn end
//! stays, and of the view it opens a copy, because sled's recovery would change the original.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use cenotaph_core::{Fact, Record, State, TombstoneNo};
use serde::Serialize;

use super::files::{self, failed};
use super::frame::Mark;
use super::identity::{Identity, IdentityError};
use super::lock::Lock;
use super::segment::{self, Segment, SegmentError};
use super::storage::OpenError;
use super::table::Tables;
use super::view::{OpenedView, View};
use super::witness;

/// The cache of the copied view.
const CACHE_BYTES: u64 = 64 << 20;
/// The most findings that are told one by one.
const MAX_FINDINGS: usize = 100;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// The ledger's id.
    pub ledger: String,
    /// Segments of the journal.
    pub segments: u64,
    /// Those of them that were rewritten without notes.
    pub rewritten_segments: u64,
    /// Frames that are there.
    pub frames: u64,
    /// Facts in them, all of them chained.
    pub facts: u64,
    /// Notes in them.
    pub notes: u64,
    /// Bytes at the journal's end that are no frame: one was being written when the process ended.
    pub torn_bytes: u64,
    /// The frame that the view is through.
    pub view_frame: u64,
    /// Objects in the view.
    pub objects: u64,
    /// Live keys in the view.
    pub live: u64,
    /// Removed keys in the view.
    pub removed: u64,
    /// Tombstones in the journal.
    pub tombstones: u64,
    /// Confirmations in the journal.
    pub confirmations: u64,
    /// What does not add up.
    pub findings: Vec<String>,
}

impl VerifyReport {
    /// Whether everything adds up.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    fn find(&mut self, what: impl fmt::Display) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(what.to_string());
        }
    }
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ledger {}", self.ledger)?;
        writeln!(
            f,
            "journal: {} segments ({} rewritten), {} frames, {} facts, {} notes, {} torn bytes",
            self.segments,
            self.rewritten_segments,
            self.frames,
            self.facts,
            self.notes,
            self.torn_bytes
        )?;
        writeln!(
            f,
            "         {} tombstones, {} confirmations",
            self.tombstones, self.confirmations
        )?;
        writeln!(
            f,
            "view:    through frame {}, {} objects, {} live and {} removed keys",
            self.view_frame, self.objects, self.live, self.removed
        )?;
        for finding in &self.findings {
            writeln!(f, "FOUND: {finding}")?;
        }
        f.write_str(if self.is_sound() { "sound" } else { "NOT SOUND" })
    }
}

/// A tombstone that the journal tells of, and the frame that does.
type Removed = BTreeMap<u64, u64>;

/// Checks the ledger in `dir`.
///
/// # Errors
/// [`OpenError`] if it cannot be looked at: another worker has it, or it has no identity.
pub fn verify(dir: &Path) -> Result<VerifyReport, OpenError> {
    let identity_path = dir.join("identity");
    if !identity_path.exists() && !dir.join("journal").exists() {
        return Err(IdentityError::NoLedger(dir.to_owned()).into());
    }
    let identity = Identity::read(&identity_path)?.ok_or(IdentityError::Missing(identity_path))?;
    let _lock = Lock::take(dir)?;
    let mut report =
        VerifyReport { ledger: identity.ledger.to_string(), ..VerifyReport::default() };
    let mut removed = Removed::new();
    journal(&dir.join("journal"), &identity, &mut report, &mut removed)?;
    view(&dir.join("view"), &mut report, &removed)?;
    Ok(report)
}

fn journal(
    folder: &Path,
    identity: &Identity,
    report: &mut VerifyReport,
    removed: &mut Removed,
) -> Result<(), OpenError> {
    let mut expected = Mark::beginning(identity.ledger);
    let paths = segment::list(folder)?;
    for (at, path) in paths.iter().enumerate() {
        let segment = match Segment::read(path) {
            Ok(segment) => segment,
            Err(SegmentError::Damage(damage)) => {
                report.find(damage);
                continue;
            }
            Err(SegmentError::File(error)) => return Err(error.into()),
        };
        if segment.header.ledger != identity.ledger {
            report.find(format!("{} belongs to another ledger", path.display()));
        }
        if segment.header.begin != expected {
            report.find(format!("{} does not follow the segment before it", path.display()));
        }
        report.segments += 1;
        report.rewritten_segments += u64::from(segment.header.end.is_some());
        let walked = segment.walk(|frame, mark| {
            report.frames += 1;
            report.facts += u64::from(frame.header.facts);
            report.notes += u64::from(frame.header.notes);
            match frame.records() {
                Ok(records) => facts(&records, mark, report, removed),
                Err(what) => report.find(format!("frame {}: {what}", mark.frame)),
            }
            Ok::<(), SegmentError>(())
        });
        let is_last = at + 1 == paths.len();
        match walked {
            Ok(walked) => {
                expected = segment.header.end.unwrap_or(walked.mark);
                if (walked.mark.fact, walked.mark.fact_hash) != (expected.fact, expected.fact_hash)
                {
                    report.find(format!("{} has lost facts", path.display()));
                }
                match walked.rest {
                    0 => {}
                    rest if is_last => report.torn_bytes = rest,
                    _ => report.find(format!("{} ends in bytes that are no frame", path.display())),
                }
            }
            Err(error) => report.find(error),
        }
    }
    match witness::read(&folder.join("witness")) {
        Ok(said) if said.frame > expected.frame => report.find(format!(
            "the witness saw frame {}, and the journal ends at {}",
            said.frame, expected.frame
        )),
        Ok(_) => {}
        Err(error) => report.find(error),
    }
    Ok(())
}

fn facts(records: &[Record], mark: Mark, report: &mut VerifyReport, removed: &mut Removed) {
    for record in records {
        match record {
            Record::Fact(Fact::Removed(tombstone)) => {
                report.tombstones += 1;
                let number = tombstone.number.0;
                if number != report.tombstones {
                    report.find(format!(
                        "tombstone {number} stands where {} should",
                        report.tombstones
                    ));
                }
                removed.insert(number, mark.frame);
            }
            Record::Fact(Fact::Confirmed(_)) => report.confirmations += 1,
            _ => {}
        }
    }
}

fn view(folder: &Path, report: &mut VerifyReport, removed: &Removed) -> Result<(), OpenError> {
    let copy = tempfile::tempdir().map_err(failed("make", Path::new("a temporary folder")))?;
    copy_files(folder, copy.path())?;
    let opened = match View::open(copy.path(), CACHE_BYTES) {
        Ok(opened) => opened,
        Err(error) => {
            report.find(error);
            return Ok(());
        }
    };
    let OpenedView { view, directory, meta, .. } = opened;
    let through = meta.map_or(0, |meta| meta.frame);
    report.view_frame = through;
    if meta.is_none() && report.rewritten_segments > 0 {
        report.find("the view is missing, and the journal alone does not hold all of it");
    }
    for bucket in directory.buckets() {
        for (_, rows) in bucket.objects() {
            report.objects += 1;
            for (_, entry) in &rows.record.generations {
                match entry.state {
                    State::Live => report.live += 1,
                    State::Removed => report.removed += 1,
                }
            }
        }
    }
    let (reader, tables) = (view.reader(), Tables::default());
    for (number, frame) in removed.iter().filter(|(_, frame)| **frame <= through) {
        match reader.tombstone(TombstoneNo(*number), &tables) {
            Ok(Some(kept)) if kept.object.is_some() => {}
            Ok(Some(_)) => report.find(format!("tombstone {number} has lost its name in the view")),
            Ok(None) => {
                report.find(format!("tombstone {number} of frame {frame} is missing in the view"));
            }
            Err(error) => report.find(error),
        }
    }
    Ok(())
}

/// The files of a folder and of the folders in it.
fn copy_files(from: &Path, to: &Path) -> Result<(), OpenError> {
    for path in files::list(from)? {
        let Some(name) = path.file_name() else { continue };
        let target: PathBuf = to.join(name);
        if path.is_dir() {
            fs::create_dir(&target).map_err(failed("make", &target))?;
            copy_files(&path, &target)?;
        } else {
            fs::copy(&path, &target).map_err(failed("copy", &path))?;
        }
    }
    Ok(())
}
