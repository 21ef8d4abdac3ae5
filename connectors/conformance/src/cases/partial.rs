//! A bad record among good ones.

use std::collections::BTreeMap;

use bytes::Bytes;
use cenotaph_connector::{Class, Owner};

use super::{Case, case};
use crate::bench::{Bench, key};
use crate::report::{Verdict, ensure};

pub(crate) const CASES: &[Case] = &[
    case(
        "one bad record fails alone: same length, same order, the others are applied",
        fails_alone,
    ),
    case("a bad record is the producer's, and its fault repeats no content", faults),
    case("an empty batch is answered with an empty list", empty),
];

const NOT_OBJECTS: &[&str] =
    &["[\"s3cret\"]", "\"s3cret\"", "null", "17", "", "s3cret", "{\"s3cret\":", "{} s3cret"];

fn bad_payloads(bench: &Bench<'_>) -> Vec<String> {
    let fixed = NOT_OBJECTS.iter().map(|text| (*text).to_owned());
    fixed.chain(bench.harness.refused_payloads()).collect()
}

fn fails_alone(bench: &mut Bench<'_>) -> Verdict {
    let (first, bad, last) = (key("first")?, key("bad")?, key("last")?);
    bench.apply(&[(&bad, 1)])?;
    bench.commit()?;
    for (round, payload) in (2..).zip(bad_payloads(bench)) {
        let mut upserts = Vec::new();
        for key in [&first, &bad, &last] {
            upserts.push(bench.upsert(key, round)?);
        }
        upserts[1].payload = Bytes::from(payload.clone());
        let outcomes = bench.apply_raw(&upserts)?;
        let shape: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
        ensure(shape == [true, false, true], || {
            format!("with the payload {payload:?} second of three, the outcomes are {outcomes:?}")
        })?;
        bench.commit()?;
        // Of the bad one, what was there before stands.
        let held =
            BTreeMap::from([(first.clone(), round), (bad.clone(), 1), (last.clone(), round)]);
        bench.expect(&[first.clone(), bad.clone(), last.clone()], &held)?;
    }
    Ok(())
}

fn faults(bench: &mut Bench<'_>) -> Verdict {
    for payload in bad_payloads(bench) {
        let mut upsert = bench.upsert(&key("bad")?, 1)?;
        upsert.payload = Bytes::from(payload.clone());
        let outcomes = bench.apply_raw(&[upsert])?;
        let Some(Err(fault)) = outcomes.first() else {
            return ensure(false, || format!("the payload {payload:?} was taken"));
        };
        ensure(fault.class == Class::Terminal && fault.owner == Owner::Producer, || {
            format!("the payload {payload:?} is said to be {:?} of {:?}", fault.class, fault.owner)
        })?;
        let text = fault.to_string();
        ensure(!text.contains("s3cret"), || format!("the fault repeats content: {text}"))?;
    }
    bench.commit()?;
    bench.expect_gone(&key("bad")?)
}

fn empty(bench: &mut Bench<'_>) -> Verdict {
    let applied = bench.call(async |it| it.apply(&[]).await)?;
    let removed = bench.call(async |it| it.remove(&[]).await)?;
    let purged = bench.call(async |it| it.purge(&[]).await)?;
    ensure(applied.is_empty() && removed.is_empty() && purged.is_empty(), || {
        "an empty call has outcomes".into()
    })?;
    bench.commit()
}
