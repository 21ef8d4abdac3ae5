//! A log that is no longer the one that was read, and records that are none.

use std::fs::{self, OpenOptions};

use serde_json::{Value, json};

use crate::held;
use crate::lines::{With, barrier, delete, upsert};
use crate::site::Site;
use crate::stream::CONTENT;
use crate::worker::Worker;

const TABLES: &str = r#"
[collections.docs]
lifecycle = "terminal"
"#;

fn partition(worker: &Worker) -> Value {
    worker.json("/v1/status")["partitions"][0].clone()
}

/// Waits until the partition has failed, with this word in its error.
fn failed(worker: &Worker, word: &str) -> String {
    worker.until(&format!("the partition to be {word}"), || {
        let partition = partition(worker);
        let error = partition["error"].as_str().filter(|error| error.contains(word))?;
        assert_eq!(partition["state"], "FAILED");
        Some(error.to_owned())
    })
}

fn goes_on(worker: &Worker) {
    worker.until("the partition to go on", || {
        let partition = partition(worker);
        (partition["state"] == "RUNNING" && partition["error"].is_null()).then_some(())
    });
}

/// A worker whose index cannot be opened yet, so that something is left to be removed there.
struct Story {
    site: Site,
    worker: Worker,
}

impl Story {
    fn begin() -> Story {
        let site = Site::with_both(TABLES, &["docs"]);
        let folder = site.destination_dir("search");
        fs::create_dir_all(folder.parent().unwrap()).unwrap();
        fs::write(folder, "in the way").unwrap();
        site.record(&upsert("T1", "docs", "D1", 1));
        site.record(&upsert("T1", "docs", "D2", 1));
        site.record(&delete("T1", "docs", "D1", 2));
        let worker = site.start_unready();
        worker.ingested();
        Story { site, worker }
    }

    /// The fault of the log keeps no destination from removing, and nobody from asking.
    fn removals_go_on(&self) {
        fs::remove_file(self.site.destination_dir("search")).unwrap();
        let view = self.worker.until("the gate to open", || {
            let view = self.worker.json("/v1/tombstones/T1/docs/D1?event_id=del-T1-docs-D1-2");
            (view["gate"] == "open").then_some(view)
        });
        assert_eq!(view["blocked"], false, "{view}");
        let plain = self.worker.tombstone("T1", "docs", "D1");
        assert_eq!(plain["gate"], "open", "asked without an event, too");
        assert_eq!(self.worker.get("/healthz").status, 200);
        assert_eq!(self.worker.get("/readyz").status, 503);
        let summary = self.worker.json("/v1/status")["summary"].as_str().unwrap().to_owned();
        assert!(summary.starts_with("action needed"), "{summary}");
    }

    /// Once the log is what it was, reading goes on where it stopped.
    fn goes_on_and_reads(self) {
        goes_on(&self.worker);
        self.site.record(&upsert("T1", "docs", "D3", 1));
        self.worker.caught_up();
        let held = held::in_tantivy(&self.site.destination_dir("search"));
        let ids: Vec<_> = held.keys().map(String::as_str).collect();
        assert_eq!(ids, ["T1/docs/D2", "T1/docs/D3"]);
        assert_eq!(self.worker.counted("accepted"), 4, "nothing was decided twice");
        self.worker.stop_cleanly();
    }
}

#[test]
fn a_truncated_log_fails_its_partition_and_nothing_else() {
    let story = Story::begin();
    let whole = fs::read(story.site.log()).unwrap();
    let log = OpenOptions::new().write(true).open(story.site.log()).unwrap();
    log.set_len(whole.len() as u64 - 10).unwrap();
    let error = failed(&story.worker, "truncated");
    assert!(error.contains("changes.jsonl") && error.contains(&whole.len().to_string()), "{error}");
    assert!(error.contains("put the original log back"), "{error}");
    story.removals_go_on();
    story.site.append(&whole[whole.len() - 10..]);
    story.goes_on_and_reads();
}

