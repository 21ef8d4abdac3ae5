//! S1 of the seeds: the document came back after the queue recovered. Steps 1 to 8, 10 and 12.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::held::{self, Versions};
use crate::lines::{With, delete, upsert, word};
use crate::site::Site;
use crate::worker::Worker;

const TABLES: &str = r#"
[collections.docs]
lifecycle = "terminal"
[collections.notes]
lifecycle = "terminal"

[[authority]]
sources = ["crm"]
ops = ["upsert", "delete", "create"]
[[authority]]
sources = ["intruder"]
"#;

/// What nobody may touch, whatever happens to T1/docs/D7: another tenant's, and another
/// collection's object of the same name.
const UNTOUCHED: [(&str, u64); 2] = [("T1/notes/D7", 3), ("T2/docs/D7", 7)];

fn versions(of: &[(&str, u64)]) -> Versions {
    of.iter().map(|(id, version)| ((*id).to_owned(), *version)).collect()
}

/// Both destinations hold exactly these, each looked at from outside.
fn both_hold(site: &Site, expected: &[(&str, u64)]) {
    let expected = versions(expected);
    assert_eq!(held::in_tantivy(&site.destination_dir("search")), expected, "in the index");
    assert_eq!(
        held::versions_in_snapshot(&site.destination_dir("cache")),
        expected,
        "in the cache"
    );
}

/// Nothing but the bystanders is there.
fn only_bystanders(site: &Site) {
    both_hold(site, &UNTOUCHED);
}

fn found(site: &Site, object: &str, version: u64) -> Vec<String> {
    held::search(&site.destination_dir("search"), &word(object, version))
}

fn send(site: &Site, worker: &Worker, record: &Value) {
    site.record(record);
    worker.caught_up();
}

fn d7(version: u64) -> Value {
    upsert("T1", "docs", "D7", version)
}

fn d7_deletion() -> Value {
    delete("T1", "docs", "D7", 8).with("event_id", "evt-48")
}

#[test]
fn the_document_that_was_deleted_does_not_come_back() {
    let site = Site::with_both(TABLES, &["docs", "notes"]);
    let worker = site.start();

    // 1: accepted, and readable in every destination.
    for record in [d7(7), upsert("T2", "docs", "D7", 7), upsert("T1", "notes", "D7", 3)] {
        site.record(&record);
    }
    worker.caught_up();
    both_hold(&site, &[("T1/docs/D7", 7), ("T1/notes/D7", 3), ("T2/docs/D7", 7)]);
    assert_eq!(found(&site, "D7", 7), ["T1/docs/D7", "T2/docs/D7"]);
    assert_eq!(worker.counted("accepted"), 3);
    let view = worker.tombstone("T1", "docs", "D7");
    assert_eq!(
        (&view["state"], &view["version"], &view["gate"]),
        (&json!("live"), &json!(7), &json!("none"))
    );

    deleted(&site, &worker);
    redelivered(&site, &worker);
    deleted_again(&site, &worker);

    // 5: the guard outlives the process.
    worker.stop_cleanly();
    let worker = site.start();
    send(&site, &worker, &d7(7));
    assert_eq!(worker.metric("cenotaph_sink_record_read_total"), 1.0);
    assert_eq!(worker.metric("cenotaph_records_total{verdict=\"refused\"}"), 1.0);
    assert_eq!(worker.metric("cenotaph_resurrections_refused_total"), 1.0);
    only_bystanders(&site);
    assert_eq!(worker.tombstone("T1", "docs", "D7")["gate"], "open");

    second_generation(&site, &worker);
    naive_control(&site);
    worker.stop_cleanly();
}

/// 2: removed, proved in each destination, and the marker holds no content.
fn deleted(site: &Site, worker: &Worker) {
    site.record(&d7_deletion());
    let waited =
        worker.cli(&["tombstone", "wait", "T1/docs/D7", "--event", "evt-48", "--timeout", "30s"]);
    waited.ends(0);
    let view = worker.tombstone("T1", "docs", "D7");
    assert_eq!(view["state"], "removed");
    assert_eq!(view["version"], 8);
    assert_eq!(view["covers"], "everything");
    assert_eq!(view["tombstone"], 1);
    assert_eq!(view["gate"], "open");
    assert_eq!(view["blocked"], false);
    assert_eq!(view["blockers"], json!([]));
    assert_eq!(view["unproven"], json!([]));
    let destinations = view["destinations"].as_array().unwrap();
    let names: Vec<_> = destinations.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["cache", "search"]);
    for destination in destinations {
        assert_eq!(destination["state"], "CONFIRMED", "{destination}");
        assert_eq!(destination["evidence"]["level"], "absent", "{destination}");
        assert!(destination["evidence"]["control"]["epoch"].as_u64() >= Some(1), "{destination}");
        assert!(!destination["evidence"]["copies"].as_array().unwrap().is_empty(), "{destination}");
        let owner = format!("{}-team@example.org", destination["name"].as_str().unwrap());
        assert_eq!(destination["owner"], owner);
    }
    // The marker tells who and when, and never what.
    let marker = view.to_string();
    assert!(!marker.contains(&word("D7", 7)) && !marker.contains("as of 7"), "{marker}");
    only_bystanders(site);
    assert_eq!(found(site, "D7", 7), ["T2/docs/D7"]);
    let state = worker.json("/v1/objects/T1/docs/D7/state");
    assert_eq!(state, json!({ "version": 8, "active": false, "status": "removed" }));
}

