//! How a worker ends, and who may not begin.

use std::fs;

use serde_json::json;

use crate::held;
use crate::lines::{barrier, delete, upsert};
use crate::site::{Site, copy_dir};
use crate::stream::{Faults, TABLES as STREAM_TABLES, stream, text};
use crate::worker::Worker;

const TABLES: &str = "[collections.docs]\n";

#[test]
fn told_to_stop_it_finishes_what_it_is_at() {
    let site = Site::new(STREAM_TABLES);
    site.tantivy("search", &["docs", "kept", "rows"]);
    site.memory("cache", &["docs", "kept", "rows"]);
    let lines = stream(7, 3_000, 200, Faults::default());
    site.append(text(&lines));
    let worker = site.start_unready();
    worker.until("it to be at work", || {
        let cursor = &worker.json("/v1/status")["partitions"][0]["cursor"]["offset"];
        (cursor.as_u64() > Some(0)).then_some(())
    });
    worker.stop_cleanly();
    let worker = site.start();
    worker.caught_up();
    let model = crate::model::Model::of(&lines);
    let expected: held::Versions =
        model.live().into_iter().map(|(id, live)| (id, live.version)).collect();
    assert_eq!(held::in_tantivy(&site.destination_dir("search")), expected);
    assert_eq!(held::versions_in_snapshot(&site.destination_dir("cache")), expected);
    worker.stop_cleanly();
}

/// What was applied is committed by the drain, without waiting for a batch to be full.
#[test]
fn what_was_applied_is_committed_before_the_end() {
    let site = Site::new(TABLES);
    let slow = "[batch]\nmax_wait = \"1m\"\n[settings]\nsnapshot = true\n";
    let text = format!(
        "connector = \"memory\"\ncollections = [\"docs\"]\nowner = \"cache-team@example.org\"\n{slow}"
    );
    fs::write(site.path().join("destinations/cache.toml"), text).unwrap();
    let worker = site.start();
    site.record(&upsert("T1", "docs", "D1", 1));
    worker.until("it to be sent", || {
        (worker.metric("cenotaph_sink_record_send_total{destination=\"cache\"}") == 1.0)
            .then_some(())
    });
    assert!(held::in_snapshot(&site.destination_dir("cache")).is_empty(), "not committed yet");
    worker.stop_cleanly();
    assert_eq!(held::in_snapshot(&site.destination_dir("cache")).len(), 1);
}

#[test]
fn it_stops_while_a_destination_cannot_be_reached_and_owes_it_afterwards() {
    let site = Site::with_both(TABLES, &["docs"]);
    let folder = site.destination_dir("search");
    fs::create_dir_all(folder.parent().unwrap()).unwrap();
    fs::write(&folder, "in the way").unwrap();
    site.record(&delete("T1", "docs", "D1", 2));
    site.record(&barrier("all"));
    let still_owed = |worker: &Worker| {
        worker.until("the failure to be told", || {
            (worker.destination("search")["state"] == "FAILED").then_some(())
        });
        worker.until("the cache to confirm", || {
            (worker.destination("cache")["pending_removals"] == 0).then_some(())
        });
        let view = worker.json("/v1/tombstones/T1/docs/D1?event_id=del-T1-docs-D1-2");
        assert_eq!(view["gate"], "closed");
        assert_eq!(view["blockers"][0]["destination"], "search");
        assert_eq!(worker.json("/v1/barriers/all")["state"], "HELD");
        assert_eq!(worker.destination("search")["pending_removals"], 1);
    };
    let worker = site.start_unready();
    worker.ingested();
    still_owed(&worker);
    worker.stop_cleanly();
    // B29: it is still there after a restart, and after a kill, with all that is needed to do it.
    let worker = site.start_unready();
    still_owed(&worker);
    worker.kill();
    let worker = site.start_unready();
    still_owed(&worker);
    fs::remove_file(&folder).unwrap();
    worker.gate_open("T1", "docs", "D1");
    worker.cli(&["barrier", "wait", "all", "--timeout", "30s"]).ends(0);
    worker.stop_cleanly();
}

#[test]
fn a_waiter_is_answered_when_the_worker_stops() {
    let site = Site::with_both(TABLES, &["docs"]);
    let worker = site.start();
    let url = format!("http://{}", worker.address());
    let waiting = std::thread::spawn(move || {
        let args = [
            "tombstone",
            "wait",
            "T1/docs/D7",
            "--event",
            "e",
            "--timeout",
            "1s",
            "--server",
            &url,
        ];
        crate::worker::Cli::run(&args)
    });
    worker.stop_cleanly();
    let code = waiting.join().unwrap().code;
    // Blocked if it was ever answered, else not reached; never done.
    assert!(code == Some(4) || code == Some(3), "{code:?}");
}

