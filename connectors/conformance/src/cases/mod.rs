//! The cases, one a promise.

mod control;
mod durable;
mod identity;
mod looks;
mod partial;
mod purges;
mod removals;
mod scans;
mod writes;

use crate::bench::Bench;
use crate::report::Verdict;

/// One promise and how it is put to the test.
pub(crate) struct Case {
    pub promise: &'static str,
    pub run: fn(&mut Bench<'_>) -> Verdict,
}

const fn case(promise: &'static str, run: fn(&mut Bench<'_>) -> Verdict) -> Case {
    Case { promise, run }
}

/// All cases, deletes first.
pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    let groups: [&[Case]; 9] = [
        removals::CASES,
        looks::CASES,
        purges::CASES,
        identity::CASES,
        partial::CASES,
        durable::CASES,
        control::CASES,
        scans::CASES,
        writes::CASES,
    ];
    groups.into_iter().flatten()
}
