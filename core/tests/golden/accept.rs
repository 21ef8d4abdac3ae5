//! The tables `accept/*.txt`: `entry | change | policy -> verdict | entry | facts`.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use bytes::Bytes;
use cenotaph_core::decide::{Decided, Known, PastEvent, Refusal, Verdict, accept};
use cenotaph_core::{
    Authority, Change, CollectionPolicy, Entry, EqualVersionDelete, EventHash, Fingerprint,
    Generation, Generations, Identified, Ids, KeyHash, Lifecycle, NameHash, ObjectId, ObjectKey,
    ObjectRecord, OnConflict, Op, Position, RequestOutcome, Rule, ScopeHash, State, VersionSpace,
};

use crate::words::{
    Words, entry, hash, name, number, numbered, parts, shown_covers, shown_entry, unknown, version,
};

struct Situation {
    record: ObjectRecord,
    past: Vec<PastEvent>,
    scope_closed: bool,
    change: Identified,
    policy: CollectionPolicy,
    authority: Authority,
}

/// The right side of the case whose left side is `left`.
pub fn decide(left: &str) -> Result<String, String> {
    let Situation { record, past, scope_closed, change, policy, authority } = situation(left)?;
    let known = Known { record: &record, past: &past, scope_closed };
    let decided = accept(&known, &change, &policy, &authority);
    let before = record.entry(change.ids.key.generation);
    let entry = match &decided.entry {
        None => "same".to_string(),
        Some(entry) => shown_entry(entry) + &unexpected(entry, before, &decided, &change.ids),
    };
    let facts = facts(&decided, change.change.op);
    Ok(format!("{} | {entry} | {facts}", shown_verdict(decided.verdict)))
}

fn situation(left: &str) -> Result<Situation, String> {
    let columns = parts(left, '|');
    let [known, change, policy] = columns[..] else {
        return Err("needs entry | change | policy".into());
    };
    let change = read_change(change)?;
    let (policy, authority) = read_policy(policy)?;
    let clauses = parts(known, ',');
    let (first, rest) = clauses.split_first().ok_or("no entry")?;
    let mut record = ObjectRecord::default();
    if let Some(entry) = entry(first)? {
        record.set(change.ids.key.generation, entry);
    }
    let (mut past, mut scope_closed) = (Vec::new(), false);
    for clause in rest {
        let mut words = Words::of(clause);
        match words.pop().unwrap_or_default() {
            "floor" => record.floor = number(words.after("floor")?)?,
            "scope-closed" => scope_closed = true,
            "past" => past.push(PastEvent {
                event: EventHash(hash(words.after("past")?)),
                fingerprint: Fingerprint(hash(match words.take("content") {
                    true => words.after("content")?,
                    false => "-",
                })),
            }),
            word => {
                let generation = numbered(word, 'g').map_or_else(|| unknown(word), Ok)?;
                let other = entry(clause.trim_start_matches(word))?.ok_or("no other entry")?;
                record.set(Generation(generation), other);
            }
        }
    }
    Ok(Situation { record, past, scope_closed, change, policy, authority })
}

fn read_change(text: &str) -> Result<Identified, String> {
    let mut words = Words::of(text);
    let op = words.pop().unwrap_or_default();
    let op = Op::ALL.into_iter().find(|o| o.word() == op).map_or_else(|| unknown(op), Ok)?;
    let (mut event, mut source, mut schema, mut parent) = ("e2", "crm", "", None);
    let (mut found, mut generation, mut partition) = (None, Generation::FIRST, 0);
    let mut content = None;
    let mut payload = op == Op::Upsert;
    while let Some(word) = words.pop() {
        match word {
            "content" => content = Some(words.after(word)?),
            "from" => source = words.after(word)?,
            "in" => partition = number(words.after(word)?)?,
            "parent" => parent = Some(words.after(word)?),
            "schema" => schema = words.after(word)?,
            "bare" => payload = false,
            _ if word.starts_with('v') => found = version(word)?,
            _ if word.starts_with('g') => {
                generation = Generation(numbered(word, 'g').map_or_else(|| unknown(word), Ok)?);
            }
            _ if word.starts_with('e') => event = word,
            _ => return unknown(word),
        }
    }
    payload |= content.is_some() && op != Op::Delete;
    let usual = match op {
        Op::Upsert => "B",
        Op::Delete => "-",
        Op::Restore => "R",
        Op::Create => "C",
    };
    let ids = Ids {
        key: KeyHash { object: ObjectId::default(), generation },
        event: EventHash(hash(event)),
        fingerprint: Fingerprint(hash(content.unwrap_or(usual))),
        source: NameHash(hash(source)),
        parent: parent.map(|parent| ScopeHash(hash(parent))),
    };
    let change = Change {
        event_id: event.into(),
        op,
        key: ObjectKey::new("T1", "docs", "D7", generation).map_err(|e| e.to_string())?,
        parent: parent.map(Into::into),
        version: found,
        source: source.into(),
        kind: "".into(),
        schema: schema.into(),
        occurred_at_ms: None,
        payload: payload.then(|| Bytes::from_static(b"{}")),
        position: Position { partition, epoch: 0, offset: 0 },
    };
    Ok(Identified { change, ids })
}

