//! The bench a case works on: one connector on a folder of its own, and what ought to be there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cenotaph_connector::{
    Capabilities, Commit, Connector, Fault, Finding, Look, Outcome, Purge, Removal, Upsert,
};
use cenotaph_core::{
    Control, Covers, Cursor, Cursors, EvidenceLevel, ObjectKey, Version, record_key,
};

use crate::harness::Harness;
use crate::keys;
use crate::report::{Stop, Verdict, broken, ensure};

/// How often a pending purge is asked for again.
const PURGE_PAUSE: Duration = Duration::from_millis(20);

/// Runs one case on a fresh folder.
pub(crate) fn run(harness: &dyn Harness, case: fn(&mut Bench<'_>) -> Verdict) -> Verdict {
    let mut bench = Bench::new(harness)?;
    case(&mut bench)?;
    bench.close()
}

pub(crate) struct Bench<'h> {
    pub harness: &'h dyn Harness,
    runtime: tokio::runtime::Runtime,
    /// Keeps the folder until the case is over.
    home: tempfile::TempDir,
    connector: Option<Box<dyn Connector>>,
    /// The control record of the last commit.
    pub control: Option<Control>,
}

impl<'h> Bench<'h> {
    pub fn new(harness: &'h dyn Harness) -> Result<Bench<'h>, Stop> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(environment)?;
        let home = tempfile::tempdir().map_err(environment)?;
        let mut bench = Bench { harness, runtime, home, connector: None, control: None };
        let found = bench.open()?;
        ensure(found.is_none(), || "a fresh destination already has a control record".into())?;
        Ok(bench)
    }

    pub fn folder(&self) -> PathBuf {
        self.home.path().join("destination")
    }

    /// A folder beside the destination's, for copies.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Opens a fresh connector on the folder and answers the control record it found.
    pub fn open(&mut self) -> Result<Option<Control>, Stop> {
        let mut connector = self.harness.connector(&self.folder());
        let found = self.runtime.block_on(connector.open());
        self.connector = Some(connector);
        found.map_err(|fault| Stop::Broken(format!("open failed: {fault}")))
    }

    pub fn close(&mut self) -> Verdict {
        let Some(mut connector) = self.connector.take() else { return Ok(()) };
        let closed = self.runtime.block_on(connector.close());
        closed.map_err(|fault| Stop::Broken(format!("close failed: {fault}")))
    }

    /// As a kill does it: nothing is flushed, nothing released in order.
    pub fn drop_connector(&mut self) {
        self.connector = None;
    }

    /// A restart; the control record found must be the last one committed.
    pub fn reopen(&mut self) -> Verdict {
        self.close()?;
        let found = self.open()?;
        ensure(found == self.control, || {
            format!("after a restart the control record is {found:?}, not {:?}", self.control)
        })
    }

    /// Calls the connector.
    pub fn call<T>(
        &mut self,
        call: impl AsyncFnOnce(&mut Box<dyn Connector>) -> T,
    ) -> Result<T, Stop> {
        let Some(connector) = self.connector.as_mut() else {
            return broken("the suite called a closed connector");
        };
        Ok(self.runtime.block_on(call(connector)))
    }

    pub fn capabilities(&mut self) -> Result<Capabilities, Stop> {
        self.call(async |it| it.capabilities())
    }

    pub fn upsert(&self, key: &ObjectKey, version: u64) -> Result<Upsert, Stop> {
        let payload = self.harness.payload(&marker(key, version));
        Ok(Upsert {
            key: key.clone(),
            version: self::version(version)?,
            parent: None,
            payload: Bytes::from(payload),
        })
    }

    /// Applies, in calls no larger than the connector takes; one outcome a record.
    pub fn apply_raw(&mut self, upserts: &[Upsert]) -> Result<Vec<Outcome>, Stop> {
        let limit = self.capabilities()?.max_batch_records.max(1);
        let mut outcomes = Vec::new();
        for chunk in upserts.chunks(limit) {
            let some = self.call(async |it| it.apply(chunk).await)?;
            same_length("apply", chunk.len(), some.len())?;
            outcomes.extend(some);
        }
        Ok(outcomes)
    }

    /// Applies; every one must succeed.
    pub fn apply(&mut self, objects: &[(&ObjectKey, u64)]) -> Verdict {
        let upserts: Result<Vec<Upsert>, Stop> =
            objects.iter().map(|(key, version)| self.upsert(key, *version)).collect();
        all_ok("apply", self.apply_raw(&upserts?)?)
    }