/// 3: the queue recovers and delivers what is older; somebody tries what is newer.
fn redelivered(site: &Site, worker: &Worker) {
    send(site, worker, &d7(7));
    assert_eq!(worker.counted("refused"), 1);
    assert_eq!(worker.metric("cenotaph_resurrections_refused_total"), 1.0);
    // The same content from a producer that gave it a new event id, and a higher version: under
    // `terminal`, no upsert after the deletion can be valid.
    send(site, worker, &d7(7).with("event_id", "retry-of-a-retry"));
    send(site, worker, &d7(9));
    assert_eq!(worker.counted("refused"), 3);
    assert_eq!(worker.metric("cenotaph_resurrections_refused_total"), 3.0);
    only_bystanders(site);
    assert_eq!(found(site, "D7", 9), [] as [&str; 0]);
    assert_eq!(worker.tombstone("T1", "docs", "D7")["version"], 8);
}

/// 4: the same deletion again is a repeat; another one of the same version is a conflict.
fn deleted_again(site: &Site, worker: &Worker) {
    let before = worker.tombstone("T1", "docs", "D7");
    send(site, worker, &d7_deletion());
    assert_eq!(worker.counted("repeated"), 1);
    assert_eq!(stable(worker.tombstone("T1", "docs", "D7")), stable(before.clone()));
    send(site, worker, &d7_deletion().with("event_id", "evt-48b"));
    assert_eq!(worker.counted("conflicting"), 1);
    assert_eq!(stable(worker.tombstone("T1", "docs", "D7")), stable(before));
    let quarantined = worker.json("/v1/quarantine")["items"].clone();
    assert_eq!(quarantined.as_array().unwrap().len(), 1, "{quarantined}");
    assert_eq!(quarantined[0]["reason"], "version-means-other");
    let conflict = worker.json("/v1/tombstones/T1/docs/D7?event_id=evt-48b");
    assert_eq!(conflict["blocked"], true, "nothing was removed on its account: {conflict}");
    only_bystanders(site);
}

/// What of a view must not change by itself.
fn stable(mut view: Value) -> Value {
    view.as_object_mut().unwrap().remove("blockers");
    view
}

/// 6: another existence of the name has to be opened by who may.
fn second_generation(site: &Site, worker: &Worker) {
    let second = upsert("T1", "docs", "D7", 1).with("generation", 2);
    send(site, worker, &second.clone().with("event_id", "plain"));
    let create = second.with("op", "create");
    send(site, worker, &create.clone().with("source", "intruder").with("event_id", "forged"));
    assert_eq!(worker.counted("refused"), 3, "with the v7 of step 5");
    assert_eq!(worker.metric("cenotaph_resurrections_refused_total"), 1.0);
    only_bystanders(site);
    send(site, worker, &create.with("event_id", "opened"));
    assert_eq!(worker.counted("accepted"), 1);
    let with_second = [("T1/docs/D7~2", 1), ("T1/notes/D7", 3), ("T2/docs/D7", 7)];
    both_hold(site, &with_second);
    let opened = worker.json("/v1/tombstones/T1/docs/D7?generation=2");
    assert_eq!((&opened["state"], &opened["version"]), (&json!("live"), &json!(1)));
    // The first generation's late changes do nothing to the second, and cannot be seen in it.
    send(site, worker, &d7(7));
    send(site, worker, &d7(12));
    send(site, worker, &d7_deletion());
    assert_eq!(worker.counted("refused"), 5);
    assert_eq!(worker.counted("repeated"), 1);
    both_hold(site, &with_second);
    let first = worker.tombstone("T1", "docs", "D7");
    assert_eq!((&first["state"], &first["version"]), (&json!("removed"), &json!(8)));
    let payload = held::in_snapshot(&site.destination_dir("cache"))["T1/docs/D7~2"].payload.clone();
    assert_eq!(payload["words"], word("D7", 1));
}