#[test]
fn one_ledger_has_one_worker() {
    let site = Site::with_both(TABLES, &["docs"]);
    let worker = site.start();
    let second = site.command(&["run", "--config", site.config().to_str().unwrap()]);
    assert!(matches!(second.code, Some(1 | 3)), "{second:?}");
    assert!(second.err.contains("another worker holds the ledger"), "{second:?}");
    assert!(second.err.contains(site.ledger_dir().to_str().unwrap()), "{second:?}");
    // The first one has not noticed anything.
    site.record(&delete("T1", "docs", "D1", 2));
    worker.gate_open("T1", "docs", "D1");
    worker.stop_cleanly();
    site.start().stop_cleanly();
}

#[test]
fn another_ledgers_copy_is_refused_and_left_alone() {
    let theirs = Site::with_both(TABLES, &["docs"]);
    theirs.record(&upsert("T1", "docs", "D1", 1));
    let worker = theirs.start();
    worker.caught_up();
    worker.stop_cleanly();

    let ours = Site::with_both(TABLES, &["docs"]);
    for name in ["search", "cache"] {
        copy_dir(&theirs.destination_dir(name), &ours.destination_dir(name));
    }
    ours.record(&delete("T1", "docs", "D1", 2));
    let worker = ours.start_unready();
    worker.ingested();
    for name in ["search", "cache"] {
        let failed = worker.until("it to be refused", || {
            let view = worker.destination(name);
            (view["state"] == "FAILED").then_some(view)
        });
        let message = failed["last_error"]["message"].as_str().unwrap();
        assert!(message.contains("ledger"), "{message}");
        assert_eq!(failed["pending_removals"], 1);
    }
    let view = worker.json("/v1/tombstones/T1/docs/D1?event_id=del-T1-docs-D1-2");
    assert_eq!(view["gate"], "closed");
    assert_eq!(view["blockers"].as_array().unwrap().len(), 2, "{view}");
    assert!(view["blockers"][0]["last_error"].is_string(), "{view}");
    worker.stop_cleanly();
    let expected: held::Versions = [("T1/docs/D1".to_owned(), 1)].into();
    assert_eq!(held::in_tantivy(&ours.destination_dir("search")), expected);
    assert_eq!(held::versions_in_snapshot(&ours.destination_dir("cache")), expected);
}

/// The same ledger, but two of its destinations were mixed up.
#[test]
fn a_copy_of_another_destination_is_refused() {
    let site = Site::new(TABLES);
    site.tantivy("one", &["docs"]);
    site.tantivy("two", &["docs"]);
    site.record(&upsert("T1", "docs", "D1", 1));
    let worker = site.start();
    worker.caught_up();
    worker.stop_cleanly();
    crate::site::restore_dir(&site.destination_dir("one"), &site.destination_dir("two"));
    let worker = site.start_unready();
    let failed = worker.until("it to be refused", || {
        let view = worker.destination("two");
        (view["state"] == "FAILED").then_some(view)
    });
    let message = failed["last_error"]["message"].as_str().unwrap();
    assert!(message.contains("one"), "{message}");
    worker.until("the other one to run", || {
        (worker.destination("one")["state"] == "RUNNING").then_some(())
    });
    worker.stop_cleanly();
}

/// A destination whose file is gone is still owed what it owed.
#[test]
fn a_destination_without_its_file_is_unassigned_and_keeps_its_gates_closed() {
    let site = Site::with_both(TABLES, &["docs"]);
    let worker = site.start();
    worker.stop_cleanly();
    let file = site.path().join("destinations/search.toml");
    let kept = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    site.record(&delete("T1", "docs", "D1", 2));
    let worker = site.start_unready();
    worker.ingested();
    worker.until("the cache to confirm", || {
        (worker.destination("cache")["pending_removals"] == 0).then_some(())
    });
    let view = worker.json("/v1/tombstones/T1/docs/D1?event_id=del-T1-docs-D1-2");
    assert_eq!(view["gate"], "closed");
    assert_eq!(view["blockers"][0]["destination"], "search");
    assert!(view["blockers"][0]["reason"].as_str().unwrap().contains("unassigned"), "{view}");
    assert_eq!(worker.destination("search")["state"], "UNASSIGNED");
    assert_eq!(worker.get("/readyz").status, 503, "loudly");
    worker.stop_cleanly();
    fs::write(&file, kept).unwrap();
    let worker = site.start();
    worker.gate_open("T1", "docs", "D1");
    worker.stop_cleanly();
}

