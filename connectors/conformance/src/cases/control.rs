//! The control record.

use std::collections::BTreeMap;
use std::fs;

use cenotaph_connector::Commit;
use cenotaph_core::EvidenceLevel;

use super::{Case, case};
use crate::bench::{Bench, copy_folder, everything, key};
use crate::report::{Stop, Verdict, broken, ensure};

pub(crate) const CASES: &[Case] = &[
    case("the control record is kept with each commit", kept),
    case("a commit over another control record than the expected one is refused", refused),
    case("what waited for a refused commit is in no later one", dropped),
    case("an older copy of the store shows its older control record", older_copy),
    case("an emptied store shows no control record", emptied),
];

fn controlled(bench: &mut Bench<'_>) -> Verdict {
    if bench.capabilities()?.control {
        Ok(())
    } else {
        Err(Stop::Skipped("the connector keeps no control record"))
    }
}

fn kept(bench: &mut Bench<'_>) -> Verdict {
    controlled(bench)?;
    let object = key("any")?;
    for version in 1..=4 {
        // Commits without a change, with removals only, and with upserts.
        match version {
            2 => bench.remove(&[everything(&object)])?,
            3 => {}
            _ => bench.apply(&[(&object, version)])?,
        }
        bench.commit()?;
        let look = bench.look(&[everything(&object)], EvidenceLevel::Absent)?;
        ensure(look.control == bench.control, || format!("a look saw {:?}", look.control))?;
        bench.reopen()?;
    }
    Ok(())
}

fn refused(bench: &mut Bench<'_>) -> Verdict {
    controlled(bench)?;
    let object = key("any")?;
    bench.apply(&[(&object, 1)])?;
    bench.commit()?;
    let stands = bench.control.clone();
    let mut foreign = bench.next_control();
    foreign.ledger = "f0e1".into();
    let mut next = bench.next_control();
    next.commit += 1;
    for expected in [None, Some(&foreign), Some(&next)] {
        let attempt = bench.next_control();
        match bench.commit_over(&attempt, expected)? {
            Ok(Commit::Found(found)) => ensure(found == stands, || {
                format!("the commit found {found:?} where {stands:?} stands")
            })?,
            Ok(Commit::Done) => return broken(format!("committed over {expected:?}")),
            Err(fault) => return broken(format!("commit failed: {fault}")),
        }
        let look = bench.look(&[everything(&object)], EvidenceLevel::Absent)?;
        ensure(look.control == stands, || format!("now {:?} stands there", look.control))?;
    }
    bench.apply(&[(&object, 2)])?;
    bench.commit()?;
    bench.expect_present(&object, Some(2))
}

fn dropped(bench: &mut Bench<'_>) -> Verdict {
    controlled(bench)?;
    if !bench.harness.transactional() {
        return Err(Stop::Skipped("the store shows each write at once"));
    }
    let (known, fresh) = (key("known")?, key("fresh")?);
    bench.apply(&[(&known, 1)])?;
    bench.commit()?;
    bench.apply(&[(&fresh, 1), (&known, 2)])?;
    bench.remove(&[everything(&known)])?;
    let attempt = bench.next_control();
    let answer = bench.commit_over(&attempt, None)?;
    ensure(matches!(answer, Ok(Commit::Found(_))), || format!("the commit answered {answer:?}"))?;
    bench.commit()?;
    bench.expect(&[known.clone(), fresh], &BTreeMap::from([(known, 1)]))
}

fn older_copy(bench: &mut Bench<'_>) -> Verdict {
    controlled(bench)?;
    if !bench.harness.folder_is_the_store() {
        return Err(Stop::Skipped("the store is not in the folder"));
    }
    let object = key("restored")?;
    bench.apply(&[(&object, 1)])?;
    bench.commit()?;
    let (before, backup) = (bench.control.clone(), bench.beside("backup"));
    bench.close()?;
    copy_folder(&bench.folder(), &backup)?;
    bench.reopen()?;
    bench.remove(&[everything(&object)])?;
    bench.commit()?;
    bench.expect_gone(&object)?;
    bench.close()?;
    let swapped = fs::remove_dir_all(bench.folder());
    ensure(swapped.is_ok(), || format!("the folder could not be taken away: {swapped:?}"))?;
    copy_folder(&backup, &bench.folder())?;
    let found = bench.open()?;
    ensure(found == before, || format!("the older copy shows {found:?}, not {before:?}"))?;
    bench.control = before;
    bench.expect_present(&object, Some(1))?;
    bench.remove(&[everything(&object)])?;
    bench.commit()?;
    bench.expect_gone(&object)
}

fn emptied(bench: &mut Bench<'_>) -> Verdict {
    controlled(bench)?;
    let object = key("lost")?;
    bench.apply(&[(&object, 1)])?;
    bench.commit()?;
    bench.close()?;
    if !bench.harness.take_away(&bench.folder()) {
        return Err(Stop::Skipped("the harness cannot take the store away"));
    }
    let found = bench.open()?;
    ensure(found.is_none(), || format!("an emptied store shows {found:?}"))?;
    bench.control = None;
    bench.expect_gone(&object)?;
    bench.apply(&[(&object, 1)])?;
    bench.commit()?;
    bench.expect_present(&object, Some(1))
}
