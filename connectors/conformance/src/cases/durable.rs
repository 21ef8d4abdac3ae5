//! What survives.

use std::collections::BTreeMap;

use super::{Case, case};
use crate::bench::{Bench, everything, key};
use crate::report::{Stop, Verdict};

pub(crate) const CASES: &[Case] = &[
    case("what was committed survives a restart", committed_survives),
    case("what was not committed is neither visible nor durable", uncommitted_does_not),
    case("a connector dropped without a word can be opened again", dropped),
    case("opening twice changes nothing", opens_twice),
];

fn committed_survives(bench: &mut Bench<'_>) -> Verdict {
    let (kept, gone) = (key("kept")?, key("gone")?);
    let held = BTreeMap::from([(kept.clone(), 2)]);
    bench.apply(&[(&kept, 2), (&gone, 2)])?;
    bench.commit()?;
    bench.reopen()?;
    bench.remove(&[everything(&gone)])?;
    bench.commit()?;
    for _ in 0..2 {
        bench.reopen()?;
        bench.expect(&[kept.clone(), gone.clone()], &held)?;
    }
    Ok(())
}

fn uncommitted_does_not(bench: &mut Bench<'_>) -> Verdict {
    if !bench.harness.transactional() {
        return Err(Stop::Skipped("the store shows each write at once"));
    }
    let (known, fresh) = (key("known")?, key("fresh")?);
    let both = [known.clone(), fresh.clone()];
    let held = BTreeMap::from([(known.clone(), 1)]);
    bench.apply(&[(&known, 1)])?;
    bench.commit()?;
    bench.apply(&[(&fresh, 2), (&known, 2)])?;
    bench.remove(&[everything(&known)])?;
    bench.expect(&both, &held)?;
    bench.reopen()?;
    bench.expect(&both, &held)
}

fn dropped(bench: &mut Bench<'_>) -> Verdict {
    let (known, fresh) = (key("known")?, key("fresh")?);
    bench.apply(&[(&known, 1)])?;
    bench.commit()?;
    bench.apply(&[(&fresh, 1)])?;
    bench.drop_connector();
    let found = bench.open()?;
    crate::report::ensure(found == bench.control, || format!("the control record is {found:?}"))?;
    bench.expect_present(&known, Some(1))?;
    bench.apply(&[(&fresh, 1)])?;
    bench.commit()?;
    bench.expect(&[known.clone(), fresh.clone()], &BTreeMap::from([(known, 1), (fresh, 1)]))
}

fn opens_twice(bench: &mut Bench<'_>) -> Verdict {
    let object = key("known")?;
    bench.apply(&[(&object, 1)])?;
    bench.commit()?;
    for _ in 0..3 {
        bench.reopen()?;
    }
    bench.expect_present(&object, Some(1))
}
