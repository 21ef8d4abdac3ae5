//! A destination that reads a log again, in the way that `plan` tells it.

use std::collections::{BTreeMap, BTreeSet};

use cenotaph_core::decide::{Acceptance, Candidate, Plan, Verdict, plan};
use cenotaph_core::{Covers, KeyError, Op, State, Version};
use proptest::prelude::*;

use crate::events::{Event, Rules, any_rules, sound_events};
use crate::ledger::Ledger;

/// What a store without a fence holds, by generation: it keeps what it was given last.
type Store = BTreeMap<u32, (u64, u8)>;

struct Told {
    ledger: Ledger,
    accepted: BTreeSet<usize>,
}

fn decide_all(events: &[Event], rules: &Rules) -> Result<Told, KeyError> {
    let mut ledger = Ledger::default();
    let verdicts = ledger.take_all(events, rules)?;
    let accepted = verdicts.into_iter().enumerate();
    let accepted = accepted.filter(|(_, v)| *v == Verdict::Accepted).map(|(at, _)| at).collect();
    Ok(Told { ledger, accepted })
}

/// The removals lane: whatever a tombstone covers goes.
fn remove_covered(store: &mut Store, ledger: &Ledger) {
    store.retain(|generation, (version, _)| {
        let erased = ledger.entry(*generation).map_or(Covers::NOTHING, |e| e.erased_through);
        Version::new(*version).is_ok_and(|version| !erased.includes(version))
    });
}

/// The changes lane, partition after partition, from the first of `events`.
fn catch_up(
    store: &mut Store,
    events: &[Event],
    told: &Told,
    partitions: [u32; 2],
    positions_gone: bool,
) -> Result<(), KeyError> {
    for partition in partitions {
        for (at, event) in events.iter().enumerate().filter(|(_, e)| e.partition == partition) {
            if event.op == Op::Delete {
                continue;
            }
            let change = event.identified()?;
            let candidate = Candidate {
                ids: &change.ids,
                version: change.change.version,
                partition,
                acceptance: match positions_gone {
                    true => Acceptance::Gone,
                    false => Acceptance::Known(told.accepted.contains(&at)),
                },
                removal_pending: false,
                has_payload: event.payload,
            };
            if plan(told.ledger.entry(event.generation), &candidate) == Plan::Apply {
                let version = event.version.unwrap_or_default();
                store.insert(event.generation, (version, event.content));
            }
        }
    }
    Ok(())
}

/// What the ledger says a copy must hold.
fn expected(ledger: &Ledger) -> Store {
    let live = ledger
        .record
        .generations
        .iter()
        .filter(|(_, entry)| entry.state == State::Live && entry.flags.with_content);
    live.filter_map(|(generation, entry)| {
        let version = entry.version?.get();
        Some((generation.0, (version, entry.fingerprint.0[1])))
    })
    .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Invariant I5: wherever a copy was when it stopped, in whatever order it reads the partitions
    /// again and however often, it ends as the ledger says.
    #[test]
    fn a_copy_that_catches_up_ends_as_the_ledger_says(
        rules in any_rules(),
        events in sound_events(1..16),
        stopped in any::<prop::sample::Index>(),
        backwards in any::<bool>(),
        positions_gone in any::<bool>(),
    ) {
        let told = decide_all(&events, &rules)?;
        let partitions = if backwards { [1, 0] } else { [0, 1] };
        // What it had applied before it stopped, each change as it was accepted.
        let earlier = &events[..stopped.index(events.len())];
        let then = decide_all(earlier, &rules)?;
        let mut store = expected(&then.ledger);
        remove_covered(&mut store, &told.ledger);
        for _ in 0..2 {
            catch_up(&mut store, &events, &told, partitions, positions_gone)?;
            prop_assert_eq!(&store, &expected(&told.ledger));
        }
    }

    /// Nothing is written that a removal covers, nor while one is pending.
    #[test]
    fn nothing_covered_or_pending_is_written(
        rules in any_rules(),
        events in sound_events(1..16),
        candidate in crate::events::any_event(),
        accepted in prop::option::of(any::<bool>()),
        removal_pending in any::<bool>(),
    ) {
        let told = decide_all(&events, &rules)?;
        let change = candidate.identified()?;
        let entry = told.ledger.entry(candidate.generation);
        let planned = plan(entry, &Candidate {
            ids: &change.ids,
            version: change.change.version,
            partition: candidate.partition,
            acceptance: accepted.map_or(Acceptance::Gone, Acceptance::Known),
            removal_pending,
            has_payload: candidate.payload,
        });
        if planned == Plan::Apply || planned == Plan::Hold {
            prop_assert_eq!(planned == Plan::Hold, removal_pending);
            let covered = entry.map(|entry| entry.erased_through.includes_piece(change.change.version));
            prop_assert_eq!(covered, Some(false));
        }
    }
}
