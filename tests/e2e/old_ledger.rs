//! A ledger that an earlier version wrote: `tests/fixtures/ledger-v1` was made once, by
//! `make_the_fixture`, and every later version opens it and knows what it knew.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cenotaph::clock::Clock;
use cenotaph::envelope::Decoder;
use cenotaph::ledger::{IngestBatch, Ingested, LedgerOptions, Rules, start};
use cenotaph::reading::Reading;
use cenotaph::source::RawRecord;
use cenotaph::window::Window;
use cenotaph_core::{CollectionPolicy, Cursor, Lifecycle, Position};

use crate::lines::{With as _, barrier, delete, upsert};
use crate::site::{Site, copy_dir};

const TABLES: &str = "[collections.docs]\n[collections.rows]\nlifecycle = \"versioned\"\n\
                      [collections.posts]\nlifecycle = \"restorable\"\n";

const COLLECTIONS: [&str; 3] = ["docs", "rows", "posts"];

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/ledger-v1")
}

fn site() -> Site {
    let site = Site::new(TABLES);
    site.memory("cache", &COLLECTIONS);
    site
}

/// What is in the view of the fixture.
fn before_the_stop(site: &Site) {
    for object in 0..150 {
        site.record(&upsert("T1", "docs", &format!("D{object}"), 1));
    }
    site.record(&upsert("T1", "rows", "R1", 1));
    site.record(&upsert("T2", "posts", "ä", 4));
    for object in 0..70 {
        site.record(&delete("T1", "docs", &format!("D{object}"), 2));
    }
    site.record(&delete("T1", "rows", "R1", 2));
    site.record(&upsert("T1", "rows", "R1", 3));
    site.record(&delete("T2", "posts", "ä", 5));
    // Served by the tombstone that is there.
    site.record(&delete("T1", "docs", "D1", 3));
    site.append("{\"event_id\":\"unreadable\",\"op\":\"delete\"\n");
    site.record(&barrier("before"));
}

/// What is only in its journal, behind the view.
fn after_the_stop(site: &Site) {
    site.record(&upsert("T1", "docs", "D200", 1));
    site.record(&delete("T1", "docs", "D100", 2));
    site.record(&delete("T1", "docs", "D300", 7));
    site.record(&barrier("after"));
}

/// Makes the fixture anew: only ever for a new format, beside the old ones.
#[test]
#[ignore = "makes tests/fixtures/ledger-v1, which is made once"]
fn make_the_fixture() {
    let site = site();
    before_the_stop(&site);
    let worker = site.start();
    worker.gate_open("T2", "posts", "ä");
    worker.caught_up();
    worker.stop_cleanly();
    let worker = site.start();
    after_the_stop(&site);
    worker.gate_open("T1", "docs", "D300");
    worker.caught_up();
    worker.kill();
    copy_dir(&site.path().join("data"), &fixture().join("data"));
    std::fs::copy(site.log(), fixture().join("changes.jsonl")).unwrap();
}

#[test]
fn a_ledger_of_format_1_is_opened_and_shows_what_it_knew() {
    let site = site();
    copy_dir(&fixture(), site.path());
    let dir = site.ledger_dir();
    site.command(&["ledger", "verify", dir.to_str().unwrap()]).ends(0);
    // A copied log is another file: its partition fails, and all else works.
    let worker = site.start_unready();
    worker.until("the cache to be opened", || {
        (worker.destination("cache")["state"] == "RUNNING").then_some(())
    });
    let status = worker.json("/v1/status");
    assert_eq!(status["quarantined"], 1, "{status}");
    for (tenant, collection, object, version) in [
        ("T1", "docs", "D0", 2),
        ("T1", "docs", "D69", 2),
        ("T1", "docs", "D100", 2),
        ("T1", "docs", "D300", 7),
        ("T2", "posts", "ä", 5),
    ] {
        let view = worker.tombstone(tenant, collection, object);
        assert_eq!((&view["state"], &view["gate"]), (&"removed".into(), &"open".into()), "{view}");
        assert_eq!(view["version"], version, "{view}");
        let control = &view["destinations"][0]["evidence"]["control"];
        assert!(control["epoch"].as_u64().is_some_and(|epoch| epoch <= 2), "of then: {view}");
    }
    assert_eq!(worker.tombstone("T1", "rows", "R1")["state"], "live");
    assert_eq!(worker.tombstone("T1", "docs", "D149")["state"], "live");
    for name in ["before", "after"] {
        assert_eq!(worker.json(&format!("/v1/barriers/{name}"))["state"], "RELEASED");
    }
    worker.stop_cleanly();
    site.command(&["ledger", "verify", dir.to_str().unwrap()]).ends(0);
}

/// What was refused then is refused now, and what came before came before.
#[test]
fn a_ledger_of_format_1_goes_on_deciding() {
    let site = site();
    copy_dir(&fixture(), site.path());
    let options = LedgerOptions {
        dir: site.ledger_dir(),
        cache_bytes: 1 << 20,
        checkpoint_objects: 1_000,
        journal_whole_bytes: 1 << 20,
    };
    let policy = |lifecycle| CollectionPolicy { lifecycle, ..CollectionPolicy::default() };
    let rules = Rules {
        collections: [
            ("docs".to_owned(), policy(Lifecycle::Terminal)),
            ("rows".to_owned(), policy(Lifecycle::Versioned)),
        ]
        .into(),
        quarantine_max: 10,
        requests_kept: Duration::from_secs(90 * 86_400),
        ..Rules::default()
    };
    let (ledger, writer) = start(options, rules, Clock, Arc::new(Window::new(0))).unwrap();
    let mut reading = Reading::new(Decoder::default(), ledger.hasher());
    let records = [
        upsert("T1", "docs", "D0", 1).with("event_id", "another"),
        upsert("T1", "docs", "D100", 1),
        delete("T1", "docs", "D1", 3),
        upsert("T1", "docs", "D149", 1),
        upsert("T1", "docs", "D149", 2),
        upsert("T1", "rows", "R1", 4),
    ];
    let mut items = Vec::new();
    for (offset, record) in records.iter().enumerate() {
        let position = Position { partition: 1, epoch: 0, offset: offset as u64 };
        let bytes = record.to_string().into();
        items.push(reading.item(RawRecord { position, bytes, too_large: None }));
    }
    let (begin, cursor) = (Cursor::default(), Cursor { epoch: 0, offset: records.len() as u64 });
    let read = records.len() as u64;
    let batch = IngestBatch { partition: 1, begin, read, items, cursor, proof: Vec::new() };
    let answer = ledger.begin_ingest(batch).unwrap().wait().unwrap();
    assert_eq!(answer, Ingested::Decided);
    let counts = ledger.counts();
    assert_eq!((counts.refused, counts.repeated, counts.accepted), (2, 2, 2), "{counts:?}");
    drop((ledger, reading));
    writer.join().unwrap().unwrap();
}