#[test]
fn a_rotated_log_fails_its_partition_and_nothing_else() {
    let story = Story::begin();
    let aside = story.site.path().join("changes.jsonl.1");
    fs::rename(story.site.log(), &aside).unwrap();
    failed(&story.worker, "missing");
    fs::write(story.site.log(), format!("{}\n", upsert("T1", "docs", "D9", 1))).unwrap();
    failed(&story.worker, "rotated");
    story.removals_go_on();
    fs::rename(&aside, story.site.log()).unwrap();
    story.goes_on_and_reads();
}

#[test]
fn a_rewritten_log_fails_its_partition_at_the_next_start() {
    let Story { site, worker } = Story::begin();
    worker.stop_cleanly();
    let whole = fs::read_to_string(site.log()).unwrap();
    fs::write(site.log(), whole.replace("del-T1-docs-D1-2", "del-T1-docs-D1-X")).unwrap();
    let worker = site.start_unready();
    failed(&worker, "rewritten");
    let story = Story { site, worker };
    story.removals_go_on();
    let Story { site, worker } = story;
    fs::write(site.log(), &whole).unwrap();
    goes_on(&worker);
    site.record(&upsert("T1", "docs", "D3", 1));
    worker.caught_up();
    assert_eq!(worker.counted("accepted"), 1, "what was decided before is not decided again");
    let held = held::in_tantivy(&site.destination_dir("search"));
    assert_eq!(held.len(), 2, "{held:?}");
    worker.stop_cleanly();
}

#[test]
fn another_log_in_its_place_is_noticed_at_the_next_start() {
    let Story { site, worker } = Story::begin();
    worker.stop_cleanly();
    let aside = site.path().join("kept");
    fs::rename(site.log(), &aside).unwrap();
    let run = site.command(&["run", "--config", site.config().to_str().unwrap()]).ends(3);
    assert!(run.err.contains("changes.jsonl") && run.err.contains("missing"), "{run:?}");
    let whole = fs::read_to_string(&aside).unwrap();
    fs::write(site.log(), whole.replace("del-T1-docs-D1-2", "del-T1-docs-D1-X")).unwrap();
    let worker = site.start_unready();
    failed(&worker, "rotated");
    worker.kill();
    // A copy of it is as good as itself.
    fs::write(site.log(), whole).unwrap();
    let worker = site.start_unready();
    Story { site, worker }.removals_go_on_after_restart();
}

impl Story {
    fn removals_go_on_after_restart(self) {
        goes_on(&self.worker);
        fs::remove_file(self.site.destination_dir("search")).unwrap();
        self.worker.gate_open("T1", "docs", "D1");
        assert_eq!(self.worker.counted("accepted"), 0);
        self.worker.stop_cleanly();
    }
}

