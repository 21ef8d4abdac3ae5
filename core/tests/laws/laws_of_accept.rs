//! What the model promises of verdicts.

use cenotaph_core::decide::Verdict;
use cenotaph_core::{Covers, Entry, Op, State};
use proptest::prelude::*;

use crate::events::{Event, Rules, TERMINAL, any_event, any_rules, sound_events};
use crate::ledger::Ledger;
use crate::reference::{Known, World};

fn word(verdict: Verdict) -> String {
    let reason = verdict.quarantine();
    let reason = reason.and_then(|reason| serde_json::to_string(&reason).ok()).unwrap_or_default();
    match verdict {
        Verdict::Refused(refusal) => format!("refused {refusal}"),
        Verdict::Conflicting(_) => format!("conflict {}", reason.trim_matches('"')),
        _ => verdict.counter().into(),
    }
}

/// An entry in the reference's plain numbers.
fn plain(entry: &Entry) -> Known {
    let op = match entry.fingerprint.0[0] {
        1 => Op::Upsert,
        2 => Op::Delete,
        3 => Op::Restore,
        _ => Op::Create,
    };
    Known {
        live: entry.state == State::Live,
        version: entry.version.map_or(0, |version| version.get()),
        event: entry.event.0[0],
        meaning: (op, entry.fingerprint.0[1]),
        space: entry.space.0[0],
        parent: entry.parent.map(|parent| parent.0[0]),
        erased_through: entry.erased_through.to_number(),
        partition: entry.partition,
        with_content: entry.flags.with_content,
        suspended: entry.flags.suspended,
        requested: entry.flags.has_requests,
        closed_for_good: entry.flags.terminal,
    }
}

/// Sequences whose policy changes now and then.
fn under_changing_rules() -> impl Strategy<Value = Vec<(Rules, Vec<Event>)>> {
    prop::collection::vec((any_rules(), prop::collection::vec(any_event(), 1..12)), 1..5)
}

/// A set of changes with some of them repeated, in two different orders.
fn in_two_orders() -> impl Strategy<Value = (Vec<Event>, Vec<Event>)> {
    sound_events(1..10).prop_flat_map(|events| {
        let one_key: Vec<Event> =
            events.into_iter().map(|event| Event { generation: 1, ..event }).collect();
        let repeated = prop::sample::subsequence(one_key.clone(), 0..=one_key.len());
        repeated.prop_flat_map(move |again| {
            let all: Vec<Event> = one_key.iter().copied().chain(again).collect();
            (Just(one_key.clone()).prop_shuffle(), Just(all).prop_shuffle())
        })
    })
}

