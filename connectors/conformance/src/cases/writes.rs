//! Writing.

use std::collections::BTreeMap;

use cenotaph_core::ObjectKey;

use super::{Case, case};
use crate::bench::{Bench, key, many};
use crate::random;
use crate::report::Verdict;

pub(crate) const CASES: &[Case] = &[
    case("of each key only the last version is there", last_version_only),
    case("applying the same version twice changes nothing", applies_twice),
    case("any sequence of batches equals applying its steps one by one", random::sequences),
];

fn last_version_only(bench: &mut Bench<'_>) -> Verdict {
    let keys = many("versioned", 20)?;
    for version in 1..=5 {
        let all: Vec<_> = keys.iter().map(|key| (key, version)).collect();
        bench.apply(&all)?;
        if version % 2 == 1 {
            bench.commit()?;
        }
    }
    let held: BTreeMap<ObjectKey, u64> = keys.iter().map(|key| (key.clone(), 5)).collect();
    bench.expect(&keys, &held)?;
    bench.reopen()?;
    bench.expect(&keys, &held)
}

fn applies_twice(bench: &mut Bench<'_>) -> Verdict {
    let object = key("again")?;
    bench.apply(&[(&object, 3)])?;
    bench.apply(&[(&object, 3)])?;
    bench.commit()?;
    bench.apply(&[(&object, 3)])?;
    bench.commit()?;
    bench.expect_present(&object, Some(3))?;
    bench.expect_readable(&BTreeMap::from([(object, 3)]))
}
