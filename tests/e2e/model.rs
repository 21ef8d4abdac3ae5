//! A naive reference of what the ledger decides, written from the table of verdicts in
//! the model in words and from nothing else: one map, one record after the other.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use crate::stream::{COLLECTIONS, Line, RESTORABLE, TERMINAL, VERSIONED};

/// What an event means: op, type and payload.
type Meaning = (String, String, String);

#[derive(Debug, Clone)]
struct Entry {
    live: bool,
    version: u64,
    event: String,
    meaning: Meaning,
    /// The events of its tombstones and of recorded deletion requests.
    past: HashMap<String, Meaning>,
    payload: Value,
}

/// One object that destinations hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Live {
    pub collection: String,
    pub version: u64,
    pub payload: Value,
}

/// What the reference has made of a stream so far.
#[derive(Debug, Default)]
pub struct Model {
    entries: BTreeMap<(String, String, String), Entry>,
    barriers: HashSet<String>,
    /// How many lines got each verdict.
    pub counts: BTreeMap<&'static str, u64>,
    pub resurrections_refused: u64,
    /// The deletions that made a tombstone, by event id, with the key.
    pub removals: Vec<(String, (String, String, String))>,
}

impl Model {
    pub fn of(lines: &[Line]) -> Model {
        let mut model = Model::default();
        lines.iter().for_each(|line| model.take(line));
        model
    }

    pub fn take(&mut self, line: &Line) {
        let verdict = match line.record() {
            None if line.text == "null" => "ignored",
            None => "undecodable",
            Some(record) if record["op"] == "barrier" => {
                self.barriers.insert(record["barrier"].as_str().unwrap().to_owned());
                "barriers"
            }
            Some(record) if COLLECTIONS.contains(&text(&record, "collection").as_str()) => {
                self.change(&record)
            }
            Some(_) => "undecodable",
        };
        *self.counts.entry(verdict).or_default() += 1;
    }

    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    pub fn barriers(&self) -> &HashSet<String> {
        &self.barriers
    }

    /// Every live object by its record key.
    pub fn live(&self) -> BTreeMap<String, Live> {
        let live = self.entries.iter().filter(|(_, entry)| entry.live);
        live.map(|((tenant, collection, object), entry)| {
            let live = Live {
                collection: collection.clone(),
                version: entry.version,
                payload: entry.payload.clone(),
            };
            (id(tenant, collection, object), live)
        })
        .collect()
    }

    fn change(&mut self, record: &Value) -> &'static str {
        let key = (text(record, "tenant"), text(record, "collection"), text(record, "object"));
        let op = text(record, "op");
        let version = record["version"].as_u64().unwrap();
        let event = text(record, "event_id");
        let payload = record["payload"].clone();
        let meaning = (op.clone(), text(record, "type"), payload.to_string());
        let entry = self.entries.get(&key);
        if let Some(known) = entry.and_then(|entry| entry.remembers(&event)) {
            return if *known == meaning { "repeated" } else { "conflicting" };
        }
        let verdict = judge(entry, &op, &key.1, version, &meaning);
        if matches!(verdict, Verdict::Refused { resurrection: true }) {
            self.resurrections_refused += 1;
        }
        match verdict {
            Verdict::Live => {
                let past = entry.map(|entry| entry.past.clone()).unwrap_or_default();
                let entry = Entry { live: true, version, event, meaning, past, payload };
                self.entries.insert(key, entry);
            }
            Verdict::Removed => {
                let mut past = entry.map(|entry| entry.past.clone()).unwrap_or_default();
                past.insert(event.clone(), meaning.clone());
                let version = entry.map_or(version, |entry| entry.version.max(version));
                self.removals.push((event.clone(), key.clone()));
                let payload = Value::Null;
                let entry = Entry { live: false, version, event, meaning, past, payload };
                self.entries.insert(key, entry);
            }
            Verdict::Satisfied | Verdict::StaleDelete => {
                let entry = self.entries.get_mut(&key).unwrap();
                entry.past.insert(event, meaning);
                if verdict == Verdict::Satisfied {
                    entry.version = entry.version.max(version);
                }
            }
            _ => {}
        }
        verdict.class()
    }
}

impl Entry {
    fn remembers(&self, event: &str) -> Option<&Meaning> {
        if self.event == event { Some(&self.meaning) } else { self.past.get(event) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Verdict {
    Live,
    Removed,
    Satisfied,
    StaleDelete,
    Stale,
    Repeated,
    Conflict,
    Refused { resurrection: bool },
}

impl Verdict {
    fn class(self) -> &'static str {
        match self {
            Verdict::Live | Verdict::Removed => "accepted",
            Verdict::Satisfied => "satisfied",
            Verdict::StaleDelete | Verdict::Stale => "stale",
            Verdict::Repeated => "repeated",
            Verdict::Conflict => "conflicting",
            Verdict::Refused { .. } => "refused",
        }
    }
}

fn judge(
    entry: Option<&Entry>,
    op: &str,
    collection: &str,
    version: u64,
    meaning: &Meaning,
) -> Verdict {
    let refused = |resurrection| Verdict::Refused { resurrection };
    let Some(entry) = entry else {
        return match op {
            "upsert" => Verdict::Live,
            "delete" => Verdict::Removed,
            _ => refused(false),
        };
    };
    let (older, equal) = (version < entry.version, version == entry.version);
    match (op, entry.live) {
        ("upsert", true) if older => Verdict::Stale,
        ("upsert", true) if equal && *meaning == entry.meaning => Verdict::Repeated,
        ("upsert", true) if equal => Verdict::Conflict,
        ("upsert", true) => Verdict::Live,
        ("upsert", false) if older || equal || collection != VERSIONED => refused(true),
        ("upsert", false) => Verdict::Live,
        ("delete", true) if collection == TERMINAL => Verdict::Removed,
        ("delete", true) if older => Verdict::StaleDelete,
        ("delete", true) if equal => Verdict::Conflict,
        ("delete", true) => Verdict::Removed,
        ("delete", false) if older => Verdict::Satisfied,
        ("delete", false) if equal => Verdict::Conflict,
        ("delete", false) if collection == TERMINAL => Verdict::Satisfied,
        ("delete", false) => Verdict::Removed,
        ("restore", false) if !older && !equal && collection == RESTORABLE => Verdict::Live,
        _ => refused(false),
    }
}

/// The id that an object of the first generation has in destinations.
pub fn id(tenant: &str, collection: &str, object: &str) -> String {
    let generation = cenotaph_core::Generation::FIRST;
    let key = cenotaph_core::ObjectKey::new(tenant, collection, object, generation).unwrap();
    cenotaph_core::record_key(&key)
}

fn text(record: &Value, field: &str) -> String {
    record[field].as_str().unwrap_or_default().to_owned()
}
