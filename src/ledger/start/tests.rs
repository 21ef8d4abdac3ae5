use std::time::Duration;

use cenotaph_core::{Cursor, Position};
use serde_json::json;

use super::*;
use crate::envelope::Decoder;
use crate::ledger::{Counts, IngestAnswer, IngestBatch, Ingested, Stopped};
use crate::reading::Reading;
use crate::source::RawRecord;

/// Makes a checkpoint due.
const OBJECTS: usize = 10;

/// A ledger and what was proposed to it.
struct Told {
    ledger: Ledger,
    reading: Reading,
    writer: WriterThread,
    offset: u64,
}

impl Told {
    fn start(dir: &std::path::Path, rules: Rules) -> Told {
        let options = LedgerOptions {
            dir: dir.to_owned(),
            cache_bytes: 1 << 20,
            checkpoint_objects: OBJECTS,
            journal_whole_bytes: 1 << 20,
        };
        let window = Arc::new(Window::new(1 << 20));
        let (ledger, writer) = start(options, rules, Clock, window).unwrap();
        let reading = Reading::new(Decoder::default(), ledger.hasher());
        Told { ledger, reading, writer, offset: 0 }
    }

    fn record(&mut self, record: &serde_json::Value) {
        let answer = self.propose(std::slice::from_ref(record)).wait().unwrap();
        assert_eq!(answer, Ingested::Decided);
    }

    /// Proposes the next records as one batch.
    fn propose(&mut self, records: &[serde_json::Value]) -> IngestAnswer {
        let at = |offset| Cursor { epoch: 0, offset };
        let begin = at(self.offset);
        let mut items = Vec::new();
        for record in records {
            let position = Position { partition: 0, epoch: 0, offset: self.offset };
            self.offset += 1;
            let bytes = record.to_string().into();
            items.push(self.reading.item(RawRecord { position, bytes, too_large: None }));
        }
        let (read, cursor) = (records.len() as u64, at(self.offset));
        let batch = IngestBatch { partition: 0, begin, read, items, cursor, proof: Vec::new() };
        self.ledger.begin_ingest(batch).unwrap()
    }

    /// Ends as if killed: without a checkpoint.
    fn end(self) {
        drop((self.ledger, self.reading));
        self.writer.join().unwrap().unwrap();
    }

    fn counts(&self) -> Counts {
        self.ledger.counts()
    }
}

fn deletion(event: &str) -> serde_json::Value {
    json!({
        "event_id": event, "op": "delete", "tenant": "T1", "collection": "docs", "object": "D1",
        "version": 2, "source": "crm",
    })
}

fn rules(requests_kept: Duration) -> Rules {
    Rules {
        collections: [("docs".to_owned(), cenotaph_core::CollectionPolicy::default())].into(),
        requests_kept,
        ..Rules::default()
    }
}

/// Nobody owes it, and nobody else may ever propose anything.
#[test]
fn without_a_destination_a_barrier_in_the_log_is_open_once_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut told = Told::start(dir.path(), rules(Duration::from_secs(1)));
    told.record(&json!({ "event_id": "b", "op": "barrier", "barrier": "job" }));
    let committed = told.ledger.read();
    assert!(committed.books.barriers["job"].opened_at_ms.is_some());
}

/// Two batches are under way at a time: one behind a stopped one is not decided.
#[test]
fn a_batch_behind_a_stopped_one_is_not_decided() {
    let dir = tempfile::tempdir().unwrap();
    let mut told = Told::start(dir.path(), Rules { quarantine_max: 0, ..rules(Duration::ZERO) });
    let unreadable = json!({ "op": "delete" });
    let stopped = told.propose(&[deletion("first"), unreadable]);
    let behind = told.propose(&[deletion("behind")]);
    let [stopped, behind] = [stopped, behind].map(|answer| answer.wait().unwrap());
    assert!(matches!(stopped, Ingested::Stopped(Stopped { index: 1, .. })), "{stopped:?}");
    assert_eq!(behind, Ingested::NotNext);
    assert_eq!(told.ledger.ingest_cursor(0), Cursor::default());
    assert_eq!(told.counts().total(), 0);
    told.offset = 0;
    told.record(&deletion("first"));
    assert_eq!(told.ledger.ingest_cursor(0).offset, 1);
}

