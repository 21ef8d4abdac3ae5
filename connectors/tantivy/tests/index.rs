//! What is particular to this destination: kills, left-over files, other people's indexes, searching.
#![allow(clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use cenotaph_connector::{
    Class, Commit, Connector, Destination, Factory, Fault, Finding, Purge, Removal, Upsert,
};
use cenotaph_core::{Control, Covers, Cursors, EvidenceLevel, Generation, ObjectKey, Version};
use cenotaph_tantivy::{Tantivy, search};

const KILLED: &str = "CENOTAPH_TANTIVY_KILLED_CHILD";

struct Bench {
    runtime: tokio::runtime::Runtime,
    folder: PathBuf,
    connector: Box<dyn Connector>,
    control: Option<Control>,
}

impl Bench {
    fn on(folder: &Path, settings: serde_json::Value) -> Bench {
        let destination = Destination { name: "bench".into(), data_dir: folder.into() };
        let connector = Tantivy.build(destination, settings).expect("right settings");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        Bench { runtime, folder: folder.into(), connector, control: None }
    }

    fn open(folder: &Path) -> Bench {
        let mut bench = Bench::on(folder, serde_json::json!({}));
        bench.control = bench.try_open().expect("it opens");
        bench
    }

    fn try_open(&mut self) -> Result<Option<Control>, Fault> {
        self.runtime.block_on(self.connector.open())
    }

    fn apply(&mut self, objects: &[(&str, u64)]) {
        let upserts: Vec<Upsert> = objects.iter().map(|it| upsert(it.0, it.1)).collect();
        let outcomes = self.runtime.block_on(self.connector.apply(&upserts));
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    }

    fn remove(&mut self, removals: &[Removal]) {
        let outcomes = self.runtime.block_on(self.connector.remove(removals));
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    }

    fn commit(&mut self) {
        let next = Control {
            ledger: "bench".into(),
            destination: "bench".into(),
            epoch: 1,
            commit: self.control.as_ref().map_or(0, |it| it.commit + 1),
            cursors: Cursors::new(),
            fact: 0,
            fact_hash: String::new(),
        };
        let done = self.runtime.block_on(self.connector.commit(&next, self.control.as_ref()));
        assert_eq!(done, Ok(Commit::Done));
        self.control = Some(next);
    }

    fn segments(&self) -> usize {
        let index = tantivy::Index::open_in_dir(&self.folder).expect("it opens");
        index.searchable_segment_ids().expect("segments").len()
    }

    fn look(&mut self, object: &str, level: EvidenceLevel) -> (Finding, EvidenceLevel) {
        let look = self.runtime.block_on(self.connector.verify(&[everything(object)], level));
        let mut look = look.expect("a look");
        (look.findings.remove(0), look.level)
    }

    fn purge(&mut self, removals: &[Removal]) {
        for _ in 0..100 {
            let answers = self.runtime.block_on(self.connector.purge(removals));
            if answers.iter().all(|it| *it == Ok(Purge::Purged)) {
                return;
            }
        }
        panic!("the purge does not end");
    }

    fn close(mut self) {
        self.runtime.block_on(self.connector.close()).expect("it closes");
    }

    fn files(&self) -> Vec<String> {
        let files = fs::read_dir(&self.folder).expect("a folder").flatten();
        files.map(|it| it.file_name().to_string_lossy().into_owned()).collect()
    }
}

fn key(object: &str) -> ObjectKey {
    ObjectKey::new("T1", "docs", object, Generation::FIRST).expect("a key")
}

fn upsert(object: &str, version: u64) -> Upsert {
    Upsert {
        key: key(object),
        version: Version::new(version).expect("a version"),
        parent: None,
        payload: Bytes::from(format!(
            r#"{{"title":"The {object}","body":"written as number {version}","year":1969}}"#
        )),
    }
}

fn everything(object: &str) -> Removal {
    Removal { key: key(object), covers: Covers::EVERYTHING }
}

