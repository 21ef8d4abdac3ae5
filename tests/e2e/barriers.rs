//! Named barriers: made in the stream or by a job, and what they wait for.

use serde_json::{Value, json};

use crate::held;
use crate::lines::{With, barrier, delete, upsert};
use crate::site::Site;
use crate::worker::Worker;

const TABLES: &str = r#"
[collections.docs]
lifecycle = "terminal"
[collections.rows]
lifecycle = "versioned"
"#;

/// A site whose index cannot be opened until [`mend`].
fn broken_search() -> Site {
    let site = Site::with_both(TABLES, &["docs", "rows"]);
    let folder = site.destination_dir("search");
    std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
    std::fs::write(folder, "in the way").unwrap();
    site
}

fn mend(site: &Site) {
    std::fs::remove_file(site.destination_dir("search")).unwrap();
}

fn state(worker: &Worker, name: &str) -> Value {
    let answer = worker.get(&format!("/v1/barriers/{name}"));
    if answer.status == 200 { answer.json()["state"].clone() } else { json!("NONE") }
}

fn released(worker: &Worker, name: &str) {
    worker.until(&format!("barrier {name} to open"), || {
        (state(worker, name) == "RELEASED").then_some(())
    });
}

/// What a copy holds that was not opened since the start is not known: it may be an older one.
#[test]
fn a_barrier_waits_for_a_destination_that_was_not_opened_since_the_start() {
    let site = Site::with_both(TABLES, &["docs", "rows"]);
    site.record(&upsert("T1", "docs", "D1", 1));
    let worker = site.start();
    worker.caught_up();
    worker.stop_cleanly();
    let meta = site.destination_dir("search").join("meta.json");
    let whole = std::fs::read(&meta).unwrap();
    std::fs::write(&meta, "not what it was").unwrap();
    let worker = site.start_unready();
    worker.until("the cache to be opened", || {
        (worker.destination("cache")["state"] == "RUNNING").then_some(())
    });
    assert_eq!(worker.post("/v1/barriers", &json!({ "name": "early" })).status, 201);
    let view = worker.until("ingest to have come there", || {
        let view = worker.json("/v1/barriers/early");
        view["through"].is_u64().then_some(view)
    });
    assert_eq!(view["state"], "HELD", "{view}");
    assert_eq!(view["blockers"][0]["destination"], "search", "{view}");
    worker.stop();
    std::fs::write(&meta, whole).unwrap();
    released(&site.start(), "early");
}

#[test]
fn a_barrier_in_the_stream_opens_when_what_is_before_it_is_everywhere() {
    let site = broken_search();
    site.record(&upsert("T1", "docs", "D1", 1));
    site.record(&delete("T1", "docs", "D2", 2));
    site.record(&barrier("job-42"));
    site.record(&upsert("T1", "docs", "D3", 1));
    let worker = site.start_unready();
    let view = worker.until("only the index to be missing", || {
        let view = worker.get("/v1/barriers/job-42");
        let view = (view.status == 200).then(|| view.json())?;
        (view["blockers"].as_array()?.len() == 1).then_some(view)
    });
    assert_eq!(view["state"], "HELD");
    assert_eq!(view["through"], 1, "the deletion before it");
    assert_eq!(view["blockers"][0]["destination"], "search");
    assert_eq!(view["blockers"][0]["owner"], "search-team@example.org");
    let log = std::fs::read_to_string(site.log()).unwrap();
    let record_at: usize = log.lines().take(2).map(|line| line.len() + 1).sum();
    let after = view["cursors"]["0"]["offset"].as_u64().unwrap() as usize;
    assert!(after > record_at && after <= record_at + log.lines().nth(2).unwrap().len() + 1);
    let blocked = worker.cli(&["barrier", "wait", "job-42", "--timeout", "200ms"]).ends(4);
    assert!(format!("{}{}", blocked.out, blocked.err).contains("search"), "{blocked:?}");

    mend(&site);
    worker.cli(&["barrier", "wait", "job-42", "--timeout", "30s"]).ends(0);
    let held = held::in_tantivy(&site.destination_dir("search"));
    assert_eq!(held.get("T1/docs/D1"), Some(&1), "open means: it is there");
    let shown = worker.cli(&["barrier", "show", "job-42", "--output", "json"]).ends(0).json();
    assert_eq!(shown["state"], "RELEASED");
    assert!(shown["opened_at"].is_string() && shown["blockers"] == json!([]), "{shown}");
    worker.stop_cleanly();

    // Opened once is open for good.
    let worker = site.start();
    assert_eq!(state(&worker, "job-42"), "RELEASED");
    worker.stop_cleanly();
}

#[test]
fn a_barrier_waits_for_what_is_before_it_and_not_for_what_comes_after() {
    let site = Site::with_both(TABLES, &["docs", "rows"]);
    let worker = site.start();
    site.record(&upsert("T1", "rows", "R1", 1));
    site.record(&delete("T1", "rows", "R1", 2));
    let made = worker.post("/v1/barriers", &json!({ "name": "now" }));
    assert_eq!(made.status, 201, "{}", made.body);
    let end = std::fs::metadata(site.log()).unwrap().len();
    assert_eq!(made.json()["cursors"]["0"]["offset"], end, "the end of the log as it was then");
    released(&worker, "now");
    for name in ["search", "cache"] {
        assert_eq!(worker.destination(name)["pending_removals"], 0);
    }
    worker.stop_cleanly();
}