/// 8: a copy that drops the whole entry on a deletion and takes the next upsert, fed with the very
/// same log: the document is back.
fn naive_control(site: &Site) {
    let log = std::fs::read_to_string(site.log()).unwrap();
    let mut naive: BTreeMap<String, u64> = BTreeMap::new();
    let first_redelivery = log.lines().take(5);
    for record in first_redelivery.map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let part = |name: &str| record[name].as_str().unwrap().to_owned();
        let key = format!("{}/{}/{}", part("tenant"), part("collection"), part("object"));
        match record["op"].as_str().unwrap() {
            "delete" => drop(naive.remove(&key)),
            _ => drop(naive.insert(key, record["version"].as_u64().unwrap())),
        }
    }
    assert_eq!(naive.get("T1/docs/D7"), Some(&7), "the control shows what goes wrong");
    let ours = held::in_tantivy(&site.destination_dir("search"));
    assert!(!ours.contains_key("T1/docs/D7"), "and here it does not: {ours:?}");
}

/// 10: one destination cannot be reached.
#[test]
fn a_destination_that_cannot_be_reached_keeps_the_gate_closed_and_only_that() {
    let site = Site::with_both(TABLES, &["docs"]);
    // A file where the index's folder belongs: nothing can be opened there.
    let folder = site.destination_dir("search");
    std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
    std::fs::write(&folder, "in the way").unwrap();
    site.record(&d7(7));
    site.record(&d7_deletion());
    let worker = site.start_unready();
    let view = worker.until("the cache to confirm", || {
        let view = worker.get("/v1/tombstones/T1/docs/D7?event_id=evt-48").json();
        let cache = view["destinations"].as_array()?.iter().find(|it| it["name"] == "cache")?;
        (cache["state"] == "CONFIRMED").then_some(view.clone())
    });
    assert_eq!(view["gate"], "closed");
    assert_eq!(view["blocked"], true);
    let blockers = view["blockers"].as_array().unwrap();
    assert_eq!(blockers.len(), 1, "{view}");
    assert_eq!(blockers[0]["destination"], "search");
    assert_eq!(blockers[0]["owner"], "search-team@example.org");
    assert!(blockers[0]["since"].is_string(), "{view}");
    let failed = worker.until("the failure to be told", || {
        let failed = worker.destination("search");
        (failed["state"] == "FAILED").then_some(failed)
    });
    assert_eq!(failed["pending_removals"], 1);
    assert_eq!(failed["last_error"]["owner"], "operator");
    let age = |view: &Value| view["blockers"][0]["age_seconds"].as_f64().unwrap();
    worker.until("the blocker to grow older, and to tell why", || {
        let later = worker.get("/v1/tombstones/T1/docs/D7?event_id=evt-48").json();
        let told = later["blockers"][0]["last_error"].is_string();
        (told && age(&later) > age(&view)).then_some(())
    });
    assert_eq!(worker.get("/readyz").status, 503);
    assert_eq!(worker.get("/healthz").status, 200);
    let listed = worker.json("/v1/tombstones?state=pending&owner=search-team@example.org");
    assert_eq!(listed["items"][0]["object"], "D7");
    let others = worker.json("/v1/tombstones?state=pending&destination=cache");
    assert_eq!(others["items"], json!([]), "the other one owes nothing");

    // Whoever waits learns that it is still blocked, and by whom.
    let args = ["tombstone", "wait", "T1/docs/D7", "--event", "evt-48", "--timeout", "300ms"];
    let blocked = worker.cli(&args).ends(4);
    let told = format!("{}{}", blocked.out, blocked.err);
    assert!(told.contains("search"), "{told}");
    let blocked = worker.cli(&[&args[..], &["--output", "json"]].concat()).ends(4);
    assert_eq!(blocked.json()["gate"], "closed");

    // Mended: no restart is needed.
    std::fs::remove_file(&folder).unwrap();
    let wait = ["tombstone", "wait", "T1/docs/D7", "--event", "evt-48", "--timeout", "30s"];
    worker.cli(&wait).ends(0);
    let view = worker.tombstone("T1", "docs", "D7");
    assert_eq!((&view["gate"], &view["blockers"]), (&json!("open"), &json!([])));
    worker.until("it to be ready", || (worker.get("/readyz").status == 200).then_some(()));
    assert_eq!(held::in_tantivy(&folder), Versions::new());
    worker.stop_cleanly();
}

