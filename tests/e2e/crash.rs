//! The worker is killed again and again under load. What anybody was told before a kill must be so
//! after it, and at the end everything must be as the reference model has it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use crate::held::{self, Versions};
use crate::http;
use crate::model::{Model, id};
use crate::site::{Site, files_below};
use crate::stream::{
    COLLECTIONS, CONTENT, Draw, Faults, Line, RESTORABLE, TABLES, TERMINAL, VERSIONED, stream, text,
};
use crate::worker::{Worker, metric_in};

const CHANGES: usize = 6_000;
const OBJECTS: usize = 250;
const KILLS: usize = 8;

/// What the cache takes; the index takes everything.
const CACHED: [&str; 2] = [TERMINAL, VERSIONED];

type Removal = (String, (String, String, String));

/// Another stream and other kills: `CRASH_SEED=7 cargo test --test e2e crash`.
fn seed() -> u64 {
    let given = std::env::var("CRASH_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or(20_261_130);
    eprintln!("CRASH_SEED={seed}");
    seed
}

fn site() -> Site {
    let site = Site::new(TABLES);
    site.tantivy("search", &COLLECTIONS);
    site.memory("cache", &CACHED);
    site
}

#[test]
fn what_was_told_before_a_kill_holds_after_it() {
    let (site, seed) = (site(), seed());
    let lines = stream(seed, CHANGES, OBJECTS, Faults::default());
    let parts: Vec<&[Line]> = lines.chunks(lines.len().div_ceil(KILLS + 1)).collect();
    let mut model = Model::default();
    let mut promises = Promises::default();
    let mut draw = Draw::new(seed);
    for (round, part) in parts[..KILLS].iter().enumerate() {
        part.iter().for_each(|line| model.take(line));
        if round % 3 == 2 {
            // It dies while it replays its journal, opens its destinations, or before.
            let after = Duration::from_micros(draw.below(250_000) as u64);
            Worker::start_and_kill(&site.config(), after);
            promises.hold_at_rest(&site);
        }
        let worker = site.start_unready();
        promises.still_hold(&worker);
        // Before anything is appended: all of it may be read before the next question is answered.
        let begun = read_to(&worker.json("/v1/status"));
        let feeder = feed(site.log(), text(part), &mut draw);
        let watcher = Watcher::start(&worker, model.removals.clone(), draw.next());
        wait_for_the_moment(&worker, begun, text(part).len(), &mut draw);
        let said = worker.kill();
        promises.add(watcher.end());
        feeder.join().unwrap();
        assert!(!said.contains(CONTENT), "the log tells content");
        promises.hold_at_rest(&site);
    }
    assert!(promises.open() > 100, "only {} open gates were told of", promises.open());

    let last = parts[KILLS..].concat();
    last.iter().for_each(|line| model.take(line));
    site.append(text(&last));
    let worker = site.start();
    promises.still_hold(&worker);
    let made = worker.cli(&["barrier", "create", "the-end"]);
    made.ends(0);
    worker.cli(&["barrier", "wait", "the-end", "--timeout", "60s"]).ends(0);
    assert_eq!(worker.metric("cenotaph_reappeared_total{destination=\"search\"}"), 0.0);
    assert_eq!(worker.metric("cenotaph_reappeared_total{destination=\"cache\"}"), 0.0);
    every_gate_is_open(&worker, &model);
    is_as_the_model(&site, &model);
    worker.stop_cleanly();
    holds_no_content(&site);
    accounts_for_what_it_reads(&site, &mut model, seed + 1);
}

/// Somewhere between reading, applying, removing and looking.
fn wait_for_the_moment(worker: &Worker, begun: u64, part: usize, draw: &mut Draw) {
    let until = begun + draw.below(part) as u64;
    worker.until("the moment of the kill", || {
        let status = worker.json("/v1/status");
        let all = status["partitions"][0]["cursor"] == status["partitions"][0]["end"];
        (read_to(&status) >= until || (all && read_to(&status) > begun)).then_some(())
    });
    std::thread::sleep(Duration::from_micros(draw.below(60_000) as u64));
}

fn read_to(status: &Value) -> u64 {
    status["partitions"][0]["cursor"]["offset"].as_u64().unwrap_or(0)
}

/// Appends the text bit by bit, and seldom whole lines.
fn feed(log: PathBuf, text: String, draw: &mut Draw) -> JoinHandle<()> {
    let mut draw = Draw::new(draw.next());
    std::thread::spawn(move || {
        let mut log = OpenOptions::new().append(true).open(log).unwrap();
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let (bit, after) = rest.split_at(rest.len().min(1 + draw.below(16_000)));
            log.write_all(bit).unwrap();
            rest = after;
            std::thread::sleep(Duration::from_millis(1));
        }
    })
}

