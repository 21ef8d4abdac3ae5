use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::{ObjectKey, Position};

const VECTORS: &str = include_str!("../../../testdata/key_hash.txt");

fn hasher() -> KeyHasher {
    let mut key = [0; 32];
    key.iter_mut().zip(0..).for_each(|(byte, n)| *byte = n);
    KeyHasher::new(HashKey(key))
}

/// The hash of a vector's parts as text, or why there is none.
fn hashed(hasher: &mut KeyHasher, kind: &str, parts: &str) -> Result<String, String> {
    let parts: Vec<serde_json::Value> = serde_json::from_str(parts).map_err(|e| e.to_string())?;
    let texts: Vec<Option<&str>> = parts.iter().map(|part| part.as_str()).collect();
    let hash = match (kind, &texts[..]) {
        ("tenant", [Some(t)]) => hasher.tenant(t).to_string(),
        ("collection", [Some(t), Some(c)]) => hasher.collection(t, c).to_string(),
        ("key", [Some(t), Some(c), Some(o), None]) => {
            let number = parts.last().and_then(serde_json::Value::as_u64);
            let number = number.and_then(|n| u32::try_from(n).ok()).ok_or("no generation")?;
            let object = hasher.object(t, c, o);
            KeyHash { object, generation: Generation(number) }.to_string()
        }
        ("scope", [Some(t)]) => hasher.scope(t, None, None).to_string(),
        ("scope", [Some(t), Some(c)]) => hasher.scope(t, Some(c), None).to_string(),
        ("scope", [Some(t), Some(c), Some(p)]) => hasher.scope(t, Some(c), Some(p)).to_string(),
        ("event", [Some(t), Some(e)]) => hasher.event(t, e).to_string(),
        ("source", [Some(s)]) => hasher.source(s).to_string(),
        ("fingerprint", [Some(op), Some(kind), payload]) => {
            let op = Op::ALL.into_iter().find(|o| o.word() == *op).ok_or("no such op")?;
            hasher.fingerprint(op, kind, payload.map(str::as_bytes)).to_string()
        }
        _ => return Err("no such vector".into()),
    };
    Ok(hash)
}

#[test]
fn the_vectors_hold() {
    let mut hasher = hasher();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (at, line) in VECTORS.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        count += 1;
        let outcome = line
            .rsplit_once(" = ")
            .and_then(|(left, hash)| left.split_once(' ').map(|(kind, parts)| (kind, parts, hash)))
            .ok_or_else(|| "not a vector".to_string())
            .and_then(|(kind, parts, expected)| match hashed(&mut hasher, kind, parts)? {
                got if got == expected => Ok(()),
                got => Err(format!("expected {expected}, got {got}")),
            });
        if let Err(error) = outcome {
            wrong.push(format!("key_hash.txt:{}: {error}", at + 1));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(count >= 25, "only {count} vectors were read");
}

#[test]
fn neither_a_hash_key_nor_what_was_hashed_is_printed() {
    assert_eq!(format!("{:?}", HashKey([7; 32])), "HashKey(secret)");
    let mut used = hasher();
    used.fingerprint(Op::Upsert, "", Some(b"a document"));
    assert_eq!(format!("{used:?}"), "KeyHasher(secret)");
}

#[test]
fn another_key_gives_other_hashes() {
    let mut other = KeyHasher::new(HashKey([1; 32]));
    assert_ne!(other.object("T1", "docs", "D7"), hasher().object("T1", "docs", "D7"));
}

#[test]
fn key_hashes_sort_by_their_bytes_and_share_their_prefixes() {
    let mut hasher = hasher();
    let object = hasher.object("T1", "docs", "D7");
    assert_eq!(object.tenant(), hasher.tenant("T1"));
    assert_eq!(object.collection(), hasher.collection("T1", "docs"));
    assert_eq!(object.collection().tenant(), hasher.tenant("T1"));
    let of = |n| KeyHash { object, generation: Generation(n) };
    assert!(of(2).to_bytes() < of(256).to_bytes());
    assert_eq!(of(258).to_bytes()[..32], object.0);
    assert_eq!(of(258).to_bytes()[32..], [0, 0, 1, 2]);
}

#[test]
fn identify_makes_each_hash_of_the_part_it_is_named_after() -> Result<(), crate::KeyError> {
    let change = Change {
        event_id: "evt-48".into(),
        op: Op::Upsert,
        key: ObjectKey::new("T1", "docs", "D7", Generation(3))?,
        parent: Some("user-42".into()),
        version: None,
        source: "crm".into(),
        kind: "document.changed".into(),
        schema: "document/3".into(),
        occurred_at_ms: None,
        payload: Some(Bytes::from_static(b"{}")),
        position: Position { partition: 0, epoch: 0, offset: 0 },
    };
    let mut hasher = hasher();
    let Identified { change: same, ids } = hasher.identify(change.clone());
    assert_eq!(same, change);
    let object = hasher.object("T1", "docs", "D7");
    assert_eq!(ids.key, KeyHash { object, generation: Generation(3) });
    assert_eq!(ids.event, hasher.event("T1", "evt-48"));
    assert_eq!(ids.source, hasher.source("crm"));
    assert_eq!(ids.parent, Some(hasher.scope("T1", Some("docs"), Some("user-42"))));
    let meaning = hasher.fingerprint(Op::Upsert, "document.changed", Some(b"{}"));
    assert_eq!(ids.fingerprint, meaning);
    let without_parent = hasher.identify(Change { parent: None, ..change });
    assert_eq!(without_parent.ids.parent, None);
    Ok(())
}

/// Texts of few letters, so that different lists of parts often read the same when joined, and
/// often share all but one part.
fn part() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!['a', '1']), 0..3)
        .prop_map(|letters| letters.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn different_objects_have_different_hashes(
        a in (part(), part(), part()),
        b in (part(), part(), part()),
    ) {
        let mut hasher = hasher();
        let of_a = hasher.object(&a.0, &a.1, &a.2);
        let of_b = hasher.object(&b.0, &b.1, &b.2);
        prop_assert_eq!(a == b, of_a == of_b);
    }

    #[test]
    fn different_payloads_mean_different_things(
        a in (part(), prop::option::of(part())),
        b in (part(), prop::option::of(part())),
    ) {
        let mut hasher = hasher();
        let mut of = |(kind, payload): &(String, Option<String>)| {
            hasher.fingerprint(Op::Upsert, kind, payload.as_deref().map(str::as_bytes))
        };
        let (of_a, of_b) = (of(&a), of(&b));
        prop_assert_eq!(a == b, of_a == of_b);
    }

    /// The hasher remembers the last collection; that must not show.
    #[test]
    fn a_hasher_that_was_used_before_answers_like_a_fresh_one(
        objects in prop::collection::vec((part(), part(), part()), 1..8),
    ) {
        let mut used = hasher();
        for (tenant, collection, object) in &objects {
            let fresh = hasher().object(tenant, collection, object);
            prop_assert_eq!(used.object(tenant, collection, object), fresh);
        }
    }
}