/// 12: a field that is null, a field that is absent, a deletion; and no version.
#[test]
fn null_absent_and_deleted_are_three_things_and_a_version_is_never_made_up() {
    let tables = format!("{TABLES}\n[collections.rows]\nlifecycle = \"versioned\"\n");
    let site = Site::with_both(&tables, &["docs", "rows"]);
    let worker = site.start();
    let cache = |id: &str| held::in_snapshot(&site.destination_dir("cache")).get(id).cloned();

    send(&site, &worker, &d7(7).with("payload", json!({ "title": "priced", "cents": 5 })));
    send(&site, &worker, &d7(8).with("payload", json!({ "title": "priced", "cents": null })));
    assert_eq!(cache("T1/docs/D7").unwrap().payload, json!({ "title": "priced", "cents": null }));
    send(&site, &worker, &d7(9).with("payload", json!({ "title": "priced" })));
    assert_eq!(cache("T1/docs/D7").unwrap().payload, json!({ "title": "priced" }));
    assert_eq!(worker.counted("accepted"), 3);

    // No payload, and a payload that is null: neither is an upsert, and neither is a deletion.
    send(&site, &worker, &d7(10).with("payload", Value::Null));
    send(&site, &worker, &d7(11).without("payload"));
    assert_eq!(worker.counted("undecodable"), 2);
    both_hold(&site, &[("T1/docs/D7", 9)]);
    // A null in place of a record is a log that tidies itself.
    send(&site, &worker, &Value::Null);
    assert_eq!(worker.counted("ignored"), 1);
    both_hold(&site, &[("T1/docs/D7", 9)]);

    // Without a version nothing is decided that needs one: the times in the record are no version.
    send(&site, &worker, &d7(12).without("version"));
    assert_eq!(worker.counted("conflicting"), 1);
    both_hold(&site, &[("T1/docs/D7", 9)]);
    for null_or_zero in
        [Value::Null, json!(0), json!("13"), json!(1.5), json!(9_007_199_254_740_992_u64)]
    {
        send(&site, &worker, &d7(13).with("version", null_or_zero));
    }
    assert_eq!(worker.counted("undecodable"), 7);
    both_hold(&site, &[("T1/docs/D7", 9)]);
    assert_eq!(worker.tombstone("T1", "docs", "D7")["version"], 9);

    // A versioned object is not removed by a deletion that does not say what it removes.
    send(&site, &worker, &upsert("T1", "rows", "R1", 4));
    send(&site, &worker, &delete("T1", "rows", "R1", 5).without("version"));
    assert_eq!(worker.counted("conflicting"), 2);
    both_hold(&site, &[("T1/docs/D7", 9), ("T1/rows/R1", 4)]);
    // A terminal one is: whatever there is of it ends.
    let deletion = delete("T1", "docs", "D7", 10).without("version").with("event_id", "bare");
    send(&site, &worker, &deletion);
    worker.cli(&["tombstone", "wait", "T1/docs/D7", "--event", "bare", "--timeout", "30s"]).ends(0);
    both_hold(&site, &[("T1/rows/R1", 4)]);
    assert_eq!(worker.tombstone("T1", "docs", "D7")["version"], 9, "none was made up");
    worker.stop_cleanly();
}

/// A deletion may come before the only upsert that it is about.
#[test]
fn a_deletion_of_what_was_never_seen_guards_it() {
    let site = Site::with_both(TABLES, &["docs"]);
    let worker = site.start();
    site.record(&delete("T1", "docs", "early", 5));
    worker.gate_open("T1", "docs", "early");
    send(&site, &worker, &upsert("T1", "docs", "early", 4));
    assert_eq!(worker.metric("cenotaph_resurrections_refused_total"), 1.0);
    both_hold(&site, &[]);
    worker.stop_cleanly();
}

/// Exit codes of who waits: 3 if nobody could be asked.
#[test]
fn waiting_for_a_worker_that_is_not_there_ends_with_3() {
    let site = Site::with_both(TABLES, &["docs"]);
    let worker = site.start();
    site.record(&d7_deletion());
    worker.gate_open("T1", "docs", "D7");
    let shown = worker.cli(&["tombstone", "show", "T1/docs/D7"]).ends(0);
    for word in ["D7", "removed", "search", "cache"] {
        assert!(shown.out.contains(word), "{word}: {}", shown.out);
    }
    let shown = worker.cli(&["tombstone", "show", "T1/docs/D7", "--output", "json"]).ends(0).json();
    assert_eq!(shown, worker.tombstone("T1", "docs", "D7"));
    let unknown = worker.cli(&["tombstone", "show", "T1/docs/never"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    let url = format!("http://{}", worker.address());
    worker.stop_cleanly();
    for args in [
        &["tombstone", "wait", "T1/docs/D7", "--event", "evt-48", "--timeout", "200ms"][..],
        &["barrier", "wait", "job", "--timeout", "200ms"],
        &["tombstone", "show", "T1/docs/D7"],
        &["status"],
    ] {
        site.command(&[args, &["--server", &url]].concat()).ends(3);
    }
}