/// A destination whose file leaves out what it is attached to: nobody works for it.
#[test]
fn a_destination_whose_file_leaves_out_a_collection_is_unassigned() {
    let site = Site::new(&format!("{TABLES}[collections.rows]\n[collections.more]\n"));
    site.memory("cache", &["docs", "rows"]);
    site.record(&upsert("T1", "docs", "D1", 1));
    site.record(&upsert("T1", "rows", "R1", 1));
    let worker = site.start();
    worker.caught_up();
    let cursors = worker.destination("cache")["cursors"].clone();
    worker.stop_cleanly();

    site.memory("cache", &["docs", "more"]);
    for record in [upsert("T1", "rows", "R2", 1), delete("T1", "rows", "R1", 2), barrier("job")] {
        site.record(&record);
    }
    let worker = site.start_unready();
    worker.ingested();
    let view = worker.destination("cache");
    assert_eq!(view["state"], "UNASSIGNED");
    assert_eq!(view["collections"], json!(["docs", "rows"]), "attached to nothing more");
    let error = view["last_error"]["message"].as_str().unwrap();
    assert!(error.contains("does not name rows") && error.contains("cache.toml"), "{error}");
    for path in ["/v1/tombstones/T1/rows/R1?event_id=del-T1-rows-R1-2", "/v1/barriers/job"] {
        let blocker = worker.json(path)["blockers"][0].clone();
        assert!(blocker["reason"].as_str().unwrap().contains("unassigned"), "{blocker}");
        assert!(blocker["last_error"].as_str().unwrap().contains("name every"), "{blocker}");
        assert_eq!(blocker["owner"], "cache-team@example.org");
    }
    assert_eq!(worker.get("/readyz").status, 503, "loudly");
    let summary = worker.json("/v1/status")["summary"].as_str().unwrap().to_owned();
    assert!(summary.contains("cache is UNASSIGNED"), "{summary}");
    assert_eq!(worker.metric("cenotaph_deletions_pending{destination=\"cache\"}"), 1.0);
    assert_eq!(worker.destination("cache")["cursors"], cursors, "it passes nothing");
    worker.stop_cleanly();
    let held = held::versions_in_snapshot(&site.destination_dir("cache"));
    assert_eq!(held.keys().collect::<Vec<_>>(), ["T1/docs/D1", "T1/rows/R1"]);

    site.memory("cache", &["docs", "rows"]);
    let worker = site.start();
    worker.gate_open("T1", "rows", "R1");
    worker.caught_up();
    worker.stop_cleanly();
    let held = held::versions_in_snapshot(&site.destination_dir("cache"));
    assert_eq!(held.keys().collect::<Vec<_>>(), ["T1/docs/D1", "T1/rows/R2"]);
}

/// One that takes another collection from now on gets what came before, and keeps what it has.
#[test]
fn a_collection_attached_later_is_filled_from_the_beginning_of_the_log() {
    let site = Site::new(&format!("{TABLES}[collections.rows]\n"));
    site.memory("cache", &["docs"]);
    let before = [
        upsert("T1", "docs", "D1", 1),
        upsert("T1", "rows", "R1", 1),
        upsert("T1", "rows", "R2", 1),
        delete("T1", "rows", "R2", 2),
        upsert("T1", "docs", "D1", 2),
    ];
    before.iter().for_each(|record| site.record(record));
    let worker = site.start();
    worker.caught_up();
    worker.stop_cleanly();
    site.memory("cache", &["docs", "rows"]);
    let worker = site.start();
    worker.caught_up();
    worker.stop_cleanly();
    let held = held::versions_in_snapshot(&site.destination_dir("cache"));
    let held: Vec<_> = held.iter().map(|(id, version)| (id.as_str(), *version)).collect();
    assert_eq!(held, [("T1/docs/D1", 2), ("T1/rows/R1", 1)]);
}

/// A destination that is attached later gets what was there, and is owed what was deleted.
#[test]
fn one_attached_later_is_filled_and_proves_the_earlier_deletions() {
    let site = Site::new(TABLES);
    site.memory("cache", &["docs"]);
    site.record(&upsert("T1", "docs", "D1", 1));
    site.record(&upsert("T1", "docs", "D2", 1));
    site.record(&delete("T1", "docs", "D1", 2));
    let worker = site.start();
    worker.gate_open("T1", "docs", "D1");
    worker.caught_up();
    worker.stop_cleanly();
    site.tantivy("search", &["docs"]);
    let worker = site.start();
    worker.caught_up();
    let held = held::in_tantivy(&site.destination_dir("search"));
    assert_eq!(held.keys().collect::<Vec<_>>(), ["T1/docs/D2"]);
    let view = worker.tombstone("T1", "docs", "D1");
    assert_eq!(view["gate"], "open", "what has opened stays open");
    let states: Vec<_> =
        view["destinations"].as_array().unwrap().iter().map(|it| &it["state"]).collect();
    assert_eq!(states, [&json!("CONFIRMED"), &json!("CONFIRMED")]);
    worker.stop_cleanly();
}
