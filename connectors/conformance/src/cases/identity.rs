//! Who is who.

use std::collections::BTreeMap;

use cenotaph_core::{Generation, ObjectKey};

use super::{Case, case};
use crate::bench::{Bench, everything, short};
use crate::keys::awkward_keys;
use crate::report::{Stop, Verdict, broken};

pub(crate) const CASES: &[Case] = &[
    case("every key, however awkward, is written, found, removed and proved gone", awkward),
    case("removing one key touches no other, however alike", alike),
    case("tenants, collections and generations do not touch each other", apart),
];

fn hold_all(bench: &mut Bench<'_>) -> Result<(Vec<ObjectKey>, BTreeMap<ObjectKey, u64>), Stop> {
    let keys = awkward_keys();
    let held: BTreeMap<ObjectKey, u64> = keys.iter().cloned().zip(1..).collect();
    let all: Vec<_> = held.iter().map(|(key, version)| (key, *version)).collect();
    bench.apply(&all)?;
    bench.commit()?;
    Ok((keys, held))
}

fn awkward(bench: &mut Bench<'_>) -> Verdict {
    let (keys, held) = hold_all(bench)?;
    bench.expect(&keys, &held)?;
    bench.reopen()?;
    bench.expect(&keys, &held)?;
    let removals: Vec<_> = keys.iter().map(everything).collect();
    bench.remove(&removals)?;
    bench.commit()?;
    bench.expect(&keys, &BTreeMap::new())
}

fn alike(bench: &mut Bench<'_>) -> Verdict {
    let (keys, mut held) = hold_all(bench)?;
    // Singly, in an order in which no key follows its neighbours.
    for step in 0..keys.len() {
        let gone = &keys[(step * 7) % keys.len()];
        if held.remove(gone).is_none() {
            continue;
        }
        bench.remove(&[everything(gone)])?;
        bench.commit()?;
        if let Err(Stop::Broken(saw)) = bench.expect(&keys, &held) {
            return broken(format!("after {} was removed: {saw}", short(gone)));
        }
    }
    Ok(())
}

fn apart(bench: &mut Bench<'_>) -> Verdict {
    let mut keys = Vec::new();
    for tenant in ["T1", "T2", "T10", "t1"] {
        for collection in ["docs", "docs2", "doc"] {
            for generation in 1..=2 {
                let made = ObjectKey::new(tenant, collection, "D7", Generation(generation));
                keys.push(made.map_err(|error| Stop::Broken(error.to_string()))?);
            }
        }
    }
    let mut held: BTreeMap<ObjectKey, u64> = keys.iter().cloned().zip(1..).collect();
    let all: Vec<_> = held.iter().map(|(key, version)| (key, *version)).collect();
    bench.apply(&all)?;
    bench.commit()?;
    for gone in &keys {
        held.remove(gone);
        bench.remove(&[everything(gone)])?;
        bench.commit()?;
        bench.expect(&keys, &held)?;
    }
    Ok(())
}
