//! Listing.

use std::collections::BTreeMap;

use cenotaph_connector::{Held, Page};
use cenotaph_core::record_key;

use super::{Case, case};
use crate::bench::{Bench, everything, key, many, version};
use crate::keys::awkward_keys;
use crate::report::{Stop, Verdict, broken, ensure};

pub(crate) const CASES: &[Case] = &[
    case("a scan lists everything once, with its version, and nothing else", lists),
    case("a write between two pages hides nothing that was there", undisturbed),
    case("a scan of an empty store is one empty page", empty),
];

fn scannable(bench: &mut Bench<'_>) -> Verdict {
    if bench.capabilities()?.scan {
        Ok(())
    } else {
        Err(Stop::Skipped("the connector cannot scan"))
    }
}

fn page(bench: &mut Bench<'_>, after: Option<&str>, limit: usize) -> Result<Page, Stop> {
    let page = bench.call(async |it| it.scan(after, limit).await)?;
    let page = page.map_err(|fault| Stop::Broken(format!("scan failed: {fault}")))?;
    ensure(page.held.len() <= limit, || {
        format!("a page of at most {limit} holds {}", page.held.len())
    })?;
    Ok(page)
}

/// Everything, page by page; `between` runs after the second page.
fn scan(
    bench: &mut Bench<'_>,
    limit: usize,
    between: fn(&mut Bench<'_>) -> Verdict,
) -> Result<Vec<Held>, Stop> {
    let (mut all, mut after) = (Vec::new(), None);
    for number in 0..10_000 {
        let next = page(bench, after.as_deref(), limit)?;
        all.extend(next.held);
        if number == 1 {
            between(bench)?;
        }
        if next.next.is_none() {
            return Ok(all);
        }
        ensure(next.next != after, || "a page leads to itself".into())?;
        after = next.next;
    }
    broken("the scan does not end")
}

fn lists(bench: &mut Bench<'_>) -> Verdict {
    scannable(bench)?;
    let (kept, gone) = (many("kept", 150)?, many("gone", 60)?);
    let awkward = awkward_keys();
    let held: BTreeMap<_, u64> = kept.iter().chain(&awkward).cloned().zip(1..).collect();
    let all: Vec<_> = held.iter().map(|(key, version)| (key, *version)).collect();
    for part in all.chunks(70) {
        bench.apply(part)?;
        bench.commit()?;
    }
    let also: Vec<_> = gone.iter().map(|key| (key, 1)).collect();
    bench.apply(&also)?;
    bench.commit()?;
    let removals: Vec<_> = gone.iter().map(everything).collect();
    bench.remove(&removals)?;
    bench.commit()?;
    let mut wanted: Vec<(String, u64)> =
        held.iter().map(|(key, version)| (record_key(key), *version)).collect();
    wanted.sort();
    for limit in [1, 7, 1_000] {
        let mut listed = scan(bench, limit, |_| Ok(()))?;
        listed.sort_by(|a, b| a.id.cmp(&b.id));
        ensure(listed.len() == wanted.len(), || {
            format!("in pages of {limit}, {} are listed of {}", listed.len(), wanted.len())
        })?;
        for (held, (id, number)) in listed.iter().zip(&wanted) {
            let right = held.id == *id && held.oldest == Some(version(*number)?);
            ensure(right, || format!("listed {held:?} where {id} at {number} is"))?;
        }
    }
    Ok(())
}

fn undisturbed(bench: &mut Bench<'_>) -> Verdict {
    scannable(bench)?;
    let keys = many("steady", 60)?;
    let all: Vec<_> = keys.iter().map(|key| (key, 1)).collect();
    bench.apply(&all)?;
    bench.commit()?;
    let listed = scan(bench, 7, |bench| {
        let (early, late) = (key("a-early")?, key("z-late")?);
        let moved = many("steady", 60)?;
        bench.apply(&[(&early, 1), (&late, 1), (&moved[30], 2)])?;
        bench.remove(&[everything(&moved[45])])?;
        bench.commit()
    })?;
    for (number, key) in keys.iter().enumerate().filter(|(number, _)| *number != 45) {
        let id = record_key(key);
        let times = listed.iter().filter(|held| held.id == id).count();
        ensure(times == 1, || format!("number {number} of 60 is listed {times} times"))?;
    }
    Ok(())
}

fn empty(bench: &mut Bench<'_>) -> Verdict {
    scannable(bench)?;
    let listed = scan(bench, 10, |_| Ok(()))?;
    ensure(listed.is_empty(), || format!("an empty store lists {listed:?}"))
}