/// Not a test of its own: the process that the next one kills.
/// A look into a damaged dictionary finds nothing where a search still does.
#[test]
fn an_index_with_a_flipped_bit_is_not_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bench = Bench::open(folder.path());
    bench.apply(&[("D1", 1), ("D2", 1)]);
    bench.commit();
    drop(bench);
    let files =
        fs::read_dir(folder.path()).expect("a listing").map(|it| it.expect("a file").path());
    let parts: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|it| it != "json" && it != "lock"))
        .collect();
    assert!(parts.len() >= 5, "{parts:?}");
    for part in parts {
        let whole = fs::read(&part).expect("its bytes");
        let mut flipped = whole.clone();
        flipped[0] ^= 4;
        fs::write(&part, &flipped).expect("a write");
        let opened = Bench::on(folder.path(), serde_json::json!({})).try_open();
        let fault = opened.expect_err("it is damaged");
        assert!(fault.to_string().contains("damaged"), "{}: {fault}", part.display());
        fs::write(&part, whole).expect("a write");
    }
    Bench::open(folder.path());
}

#[test]
fn killed_child() {
    let Ok(folder) = std::env::var(KILLED) else { return };
    let mut bench = Bench::open(Path::new(&folder));
    bench.apply(&[("committed", 1)]);
    bench.commit();
    let many: Vec<String> = (0..3_000).map(|number| format!("uncommitted-{number}")).collect();
    let many: Vec<(&str, u64)> = many.iter().map(|name| (&**name, 1)).collect();
    bench.apply(&many);
    fs::write(Path::new(&folder).with_extension("ready"), "").expect("a sign");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_kill_before_the_commit_leaves_the_last_commit_and_nothing_else() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join("index");
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "killed_child", "--nocapture"])
        .env(KILLED, &folder)
        .stdout(Stdio::null())
        .spawn()
        .expect("a child");
    while !folder.with_extension("ready").exists() {
        assert!(child.try_wait().expect("a child").is_none(), "the child ended early");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("it is killed");
    child.wait().expect("it ended");
    assert!(folder.join(".tantivy-writer.lock").exists());
    // What the kill left of a segment in the making: an empty file that no list names.
    fs::write(folder.join("0123456789abcdef0123456789abcdef.idx"), "").expect("an orphan");

    let mut bench = Bench::open(&folder);
    assert_eq!(bench.control.as_ref().map(|it| it.commit), Some(0));
    let one = Some(Version::MIN);
    assert_eq!(bench.look("committed", EvidenceLevel::Absent).0, Finding::Present { oldest: one });
    assert_eq!(
        bench.look("uncommitted-0", EvidenceLevel::Purged),
        (Finding::Gone, EvidenceLevel::Purged)
    );
    bench.apply(&[("uncommitted-0", 1)]);
    bench.commit();
    assert_eq!(
        bench.look("uncommitted-0", EvidenceLevel::Absent).0,
        Finding::Present { oldest: one }
    );
}

#[test]
fn a_file_beside_the_commit_keeps_a_look_from_being_a_proof_of_purge() {
    let home = tempfile::tempdir().expect("a folder");
    let mut bench = Bench::open(home.path());
    bench.apply(&[("a", 1), ("b", 1)]);
    bench.commit();
    bench.remove(&[everything("a")]);
    bench.commit();
    bench.purge(&[everything("a")]);
    let purged = (Finding::Gone, EvidenceLevel::Purged);
    assert_eq!(bench.look("a", EvidenceLevel::Purged), purged);
    let orphan = "0123456789abcdef0123456789abcdef.store";
    fs::write(home.path().join(orphan), "bytes of a").expect("an orphan");
    let absent = (Finding::Gone, EvidenceLevel::Absent);
    assert_eq!(bench.look("a", EvidenceLevel::Purged), absent);
    // A purge takes it away, though no list of tantivy's names it.
    bench.purge(&[everything("a")]);
    assert!(!bench.files().contains(&orphan.to_owned()));
    assert_eq!(bench.look("a", EvidenceLevel::Purged), purged);
    // A file that nobody knows stays, and is no proof either.
    fs::write(home.path().join("copy.bak"), "bytes of a").expect("a file");
    assert_eq!(bench.look("a", EvidenceLevel::Purged), absent);
}

