//! The tables `plan.txt` and `highest.txt`.

use cenotaph_core::decide::{Acceptance, Candidate, Plan, highest_only, plan};
use cenotaph_core::{
    EventHash, Fingerprint, Generation, Ids, KeyHash, NameHash, ObjectId, Version,
};

use crate::words::{Words, entry, hash, number, parts, unknown, version};

/// `entry | change at its destination -> plan`.
pub fn decide(left: &str) -> Result<String, String> {
    let columns = parts(left, '|');
    let [known, candidate] = columns[..] else {
        return Err("needs entry | change".into());
    };
    let mut ids = Ids {
        key: KeyHash { object: ObjectId::default(), generation: Generation::FIRST },
        event: EventHash(hash("e2")),
        fingerprint: Fingerprint(hash("B")),
        source: NameHash(hash("crm")),
        parent: None,
    };
    let (mut found, mut partition, mut acceptance) = (None, 0, None);
    let (mut removal_pending, mut has_payload) = (false, true);
    let mut words = Words::of(candidate);
    while let Some(word) = words.pop() {
        match word {
            "content" => ids.fingerprint = Fingerprint(hash(words.after(word)?)),
            "in" => partition = number(words.after(word)?)?,
            "accepted" => acceptance = Some(Acceptance::Known(true)),
            "unaccepted" => acceptance = Some(Acceptance::Known(false)),
            "positions-gone" => acceptance = Some(Acceptance::Gone),
            "removal-pending" => removal_pending = true,
            "bare" => has_payload = false,
            _ if word.starts_with('v') => found = version(word)?,
            _ if word.starts_with('e') => ids.event = EventHash(hash(word)),
            _ => return unknown(word),
        }
    }
    let acceptance = acceptance.ok_or("accepted, unaccepted or positions-gone?")?;
    let candidate = Candidate {
        ids: &ids,
        version: found,
        partition,
        acceptance,
        removal_pending,
        has_payload,
    };
    Ok(match plan(entry(known)?.as_ref(), &candidate) {
        Plan::Apply => "apply",
        Plan::Superseded => "superseded",
        Plan::Hold => "hold",
        Plan::NotAccepted => "not accepted",
    }
    .into())
}

/// `key version, key version, … -> the places, counted from 1, of those that are applied`.
pub fn decide_highest(left: &str) -> Result<String, String> {
    let batch = parts(left, ',')
        .into_iter()
        .filter(|change| *change != "nothing")
        .map(one_of_a_batch)
        .collect::<Result<Vec<_>, _>>()?;
    let places: Vec<String> =
        highest_only(&batch).into_iter().map(|at| (at + 1).to_string()).collect();
    Ok(if places.is_empty() { "nothing".into() } else { places.join(" ") })
}

fn one_of_a_batch(text: &str) -> Result<(KeyHash, Version), String> {
    let mut words = Words::of(text);
    let key = words.pop().ok_or("no key")?;
    let (object, generation) = key.split_once('~').unwrap_or((key, "1"));
    let generation = Generation(number(generation)?);
    let version = version(words.after(key)?)?.ok_or("no version")?;
    Ok((KeyHash { object: ObjectId(hash(object)), generation }, version))
}
