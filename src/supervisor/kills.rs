//! A kill at every durable boundary. A worker walks through a story; at each boundary of its ledger
//! and of its destinations the folders are copied as a kill there leaves them. Over each copy a worker
//! is started, and must hold what was told before the kill and end where the first one ended.
//!
//! | row | killed between | what is looked at |
//! | --- | --- | --- |
//! | first start | journal and identity, identity and view, view and replay | there is one ledger |
//! | read, not synced | a frame's bytes and its sync; torn as well as whole | I4, I5: decided once |
//! | synced, not shown | a frame's sync and showing it | I4: replayed, nothing is decided again |
//! | confirmed, gate closed | the sync of a confirmation and that of its gate | I2, I4 |
//! | removed, not committed | `remove` and the destination's commit | I1: still pending |
//! | applied, not committed | `apply` and the destination's commit | I5: applied again |
//! | committed, not noted | the destination's commit and the ledger's note of it | I5, no revocation |
//! | looked, not journalled | `verify` and its confirmation | I1, I4: looked at again, stored once |
//! | checkpoint | freezing, buckets, the rest, the meta record, dropping the older state | I4, I10 |
//! | segments | a rewritten segment beside its place, and in it | I4, I10: `ledger verify` |
//!
//! A torn or unsynced frame stands for a power cut; all else is what SIGKILL leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cenotaph_connector::{
    Capabilities, Commit, Connector, Destination, Factory as _, Fault, Look, Outcome, Page, Purge,
    Removal, Upsert, async_trait,
};
use cenotaph_core::{
    CollectionPolicy, Control, EvidenceLevel, Fact, Lifecycle, Record, TombstoneNo, Version,
};
use cenotaph_memory::Memory;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::ledger::boundary::{Boundary, hooks};
use crate::ledger::state::Books;
use crate::source::{FileOptions, FileSource};

/// Each must be met.
const ROWS: [&str; 17] = [
    "JournalMade",
    "IdentityMade",
    "ViewOpened",
    "FrameWritten",
    "FrameSynced",
    "confirmed, gate closed",
    "SegmentBegun",
    "Frozen",
    "BucketsWritten",
    "RestSynced",
    "MetaWritten",
    "MetaSynced",
    "StateDropped",
    "SegmentWritten",
    "SegmentReplaced",
    "applied, not committed",
    "committed, not noted",
];

/// These belong to a destination.
const LOOKS: [&str; 2] = ["removed, not committed", "looked, not journalled"];

/// Deletions of the story.
const DELETIONS: u64 = 3;

fn story() -> Vec<Value> {
    let record = |op: &str, collection: &str, object: &str, version: u64| {
        let mut record = json!({
            "event_id": format!("{op}-{object}-{version}"), "op": op, "tenant": "T1",
            "collection": collection, "object": object, "version": version, "source": "crm",
        });
        if op == "upsert" {
            record["payload"] = json!({ "title": format!("{object} as of {version}") });
        }
        record
    };
    let again = |mut record: Value| {
        record["event_id"] = json!("asked again");
        record
    };
    vec![
        record("upsert", "docs", "D1", 1),
        record("upsert", "docs", "D2", 1),
        record("upsert", "rows", "R1", 1),
        record("delete", "docs", "D1", 2),
        // Redelivered.
        record("upsert", "docs", "D1", 1),
        record("upsert", "rows", "R1", 2),
        record("delete", "rows", "R1", 3),
        record("upsert", "rows", "R1", 4),
        json!({ "event_id": "job", "op": "barrier", "barrier": "job" }),
        record("upsert", "docs", "D3", 1),
        // Of an object that was never seen.
        record("delete", "docs", "D9", 1),
        again(record("delete", "docs", "D1", 2)),
        record("upsert", "docs", "D2", 2),
    ]
}

/// What each destination holds in the end; `b` takes `docs` only.
fn expected(name: &str) -> BTreeMap<String, u64> {
    let all = [("T1/docs/D2", 2), ("T1/docs/D3", 1), ("T1/rows/R1", 4)];
    let its = all.into_iter().filter(|(id, _)| name == "a" || id.contains("docs"));
    its.map(|(id, version)| (id.to_owned(), version)).collect()
}

/// A copy of the folders, as a kill leaves them, with what had been told by then.
struct Kill {
    row: String,
    dir: TempDir,
    told: Option<Books>,
}

/// Takes the copies.
struct Camera {
    dir: PathBuf,
    ledger: Mutex<Option<Ledger>>,
    told: Mutex<Option<Books>>,
    kills: Mutex<Vec<Kill>>,
}

