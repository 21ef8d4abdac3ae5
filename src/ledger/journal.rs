//! The journal: append-only, segmented, one sync a frame. What it has synced is the truth.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use cenotaph_core::{FactHash, Note, Record};

use super::boundary::{self, Boundary};
use super::files::{self, FileError, failed};
use super::frame::{EncodeError, Encoder, Mark};
use super::identity::LedgerId;
use super::segment::{self, Segment, SegmentError};
use super::witness::{self, Witness, WitnessError, Witnessed};

/// The journal could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A write failed before: what is durable is not known any more.
    #[error("the journal could not be written before; start the worker again")]
    Poisoned,
    /// It does not say what was written.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// A segment is missing, or belongs to another ledger.
    #[error(
        "{}: {what}; put a copy of the ledger's folder back from a backup of it", path.display()
    )]
    Order {
        /// The segment.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The witness or the view saw more than there is.
    #[error(
        "the journal ends at frame {found}, and frame {witnessed} was synced: its end is lost; put \
         a copy of the ledger's folder back from a backup of it"
    )]
    Lost {
        /// The last frame that is there.
        found: u64,
        /// The last frame that was.
        witnessed: u64,
    },
    /// The view was made from other frames than these.
    #[error(
        "frame {frame} of the journal is not the one that the view was made from: one of the two \
         was put back without the other; put a copy of the whole folder back from a backup of it"
    )]
    OtherPast {
        /// The frame in question.
        frame: u64,
    },
    /// The witness itself.
    #[error(transparent)]
    Witness(#[from] WitnessError),
    /// The operating system refused something.
    #[error(transparent)]
    File(#[from] FileError),
    /// Records could not be made a frame.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// The journal, open for appending.
pub struct Journal {
    folder: PathBuf,
    ledger: LedgerId,
    file: File,
    /// The bytes of the segment that is being written.
    segment_bytes: u64,
    mark: Mark,
    encoder: Encoder,
    witness: Witness,
    poisoned: bool,
}

/// A journal that was found and checked.
pub(super) struct OpenedJournal {
    pub(super) journal: Journal,
    pub(super) cut_bytes: u64,
    /// Every frame since the first is there with its notes.
    pub(super) complete: bool,
    /// Notes that the view does not hold are gone: it is older than a checkpoint that was made.
    pub(super) view_is_older: bool,
}

impl Journal {
    /// Makes the journal of a new ledger. Whether one may be made is the caller's to judge: a
    /// journal that is gone is never begun anew.
    pub(super) fn make(folder: &Path, ledger: LedgerId) -> Result<(), JournalError> {
        files::make_folder(folder)?;
        // The witness first: a journal without one is a damaged journal.
        witness::create(&folder.join("witness"))?;
        segment::create(folder, ledger, Mark::beginning(ledger))?;
        Ok(())
    }

    /// Whether a journal was ever written to.
    pub(super) fn is_begun(folder: &Path) -> Result<bool, JournalError> {
        for path in segment::list(folder)? {
            let length = std::fs::metadata(&path).map_err(failed("look at", &path))?.len();
            if length > segment::SEGMENT_HEADER as u64 {
                return Ok(true);
            }
        }
        let witness = folder.join("witness");
        // It is made whole, at frame 0: one that says more, or nothing, is of a journal that was.
        Ok(witness.exists() && witness::read(&witness).map_or(true, |said| said.frame > 0))
    }

    /// Opens the journal in `folder`. Frames after `view`, what a sound view says it was made from,
    /// are checked against each other and against the witness; a frame that was being written when
    /// the process ended is cut off.
    pub(super) fn open(
        folder: &Path,
        ledger: LedgerId,
        view: Option<Mark>,
    ) -> Result<OpenedJournal, JournalError> {
        files::remove_unfinished(folder)?;
        let view = view.unwrap_or(Mark::beginning(ledger));
        let witness_path = folder.join("witness");
        let said = witness::read(&witness_path)?;
        let paths = segment::list(folder)?;
        let Some(last) = paths.last() else {
            return Err(JournalError::Lost { found: 0, witnessed: said.frame.max(view.frame) });
        };
        let complete = check_order(&paths, ledger)?;
        let checked = check(&paths, &said, &view)?;
        // After a kill, what was read may be in the system's memory only. It is about to be shown, so
        // it is made durable first (I4).
        let file = OpenOptions::new().append(true).open(last).map_err(failed("open", last))?;
        file.set_len(checked.length)
            .and_then(|()| file.sync_all())
            .map_err(failed("sync", last))?;
        let journal = Journal {
            folder: folder.to_owned(),
            ledger,
            file,
            segment_bytes: checked.length,
            mark: checked.mark,
            encoder: Encoder::default(),
            witness: Witness::start(&witness_path)?,
            poisoned: false,
        };
        journal.witness.note(&checked.mark).map_err(|error| {
            failed("write the witness in", folder)(std::io::Error::other(error))
        })?;
        let view_is_older = checked.view_is_older;
        Ok(OpenedJournal { journal, cut_bytes: checked.cut_bytes, complete, view_is_older })
    }

    /// After the last frame.
    #[must_use]
    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// The bytes of the segment that is being written.
    pub(super) fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends a frame; synced when it returns.
    ///
    /// # Errors
    /// [`JournalError`]; after one of the operating system's, nothing is ever appended again: what
    /// a failed sync left on the disk is not known.
    pub fn append(&mut self, records: &[Record]) -> Result<Mark, JournalError> {
        if self.poisoned {
            return Err(JournalError::Poisoned);
        }
        let (frame, after) = self.encoder.encode(self.mark, records)?;
        self.segment_bytes += frame.len() as u64;
        let written = self.file.write_all(frame).and_then(|()| {
            boundary::at_frame(Boundary::FrameWritten, &self.folder, records);
            self.file.sync_data()
        });
        if let Err(error) = written {
            self.poisoned = true;
            return Err(failed("append to the journal in", &self.folder)(error).into());
        }
        boundary::at_frame(Boundary::FrameSynced, &self.folder, records);
        self.mark = after;
        if let Err(error) = self.witness.note(&after) {
            self.poisoned = true;
            let error = std::io::Error::other(error);
            return Err(failed("write the witness in", &self.folder)(error).into());
        }
        Ok(after)
    }

    /// Begins a new segment.
    pub(super) fn rotate(&mut self) -> Result<(), JournalError> {
        if self.poisoned {
            return Err(JournalError::Poisoned);
        }
        let current = segment::list(&self.folder)?;
        let path = segment::path_of(&self.folder, &self.mark);
        if current.last() != Some(&path) {
            self.file = segment::create(&self.folder, self.ledger, self.mark)?;
            self.segment_bytes = segment::SEGMENT_HEADER as u64;
            boundary::at(Boundary::SegmentBegun, &self.folder);
        }
        Ok(())
    }

    /// The frames after `from`, in order.
    pub(super) fn replay<E: From<JournalError>>(
        &self,
        from: Mark,
        mut each: impl FnMut(Mark, Vec<Record>) -> Result<(), E>,
    ) -> Result<(), E> {
        let paths = segment::list(&self.folder).map_err(JournalError::from)?;
        for (at, path) in paths.iter().enumerate() {
            let next = paths.get(at + 1).map(|path| segment::read_header(path)).transpose();
            let next = next.map_err(JournalError::from)?;
            if next.is_some_and(|next| next.begin.frame <= from.frame) {
                continue;
            }
            let segment = Segment::read(path).map_err(JournalError::from)?;
            let walked: Result<_, Wrapped<E>> = segment.walk(|frame, mark| {
                if mark.frame <= from.frame {
                    return Ok(());
                }
                let records = frame.records().map_err(|what| {
                    SegmentError::Damage(segment.damage(0, format!("frame {}: {what}", mark.frame)))
                })?;
                each(mark, records).map_err(Wrapped::Caller)
            });
            walked.map_err(|error| match error {
                Wrapped::Segment(error) => E::from(JournalError::from(error)),
                Wrapped::Caller(error) => error,
            })?;
        }
        Ok(())
    }

    /// Whether the chain has this fact with this hash.
    pub(super) fn knows_fact(&self, number: u64, hash: &FactHash) -> Result<bool, JournalError> {
        if number == 0 || number > self.mark.fact {
            return Ok(number == 0);
        }
        if number == self.mark.fact {
            return Ok(*hash == self.mark.fact_hash);
        }
        let mut holding = None;
        for path in segment::list(&self.folder)? {
            if segment::read_header(&path)?.begin.fact < number {
                holding = Some(path);
            }
        }
        let Some(path) = holding else { return Ok(false) };
        let mut known = false;
        let segment = Segment::read(&path)?;
        segment.walk(|frame, after| {
            let before = after.fact - u64::from(frame.header.facts);
            if (before + 1..=after.fact).contains(&number) {
                known = fact_hash_in(&segment, frame, after, number)? == Some(*hash);
            }
            Ok::<(), JournalError>(())
        })?;
        Ok(known)
    }
}

/// The hash of one fact of a frame: the chain is taken up before the frame and followed to it.
fn fact_hash_in(
    segment: &Segment,
    frame: &super::frame::Frame<'_>,
    after: Mark,
    number: u64,
) -> Result<Option<FactHash>, JournalError> {
    let mut found = None;
    let mut before = segment.header.begin;
    segment.walk(|walked, mark| {
        if walked.header.number < frame.header.number {
            before = mark;
        }
        Ok::<(), JournalError>(())
    })?;
    let (mut at, mut hash) = (before.fact, before.fact_hash);
    for item in frame.facts() {
        let (_, bytes) = item.map_err(|what| SegmentError::Damage(segment.damage(0, what)))?;
        at += 1;
        hash = super::frame::chain(&hash, bytes);
        if at == number {
            found = Some(hash);
        }
    }
    debug_assert_eq!(at, after.fact);
    Ok(found)
}

/// What the segments are, up to the last good frame.
struct Checked {
    mark: Mark,
    length: u64,
    cut_bytes: u64,
    view_is_older: bool,
}

/// Checks the segments that hold frames after the view's, and that the view was made from this
/// journal. Changes nothing.
fn check(paths: &[PathBuf], said: &Witnessed, view: &Mark) -> Result<Checked, JournalError> {
    let mut end = Checked { mark: *view, length: 0, cut_bytes: 0, view_is_older: false };
    // The journal's own mark after the view's last frame.
    let mut met = None;
    for (at, path) in paths.iter().enumerate() {
        let header = segment::read_header(path)?;
        if header.begin.frame == view.frame {
            met = Some(header.begin);
        }
        end.view_is_older |= header.end.is_some_and(|end| end.frame > view.frame);
        let next = paths.get(at + 1).map(|path| segment::read_header(path)).transpose()?;
        if next.is_some_and(|next| next.begin.frame <= view.frame) {
            continue;
        }
        let segment = Segment::read(path)?;
        let walked = segment.walk(|frame, mark| {
            if mark.frame == view.frame && header.end.is_none() {
                met = Some(mark);
            }
            witnessed(frame.header.number, frame.hash, said, &segment)
        })?;
        match next {
            Some(next) if walked.rest > 0 || !ends_at(&segment, walked.mark, next.begin) => {
                let what = "the next segment does not follow its end";
                let damage = segment.damage(walked.length as usize, what);
                return Err(SegmentError::Damage(damage).into());
            }
            Some(_) => {}
            None => {
                end.mark = header.end.unwrap_or(walked.mark);
                end.length = walked.length;
                end.cut_bytes = walked.rest;
            }
        }
    }
    let (found, witnessed) = (end.mark.frame, said.frame.max(view.frame));
    if found < witnessed {
        return Err(JournalError::Lost { found, witnessed });
    }
    if met.is_some_and(|met| met != *view) || (met.is_none() && !end.view_is_older) {
        return Err(JournalError::OtherPast { frame: view.frame });
    }
    Ok(end)
}

enum Wrapped<E> {
    Segment(SegmentError),
    Caller(E),
}

impl<E> From<SegmentError> for Wrapped<E> {
    fn from(error: SegmentError) -> Wrapped<E> {
        Wrapped::Segment(error)
    }
}

/// The frame that the witness saw must be the one that is there.
fn witnessed(
    number: u64,
    hash: super::frame::FrameHash,
    said: &Witnessed,
    segment: &Segment,
) -> Result<(), JournalError> {
    let rewritten = segment.header.end.is_some();
    if number == said.frame && hash != said.frame_hash && !rewritten {
        let what = format!("frame {number} is not the one that was synced");
        return Err(SegmentError::Damage(segment.damage(0, what)).into());
    }
    Ok(())
}

/// Checks that the segments follow each other. Answers whether all of them have their notes.
fn check_order(paths: &[PathBuf], ledger: LedgerId) -> Result<bool, JournalError> {
    let order =
        |path: &Path, what: &str| JournalError::Order { path: path.into(), what: what.into() };
    let mut complete = true;
    let mut before: Option<segment::SegmentHeader> = None;
    for path in paths {
        let header = segment::read_header(path)?;
        if header.ledger != ledger {
            return Err(order(path, "it belongs to another ledger"));
        }
        let follows = match before {
            None => header.begin.frame == 0,
            Some(before) => match before.end {
                Some(end) => end == header.begin,
                None => header.begin.frame >= before.begin.frame,
            },
        };
        if !follows {
            return Err(order(path, "the segment before it is missing"));
        }
        complete &= header.end.is_none();
        before = Some(header);
    }
    Ok(complete)
}

/// Whether a segment that was walked to `reached` ends where the next one begins. Of a rewritten
/// one, only the facts are there to be followed.
fn ends_at(segment: &Segment, reached: Mark, next: Mark) -> bool {
    match segment.header.end {
        None => reached == next,
        Some(end) => {
            end == next && (reached.fact, reached.fact_hash) == (next.fact, next.fact_hash)
        }
    }
}

/// Rewrites the segments that a checkpoint through `absorbed` has taken in, without the notes that
/// nobody needs any more: facts are kept for ever. Segments are only rewritten while all of them
/// together are larger than `keep_bytes`: as long as none was, the view can be built anew from the
/// journal alone. Answers how many were.
pub(super) fn rewrite_absorbed(
    folder: &Path,
    absorbed: &Mark,
    keep_bytes: u64,
) -> Result<usize, JournalError> {
    let paths = segment::list(folder)?;
    let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |meta| meta.len());
    if paths.iter().map(size).sum::<u64>() <= keep_bytes {
        return Ok(0);
    }
    let mut rewritten = 0;
    for pair in paths.windows(2) {
        let [path, next] = pair else { continue };
        let (header, next) = (segment::read_header(path)?, segment::read_header(next)?);
        if header.end.is_some() || next.begin.frame > absorbed.frame {
            continue;
        }
        rewrite(path, next.begin)?;
        rewritten += 1;
    }
    Ok(rewritten)
}

/// What belongs to facts outlives its checkpoint: the names (a fact holds only hashes, and what was
/// removed is looked for by name), and which earlier tombstones a destination owes since it was
/// attached. With these, who owes what can be told from the journal alone (I10).
fn belongs_to_facts(note: &Note) -> bool {
    match note {
        Note::TombstoneNamed { .. }
        | Note::CollectionNamed { .. }
        | Note::BarrierScope { .. }
        | Note::Backlog { .. } => true,
        Note::Accepted(_)
        | Note::Ingested { .. }
        | Note::Committed { .. }
        | Note::Quarantined(_)
        | Note::Requested(_) => false,
    }
}

fn rewrite(path: &Path, end: Mark) -> Result<(), JournalError> {
    let segment = Segment::read(path)?;
    let mut encoder = Encoder::default();
    let mut frames = Vec::new();
    let walked = segment.walk(|frame, _| {
        let kept = encoder.strip(frame, belongs_to_facts);
        let kept = kept.map_err(|what| SegmentError::Damage(segment.damage(0, what)))?;
        frames.extend_from_slice(kept.unwrap_or_default());
        Ok::<(), JournalError>(())
    })?;
    // What does not add up is not thrown away.
    if walked.mark != end {
        let what = "the next segment does not follow its end";
        return Err(SegmentError::Damage(segment.damage(walked.length as usize, what)).into());
    }
    let header = segment::SegmentHeader { end: Some(end), ..segment.header };
    Ok(segment::replace(path, header, &frames)?)
}