    /// Removes, in calls no larger than the connector takes; every one must succeed.
    pub fn remove(&mut self, removals: &[Removal]) -> Verdict {
        let limit = self.capabilities()?.max_batch_removals.max(1);
        for chunk in removals.chunks(limit) {
            let outcomes = self.call(async |it| it.remove(chunk).await)?;
            same_length("remove", chunk.len(), outcomes.len())?;
            all_ok("remove", outcomes)?;
        }
        Ok(())
    }

    /// The control record that the next commit writes.
    pub fn next_control(&self) -> Control {
        let commit = self.control.as_ref().map_or(0, |it| it.commit + 1);
        Control {
            ledger: "00c0ffee".into(),
            destination: "bench".into(),
            epoch: 1,
            commit,
            cursors: Cursors::from([(0, Cursor { epoch: 0, offset: commit * 100 })]),
            fact: commit,
            fact_hash: format!("{commit:032x}"),
        }
    }

    /// Commits `control` over `expected`.
    pub fn commit_over(
        &mut self,
        control: &Control,
        expected: Option<&Control>,
    ) -> Result<Result<Commit, Fault>, Stop> {
        self.call(async |it| it.commit(control, expected).await)
    }

    /// Commits; it must succeed.
    pub fn commit(&mut self) -> Verdict {
        let (next, expected) = (self.next_control(), self.control.clone());
        match self.commit_over(&next, expected.as_ref())? {
            Ok(Commit::Done) => {
                self.control = self.capabilities()?.control.then_some(next);
                Ok(())
            }
            Ok(Commit::Found(found)) => {
                broken(format!("commit found {found:?} where {expected:?} had been committed"))
            }
            Err(fault) => broken(format!("commit failed: {fault}")),
        }
    }

    /// Looks, in calls no larger than the connector takes.
    pub fn look(&mut self, removals: &[Removal], level: EvidenceLevel) -> Result<Look, Stop> {
        let limit = self.capabilities()?.max_batch_removals.max(1);
        let mut whole: Option<Look> = None;
        for chunk in removals.chunks(limit) {
            let look = self.call(async |it| it.verify(chunk, level).await)?;
            let look = look.map_err(|fault| Stop::Broken(format!("verify failed: {fault}")))?;
            same_length("verify", chunk.len(), look.findings.len())?;
            match whole.as_mut() {
                None => whole = Some(look),
                Some(whole) => whole.findings.extend(look.findings),
            }
        }
        whole.map_or_else(|| broken("nothing to look for"), Ok)
    }

    /// What a look finds of one object.
    pub fn find(&mut self, key: &ObjectKey) -> Result<Finding, Stop> {
        let mut look = self.look(&[everything(key)], EvidenceLevel::Absent)?;
        look.findings.pop().map_or_else(|| broken("no finding"), Ok)
    }

    pub fn expect_gone(&mut self, key: &ObjectKey) -> Verdict {
        let found = self.find(key)?;
        ensure(found == Finding::Gone, || format!("{}: {found:?}, not Gone", short(key)))
    }

    pub fn expect_present(&mut self, key: &ObjectKey, version: Option<u64>) -> Verdict {
        let oldest = version.map(self::version).transpose()?;
        let (found, wanted) = (self.find(key)?, Finding::Present { oldest });
        ensure(found == wanted, || format!("{}: {found:?}, not {wanted:?}", short(key)))
    }

    /// Looks for all of these and compares with what ought to be there; so does an independent
    /// reader, where there is one.
    pub fn expect(&mut self, among: &[ObjectKey], held: &BTreeMap<ObjectKey, u64>) -> Verdict {
        let removals: Vec<Removal> = among.iter().map(everything).collect();
        let look = self.look(&removals, EvidenceLevel::Absent)?;
        for (key, found) in among.iter().zip(&look.findings) {
            let wanted = match held.get(key) {
                None => Finding::Gone,
                Some(&version) => Finding::Present { oldest: Some(self::version(version)?) },
            };
            ensure(*found == wanted, || format!("{}: {found:?}, not {wanted:?}", short(key)))?;
        }
        self.expect_readable(held)
    }