#[test]
fn a_record_that_is_none_waits_in_quarantine_and_stops_nobody() {
    let site = Site::with_both(TABLES, &["docs"]);
    site.record(&upsert("T1", "docs", "D1", 1));
    let broken = [
        format!("{{\"event_id\":\"x\",\"op\":\"upsert\",\"payload\":{{\"a\":\"{CONTENT}\"}}"),
        format!("\"{CONTENT}\""),
        format!("{{\"{CONTENT}\": 1}}"),
        json!({ "event_id": "x", "op": CONTENT, "tenant": "T1" }).to_string(),
        upsert("T1", "docs", "D1", 2).with("version", CONTENT).to_string(),
        upsert("T1", "docs", "D1", 2).with("payload", CONTENT).to_string(),
        upsert("T1", "docs", "D1", 2).with("object", Value::Null).to_string(),
        delete("T1", "docs", "D1", 2).with("generation", 0).to_string(),
        barrier("b").with("scope", json!({ "tenant": "T1", "parent": CONTENT })).to_string(),
    ];
    let mut positions = Vec::new();
    for line in &broken {
        positions.push(fs::metadata(site.log()).unwrap().len());
        site.append(format!("{line}\n"));
    }
    positions.push(fs::metadata(site.log()).unwrap().len());
    site.append(b"{\"event_id\":\"\xff\xfe\",\"op\":\"upsert\"}\n");
    site.record(&upsert("T1", "docs", "D2", 1));
    site.record(&barrier("after"));
    let worker = site.start();
    worker.until("the barrier to open", || {
        (worker.json("/v1/barriers/after")["state"] == "RELEASED").then_some(())
    });
    assert_eq!(held::in_tantivy(&site.destination_dir("search")).len(), 2);
    assert_eq!(worker.counted("undecodable"), 10);
    let page = worker.json("/v1/quarantine?limit=1000");
    let at: Vec<_> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["position"]["offset"].as_u64().unwrap())
        .collect();
    assert_eq!(at, positions, "each by its position");
    for item in page["items"].as_array().unwrap() {
        assert!(item["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{item}");
    }
    let summary = worker.json("/v1/status")["summary"].as_str().unwrap().to_owned();
    assert!(summary.contains("10 records in quarantine"), "{summary}");
    assert_eq!(worker.metric("cenotaph_quarantined_records"), 10.0);
    // One of them was a deletion: somebody believes that it will be done.
    assert_eq!(worker.metric("cenotaph_unreadable_deletions_total"), 1.0);
    assert!(!page.to_string().contains(CONTENT), "{page}");
    let said = worker.stop_cleanly();
    assert!(!said.contains(CONTENT), "{said}");
    for file in crate::site::files_below(&site.ledger_dir()) {
        let bytes = fs::read(&file).unwrap();
        let holds = bytes.windows(CONTENT.len()).any(|window| window == CONTENT.as_bytes());
        assert!(!holds, "{}", file.display());
    }
    // Once read is once read.
    let worker = site.start();
    worker.caught_up();
    assert_eq!(worker.json("/v1/status")["quarantined"], 10);
    assert_eq!(worker.metric("cenotaph_sink_record_read_total"), 0.0);
    worker.stop_cleanly();
}

#[test]
fn a_line_counts_once_it_is_whole() {
    let site = Site::with_both(TABLES, &["docs"]);
    let line = upsert("T1", "docs", "D1", 1).to_string();
    let (first, rest) = line.split_at(line.len() / 2);
    site.append(first);
    let worker = site.start();
    assert_eq!(worker.counted("undecodable"), 0);
    assert_eq!(partition(&worker)["cursor"]["offset"], 0);
    worker.stop_cleanly();
    // The worker is not even there when it grows.
    site.append(rest);
    let worker = site.start();
    assert_eq!(worker.counted("accepted"), 0, "a line without its end is no line");
    site.append("\n");
    worker.until("it to be read", || (worker.counted("accepted") == 1).then_some(()));
    worker.caught_up();
    assert_eq!(held::in_tantivy(&site.destination_dir("search")).len(), 1);
    worker.stop_cleanly();
}

#[test]
fn a_record_that_is_too_large_waits_in_quarantine() {
    let site = Site::with_worker(
        "[source]\nkind = \"file\"\npath = \"changes.jsonl\"\nmax_record = \"4KiB\"\n\
         [api]\nlisten = \"127.0.0.1:0\"\n[collections.docs]\n",
    );
    site.memory("cache", &["docs"]);
    let large = json!({ "filling": "x".repeat(700_000) });
    site.record(&upsert("T1", "docs", "large", 1).with("payload", large));
    site.record(&upsert("T1", "docs", "small", 1));
    let worker = site.start();
    worker.caught_up();
    let held = held::versions_in_snapshot(&site.destination_dir("cache"));
    assert_eq!(held.keys().collect::<Vec<_>>(), ["T1/docs/small"]);
    assert_eq!(worker.json("/v1/quarantine")["items"][0]["reason"], "too-large");
    worker.stop_cleanly();
}