/// What `terminal` promises not to depend on order: whether the key is known, live or removed, and
/// what is erased. The version of a live one as well, where no `create` began at its own.
fn outcome(ledger: &Ledger, creates: bool) -> Option<(State, Covers, bool, u64)> {
    let entry = ledger.entry(1)?;
    let ordered = entry.state == State::Live && !creates;
    let version = entry.version.filter(|_| ordered).map_or(0, |version| version.get());
    Some((entry.state, entry.erased_through, entry.flags.terminal, version))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_reference_agrees(steps in under_changing_rules()) {
        let (mut ledger, mut world) = (Ledger::default(), World::default());
        for (rules, events) in &steps {
            for event in events {
                let decided = ledger.take(event, rules)?;
                let expected = world.take(event, rules);
                prop_assert_eq!(word(decided.verdict), expected, "{:?} under {:?}", event, rules);
                let entries = ledger.record.generations.iter();
                let entries = entries.map(|(generation, entry)| (generation.0, plain(entry)));
                prop_assert_eq!(&entries.collect::<std::collections::BTreeMap<_, _>>(), &world.entries);
                prop_assert_eq!(ledger.record.floor, world.floor);
            }
        }
    }

    #[test]
    fn under_terminal_the_outcome_does_not_depend_on_order((once, again) in in_two_orders()) {
        let (mut one, mut other) = (Ledger::default(), Ledger::default());
        one.take_all(&once, &TERMINAL)?;
        other.take_all(&again, &TERMINAL)?;
        let creates = once.iter().any(|event| event.op == Op::Create);
        prop_assert_eq!(outcome(&one, creates), outcome(&other, creates));
        let deleted = once.iter().any(|event| event.op == Op::Delete);
        let removed = one.entry(1).is_some_and(|entry| entry.state == State::Removed);
        prop_assert_eq!(removed, deleted, "remove wins");
    }

    #[test]
    fn nothing_removed_comes_back_by_what_is_not_newer(steps in under_changing_rules()) {
        let mut ledger = Ledger::default();
        for (rules, events) in &steps {
            for event in events {
                let before = ledger.entry(event.generation).cloned();
                let decided = ledger.take(event, rules)?;
                let after = ledger.entry(event.generation);
                let (Some(before), Some(after)) = (before, after) else { continue };
                if before.state == State::Removed && after.state == State::Live {
                    prop_assert!(decided.reopened);
                    prop_assert!(event.version > before.version.map(|version| version.get()));
                    prop_assert!(after.version.is_some_and(|v| !after.erased_through.includes(v)));
                    prop_assert!(!before.flags.terminal, "closed for good");
                    prop_assert!(event.op == Op::Upsert || event.op == Op::Restore);
                } else {
                    prop_assert!(!decided.reopened);
                }
            }
        }
    }

    #[test]
    fn what_is_known_of_the_past_never_shrinks(steps in under_changing_rules()) {
        let mut ledger = Ledger::default();
        for (rules, events) in &steps {
            for event in events {
                let before = ledger.record.clone();
                let _ = ledger.take(event, rules)?;
                prop_assert!(ledger.record.floor >= before.floor);
                for (generation, old) in &before.generations {
                    let new = ledger.record.entry(*generation);
                    prop_assert!(new.is_some_and(|new| new.erased_through >= old.erased_through));
                    prop_assert!(new.is_some_and(|new| new.version >= old.version));
                    let untouched = generation.0 == event.generation || new == Some(old);
                    prop_assert!(untouched, "another generation changed");
                }
            }
        }
    }

    #[test]
    fn a_removal_covers_what_its_entry_knows(steps in under_changing_rules()) {
        let mut ledger = Ledger::default();
        for (rules, events) in &steps {
            for event in events {
                let before = ledger.entry(event.generation).cloned();
                let decided = ledger.take(event, rules)?;
                let Some(covers) = decided.removal else { continue };
                let highest = before.and_then(|entry| entry.version);
                prop_assert!(highest.is_none_or(|version| covers.includes(version)));
                let own = event.version.and_then(|v| cenotaph_core::Version::new(v).ok());
                prop_assert!(own.is_none_or(|version| covers.includes(version)));
                prop_assert!(!covers.is_nothing());
                let after = ledger.entry(event.generation);
                prop_assert!(after.is_some_and(|entry| entry.erased_through >= covers));
                prop_assert!(after.is_some_and(|entry| entry.state == State::Removed));
            }
        }
    }

    #[test]
    fn a_conflict_only_ever_suspends(steps in under_changing_rules()) {
        let mut ledger = Ledger::default();
        for (rules, events) in &steps {
            for event in events {
                let mut expected = ledger.clone();
                let decided = ledger.take(event, rules)?;
                let passive = matches!(
                    decided.verdict,
                    Verdict::Refused(_) | Verdict::Suspended | Verdict::Repeated
                );
                if let Verdict::Conflicting(_) = decided.verdict {
                    for (generation, entry) in &mut expected.record.generations {
                        entry.flags.suspended |= rules.suspends && generation.0 == event.generation;
                    }
                    prop_assert_eq!(&ledger, &expected);
                } else if passive {
                    prop_assert_eq!(&ledger, &expected);
                }
            }
        }
    }

    #[test]
    fn the_same_change_twice_changes_nothing(
        rules in any_rules(),
        events in prop::collection::vec(any_event(), 1..20),
    ) {
        let mut ledger = Ledger::default();
        for event in &events {
            let _ = ledger.take(event, &rules)?;
            let once = ledger.clone();
            let again = ledger.take(event, &rules)?;
            prop_assert_eq!(&ledger, &once);
            prop_assert_ne!(again.verdict, Verdict::Accepted);
        }
    }

    /// However late they come: what was accepted, satisfied or found stale is settled.
    #[test]
    fn replays_of_what_was_settled_change_nothing(
        rules in any_rules(),
        events in sound_events(1..14),
        replayed in prop::collection::vec(any::<prop::sample::Index>(), 1..14),
    ) {
        let mut ledger = Ledger::default();
        let verdicts = ledger.take_all(&events, &rules)?;
        let settled = [Verdict::Accepted, Verdict::Repeated, Verdict::Satisfied, Verdict::Stale];
        let after = ledger.clone();
        for index in replayed {
            let at = index.index(events.len());
            if settled.contains(&verdicts[at]) {
                let verdict = ledger.take(&events[at], &rules)?.verdict;
                prop_assert_ne!(verdict, Verdict::Accepted, "{:?}", events[at]);
                prop_assert_eq!(&ledger, &after, "{:?}", events[at]);
            }
        }
    }
}