/// Gates are opened for several batches at once while more are queued, and none is forgotten.
#[test]
fn every_gate_is_open_once_nothing_waits_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let mut told = Told::start(dir.path(), rules(Duration::ZERO));
    let deletion_of = |number: u64| {
        let mut deletion = deletion(&number.to_string());
        deletion["object"] = format!("D{number}").into();
        deletion
    };
    let answers: Vec<_> = (0..30).map(|number| told.propose(&[deletion_of(number)])).collect();
    for answer in answers {
        assert_eq!(answer.wait().unwrap(), Ingested::Decided);
    }
    // The last of them may be opened right behind the answer.
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    let closed = || told.ledger.read().books.closed_gates.len();
    while closed() > 0 && std::time::Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!((closed(), told.ledger.read().books.last_tombstone.0), (0, 30));
}

/// I9 can fail: what was read is not made up of what was counted.
#[test]
fn a_record_that_was_read_and_not_counted_shows() {
    let dir = tempfile::tempdir().unwrap();
    let mut told = Told::start(dir.path(), rules(Duration::from_secs(1)));
    told.record(&deletion("first"));
    assert!(told.counts().add_up());
    let cursor = Cursor { epoch: 0, offset: 9 };
    let (items, proof) = (Vec::new(), Vec::new());
    let begin = Cursor { epoch: 0, offset: told.offset };
    let lost = IngestBatch { partition: 0, begin, read: 1, items, cursor, proof };
    told.ledger.begin_ingest(lost).unwrap().wait().unwrap();
    assert_eq!((told.counts().read, told.counts().total()), (2, 1));
    assert!(!told.counts().add_up());
}

/// `ledger.requests_kept`: afterwards a repeat is decided by its version alone.
#[test]
fn a_deletion_request_is_remembered_for_as_long_as_is_said() {
    for (kept, repeated, satisfied) in [(3_600_000, 1, 1), (1, 0, 2)] {
        let dir = tempfile::tempdir().unwrap();
        let rules = rules(Duration::from_millis(kept));
        let mut told = Told::start(dir.path(), rules);
        told.record(&deletion("first"));
        let lower = |event: &str| {
            let mut record = deletion(event);
            record["version"] = json!(1);
            record
        };
        told.record(&lower("lower"));
        assert_eq!(told.counts().satisfied, 1);
        std::thread::sleep(Duration::from_millis(10));
        told.record(&lower("lower"));
        assert_eq!((told.counts().repeated, told.counts().satisfied), (repeated, satisfied));
    }
}

/// A view is built anew in bounded memory, table by table.
#[test]
fn a_lost_view_is_built_anew_with_no_more_than_a_table_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let objects: Vec<String> = (0..95).map(|number| format!("D{number}")).collect();
    let mut told = Told::start(dir.path(), rules(Duration::from_secs(1)));
    for object in &objects {
        told.record(&json!({
            "event_id": object, "op": "upsert", "tenant": "T1", "collection": "docs",
            "object": object, "version": 7, "source": "crm", "payload": {},
        }));
    }
    told.record(&deletion("the last"));
    told.end();
    std::fs::remove_dir_all(dir.path().join("view")).unwrap();
    let told = Told::start(dir.path(), rules(Duration::from_secs(1)));
    let committed = told.ledger.read();
    assert!(!committed.tables().active.is_full(OBJECTS), "the rest is in the view");
    for object in &objects {
        let id = told.ledger.hasher().object("T1", "docs", object);
        let record = committed.object(&id).unwrap().expect("it is known");
        let entry = record.entry(cenotaph_core::Generation::FIRST).unwrap();
        let removed = object == "D1";
        assert_eq!(entry.state == cenotaph_core::State::Removed, removed, "{object}");
        assert_eq!(entry.version.map(cenotaph_core::Version::get), Some(7));
    }
    assert_eq!(committed.books.last_tombstone.0, 1);
    drop(committed);
    told.end();
    let report = crate::ledger::verify(dir.path()).unwrap();
    assert!(report.is_sound(), "{report}");
    assert!(report.view_frame > 80, "{report}");
}