#[test]
fn a_collection_that_nobody_configured_is_treated_as_configured() {
    for (setting, verdict) in [
        ("", "undecodable"),
        ("quarantine", "undecodable"),
        ("ignore", "ignored"),
        ("accept", "accepted"),
    ] {
        let top = match setting {
            "" => String::new(),
            word => format!("unknown_collections = \"{word}\"\n"),
        };
        let site = Site::with_worker(&format!(
            "{top}[source]\nkind = \"file\"\npath = \"changes.jsonl\"\n\
             [api]\nlisten = \"127.0.0.1:0\"\n[collections.docs]\n"
        ));
        site.memory("cache", &["docs"]);
        site.record(&upsert("T1", "elsewhere", "E1", 1));
        site.record(&delete("T1", "elsewhere", "E2", 1));
        site.record(&upsert("T1", "docs", "D1", 1));
        let worker = site.start();
        worker.caught_up();
        let both = if verdict == "accepted" { 3 } else { 2 };
        assert_eq!(worker.counted(verdict), both, "{setting}");
        let held = held::versions_in_snapshot(&site.destination_dir("cache"));
        assert_eq!(held.keys().collect::<Vec<_>>(), ["T1/docs/D1"], "{setting}");
        let quarantined = if verdict == "undecodable" { 2 } else { 0 };
        assert_eq!(worker.json("/v1/status")["quarantined"], quarantined, "{setting}");
        worker.stop_cleanly();
    }
}

#[test]
fn a_full_quarantine_stops_the_partition_before_the_record_that_has_no_place() {
    let bounded = |most: u32| {
        format!(
            "[source]\nkind = \"file\"\npath = \"changes.jsonl\"\n[api]\nlisten = \"127.0.0.1:0\"\n\
             [ledger]\nquarantine_max = {most}\n[collections.docs]\n"
        )
    };
    let site = Site::with_worker(&bounded(2));
    site.memory("cache", &["docs"]);
    site.append("broken\nbroken\n");
    site.record(&upsert("T1", "docs", "D1", 1));
    site.record(&delete("T1", "docs", "D2", 1));
    let at = fs::metadata(site.log()).unwrap().len();
    site.append("broken\n");
    site.record(&upsert("T1", "docs", "D3", 1));
    let worker = site.start_unready();
    let error = failed(&worker, "quarantine is full");
    assert!(error.contains(&format!("offset {at}")) && error.contains("quarantine_max"), "{error}");
    worker.gate_open("T1", "docs", "D2");
    assert_eq!(partition(&worker)["cursor"]["offset"], at, "all before it is decided");
    worker.stop_cleanly();
    fs::write(site.config(), bounded(3)).unwrap();
    let worker = site.start();
    worker.caught_up();
    let held = held::versions_in_snapshot(&site.destination_dir("cache"));
    assert_eq!(held.keys().collect::<Vec<_>>(), ["T1/docs/D1", "T1/docs/D3"]);
    worker.stop_cleanly();
}

#[test]
fn a_conflict_stops_the_partition_where_the_collection_says_so() {
    let site = Site::with_both("[collections.docs]\non_conflict = \"stop\"\n", &["docs"]);
    site.record(&upsert("T1", "docs", "D1", 1));
    let at = fs::metadata(site.log()).unwrap().len();
    site.record(&upsert("T1", "docs", "D1", 1).with("event_id", "x").with("payload", json!({})));
    site.record(&upsert("T1", "docs", "D2", 1));
    let worker = site.start_unready();
    let error = failed(&worker, "conflict");
    assert!(error.contains(&format!("offset {at}")), "{error}");
    assert_eq!(partition(&worker)["cursor"]["offset"], at);
    worker.stop_cleanly();
}

#[test]
fn a_suspended_object_takes_no_upsert_and_its_deletion_passes() {
    let site = Site::with_both("[collections.docs]\non_conflict = \"suspend\"\n", &["docs"]);
    site.record(&upsert("T1", "docs", "D1", 1));
    site.record(&upsert("T1", "docs", "D1", 1).with("event_id", "x").with("payload", json!({})));
    site.record(&upsert("T1", "docs", "D1", 2));
    site.record(&upsert("T1", "docs", "D2", 1));
    let worker = site.start();
    worker.caught_up();
    assert_eq!(worker.counted("conflicting"), 1);
    assert_eq!(worker.counted("suspended"), 1);
    let held = held::in_tantivy(&site.destination_dir("search"));
    assert_eq!(held.get("T1/docs/D1"), Some(&1), "the last one that nobody disputes");
    site.record(&delete("T1", "docs", "D1", 3));
    worker.gate_open("T1", "docs", "D1");
    let held = held::in_tantivy(&site.destination_dir("search"));
    assert_eq!(held.keys().collect::<Vec<_>>(), ["T1/docs/D2"]);
    worker.stop_cleanly();
}
