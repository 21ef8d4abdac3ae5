//! A destination or a ledger that went back in time: seen by the control record, and proved anew.

use serde_json::Value;

use crate::held;
use crate::lines::{barrier, delete, upsert};
use crate::site::{Site, copy_dir, restore_dir};
use crate::worker::Worker;

const TABLES: &str = "[collections.docs]\n[collections.rows]\nlifecycle = \"versioned\"\n";

const BOTH: [&str; 2] = ["search", "cache"];

fn ids(site: &Site, name: &str) -> Vec<String> {
    let dir = site.destination_dir(name);
    let held =
        if name == "search" { held::in_tantivy(&dir) } else { held::versions_in_snapshot(&dir) };
    held.into_keys().collect()
}

fn epoch(view: &Value, name: &str) -> u64 {
    let destinations = view["destinations"].as_array().unwrap();
    let at = destinations.iter().find(|it| it["name"] == name).unwrap();
    at["evidence"]["control"]["epoch"].as_u64().unwrap()
}

/// A site where D1 and R1 were deleted after a copy of everything was made.
struct Story {
    site: Site,
    copies: tempfile::TempDir,
    before: Value,
}

impl Story {
    fn begin() -> Story {
        let site = Site::with_both(TABLES, &["docs", "rows"]);
        let copies = tempfile::tempdir().unwrap();
        for object in ["D0", "D1", "D2"] {
            site.record(&upsert("T1", "docs", object, 1));
        }
        site.record(&upsert("T1", "rows", "R1", 1));
        // One that was deleted, and proved, before the copies were made.
        site.record(&delete("T1", "docs", "D0", 2));
        let worker = site.start();
        worker.gate_open("T1", "docs", "D0");
        worker.caught_up();
        worker.stop_cleanly();
        for name in BOTH {
            copy_dir(&site.destination_dir(name), &copies.path().join(name));
        }
        copy_dir(&site.ledger_dir(), &copies.path().join("ledger"));
        let worker = site.start();
        site.record(&delete("T1", "docs", "D1", 2));
        site.record(&delete("T1", "rows", "R1", 2));
        site.record(&upsert("T1", "rows", "R1", 3));
        site.record(&upsert("T1", "docs", "D3", 1));
        site.record(&barrier("job"));
        let before = worker.gate_open("T1", "docs", "D1");
        worker.until("the barrier to open", || {
            let answer = worker.get("/v1/barriers/job");
            (answer.status == 200 && answer.json()["state"] == "RELEASED").then_some(())
        });
        worker.stop_cleanly();
        Story { site, copies, before }
    }

    fn proved_again(&self, worker: &Worker, name: &str, confirmations: f64) {
        let reappeared = format!("cenotaph_reappeared_total{{destination=\"{name}\"}}");
        worker.until("the confirmations to be opened again", || {
            (worker.metric(&reappeared) >= confirmations).then_some(())
        });
        assert_eq!(worker.metric(&reappeared), confirmations);
        worker.caught_up();
        let view = worker.tombstone("T1", "docs", "D1");
        assert_eq!(view["gate"], "open", "a gate that has opened stays open: {view}");
        assert!(epoch(&view, name) > epoch(&self.before, name), "proved under a new epoch: {view}");
        let other = if name == "search" { "cache" } else { "search" };
        assert_eq!(epoch(&view, other), epoch(&self.before, other), "the other one stands");
        assert_eq!(ids(&self.site, name), ["T1/docs/D2", "T1/docs/D3", "T1/rows/R1"]);
        assert_eq!(worker.json("/v1/barriers/job")["state"], "RELEASED");
        let value = held::versions_in_snapshot(&self.site.destination_dir("cache"));
        assert_eq!(value["T1/rows/R1"], 3);
    }
}

/// S1, step 9: a destination restored from a copy that was made before the deletion.
#[test]
fn a_destination_restored_from_an_older_copy_removes_and_proves_again() {
    for name in BOTH {
        let story = Story::begin();
        restore_dir(&story.copies.path().join(name), &story.site.destination_dir(name));
        assert!(ids(&story.site, name).contains(&"T1/docs/D1".to_owned()), "the document is back");
        let worker = story.site.start();
        // D1 and R1; D0 was proved in this very copy.
        story.proved_again(&worker, name, 2.0);
        worker.stop_cleanly();
    }
}

#[test]
fn an_emptied_destination_is_filled_again_and_proves_everything_again() {
    for name in BOTH {
        let story = Story::begin();
        std::fs::remove_dir_all(story.site.destination_dir(name)).unwrap();
        let worker = story.site.start();
        story.proved_again(&worker, name, 3.0);
        worker.stop_cleanly();
    }
}

