//! Making bytes go.

use std::collections::BTreeMap;

use cenotaph_connector::{Finding, Purge, Removal};
use cenotaph_core::{EvidenceLevel, ObjectKey};

use super::{Case, case};
use crate::bench::{Bench, everything, key, many, marker, through};
use crate::report::{Stop, Verdict, broken, ensure};

pub(crate) const CASES: &[Case] = &[
    case("after a purge no byte of what was removed is in any file", bytes_go),
    case("what still has bytes in a file is not gone at the level purged", bytes_seen),
    case("purging twice, or what was never there, changes nothing", purges_twice),
    case("a purge serves many removals and leaves the rest as it was", purges_many),
    case("what a commit both wrote and removed is purged too", purges_same_commit),
    case("a connector that cannot purge says so", says_so),
];

fn purgeable(bench: &mut Bench<'_>) -> Verdict {
    match bench.capabilities()?.evidence {
        EvidenceLevel::Purged => Ok(()),
        _ => Err(Stop::Skipped("the connector claims no purge")),
    }
}

fn on_disk(bench: &Bench<'_>, key: &ObjectKey, version: u64) -> Option<bool> {
    bench.harness.bytes_on_disk(&bench.folder(), marker(key, version).as_bytes())
}

/// At the level purged, all of these must be gone.
fn expect_purged(bench: &mut Bench<'_>, removals: &[Removal]) -> Verdict {
    let look = bench.look(removals, EvidenceLevel::Purged)?;
    ensure(look.level == EvidenceLevel::Purged, || format!("the look is only {:?}", look.level))?;
    match look.findings.iter().find(|found| **found != Finding::Gone) {
        None => Ok(()),
        Some(found) => broken(format!("after the purge: {found:?}")),
    }
}

fn bytes_go(bench: &mut Bench<'_>) -> Verdict {
    purgeable(bench)?;
    let (gone, kept) = (key("gone")?, key("kept")?);
    bench.apply(&[(&gone, 1), (&kept, 1)])?;
    bench.commit()?;
    bench.apply(&[(&gone, 2)])?;
    bench.commit()?;
    bench.remove(&[everything(&gone)])?;
    bench.commit()?;
    bench.purge(&[everything(&gone)])?;
    expect_purged(bench, &[everything(&gone)])?;
    for version in [1, 2] {
        ensure(on_disk(bench, &gone, version) != Some(true), || {
            format!("version {version} of the purged object is still in a file")
        })?;
    }
    bench.expect(&[gone, kept.clone()], &BTreeMap::from([(kept, 1)]))?;
    bench.reopen()
}

fn bytes_seen(bench: &mut Bench<'_>) -> Verdict {
    purgeable(bench)?;
    let keys = many("same-file", 50)?;
    let all: Vec<_> = keys.iter().map(|key| (key, 1)).collect();
    bench.apply(&all)?;
    bench.commit()?;
    let gone = &keys[17];
    bench.remove(&[everything(gone)])?;
    bench.commit()?;
    let look = bench.look(&[everything(gone)], EvidenceLevel::Purged)?;
    let claims = look.level == EvidenceLevel::Purged && look.findings == [Finding::Gone];
    ensure(!(claims && on_disk(bench, gone, 1) == Some(true)), || {
        "the look claims that the bytes are gone, and they are in a file".into()
    })
}

fn purges_twice(bench: &mut Bench<'_>) -> Verdict {
    purgeable(bench)?;
    let (gone, never, newer) = (key("gone")?, key("never")?, key("newer")?);
    bench.purge(&[everything(&never)])?;
    bench.apply(&[(&gone, 1), (&newer, 9)])?;
    bench.commit()?;
    let removals = [everything(&gone), everything(&never), through(&newer, 8)?];
    bench.remove(&removals)?;
    bench.commit()?;
    for _ in 0..2 {
        bench.purge(&removals)?;
    }
    expect_purged(bench, &removals[..2])?;
    bench.expect(&[gone, never, newer.clone()], &BTreeMap::from([(newer, 9)]))
}

fn purges_many(bench: &mut Bench<'_>) -> Verdict {
    purgeable(bench)?;
    let keys = many("spread", 400)?;
    for part in keys.chunks(100) {
        let part: Vec<_> = part.iter().map(|key| (key, 1)).collect();
        bench.apply(&part)?;
        bench.commit()?;
    }
    let (gone, kept): (Vec<_>, Vec<_>) =
        keys.iter().cloned().enumerate().partition(|(number, _)| number % 4 == 1);
    let removals: Vec<Removal> = gone.iter().map(|(_, key)| everything(key)).collect();
    bench.remove(&removals)?;
    bench.commit()?;
    bench.purge(&removals)?;
    expect_purged(bench, &removals)?;
    for (_, key) in &gone {
        ensure(on_disk(bench, key, 1) != Some(true), || "purged bytes are in a file".into())?;
    }
    let held = kept.into_iter().map(|(_, key)| (key, 1)).collect();
    bench.expect(&keys, &held)?;
    bench.reopen()?;
    bench.expect(&keys, &held)
}

fn purges_same_commit(bench: &mut Bench<'_>) -> Verdict {
    purgeable(bench)?;
    let (gone, kept) = (key("gone")?, key("kept")?);
    bench.apply(&[(&gone, 1), (&kept, 1)])?;
    bench.remove(&[everything(&gone)])?;
    bench.commit()?;
    bench.purge(&[everything(&gone)])?;
    expect_purged(bench, &[everything(&gone)])?;
    ensure(on_disk(bench, &gone, 1) != Some(true), || "purged bytes are in a file".into())?;
    bench.expect_present(&kept, Some(1))
}

fn says_so(bench: &mut Bench<'_>) -> Verdict {
    if purgeable(bench).is_ok() {
        return Err(Stop::Skipped("the connector can purge"));
    }
    let object = key("kept")?;
    let answers = bench.call(async |it| it.purge(&[everything(&object)]).await)?;
    ensure(answers == [Ok(Purge::Unsupported)], || format!("purge answered {answers:?}"))
}