#[test]
fn a_barriers_scope_leaves_the_others_deletions_out() {
    let site = Site::with_both(TABLES, &["docs", "rows"]);
    site.tantivy("other", &["rows"]);
    let folder = site.destination_dir("other");
    std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
    std::fs::write(&folder, "in the way").unwrap();
    site.record(&delete("T1", "rows", "R1", 2));
    site.record(&delete("T1", "docs", "D1", 2));
    let scoped = |name: &str, scope: Value| barrier(name).with("scope", scope);
    site.record(&scoped("docs-only", json!({ "tenant": "T1", "collection": "docs" })));
    site.record(&scoped("rows-only", json!({ "tenant": "T1", "collection": "rows" })));
    site.record(&scoped("all-of-T1", json!({ "tenant": "T1" })));
    site.record(&scoped("all-of-T2", json!({ "tenant": "T2", "collection": "docs" })));
    let worker = site.start_unready();
    released(&worker, "docs-only");
    released(&worker, "all-of-T2");
    for held in ["rows-only", "all-of-T1"] {
        let view = worker.json(&format!("/v1/barriers/{held}"));
        assert_eq!(view["state"], "HELD", "{view}");
        let blockers = view["blockers"].as_array().unwrap();
        assert!(blockers.iter().any(|it| it["destination"] == "other"), "{view}");
    }
    std::fs::remove_file(&folder).unwrap();
    released(&worker, "rows-only");
    released(&worker, "all-of-T1");
    worker.stop_cleanly();
}

#[test]
fn a_name_stands_for_one_barrier() {
    let site = Site::with_both(TABLES, &["docs"]);
    let worker = site.start();
    site.record(&barrier("job"));
    released(&worker, "job");
    // The same record again is the same barrier; another record of that name waits for somebody.
    site.record(&barrier("job"));
    site.record(&barrier("job").with("event_id", "another"));
    worker.caught_up();
    assert_eq!(worker.counted("barriers"), 2);
    assert_eq!(worker.counted("conflicting"), 1);
    assert_eq!(worker.json("/v1/quarantine")["items"][0]["reason"], "barrier-name-taken");
    let taken = worker.post("/v1/barriers", &json!({ "name": "job" }));
    taken.is_error(409, "barrier.name_taken");
    let made = worker.cli(&["barrier", "create", "by-hand", "--output", "json"]).ends(0).json();
    assert_eq!(made["name"], "by-hand");
    worker.cli(&["barrier", "wait", "by-hand", "--timeout", "30s"]).ends(0);
    assert_eq!(worker.post("/v1/barriers", &json!({ "name": "by-hand" })).status, 200);
    let scoped = json!({ "name": "by-hand", "scope": { "tenant": "T1" } });
    worker.post("/v1/barriers", &scoped).is_error(409, "barrier.name_taken");
    let listed = worker.cli(&["barrier", "list", "--output", "json"]).ends(0).json();
    let names: Vec<_> = items(&listed).iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names, ["by-hand", "job"]);
    worker.get("/v1/barriers/never").is_error(404, "barrier.not_found");
    worker.stop_cleanly();
}

/// A list as the command line prints it: bare, or as a page.
fn items(listed: &Value) -> &Vec<Value> {
    listed.get("items").unwrap_or(listed).as_array().unwrap()
}

#[test]
fn a_barrier_that_is_waited_for_before_it_is_made_is_found_once_it_is() {
    let site = Site::with_both(TABLES, &["docs"]);
    let worker = site.start();
    let url = format!("http://{}", worker.address());
    let waiting = std::thread::spawn(move || {
        crate::worker::Cli::run(&["barrier", "wait", "later", "--timeout", "30s", "--server", &url])
    });
    worker.until("the waiter to have asked", || {
        (worker.get("/v1/barriers/later").status == 404).then_some(())
    });
    site.record(&barrier("later"));
    waiting.join().unwrap().ends(0);
    worker.stop_cleanly();
}

/// With nothing read yet there is nothing to wait for, and a barrier says so at once.
#[test]
fn a_barrier_over_an_empty_log_opens() {
    let site = Site::with_both(TABLES, &["docs"]);
    let worker = site.start();
    assert_eq!(worker.post("/v1/barriers", &json!({ "name": "empty" })).status, 201);
    released(&worker, "empty");
    worker.stop_cleanly();
}

/// B02: one batch holds an object's upsert and its deletion, or its deletion and its next existence.
#[test]
fn in_one_batch_the_versions_order_and_not_the_kind() {
    let site = Site::with_both(TABLES, &["docs", "rows"]);
    let records = [
        upsert("T1", "rows", "gone", 1),
        delete("T1", "rows", "gone", 2),
        upsert("T1", "rows", "back", 1),
        delete("T1", "rows", "back", 2),
        upsert("T1", "rows", "back", 3),
        delete("T1", "rows", "late", 2),
        upsert("T1", "rows", "late", 1),
        upsert("T1", "rows", "late", 3),
        barrier("end"),
    ];
    let text: String = records.iter().map(|record| format!("{record}\n")).collect();
    site.append(text);
    let worker = site.start();
    released(&worker, "end");
    let expected: held::Versions =
        [("T1/rows/back".to_owned(), 3), ("T1/rows/late".to_owned(), 3)].into();
    assert_eq!(held::in_tantivy(&site.destination_dir("search")), expected);
    assert_eq!(held::versions_in_snapshot(&site.destination_dir("cache")), expected);
    // A deletion that was overtaken in its own batch is proved all the same.
    for object in ["gone", "back", "late"] {
        let event = format!("del-T1-rows-{object}-2");
        let view = worker.json(&format!("/v1/tombstones/T1/rows/{object}?event_id={event}"));
        assert_eq!((&view["gate"], &view["covers"]), (&json!("open"), &json!(2)), "{view}");
        for destination in view["destinations"].as_array().unwrap() {
            assert_eq!(destination["state"], "CONFIRMED", "{view}");
        }
    }
    worker.stop_cleanly();
}