    /// What an independent reader sees must be exactly this.
    pub fn expect_readable(&mut self, held: &BTreeMap<ObjectKey, u64>) -> Verdict {
        let Some(readable) = self.harness.readable(&self.folder()) else { return Ok(()) };
        let wanted: BTreeMap<String, Option<u64>> =
            held.iter().map(|(key, version)| (record_key(key), Some(*version))).collect();
        let differs = |id: &&String| readable.get(*id) != wanted.get(*id);
        match readable.keys().chain(wanted.keys()).find(differs) {
            None => Ok(()),
            Some(id) => broken(format!(
                "a reader sees {:?} of {}, not {:?}",
                readable.get(id),
                clip(id),
                wanted.get(id)
            )),
        }
    }

    /// Purges until every answer is `Purged`.
    pub fn purge(&mut self, removals: &[Removal]) -> Verdict {
        let limit = self.capabilities()?.max_batch_removals.max(1);
        for chunk in removals.chunks(limit) {
            self.purge_chunk(chunk)?;
        }
        Ok(())
    }

    fn purge_chunk(&mut self, removals: &[Removal]) -> Verdict {
        let began = Instant::now();
        while began.elapsed() < self.harness.purge_patience() {
            let answers = self.call(async |it| it.purge(removals).await)?;
            same_length("purge", removals.len(), answers.len())?;
            let mut pending = false;
            for answer in answers {
                match answer {
                    Ok(Purge::Purged) => {}
                    Ok(Purge::Pending) => pending = true,
                    Ok(Purge::Unsupported) => {
                        return broken(
                            "purge is unsupported, yet the evidence is said to be purged",
                        );
                    }
                    Err(fault) => return broken(format!("purge failed: {fault}")),
                }
            }
            if !pending {
                return Ok(());
            }
            std::thread::sleep(PURGE_PAUSE);
        }
        broken(format!("a purge is still pending after {:?}", began.elapsed()))
    }
}

/// A removal of every version.
pub(crate) fn everything(key: &ObjectKey) -> Removal {
    Removal { key: key.clone(), covers: Covers::EVERYTHING }
}

/// A removal through this version.
pub(crate) fn through(key: &ObjectKey, covers: u64) -> Result<Removal, Stop> {
    Ok(Removal { key: key.clone(), covers: Covers::through(version(covers)?) })
}

pub(crate) fn version(number: u64) -> Result<Version, Stop> {
    Version::new(number).map_err(environment)
}

/// An object of the suite's own tenant and collection.
pub(crate) fn key(object: &str) -> Result<ObjectKey, Stop> {
    keys::key(object, 1).map_or_else(|| broken("the suite made a bad key"), Ok)
}

/// Many of them.
pub(crate) fn many(prefix: &str, count: usize) -> Result<Vec<ObjectKey>, Stop> {
    (0..count).map(|number| key(&format!("{prefix}-{number:05}"))).collect()
}

/// A text that stands in the payload of this version of this object and nowhere else.
pub(crate) fn marker(key: &ObjectKey, version: u64) -> String {
    let hash = record_key(key).bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("marker{hash:016x}v{version}")
}

pub(crate) fn same_length(call: &str, asked: usize, answered: usize) -> Verdict {
    ensure(asked == answered, || format!("{call} of {asked} records answered {answered}"))
}

pub(crate) fn all_ok(call: &str, outcomes: Vec<Outcome>) -> Verdict {
    match outcomes.into_iter().enumerate().find_map(|(index, it)| it.err().map(|it| (index, it))) {
        None => Ok(()),
        Some((index, fault)) => broken(format!("{call}, record {index}: {fault}")),
    }
}

/// A key as a failure shows it.
pub(crate) fn short(key: &ObjectKey) -> String {
    clip(&record_key(key))
}

fn clip(id: &str) -> String {
    if id.len() <= 60 {
        return id.into();
    }
    let head: String = id.chars().take(48).collect();
    format!("{head}… ({} bytes)", id.len())
}

fn environment(error: impl std::fmt::Display) -> Stop {
    Stop::Broken(format!("the suite could not work here: {error}"))
}

/// Copies a folder and what is in it.
pub(crate) fn copy_folder(from: &Path, to: &Path) -> Verdict {
    let copy = || -> std::io::Result<()> {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let target = to.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                copy_folder(&entry.path(), &target).map_err(|_| std::io::ErrorKind::Other)?;
            } else {
                fs::copy(entry.path(), target)?;
            }
        }
        Ok(())
    };
    copy().map_err(environment)
}

/// Whether a file in the folder holds these bytes. A file that cannot be read counts as holding them.
pub(crate) fn folder_holds(folder: &Path, needle: &[u8]) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return folder_holds(&path, needle);
        }
        fs::read(path).map_or(true, |bytes| bytes.windows(needle.len()).any(|it| it == needle))
    })
}
