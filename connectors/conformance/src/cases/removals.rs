//! Removing.

use std::collections::BTreeMap;

use cenotaph_connector::Removal;

use super::{Case, case};
use crate::bench::{Bench, everything, key, many, through};
use crate::report::Verdict;

pub(crate) const CASES: &[Case] = &[
    case("a removal removes", removes),
    case("what is absent already is removed", absent_is_removed),
    case("removing twice changes nothing", removes_twice),
    case("a removal leaves what is above its covers", leaves_newer),
    case("a removal after an upsert in the same commit wins", same_commit_removed),
    case("an upsert after a removal in the same commit stays", same_commit_upserted),
    case("thousands are removed at once, and nothing else", thousands),
    case("what was removed stays removed, however often and whenever it is looked for", stays_gone),
];

fn removes(bench: &mut Bench<'_>) -> Verdict {
    let (gone, kept) = (key("gone")?, key("kept")?);
    bench.apply(&[(&gone, 4), (&kept, 4)])?;
    bench.commit()?;
    bench.expect_present(&gone, Some(4))?;
    bench.remove(&[everything(&gone)])?;
    bench.commit()?;
    bench.expect(&[gone, kept.clone()], &BTreeMap::from([(kept, 4)]))
}

fn absent_is_removed(bench: &mut Bench<'_>) -> Verdict {
    let (never, kept) = (key("never-seen")?, key("kept")?);
    bench.remove(&[everything(&never), through(&never, 7)?])?;
    bench.commit()?;
    bench.expect_gone(&never)?;
    bench.apply(&[(&kept, 1)])?;
    bench.remove(&[everything(&never)])?;
    bench.commit()?;
    bench.expect(&[never, kept.clone()], &BTreeMap::from([(kept, 1)]))
}

fn removes_twice(bench: &mut Bench<'_>) -> Verdict {
    let object = key("twice")?;
    bench.apply(&[(&object, 2)])?;
    bench.commit()?;
    bench.remove(&[through(&object, 2)?, through(&object, 2)?])?;
    bench.commit()?;
    bench.remove(&[through(&object, 2)?])?;
    bench.commit()?;
    bench.expect_gone(&object)
}

fn leaves_newer(bench: &mut Bench<'_>) -> Verdict {
    let (newer, equal, older) = (key("newer")?, key("equal")?, key("older")?);
    bench.apply(&[(&newer, 9), (&equal, 8), (&older, 7)])?;
    bench.commit()?;
    bench.remove(&[through(&newer, 8)?, through(&equal, 8)?, through(&older, 8)?])?;
    bench.commit()?;
    bench.expect(&[newer.clone(), equal, older], &BTreeMap::from([(newer.clone(), 9)]))?;
    // In one commit with the upsert that it must leave.
    bench.apply(&[(&newer, 10)])?;
    bench.remove(&[through(&newer, 9)?])?;
    bench.commit()?;
    bench.expect_present(&newer, Some(10))
}

fn same_commit_removed(bench: &mut Bench<'_>) -> Verdict {
    let (fresh, known) = (key("fresh")?, key("known")?);
    bench.apply(&[(&known, 1)])?;
    bench.commit()?;
    bench.apply(&[(&fresh, 3), (&known, 3)])?;
    bench.remove(&[through(&fresh, 3)?, everything(&known)])?;
    bench.commit()?;
    bench.expect(&[fresh, known], &BTreeMap::new())
}

fn same_commit_upserted(bench: &mut Bench<'_>) -> Verdict {
    let object = key("reopened")?;
    bench.apply(&[(&object, 1)])?;
    bench.commit()?;
    bench.remove(&[through(&object, 2)?])?;
    bench.apply(&[(&object, 3)])?;
    bench.commit()?;
    bench.expect_present(&object, Some(3))?;
    bench.expect_readable(&BTreeMap::from([(object, 3)]))
}

fn thousands(bench: &mut Bench<'_>) -> Verdict {
    let (gone, kept) = (many("gone", 2_000)?, many("kept", 100)?);
    let all: Vec<_> = gone.iter().chain(&kept).map(|key| (key, 5)).collect();
    bench.apply(&all)?;
    bench.commit()?;
    let removals: Vec<Removal> = gone.iter().map(everything).collect();
    bench.remove(&removals)?;
    bench.commit()?;
    let held = kept.iter().map(|key| (key.clone(), 5)).collect();
    let all: Vec<_> = gone.into_iter().chain(kept).collect();
    bench.expect(&all, &held)
}

fn stays_gone(bench: &mut Bench<'_>) -> Verdict {
    let (gone, other) = (key("gone")?, key("other")?);
    bench.apply(&[(&gone, 1)])?;
    bench.commit()?;
    bench.remove(&[everything(&gone)])?;
    bench.commit()?;
    for round in 1..=8 {
        bench.expect_gone(&gone)?;
        bench.apply(&[(&other, round)])?;
        bench.commit()?;
        bench.expect(&[gone.clone(), other.clone()], &BTreeMap::from([(other.clone(), round)]))?;
    }
    bench.reopen()?;
    bench.expect_gone(&gone)
}