fn read_policy(text: &str) -> Result<(CollectionPolicy, Authority), String> {
    let mut policy = CollectionPolicy::default();
    let all = Rule { ops: Op::ALL.to_vec(), ..Rule::default() };
    let mut authority = Authority { rules: vec![all.clone()] };
    for clause in parts(text, ',') {
        match clause {
            "terminal" => policy.lifecycle = Lifecycle::Terminal,
            "restorable" => policy.lifecycle = Lifecycle::Restorable,
            "versioned" => policy.lifecycle = Lifecycle::Versioned,
            "open generations" => policy.generations = Generations::Open,
            "equal deletes accepted" => policy.equal_version_delete = EqualVersionDelete::Accept,
            "suspends" => policy.on_conflict = OnConflict::Suspend,
            "stops" => policy.on_conflict = OnConflict::Stop,
            "shared versions" => policy.version_space = VersionSpace::Shared,
            "no rules" => authority.rules.clear(),
            _ => match clause.split_once(' ') {
                Some(("only", source)) => {
                    authority.rules = vec![Rule { sources: vec![source.into()], ..all.clone() }];
                }
                Some(("schemas", names)) => {
                    policy.schemas = names.split(' ').map(Into::into).collect();
                }
                _ => return unknown(clause),
            },
        }
    }
    Ok((policy, authority))
}

fn shown_verdict(verdict: Verdict) -> String {
    let reason = verdict.quarantine();
    let reason = reason.and_then(|reason| serde_json::to_string(&reason).ok()).unwrap_or_default();
    let reason = reason.trim_matches('"');
    match verdict {
        Verdict::Accepted | Verdict::Repeated | Verdict::Satisfied => verdict.counter().into(),
        Verdict::Stale | Verdict::Suspended => verdict.counter().into(),
        Verdict::Refused(refusal) => format!("refused {refusal}"),
        Verdict::Conflicting(_) => format!("conflict {reason}"),
        Verdict::Quarantined(_) => format!("quarantined {reason}"),
    }
}

/// What an entry says of its last change, where that is not the change just accepted, or, where
/// none was, not what it said before.
fn unexpected(entry: &Entry, before: Option<&Entry>, decided: &Decided, ids: &Ids) -> String {
    let got = (entry.event, entry.fingerprint);
    let expected = match (decided.verdict, before) {
        (Verdict::Accepted, _) => Some((ids.event, ids.fingerprint)),
        (_, before) => before.map(|before| (before.event, before.fingerprint)),
    };
    let mut words = String::new();
    if expected != Some(got) {
        words += &format!(" {} content {}", name(&got.0.0), name(&got.1.0));
    }
    if entry.partition != 0 {
        words += &format!(" in {}", entry.partition);
    }
    words
}

fn facts(decided: &Decided, op: Op) -> String {
    let mut facts = Vec::new();
    facts.extend(decided.removal.map(|covers| format!("removal of {}", shown_covers(covers))));
    facts.extend(decided.reopened.then(|| "reopened".to_string()));
    facts.extend(decided.opened.then(|| "opened".to_string()));
    facts.extend(decided.floor.map(|floor| format!("floor {floor}")));
    facts.extend(decided.request.map(|outcome| match outcome {
        RequestOutcome::Satisfied => "request satisfied".to_string(),
        RequestOutcome::Stale => "request stale".to_string(),
    }));
    if decided.verdict.prevents_resurrection(op) {
        facts.push("resurrection prevented".into());
    }
    if facts.is_empty() { "-".into() } else { facts.join(", ") }
}

/// The rows of the verdict table that none of the cases is about.
pub fn missing_rows<'a>(lefts: impl Iterator<Item = &'a str>) -> Vec<String> {
    let given: BTreeSet<String> = lefts
        .filter_map(|left| situation(left).ok())
        .map(|situation| {
            let change = &situation.change.change;
            let entry = situation.record.entry(change.key.generation);
            row(entry, change, situation.policy.lifecycle)
        })
        .collect();
    let mut all = Vec::new();
    for lifecycle in ["Terminal", "Restorable", "Versioned"] {
        for op in Op::ALL {
            for state in ["live", "removed"] {
                all.extend(
                    ["<", "=", ">", "none"].map(|c| format!("{lifecycle}: {state} {op} {c}")),
                );
            }
            all.extend(["any", "none"].map(|c| format!("{lifecycle}: none {op} {c}")));
        }
    }
    all.into_iter().filter(|row| !given.contains(row)).collect()
}

fn row(entry: Option<&Entry>, change: &Change, lifecycle: Lifecycle) -> String {
    let state = match entry.map(|entry| entry.state) {
        None => "none",
        Some(State::Live) => "live",
        Some(State::Removed) => "removed",
    };
    let compared = match (entry, change.version) {
        (_, None) => "none",
        (None, Some(_)) => "any",
        (Some(entry), version) => match version.cmp(&entry.version) {
            Ordering::Less => "<",
            Ordering::Equal => "=",
            Ordering::Greater => ">",
        },
    };
    format!("{lifecycle:?}: {state} {} {compared}", change.op)
}

/// The verdicts and refusals that none of the cases ends in.
pub fn missing_words<'a>(rights: impl Iterator<Item = &'a str>) -> Vec<String> {
    let given: BTreeSet<&str> = rights.filter_map(|right| right.split(" |").next()).collect();
    let mut all: Vec<String> =
        Refusal::ALL.iter().map(|refusal| format!("refused {refusal}")).collect();
    let verdicts = ["accepted", "repeated", "satisfied", "stale", "suspended"];
    let conflicts = ["event-means-other", "version-means-other", "version-missing"];
    all.extend(verdicts.map(Into::into));
    all.extend(conflicts.map(|reason| format!("conflict {reason}")));
    all.push("conflict other-version-space".into());
    all.push("quarantined unknown-schema".into());
    all.into_iter().filter(|word| !given.contains(word.as_str())).collect()
}