/// Asks about deletions at random for as long as there is somebody to ask.
struct Watcher {
    thread: JoinHandle<Promises>,
    end: Arc<AtomicBool>,
}

impl Watcher {
    fn start(worker: &Worker, removals: Vec<Removal>, seed: u64) -> Watcher {
        let (address, end) = (worker.address(), Arc::new(AtomicBool::new(false)));
        let ended = Arc::clone(&end);
        let thread = std::thread::spawn(move || {
            let (mut told, mut draw) = (Promises::default(), Draw::new(seed));
            while !ended.load(Ordering::Relaxed) {
                let (event, key) = draw.pick(&removals);
                let Ok(answer) = http::get(address, &path(event, key)) else { break };
                assert!(!answer.body.contains(CONTENT), "an answer tells content");
                assert_eq!(answer.status, 200, "{}", answer.body);
                told.deletion(event, answer.json());
                if draw.once_in(20) {
                    let Ok(answer) = http::get(address, "/v1/barriers?limit=1000") else { break };
                    told.barriers(&answer.json());
                }
            }
            told
        });
        Watcher { thread, end }
    }

    fn end(self) -> Promises {
        self.end.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn path(event: &str, (tenant, collection, object): &(String, String, String)) -> String {
    format!("{}?event_id={event}", http::tombstone_path(tenant, collection, object))
}

/// What the API said so far.
#[derive(Default)]
struct Promises {
    /// The last answer about each deletion, by event id.
    deletions: BTreeMap<String, Value>,
    released: BTreeSet<String>,
}

impl Promises {
    fn deletion(&mut self, event: &str, view: Value) {
        if view["tombstone"].is_null() {
            assert!(!self.deletions.contains_key(event), "forgotten: {event}");
            return;
        }
        sound(&view);
        if let Some(before) = self.deletions.get(event) {
            holds(event, before, &view);
        }
        self.deletions.insert(event.to_owned(), view);
    }

    fn barriers(&mut self, page: &Value) {
        for barrier in page["items"].as_array().unwrap() {
            let name = barrier["name"].as_str().unwrap();
            if barrier["state"] == "RELEASED" {
                self.released.insert(name.to_owned());
            } else {
                assert!(!self.released.contains(name), "closed again: {barrier}");
            }
        }
    }

    fn add(&mut self, later: Promises) {
        for (event, view) in later.deletions {
            self.deletion(&event, view);
        }
        self.released.extend(later.released);
    }

    fn open(&self) -> usize {
        self.deletions.values().filter(|view| view["gate"] == "open").count()
    }

    /// I4, asked as early as anybody can ask.
    fn still_hold(&mut self, worker: &Worker) {
        self.barriers(&worker.json("/v1/barriers?limit=1000"));
        let listed = worker.json("/v1/barriers?limit=1000");
        let names: BTreeSet<_> = listed["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["name"].as_str().unwrap())
            .collect();
        assert!(
            self.released.iter().all(|name| names.contains(name.as_str())),
            "a barrier is lost"
        );
        for (event, before) in self.deletions.clone() {
            let key = key_of(&before);
            let after = worker.json(&path(&event, &key));
            holds(&event, &before, &after);
            self.deletion(&event, after);
        }
    }

    /// I1, looked at in the folders while nobody works on them: what was confirmed is not there.
    fn hold_at_rest(&self, site: &Site) {
        let search = held::in_tantivy(&site.destination_dir("search"));
        let cache = held::versions_in_snapshot(&site.destination_dir("cache"));
        for view in self.deletions.values() {
            for destination in view["destinations"].as_array().unwrap() {
                let held = if destination["name"] == "search" { &search } else { &cache };
                if destination["state"] == "CONFIRMED" {
                    is_gone(view, held);
                }
            }
        }
    }
}

fn key_of(view: &Value) -> (String, String, String) {
    let part = |name: &str| view[name].as_str().unwrap().to_owned();
    (part("tenant"), part("collection"), part("object"))
}

/// Nothing at or below what the deletion covers is readable.
fn is_gone(view: &Value, held: &Versions) {
    let (tenant, collection, object) = key_of(view);
    let Some(version) = held.get(&id(&tenant, &collection, &object)) else { return };
    let covers = view["covers"].as_u64();
    assert!(covers.is_some_and(|covers| *version > covers), "v{version} is there: {view}");
}

/// I2: a gate that is open is open because everybody has confirmed, each with evidence.
fn sound(view: &Value) {
    let destinations = view["destinations"].as_array().unwrap();
    let expected = if view["collection"] == RESTORABLE { 1 } else { 2 };
    assert_eq!(destinations.len(), expected, "{view}");
    if view["gate"] != "open" {
        return;
    }
    assert_eq!(view["blockers"], serde_json::json!([]), "{view}");
    for destination in destinations {
        assert_eq!(destination["state"], "CONFIRMED", "{view}");
        assert_eq!(destination["evidence"]["level"], "absent", "{view}");
    }
}

/// Nothing of what was told is taken back.
fn holds(event: &str, before: &Value, after: &Value) {
    for field in ["tombstone", "position", "covers", "accepted_at", "occurred_at", "object"] {
        assert_eq!(before[field], after[field], "{field} of {event}");
    }
    assert!(
        before["gate"] != "open" || after["gate"] == "open",
        "{event} is closed again: {after}"
    );
    let destinations = after["destinations"].as_array().unwrap();
    for told in before["destinations"].as_array().unwrap() {
        let now = destinations.iter().find(|it| it["name"] == told["name"]).unwrap();
        if told["state"] == "CONFIRMED" {
            assert_eq!(now["state"], "CONFIRMED", "{event}: {after}");
            assert_eq!(now["evidence"], told["evidence"], "{event}");
        }
    }
}

/// Every tombstone that the model knows has been proved everywhere, and no other is pending.
fn every_gate_is_open(worker: &Worker, model: &Model) {
    assert!(model.removals.len() > 400, "only {} deletions", model.removals.len());
    for (event, key) in &model.removals {
        let view = worker.json(&path(event, key));
        assert_eq!(view["gate"], "open", "{event}: {view}");
        sound(&view);
    }
    assert_eq!(worker.json("/v1/tombstones?state=pending")["items"], serde_json::json!([]));
    let status = worker.json("/v1/status");
    assert_eq!(status["ledger"]["last_tombstone"], model.removals.len(), "none was made up");
    for name in model.barriers() {
        assert_eq!(worker.json(&format!("/v1/barriers/{name}"))["state"], "RELEASED");
    }
}

/// I5 and I6: exactly the live objects, of every tenant, each in its version and with its content.
fn is_as_the_model(site: &Site, model: &Model) {
    let live = model.live();
    let expected: Versions = live.iter().map(|(id, it)| (id.clone(), it.version)).collect();
    assert!(expected.len() > OBJECTS, "only {} objects are left", expected.len());
    same("search", &held::in_tantivy(&site.destination_dir("search")), &expected);
    let cached = |collection: &str| CACHED.contains(&collection);
    let expected: BTreeMap<_, _> = live
        .into_iter()
        .filter(|(_, it)| cached(&it.collection))
        .map(|(id, it)| (id, held::Kept { version: it.version, payload: it.payload }))
        .collect();
    same("cache", &held::in_snapshot(&site.destination_dir("cache")), &expected);
}

/// Tells only what differs.
fn same<V: PartialEq + std::fmt::Debug>(
    name: &str,
    held: &BTreeMap<String, V>,
    expected: &BTreeMap<String, V>,
) {
    let ids: BTreeSet<&String> = held.keys().chain(expected.keys()).collect();
    let wrong: Vec<_> = ids
        .into_iter()
        .filter(|id| held.get(*id) != expected.get(*id))
        .map(|id| format!("{id}: there {:?}, expected {:?}", held.get(id), expected.get(id)))
        .collect();
    assert!(wrong.is_empty(), "{name}: {} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// I7: what identifies is in the ledger, what was said is not.
fn holds_no_content(site: &Site) {
    let files = files_below(&site.ledger_dir());
    assert!(!files.is_empty());
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        let found = bytes.windows(CONTENT.len()).any(|window| window == CONTENT.as_bytes());
        assert!(!found, "{} holds content", file.display());
    }
}

/// I9: a run counts exactly the lines that it was the first to decide.
fn accounts_for_what_it_reads(site: &Site, model: &mut Model, seed: u64) {
    let worker = site.start();
    worker.caught_up();
    assert_eq!(worker.metric("cenotaph_sink_record_read_total"), 0.0, "all was decided before");
    let lines = stream(seed, 800, OBJECTS, Faults::default());
    let model_before = model.counts.clone();
    lines.iter().for_each(|line| model.take(line));
    site.append(text(&lines));
    worker.caught_up();
    let counted = |verdict: &str| {
        model.counts.get(verdict).unwrap_or(&0) - model_before.get(verdict).unwrap_or(&0)
    };
    adds_up(&worker, lines.len() as u64, &counted);
    is_as_the_model(site, model);
    worker.stop_cleanly();
}

/// The metrics, added up: each class as expected, and all of them what was read.
fn adds_up(worker: &Worker, lines: u64, expected: &dyn Fn(&str) -> u64) {
    let metrics = worker.get("/metrics").body;
    let value = |name: &str| metric_in(&metrics, name).unwrap_or_else(|| panic!("no {name}"));
    assert_eq!(value("cenotaph_sink_record_read_total"), lines as f64);
    let mut sum = 0;
    for line in metrics.lines() {
        let Some(rest) = line.strip_prefix("cenotaph_records_total{verdict=\"") else { continue };
        let (verdict, rest) = rest.split_once("\"} ").unwrap();
        let count = rest.parse::<u64>().unwrap();
        assert_eq!(count, expected(verdict), "{verdict}");
        sum += count;
    }
    assert_eq!(sum, lines, "the classes add up to what was read");
    assert_eq!(worker.json("/v1/status")["records_read"], lines);
}

/// The same without a kill: every verdict's count is the reference's.
#[test]
fn every_line_is_accounted_for_as_the_reference_does() {
    for seed in [1, 2] {
        let site = site();
        let lines = stream(seed, 2_500, 60, Faults::default());
        let model = Model::of(&lines);
        site.append(text(&lines));
        let worker = site.start();
        worker.caught_up();
        let counted = |verdict: &str| model.counts.get(verdict).copied().unwrap_or(0);
        adds_up(&worker, lines.len() as u64, &counted);
        assert_eq!(model.total(), lines.len() as u64);
        let refused = worker.metric("cenotaph_resurrections_refused_total");
        assert_eq!(refused, model.resurrections_refused as f64);
        assert!(refused > 50.0, "{refused} resurrections refused");
        is_as_the_model_small(&site, &model);
        worker.stop_cleanly();
    }
}

fn is_as_the_model_small(site: &Site, model: &Model) {
    let live = model.live();
    let expected: Versions = live.iter().map(|(id, it)| (id.clone(), it.version)).collect();
    same("search", &held::in_tantivy(&site.destination_dir("search")), &expected);
}