/// The ledger itself was set back, and a destination knows more than it does: the worker stops.
#[test]
fn a_ledger_that_was_set_back_stops_the_worker() {
    let story = Story::begin();
    let site = &story.site;
    restore_dir(&story.copies.path().join("ledger"), &site.ledger_dir());
    let confirmations = || {
        let dir = site.ledger_dir().display().to_string();
        let report = site.command(&["ledger", "verify", &dir, "--output", "json"]).ends(0).json();
        report["confirmations"].as_u64().unwrap()
    };
    let before = confirmations();
    let config = site.config().display().to_string();
    // However often it is started, and whichever destination is looked at first.
    for _ in 0..2 {
        let ended = site.command(&["run", "--config", &config]).ends(1);
        assert!(ended.err.contains("it was set back"), "{ended:?}");
        assert!(BOTH.iter().any(|name| ended.err.contains(&format!("{name:?}"))), "{ended:?}");
        assert_eq!(confirmations(), before, "nothing is confirmed: {ended:?}");
    }
    // The way out where there is no newer copy: docs/operating.md, "A damaged view".
    for name in BOTH {
        std::fs::remove_dir_all(site.destination_dir(name)).unwrap();
    }
    let worker = site.start();
    worker.gate_open("T1", "docs", "D0");
    worker.gate_open("T1", "docs", "D1");
    worker.caught_up();
    for name in BOTH {
        assert_eq!(ids(site, name), ["T1/docs/D2", "T1/docs/D3", "T1/rows/R1"]);
    }
    worker.stop_cleanly();
}

/// The same where one that knows more can be reached only later.
#[test]
fn a_destination_that_comes_back_and_knows_more_stops_the_worker() {
    let story = Story::begin();
    let site = &story.site;
    let (cache, newer) = (site.destination_dir("cache"), tempfile::tempdir().unwrap());
    copy_dir(&cache, newer.path());
    restore_dir(&story.copies.path().join("ledger"), &site.ledger_dir());
    restore_dir(&story.copies.path().join("search"), &site.destination_dir("search"));
    std::fs::remove_dir_all(&cache).unwrap();
    std::fs::write(&cache, "no folder").unwrap();
    let mut worker = site.start_unready();
    worker.until("the other one to confirm", || {
        let view = worker.json("/v1/tombstones/T1/docs/D1?event_id=del-T1-docs-D1-2");
        let at = view["destinations"].as_array()?.iter().find(|it| it["name"] == "search")?;
        (at["state"] == "CONFIRMED").then_some(())
    });
    worker.until("it to be told", || {
        (worker.destination("cache")["state"] == "FAILED").then_some(())
    });
    std::fs::remove_file(&cache).unwrap();
    copy_dir(newer.path(), &cache);
    let (status, said) = (worker.ended(), worker.said());
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("it was set back"), "{said}");
}

/// A copy that is only a little older: what was applied since is applied again.
#[test]
fn a_copy_that_lacks_upserts_only_gets_them_again() {
    let site = Site::with_both(TABLES, &["docs"]);
    let copies = tempfile::tempdir().unwrap();
    let worker = site.start();
    site.record(&upsert("T1", "docs", "D1", 1));
    worker.caught_up();
    worker.stop_cleanly();
    copy_dir(&site.destination_dir("search"), copies.path());
    let worker = site.start();
    site.record(&upsert("T1", "docs", "D1", 2));
    site.record(&upsert("T1", "docs", "D2", 1));
    worker.caught_up();
    worker.stop_cleanly();
    restore_dir(copies.path(), &site.destination_dir("search"));
    let worker = site.start();
    worker.caught_up();
    worker.until("the copy to be whole", || {
        let held = held::in_tantivy(&site.destination_dir("search"));
        (held.get("T1/docs/D1") == Some(&2) && held.get("T1/docs/D2") == Some(&1)).then_some(())
    });
    assert_eq!(worker.metric("cenotaph_reappeared_total{destination=\"search\"}"), 0.0);
    worker.stop_cleanly();
}

/// A memory destination without a snapshot is empty after each restart, and is filled again.
#[test]
fn a_destination_that_forgets_is_filled_after_each_start() {
    let site = Site::new(TABLES);
    site.destination("cache", "memory", &["docs"], "");
    site.record(&upsert("T1", "docs", "D1", 1));
    site.record(&upsert("T1", "docs", "D2", 1));
    site.record(&delete("T1", "docs", "D2", 2));
    let worker = site.start();
    worker.gate_open("T1", "docs", "D2");
    worker.caught_up();
    worker.stop_cleanly();
    let worker = site.start();
    worker.until("it to be filled", || {
        (worker.metric("cenotaph_sink_record_send_total{destination=\"cache\"}") >= 1.0)
            .then_some(())
    });
    worker.caught_up();
    assert_eq!(worker.metric("cenotaph_reappeared_total{destination=\"cache\"}"), 1.0);
    assert_eq!(worker.tombstone("T1", "docs", "D2")["gate"], "open");
    worker.stop_cleanly();
}
