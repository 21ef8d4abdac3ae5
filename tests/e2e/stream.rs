//! Change streams drawn from a seed, and what an at-least-once queue does to them: the faults of
//! `inject_faults.py`, in the same order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

use serde_json::{Value, json};

/// A small generator (SplitMix64): the same seed, the same stream, everywhere.
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to, and without, `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// True once in `many`.
    pub fn once_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// The text that every payload holds and that must be found nowhere but in the destinations.
pub const CONTENT: &str = "ZQXJ7CONTENT";

pub const TENANTS: [&str; 2] = ["T1", "T2"];
/// One collection a lifecycle.
pub const TERMINAL: &str = "docs";
pub const RESTORABLE: &str = "kept";
pub const VERSIONED: &str = "rows";
pub const COLLECTIONS: [&str; 3] = [TERMINAL, RESTORABLE, VERSIONED];

/// Their configuration, and an authority that may restore.
pub const TABLES: &str = r#"
[ledger]
checkpoint_objects = 1000

[collections.docs]
lifecycle = "terminal"
[collections.kept]
lifecycle = "restorable"
[collections.rows]
lifecycle = "versioned"

[[authority]]
sources = ["crm"]
ops = ["upsert", "delete", "restore"]
"#;

/// An object's name in the stream.
pub type Key = (&'static str, &'static str, String);

/// One line of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its object; none for what is no change.
    pub key: Option<Key>,
    pub text: String,
}

impl Line {
    /// The record, if it is one.
    pub fn record(&self) -> Option<Value> {
        serde_json::from_str(&self.text).ok().filter(Value::is_object)
    }
}

/// How often each fault happens: once in so many.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    pub delay: (usize, usize),
    pub reorder: (usize, usize),
    pub duplicate: (usize, usize),
    /// Every so many lines, so many lines are driven again, from up to so many back.
    pub replay: (usize, usize, usize),
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            delay: (50, 300),
            reorder: (40, 64),
            duplicate: (12, 200),
            replay: (700, 250, 1500),
        }
    }
}

/// A stream of about `changes` changes over `objects` objects a collection and tenant.
pub fn stream(seed: u64, changes: usize, objects: usize, faults: Faults) -> Vec<Line> {
    let lines = Base::new(seed, objects).lines(changes);
    let lines = delay(lines, faults.delay, &mut Draw::new(seed ^ 11));
    let lines = reorder(lines, faults.reorder, &mut Draw::new(seed ^ 13));
    let lines = duplicate(lines, faults.duplicate, &mut Draw::new(seed ^ 17));
    replay(lines, faults.replay, &mut Draw::new(seed ^ 19))
}

struct Base {
    draw: Draw,
    objects: usize,
    /// Version, and whether the last change removed it.
    known: BTreeMap<Key, (u64, bool)>,
    events: u64,
}

impl Base {
    fn new(seed: u64, objects: usize) -> Base {
        Base { draw: Draw::new(seed), objects, known: BTreeMap::new(), events: 0 }
    }

    fn lines(mut self, changes: usize) -> Vec<Line> {
        let mut lines = Vec::with_capacity(changes + changes / 50);
        while lines.len() < changes {
            if self.draw.once_in(150) {
                lines.push(self.not_a_change());
            }
            if lines.len() % 400 == 399 {
                let name = format!("job-{}", lines.len() / 400);
                let record = crate::lines::barrier(&name);
                lines.push(Line { key: None, text: record.to_string() });
            }
            let key = self.key();
            if let Some(record) = self.change(&key) {
                lines.push(Line { key: Some(key), text: record.to_string() });
            }
        }
        lines
    }

    fn key(&mut self) -> Key {
        let tenant = *self.draw.pick(&TENANTS);
        let collection = *self.draw.pick(&COLLECTIONS);
        let number = self.draw.below(self.objects);
        let object = match number % 10 {
            7 => format!("ä/{number} ~%2F"),
            _ => format!("o{number}"),
        };
        (tenant, collection, object)
    }

    /// What a log holds besides: lines that tidy, lines that are broken, of collections unknown.
    fn not_a_change(&mut self) -> Line {
        let text = match self.draw.below(4) {
            0 => "null".to_owned(),
            1 => format!("{{\"op\":\"upsert\",\"payload\":{{\"a\":\"{CONTENT}\""),
            2 => format!("\"{CONTENT}\""),
            _ => {
                self.events += 1;
                crate::lines::upsert("T1", "elsewhere", &format!("x{}", self.events), 1).to_string()
            }
        };
        Line { key: None, text }
    }

    fn change(&mut self, key: &Key) -> Option<Value> {
        let (version, removed) = self.known.get(key).copied().unwrap_or((0, false));
        let op = self.op(key.1, removed)?;
        let next = match self.draw.below(60) {
            // A version that was used before, with another content: a conflict, or stale.
            0 if version > 0 => version,
            1 => version + 3,
            _ => version + 1,
        };
        let is_removed = match op {
            "delete" => true,
            "restore" => false,
            _ => removed && key.1 != VERSIONED,
        };
        self.known.insert(key.clone(), (next.max(version), is_removed));
        self.events += 1;
        let mut record = json!({
            "event_id": format!("e{}", self.events),
            "op": op,
            "tenant": key.0,
            "collection": key.1,
            "object": key.2,
            "version": next,
            "source": "crm",
            "type": if op == "delete" { "document.removed" } else { "document.changed" },
            "occurred_at": "2026-11-30T10:00:00Z",
        });
        if op != "delete" {
            record["payload"] = json!({
                "title": format!("{} of {}", key.2, key.0),
                "words": format!("{CONTENT} event{}", self.events),
            });
        }
        Some(record)
    }

    /// None: this object is left alone this time.
    fn op(&mut self, collection: &str, removed: bool) -> Option<&'static str> {
        let dice = self.draw.below(100);
        match (removed, collection) {
            (false, _) if dice < 14 => Some("delete"),
            (false, _) => Some("upsert"),
            (true, VERSIONED) if dice < 50 => Some("upsert"),
            (true, RESTORABLE) if dice < 25 => Some("restore"),
            // Not allowed under these lifecycles, whoever tries it.
            (true, _) if dice < 35 => Some("upsert"),
            (true, _) if dice < 45 => Some("delete"),
            (true, _) => None,
        }
    }
}

/// Holds all of one key's lines for a while; their order stays.
fn delay(lines: Vec<Line>, (many, most): (usize, usize), draw: &mut Draw) -> Vec<Line> {
    let mut out = Vec::with_capacity(lines.len());
    let mut held: HashMap<Key, Vec<Line>> = HashMap::new();
    let mut due: BinaryHeap<Reverse<(usize, Key)>> = BinaryHeap::new();
    for (at, line) in lines.into_iter().enumerate() {
        match line.key.clone() {
            Some(key) if held.contains_key(&key) => held.entry(key).or_default().push(line),
            Some(key) if draw.once_in(many) => {
                due.push(Reverse((at + 1 + draw.below(most), key.clone())));
                held.insert(key, vec![line]);
            }
            _ => out.push(line),
        }
        while due.peek().is_some_and(|Reverse((when, _))| *when <= at) {
            let Reverse((_, key)) = due.pop().unwrap();
            out.extend(held.remove(&key).unwrap());
        }
    }
    while let Some(Reverse((_, key))) = due.pop() {
        out.extend(held.remove(&key).unwrap());
    }
    out
}

/// Lines that come later than they should, by the place that they are to come at.
#[derive(Default)]
struct Late(BinaryHeap<Reverse<(usize, usize)>>, HashMap<usize, Line>);

impl Late {
    fn hold(&mut self, until: usize, at: usize, line: Line) {
        self.0.push(Reverse((until, at)));
        self.1.insert(at, line);
    }

    fn due(&mut self, at: usize, out: &mut Vec<Line>) {
        while self.0.peek().is_some_and(|Reverse((until, _))| *until <= at) {
            let Reverse((_, held)) = self.0.pop().unwrap();
            out.push(self.1.remove(&held).unwrap());
        }
    }
}

/// Lets single lines fall back, also behind newer ones of their key.
fn reorder(lines: Vec<Line>, (many, most): (usize, usize), draw: &mut Draw) -> Vec<Line> {
    let (mut out, mut late) = (Vec::with_capacity(lines.len()), Late::default());
    for (at, line) in lines.into_iter().enumerate() {
        if line.key.is_some() && draw.once_in(many) {
            late.hold(at + 1 + draw.below(most), at, line);
        } else {
            out.push(line);
        }
        late.due(at, &mut out);
    }
    late.due(usize::MAX, &mut out);
    out
}

/// Delivers single lines again, byte for byte, some places later.
fn duplicate(lines: Vec<Line>, (many, most): (usize, usize), draw: &mut Draw) -> Vec<Line> {
    let (mut out, mut late) = (Vec::with_capacity(lines.len()), Late::default());
    for (at, line) in lines.into_iter().enumerate() {
        out.push(line.clone());
        if draw.once_in(many) {
            late.hold(at + draw.below(most + 1), at, line);
        }
        late.due(at, &mut out);
    }
    late.due(usize::MAX, &mut out);
    out
}

/// Delivers old ranges again, and stops before they have caught up: they end on stale lines.
fn replay(
    lines: Vec<Line>,
    (every, length, back): (usize, usize, usize),
    draw: &mut Draw,
) -> Vec<Line> {
    let mut out = Vec::with_capacity(lines.len());
    let mut past: VecDeque<Line> = VecDeque::with_capacity(back);
    for line in lines {
        if past.len() == back {
            past.pop_front();
        }
        past.push_back(line.clone());
        out.push(line);
        if draw.once_in(every) {
            let start = draw.below(past.len().saturating_sub(length) + 1);
            out.extend(past.iter().skip(start).take(length).cloned());
        }
    }
    out
}

/// The lines as the bytes of a log.
pub fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| format!("{}\n", line.text)).collect()
}

#[test]
fn a_seed_always_draws_the_same_stream_with_every_kind_of_line() {
    let one = stream(3, 2_000, 40, Faults::default());
    assert_eq!(one, stream(3, 2_000, 40, Faults::default()));
    assert_ne!(one, stream(4, 2_000, 40, Faults::default()));
    assert!(one.len() > 2_200, "{} lines", one.len());
    let count = |word: &str| one.iter().filter(|line| line.text.contains(word)).count();
    assert!(count("\"op\":\"delete\"") > 150, "{} deletions", count("\"op\":\"delete\""));
    assert!(count("\"op\":\"restore\"") > 10);
    assert!(count("\"op\":\"barrier\"") >= 4);
    assert!(one.iter().any(|line| line.record().is_none()));
}