impl Camera {
    fn take(&self, row: String) {
        let files = still(&self.dir);
        let kill = Kill { row, dir: write(&files), told: self.told.lock().clone() };
        self.kills.lock().push(kill);
    }

    fn boundary(&self, boundary: Boundary, records: &[Record]) {
        let frame = matches!(boundary, Boundary::FrameWritten | Boundary::FrameSynced);
        if frame {
            // Elsewhere the state may be locked by whoever is at the boundary.
            self.look();
        }
        let confirms = records.iter().any(|it| matches!(it, Record::Fact(Fact::Confirmed(_))));
        if boundary == Boundary::FrameSynced && confirms {
            self.take("confirmed, gate closed".to_owned());
        } else {
            self.take(format!("{boundary:?}"));
        }
        if boundary == Boundary::FrameWritten {
            self.tear();
        }
    }

    fn look(&self) {
        if let Some(ledger) = &*self.ledger.lock() {
            *self.told.lock() = Some(ledger.read().books.clone());
        }
    }

    /// The same moment, but the frame's end did not come to the disk.
    fn tear(&self) {
        let mut files = still(&self.dir);
        let newest = files.keys().filter(|path| path.extension().is_some_and(|it| it == "seg"));
        let newest = newest.max().cloned().unwrap();
        let segment = files.get_mut(&newest).unwrap();
        segment.truncate(segment.len() - 7);
        let row = "FrameWritten, torn".to_owned();
        self.kills.lock().push(Kill { row, dir: write(&files), told: self.told.lock().clone() });
    }
}

/// Every file below the folder but the log, all of one moment: two readings that agree.
fn still(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut before = BTreeMap::new();
    loop {
        let mut now = BTreeMap::new();
        read_all(dir, dir, &mut now);
        if now == before {
            return now;
        }
        before = now;
    }
}

fn read_all(root: &Path, dir: &Path, into: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            read_all(root, &path, into);
        } else if let Ok(bytes) = fs::read(&path)
            && path.file_name().is_some_and(|name| name != "changes.jsonl")
        {
            into.insert(path.strip_prefix(root).unwrap().to_owned(), bytes);
        }
    }
}

fn write(files: &BTreeMap<PathBuf, Vec<u8>>) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, bytes) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    dir
}

/// Tells the camera of what was done at a destination, before anybody else learns it.
struct Watched {
    inner: Box<dyn Connector>,
    camera: Option<Arc<Camera>>,
}

impl Watched {
    fn did(&self, what: &str) {
        if let Some(camera) = &self.camera {
            camera.look();
            camera.take(what.to_owned());
        }
    }
}