#[test]
fn deleted_but_not_purged_is_not_gone_at_the_level_purged() {
    let home = tempfile::tempdir().expect("a folder");
    let mut bench = Bench::open(home.path());
    let names: Vec<String> = (0..10).map(|number| format!("n{number}")).collect();
    bench.apply(&names.iter().map(|name| (&**name, 1)).collect::<Vec<_>>());
    bench.commit();
    bench.remove(&[everything("n3")]);
    bench.commit();
    assert_eq!(bench.look("n3", EvidenceLevel::Absent).0, Finding::Gone);
    let (found, _) = bench.look("n3", EvidenceLevel::Purged);
    assert!(matches!(found, Finding::Unknown { .. }), "{found:?}");
    bench.purge(&[everything("n3")]);
    assert_eq!(bench.look("n3", EvidenceLevel::Purged), (Finding::Gone, EvidenceLevel::Purged));
}

#[test]
fn a_second_writer_and_a_changed_schema_are_refused_with_advice() {
    let home = tempfile::tempdir().expect("a folder");
    let first = Bench::open(home.path());
    let mut second = Bench::on(home.path(), serde_json::json!({}));
    let fault = second.try_open().expect_err("two writers");
    assert_eq!(fault.class, Class::Retriable);
    assert!(fault.advice.contains("another process"), "{fault}");
    first.close();
    assert!(second.try_open().is_ok());
    second.close();
    let fields = serde_json::json!({ "fields": { "title": { "type": "keyword" } } });
    let fault = Bench::on(home.path(), fields).try_open().expect_err("another schema");
    assert!(fault.what.contains("[settings.fields]"), "{fault}");
}

#[test]
fn a_commit_never_pretends_to_hold_what_an_error_lost() {
    let home = tempfile::tempdir().expect("a folder");
    let (folder, away) = (home.path().join("index"), home.path().join("away"));
    let mut bench = Bench::open(&folder);
    bench.apply(&[("known", 1)]);
    bench.commit();
    bench.apply(&[("fresh", 1)]);
    fs::rename(&folder, &away).expect("it is taken away");
    let (next, expected) = (bench.control.clone().expect("a record"), bench.control.clone());
    let failed = bench.runtime.block_on(bench.connector.commit(&next, expected.as_ref()));
    assert!(failed.is_err(), "{failed:?}");
    assert!(bench.runtime.block_on(bench.connector.verify(&[], EvidenceLevel::Absent)).is_err());
    fs::rename(&away, &folder).expect("it is put back");
    // The caller applies again what a failed commit left open.
    bench.apply(&[("fresh", 1)]);
    bench.commit();
    let there = Finding::Present { oldest: Some(Version::MIN) };
    assert_eq!(bench.look("known", EvidenceLevel::Absent).0, there);
    assert_eq!(bench.look("fresh", EvidenceLevel::Absent).0, there);
}

#[test]
fn an_index_of_somebody_else_is_refused() {
    let home = tempfile::tempdir().expect("a folder");
    let mut schema = tantivy::schema::Schema::builder();
    schema.add_text_field("title", tantivy::schema::TEXT);
    tantivy::Index::create_in_dir(home.path(), schema.build()).expect("an index");
    let mut bench = Bench::on(home.path(), serde_json::json!({}));
    assert!(bench.try_open().is_err());
    let look = bench.connector.verify(&[], EvidenceLevel::Absent);
    assert!(bench.runtime.block_on(look).is_err());
}

