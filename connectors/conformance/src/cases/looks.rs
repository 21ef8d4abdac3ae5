//! Looking.

use std::time::Duration;

use cenotaph_connector::{Fence, Finding};
use cenotaph_core::EvidenceLevel;

use super::{Case, case};
use crate::bench::{Bench, everything, key};
use crate::report::{Stop, Verdict, broken, ensure};

pub(crate) const CASES: &[Case] = &[
    case("a stale write after a removal is seen", sees_stale_write),
    case("what is there is present, whether a removal was asked for or not", sees_unremoved),
    case("a look sees what another wrote behind our back", sees_planted),
    case("a piece without a version is seen, and any removal covers it", sees_unversioned),
    case("a missing store is never an absence", missing_store),
    case("a look tells what it looked at, how, and the control record it saw", tells),
    case("a look is no stronger than what was asked for can be", strength),
];

fn sees_stale_write(bench: &mut Bench<'_>) -> Verdict {
    let object = key("stale")?;
    bench.apply(&[(&object, 5)])?;
    bench.commit()?;
    bench.remove(&[everything(&object)])?;
    bench.commit()?;
    bench.expect_gone(&object)?;
    bench.apply(&[(&object, 3)])?;
    bench.commit()?;
    match bench.capabilities()?.fence {
        Fence::Forever => bench.expect_gone(&object),
        Fence::For(length) if length > Duration::ZERO => bench.expect_gone(&object),
        _ => bench.expect_present(&object, Some(3)),
    }
}

fn sees_unremoved(bench: &mut Bench<'_>) -> Verdict {
    let object = key("never-removed")?;
    bench.apply(&[(&object, 5)])?;
    bench.commit()?;
    for _ in 0..3 {
        bench.expect_present(&object, Some(5))?;
    }
    bench.reopen()?;
    bench.expect_present(&object, Some(5))
}

fn sees_planted(bench: &mut Bench<'_>) -> Verdict {
    let (object, other) = (key("planted")?, key("other")?);
    bench.apply(&[(&object, 5), (&other, 5)])?;
    bench.commit()?;
    bench.remove(&[everything(&object)])?;
    bench.commit()?;
    bench.expect_gone(&object)?;
    let version = crate::bench::version(2)?;
    if !bench.harness.plant(&bench.folder(), &object, Some(version)) {
        return Err(Stop::Skipped("the harness cannot write behind the connector's back"));
    }
    bench.expect_present(&object, Some(2))
}

fn sees_unversioned(bench: &mut Bench<'_>) -> Verdict {
    let object = key("unversioned")?;
    bench.apply(&[(&key("other")?, 5)])?;
    bench.commit()?;
    bench.close()?;
    if !bench.harness.plant(&bench.folder(), &object, None) {
        return Err(Stop::Skipped("the harness cannot write behind the connector's back"));
    }
    let found = bench.open()?;
    ensure(found == bench.control, || format!("the plant changed the control record: {found:?}"))?;
    bench.expect_present(&object, None)?;
    bench.remove(&[crate::bench::through(&object, 1)?])?;
    bench.commit()?;
    bench.expect_gone(&object)
}

fn missing_store(bench: &mut Bench<'_>) -> Verdict {
    let (there, gone) = (key("there")?, key("gone")?);
    bench.apply(&[(&there, 5), (&gone, 5)])?;
    bench.commit()?;
    bench.remove(&[everything(&gone)])?;
    bench.commit()?;
    if !bench.harness.take_away(&bench.folder()) {
        return Err(Stop::Skipped("the harness cannot take the store away"));
    }
    let removals = [everything(&there), everything(&gone)];
    match bench.call(async |it| it.verify(&removals, EvidenceLevel::Absent).await)? {
        Ok(look) if look.findings.contains(&Finding::Gone) => {
            broken(format!("the store was gone, and the look found {:?}", look.findings))?;
        }
        // What was found may still be there: an open file outlives its name.
        Ok(_) | Err(_) => {}
    }
    // The rest of the case's closing would be about a store that is not there.
    bench.drop_connector();
    Ok(())
}

fn tells(bench: &mut Bench<'_>) -> Verdict {
    let object = key("told")?;
    bench.apply(&[(&object, 1)])?;
    bench.commit()?;
    let look = bench.look(&[everything(&object)], EvidenceLevel::Absent)?;
    ensure(!look.copies.is_empty(), || "no copy is named".into())?;
    ensure(!look.method.is_empty(), || "no method is named".into())?;
    ensure(look.control == bench.control, || {
        format!("the look saw the control record {:?}, not {:?}", look.control, bench.control)
    })
}

fn strength(bench: &mut Bench<'_>) -> Verdict {
    let object = key("strong")?;
    bench.apply(&[(&object, 1)])?;
    bench.commit()?;
    bench.remove(&[everything(&object)])?;
    bench.commit()?;
    let strongest = bench.capabilities()?.evidence;
    let levels = [EvidenceLevel::Acknowledged, EvidenceLevel::Absent, EvidenceLevel::Purged];
    for asked in levels {
        if asked == EvidenceLevel::Purged && strongest == EvidenceLevel::Purged {
            bench.purge(&[everything(&object)])?;
        }
        let look = bench.look(&[everything(&object)], asked)?;
        ensure(look.level <= strongest, || {
            format!("the look claims {:?}, the connector {strongest:?}", look.level)
        })?;
        ensure(look.level >= asked.min(strongest), || {
            format!("asked for {asked:?}, the look is only {:?}", look.level)
        })?;
    }
    Ok(())
}