#[async_trait]
impl Connector for Watched {
    async fn open(&mut self) -> Result<Option<Control>, Fault> {
        self.inner.open().await
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn apply(&mut self, upserts: &[Upsert]) -> Vec<Outcome> {
        let outcomes = self.inner.apply(upserts).await;
        self.did("applied, not committed");
        outcomes
    }

    async fn remove(&mut self, removals: &[Removal]) -> Vec<Outcome> {
        let outcomes = self.inner.remove(removals).await;
        self.did("removed, not committed");
        outcomes
    }

    async fn commit(&mut self, next: &Control, over: Option<&Control>) -> Result<Commit, Fault> {
        let answer = self.inner.commit(next, over).await;
        self.did("committed, not noted");
        answer
    }

    async fn verify(&mut self, removals: &[Removal], level: EvidenceLevel) -> Result<Look, Fault> {
        let look = self.inner.verify(removals, level).await;
        self.did("looked, not journalled");
        look
    }

    async fn purge(&mut self, removals: &[Removal]) -> Vec<Result<Purge, Fault>> {
        self.inner.purge(removals).await
    }

    async fn scan(&mut self, after: Option<&str>, limit: usize) -> Result<Page, Fault> {
        self.inner.scan(after, limit).await
    }

    async fn close(&mut self) -> Result<(), Fault> {
        self.inner.close().await
    }
}

fn memory(dir: &Path, name: &str) -> Box<dyn Connector> {
    let data_dir = dir.join("destinations").join(name);
    let told = Destination { name: name.to_owned(), data_dir };
    Memory.build(told, json!({ "snapshot": true })).unwrap()
}

fn destination(dir: &Path, name: &str, camera: Option<Arc<Camera>>) -> DestinationPlan {
    let collections: &[&str] = if name == "a" { &["docs", "rows"] } else { &["docs"] };
    let settings = PipelineSettings {
        name: name.into(),
        connector: "memory".into(),
        collections: collections.iter().map(ToString::to_string).collect(),
        confirm: EvidenceLevel::Absent,
        owner: "somebody".into(),
        settle: Duration::ZERO,
        max_records: 2,
        max_bytes: 1 << 20,
        max_wait: Duration::from_millis(1),
        max_commit: Duration::from_secs(10),
        retry_initial: Duration::from_millis(1),
        retry_max: Duration::from_millis(20),
        owed_max: 100,
    };
    let (dir, name) = (dir.to_owned(), name.to_owned());
    let make = move || {
        let camera = camera.clone();
        Ok(Box::new(Watched { inner: memory(&dir, &name), camera }) as Box<dyn Connector>)
    };
    DestinationPlan { settings, make: Box::new(make) }
}

fn plan(dir: &Path, log: &Path, camera: Option<&Arc<Camera>>) -> WorkerPlan {
    let lifecycle = |lifecycle| CollectionPolicy { lifecycle, ..CollectionPolicy::default() };
    let rules = Rules {
        collections: [
            ("docs".to_owned(), lifecycle(Lifecycle::Terminal)),
            ("rows".to_owned(), lifecycle(Lifecycle::Versioned)),
        ]
        .into(),
        quarantine_max: 10,
        requests_kept: Duration::from_secs(3_600),
        ..Rules::default()
    };
    let destinations = ["a", "b"].map(|name| destination(dir, name, camera.cloned()));
    WorkerPlan {
        source: Arc::new(FileSource::open(FileOptions::new(log)).unwrap()),
        decoder: Decoder::default(),
        // A frame each record.
        bounds: ReadBounds { max_records: 1, max_bytes: 1 << 20, wait: Duration::from_millis(1) },
        ledger: LedgerOptions {
            dir: dir.join("ledger"),
            cache_bytes: 1 << 20,
            checkpoint_objects: 2,
            journal_whole_bytes: 0,
        },
        rules,
        window_bytes: 1 << 20,
        destinations: destinations.into(),
        api: crate::api::ApiOptions {
            listen: ([127, 0, 0, 1], 0).into(),
            max_body_bytes: 1 << 10,
            max_wait: Duration::from_secs(1),
            max_waiters: 1,
        },
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Everything is read, applied, removed and proved.
fn is_settled(ledger: &Ledger, log: &Path) -> bool {
    let end = fs::metadata(log).unwrap().len();
    let committed = ledger.read();
    let books = &committed.books;
    let read = books.feeds.get(&0).is_some_and(|feed| feed.cursor.offset >= end);
    let there = |book: &crate::ledger::state::DestinationBook| {
        book.pending.is_empty() && book.owed.is_empty() && committed.lag_of(book) == 0
    };
    let open = books.closed_gates.is_empty()
        && books.barriers.get("job").is_some_and(|barrier| barrier.opened_at_ms.is_some());
    read && open && books.destinations.values().all(there)
}

fn settle(row: &str, ledger: &Ledger, log: &Path) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_settled(ledger, log) {
        assert!(ledger.failure().is_none(), "{row}: {:?}", ledger.failure());
        assert!(Instant::now() < until, "{row}: {:#?}", ledger.read().books);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn whatever_was_told_before_a_kill_holds_after_it() {
    let site = tempfile::tempdir().unwrap();
    let log = site.path().join("changes.jsonl");
    let text: String = story().iter().map(|record| format!("{record}\n")).collect();
    fs::write(&log, text).unwrap();
    let kills = run_and_kill(site.path(), &log);
    assert!(kills.len() > 100, "only {} kills", kills.len());
    // Two at a time, each in its own copy.
    let (these, those) = kills.split_at(kills.len() / 2);
    std::thread::scope(|scope| {
        for half in [these, those] {
            scope.spawn(|| half.iter().for_each(|kill| starts_again(kill, &log)));
        }
    });
}

/// Runs the story once, with a camera at every boundary.
fn run_and_kill(dir: &Path, log: &Path) -> Vec<Kill> {
    let camera = Arc::new(Camera {
        dir: dir.to_owned(),
        ledger: Mutex::default(),
        told: Mutex::default(),
        kills: Mutex::default(),
    });
    let (looks, ledger_dir) = (Arc::clone(&camera), dir.join("ledger"));
    let hook: hooks::Hook = Arc::new(move |boundary, records| looks.boundary(boundary, records));
    hooks::set(ledger_dir.clone(), hook);
    let runtime = runtime();
    let worker = runtime.block_on(Worker::start(plan(dir, log, Some(&camera)))).unwrap();
    let ledger = worker.running().ledger;
    *camera.ledger.lock() = Some(ledger.clone());
    settle("the story itself", &ledger, log);
    runtime.block_on(worker.stop()).unwrap();
    hooks::remove(&ledger_dir);
    let kills = std::mem::take(&mut *camera.kills.lock());
    let met: BTreeSet<&str> = kills.iter().map(|kill| kill.row.as_str()).collect();
    for row in ROWS.iter().chain(&LOOKS) {
        assert!(met.contains(row), "{row} was never met: {met:?}");
    }
    kills
}

fn starts_again(kill: &Kill, log: &Path) {
    let (row, dir) = (&kill.row, kill.dir.path());
    let runtime = runtime();
    // I1, at rest: what was told to be confirmed is not there.
    let held = ["a", "b"].map(|name| runtime.block_on(content(dir, name)));
    let worker = runtime.block_on(Worker::start(plan(dir, log, None)));
    let worker = worker.unwrap_or_else(|error| panic!("{row}: {error}"));
    let ledger = worker.running().ledger;
    if let Some(told) = &kill.told {
        still_holds(row, told, &ledger.read().books);
        for (name, held) in ["a", "b"].into_iter().zip(&held) {
            nothing_confirmed_is_there(row, &ledger, told, name, held);
        }
    }
    settle(row, &ledger, log);
    assert_eq!(ledger.read().books.last_tombstone, TombstoneNo(DELETIONS), "{row}: decided once");
    runtime.block_on(worker.stop()).unwrap();
    // I5: where the one that was not killed ended.
    for name in ["a", "b"] {
        assert_eq!(runtime.block_on(content(dir, name)), expected(name), "{row}: {name}");
    }
    let report = ledger::verify(&dir.join("ledger")).unwrap();
    assert!(report.is_sound(), "{row}: {report}");
    assert_eq!(report.tombstones, DELETIONS, "{row}");
    assert_eq!(report.objects, 5, "{row}: D1 D2 D3 D9 R1");
}

async fn content(dir: &Path, name: &str) -> BTreeMap<String, u64> {
    let mut connector = memory(dir, name);
    connector.open().await.unwrap();
    let page = connector.scan(None, 1_000).await.unwrap();
    page.held.into_iter().map(|it| (it.id, it.oldest.map_or(0, Version::get))).collect()
}

/// I4 and I2: nothing that was told is taken back, and no gate is open that somebody owes.
fn still_holds(row: &str, told: &Books, now: &Books) {
    assert!(now.last_fact.0 >= told.last_fact.0, "{row}: a fact is lost");
    assert!(now.last_tombstone >= told.last_tombstone, "{row}: a tombstone is lost");
    let known = 1..=told.last_tombstone.0;
    for number in known.clone().filter(|number| !told.closed_gates.contains(*number)) {
        assert!(!now.closed_gates.contains(number), "{row}: gate {number} is closed again");
    }
    for (number, before) in &told.destinations {
        let after = &now.destinations[number];
        assert!(after.looks >= before.looks && after.epoch >= before.epoch, "{row}");
        let confirmed = known.clone().filter(|tombstone| !before.pending.contains(*tombstone));
        for tombstone in confirmed {
            assert!(!after.pending.contains(tombstone), "{row}: {tombstone} is not confirmed");
        }
    }
    for book in now.destinations.values() {
        assert!(book.pending.is_subset(&now.closed_gates), "{row}: a gate is open that is owed");
    }
    for (name, before) in &told.barriers {
        let after = &now.barriers[name];
        assert!(before.opened_at_ms.is_none() || after.opened_at_ms.is_some(), "{row}: {name}");
    }
}

fn nothing_confirmed_is_there(
    row: &str,
    ledger: &Ledger,
    told: &Books,
    name: &str,
    held: &BTreeMap<String, u64>,
) {
    let Some(book) = told.destination(name) else { return };
    for number in (1..=told.last_tombstone.0).filter(|number| !book.pending.contains(*number)) {
        let named = ledger.tombstone(TombstoneNo(number)).unwrap();
        let removal = Removal { key: named.key.clone(), covers: named.tombstone.covers };
        let id = removal.id();
        let Some(version) = held.get(&id) else { continue };
        let version = Version::new(*version).ok();
        assert!(!named.tombstone.covers.includes_piece(version), "{row}: {name} holds {id}");
    }
}