#[test]
fn settings_that_cannot_work_name_their_key() {
    let refused = |settings: serde_json::Value| {
        let destination = Destination { name: "bench".into(), data_dir: PathBuf::new() };
        match Tantivy.build(destination, settings) {
            Ok(_) => panic!("they were taken"),
            Err(error) => error.to_string(),
        }
    };
    for (settings, wanted) in [
        (serde_json::json!({"threads": 0}), "settings.threads"),
        (serde_json::json!({"threads": 8}), "settings.heap_bytes"),
        (serde_json::json!({"max_segment_docs": 10}), "settings.max_segment_docs"),
        (serde_json::json!({"fields": {"_id": {"type": "text"}}}), "settings.fields._id"),
        (serde_json::json!({"fields": {"a": {"type": "txt"}}}), "unknown variant `txt`"),
        (serde_json::json!({"heap": 1}), "unknown field `heap`"),
    ] {
        let text = refused(settings);
        assert!(text.contains(wanted), "{text}");
    }
}

#[test]
fn searching_shows_what_is_committed_and_not_removed() {
    let home = tempfile::tempdir().expect("a folder");
    let mut bench = Bench::open(home.path());
    bench.apply(&[("lighthouse", 1), ("harbour", 1)]);
    bench.commit();
    let found = search(home.path(), "lighthouse", 10).expect("a search");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].id, "T1/docs/lighthouse");
    assert_eq!(found[0].payload["title"], "The lighthouse");
    assert_eq!(search(home.path(), "written", 10).expect("a search").len(), 2);
    assert_eq!(search(home.path(), "written", 1).expect("a search").len(), 1);
    assert!(search(home.path(), "written", 0).expect("a search").is_empty());
    assert!(search(home.path(), "title:\"unclosed (", 10).is_ok());
    bench.remove(&[everything("lighthouse")]);
    bench.commit();
    assert!(search(home.path(), "lighthouse", 10).expect("a search").is_empty());
    assert!(search(&home.path().join("nowhere"), "x", 10).is_err());
}

#[test]
fn searching_named_fields_shows_the_stored_ones() {
    let home = tempfile::tempdir().expect("a folder");
    let settings = serde_json::json!({ "fields": {
        "title": { "type": "text" },
        "body": { "type": "text", "stored": false },
        "year": { "type": "integer" },
    }});
    let mut bench = Bench::on(home.path(), settings);
    bench.control = bench.try_open().expect("it opens");
    bench.apply(&[("lighthouse", 7)]);
    bench.commit();
    for query in ["lighthouse", "number", "year:1969", "year:[1960 TO 1970]"] {
        let found = search(home.path(), query, 10).expect("a search");
        assert_eq!(found.len(), 1, "{query}");
        let wanted = serde_json::json!({ "title": "The lighthouse", "year": 1969 });
        assert_eq!(serde_json::Value::Object(found[0].payload.clone()), wanted);
    }
}

/// Merges wait for the end of a backlog. Removing and purging do not.
#[test]
fn a_backlog_puts_merges_off_and_nothing_else() {
    let home = tempfile::tempdir().expect("a folder");
    let mut bench = Bench::open(&home.path().join("index"));
    bench.connector.backlog(true);
    for number in 0..20 {
        bench.apply(&[(&format!("d{number}"), 1)]);
        bench.commit();
    }
    assert_eq!(bench.segments(), 20);
    bench.remove(&[everything("d7")]);
    bench.commit();
    bench.purge(&[everything("d7")]);
    assert_eq!(bench.look("d7", EvidenceLevel::Purged), (Finding::Gone, EvidenceLevel::Purged));
    assert_eq!(bench.segments(), 19, "a segment without a document goes");

    bench.apply(&[("last", 1)]);
    bench.connector.backlog(false);
    bench.commit();
    for _ in 0..1_000 {
        if bench.segments() < 8 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(bench.segments() < 8, "{}", bench.segments());
    bench.close();
}
