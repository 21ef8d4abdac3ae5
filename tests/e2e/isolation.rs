//! A destination that hangs, fails, lies or panics delays only itself (I8), and is never believed
//! more than it has proved (I1, I2).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cenotaph_conformance::{Call, Faults, Faulty, Liar, Lie, Mode};
use cenotaph_connector::{Fault, Fence, Owner};
use cenotaph_core::EvidenceLevel;
use cenotaph_memory::Object;

use crate::inside::{Inside, Place};
use crate::lines::{With, barrier, delete, upsert};
use crate::odd::Odd;

fn faulty(name: &str, faults: &Faults) -> Place {
    let faults = faults.clone();
    Place::wrapped(name, move |inner| Box::new(Faulty::new(inner, faults.clone())))
}

fn liar(name: &str, lie: Lie) -> Place {
    Place::wrapped(name, move |inner| Box::new(Liar::new(inner, lie)))
}

fn retriable() -> Fault {
    Fault::retriable(Owner::Destination, "it is busy", "wait")
}

fn uncertain() -> Fault {
    Fault::uncertain(Owner::Destination, "the answer was lost", "look")
}

fn terminal() -> Fault {
    Fault::terminal(Owner::Producer, "it is too odd", "send another")
}

fn docs(inside: &Inside, names: std::ops::Range<u32>) {
    for name in names {
        inside.record(&upsert("T1", "docs", &format!("d{name}"), 1));
    }
}

const OTHERS: [&str; 2] = ["a", "b"];

/// The others have all of `d0` to `d9` but `d3`, which is deleted and proved there.
fn others_go_on(inside: &Inside) {
    inside.caught_up(&OTHERS);
    for name in OTHERS {
        inside.until("the others to confirm", || inside.at(name, "docs", "d3") == "CONFIRMED");
        let ids = inside.store(name).ids();
        assert_eq!(ids.len(), 9, "{name}: {ids:?}");
        assert!(!ids.contains(&"T1/docs/d3".to_owned()), "{name}: {ids:?}");
    }
}

#[test]
fn one_that_hangs_holds_up_its_own_gates_and_nothing_else() {
    for call in [Call::Open, Call::Apply, Call::Remove, Call::Commit, Call::Verify] {
        for mode in [Mode::Hang, Mode::HangAfter] {
            let faults = Faults::default();
            let places = vec![Place::new("a"), Place::new("b"), faulty("c", &faults)];
            if call == Call::Open {
                faults.next(call, mode);
                hangs_and_goes_on(Inside::start(places), &faults, call);
            } else {
                let inside = Inside::start(places);
                inside.until("it to be open", || inside.standing("c").capabilities.is_some());
                faults.next(call, mode);
                hangs_and_goes_on(inside, &faults, call);
            }
        }
    }
}

fn hangs_and_goes_on(inside: Inside, faults: &Faults, call: Call) {
    docs(&inside, 0..5);
    // A removal overtakes the changes before it: it comes when their call hangs already.
    if matches!(call, Call::Apply | Call::Commit) {
        inside.until("the call to hang", || faults.hanging() == 1);
    }
    inside.record(&delete("T1", "docs", "d3", 2));
    inside.record(&barrier("all"));
    inside.until("the call to hang", || faults.hanging() == 1);
    docs(&inside, 5..10);
    others_go_on(&inside);
    let view = inside.deletion("docs", "d3");
    assert_eq!(view.gate, "closed");
    assert_eq!(inside.blockers("docs", "d3"), ["c"]);
    assert_eq!(view.blockers[0].owner.as_deref(), Some("c-team@example.org"));
    assert!(!inside.is_released("all"));
    assert!(inside.standing("c").in_call.is_some(), "the call under way can be seen");
    faults.release();
    inside.until("the gate to open", || inside.gate("docs", "d3") == "open");
    inside.until("the barrier to open", || inside.is_released("all"));
    inside.caught_up(&["c"]);
    assert_eq!(inside.store("c").ids(), inside.store("a").ids());
    inside.stop();
}

#[test]
fn one_that_fails_is_tried_again_until_it_works() {
    let fails: [(Call, Mode); 9] = [
        (Call::Open, Mode::Fail(retriable())),
        (Call::Apply, Mode::Fail(retriable())),
        (Call::Apply, Mode::FailAfter(uncertain())),
        (Call::Remove, Mode::Fail(retriable())),
        (Call::Remove, Mode::FailAfter(uncertain())),
        (Call::Commit, Mode::Fail(retriable())),
        (Call::Commit, Mode::FailAfter(uncertain())),
        (Call::Verify, Mode::Fail(retriable())),
        (Call::Verify, Mode::FailAfter(uncertain())),
    ];
    for (call, mode) in fails {
        let faults = Faults::default();
        faults.always(call, mode.clone());
        let inside = Inside::start(vec![Place::new("a"), Place::new("b"), faulty("c", &faults)]);
        docs(&inside, 0..5);
        inside.record(&delete("T1", "docs", "d3", 2));
        inside.record(&barrier("all"));
        docs(&inside, 5..10);
        others_go_on(&inside);
        let before = faults.calls(call);
        inside.until("some attempts", || faults.calls(call) > before + 3);
        let error = || {
            let own =
                inside.deletion("docs", "d3").blockers.into_iter().find_map(|it| it.last_error);
            own.or_else(|| inside.standing("c").last_error.map(|error| error.message))
        };
        inside.until("what is wrong to be told", || error().is_some());
        if call == Call::Apply {
            // A deletion does not wait for the changes before it.
            inside.until("the gate to open", || inside.gate("docs", "d3") == "open");
        } else {
            assert_eq!(inside.gate("docs", "d3"), "closed", "{call:?} {mode:?}");
            assert_eq!(inside.blockers("docs", "d3"), ["c"], "{call:?} {mode:?}");
        }
        assert!(!inside.is_released("all"), "{call:?} {mode:?}");
        faults.clear();
        inside.until("the gate to open", || inside.gate("docs", "d3") == "open");
        inside.until("the barrier to open", || inside.is_released("all"));
        inside.caught_up(&["c"]);
        assert_eq!(inside.store("c").ids(), inside.store("a").ids(), "{call:?} {mode:?}");
        inside.stop();
    }
}

/// A removal of unknown outcome says so, and is looked for before anybody believes it.
#[test]
fn an_uncertain_removal_is_uncertain_until_a_look_has_found_it_gone() {
    let faults = Faults::default();
    let inside = Inside::start(vec![Place::new("a"), faulty("c", &faults)]);
    docs(&inside, 3..4);
    inside.caught_up(&["a", "c"]);
    faults.always(Call::Remove, Mode::FailAfter(uncertain()));
    inside.record(&delete("T1", "docs", "d3", 2));
    inside.until("it to be uncertain", || inside.at("c", "docs", "d3") == "UNCERTAIN");
    inside.until("it to be gone all the same", || inside.store("c").is_empty());
    assert_eq!(inside.gate("docs", "d3"), "closed", "gone, but nobody has looked");
    faults.clear();
    inside.until("the gate to open", || inside.gate("docs", "d3") == "open");
    inside.stop();
}

/// Where the store itself does not refuse what is older, a look counts only after `settle`.
#[test]
fn an_unfenced_store_is_looked_at_again_after_settle() {
    let faults = Faults::default();
    let settle = Duration::from_millis(600);
    let unfenced = {
        let faults = faults.clone();
        Place::wrapped("c", move |inner| {
            let inner = Box::new(Faulty::new(inner, faults.clone()));
            Box::new(Odd {
                says: |it| cenotaph_connector::Capabilities { fence: Fence::None, ..it },
                ..Odd::new(inner)
            })
        })
        .set(|settings| settings.settle = settle)
    };
    let inside = Inside::start(vec![Place::new("a"), unfenced]);
    docs(&inside, 0..1);
    inside.caught_up(&["a", "c"]);
    // An upsert whose outcome nobody knows: the key is not written again, and a deletion of it is
    // not believed, before it must have landed.
    let calls = faults.calls(Call::Apply);
    faults.next(Call::Apply, Mode::FailAfter(uncertain()));
    let begun = Instant::now();
    inside.record(&upsert("T1", "docs", "d3", 1));
    inside.until("the upsert to fail", || faults.calls(Call::Apply) > calls);
    inside.record(&delete("T1", "docs", "d3", 2));
    inside.until("the other one to confirm", || inside.at("a", "docs", "d3") == "CONFIRMED");
    inside.until("the gate to open", || inside.gate("docs", "d3") == "open");
    assert!(begun.elapsed() >= settle, "{:?}", begun.elapsed());
    inside.stop();
}

/// What was not written because an older write may still land is written once it cannot.
#[test]
fn an_unfenced_stores_uncertain_upsert_is_made_again_after_settle() {
    let faults = Faults::default();
    let unfenced = {
        let faults = faults.clone();
        Place::wrapped("c", move |inner| {
            let inner = Box::new(Faulty::new(inner, faults.clone()));
            Box::new(Odd {
                says: |it| cenotaph_connector::Capabilities { fence: Fence::None, ..it },
                ..Odd::new(inner)
            })
        })
    };
    let inside = Inside::start(vec![unfenced]);
    docs(&inside, 0..1);
    inside.caught_up(&["c"]);
    faults.next(Call::Apply, Mode::Fail(uncertain()));
    inside.record(&upsert("T1", "docs", "d3", 1));
    inside.record(&barrier("all"));
    inside.until("the upsert to land", || inside.store("c").get("T1/docs/d3").is_some());
    inside.until("the barrier to open", || inside.is_released("all"));
    inside.stop();
}

#[test]
fn a_liar_is_never_confirmed_while_the_object_can_be_read() {
    for lie in
        [Lie::KeepsWhatItRemoves, Lie::CommitsLate, Lie::KeepsTheLastOfMany, Lie::AnswersShort]
    {
        let inside = Inside::start(vec![Place::new("a"), Place::new("b"), liar("c", lie)]);
        docs(&inside, 0..10);
        if matches!(lie, Lie::KeepsWhatItRemoves | Lie::KeepsTheLastOfMany) {
            // Something has to be there to be kept.
            inside.until("all to be there", || inside.store("c").len() == 10);
        }
        let names = || (3..7).map(|it| format!("d{it}"));
        for name in names() {
            inside.record(&delete("T1", "docs", &name, 2));
        }
        for name in names() {
            for other in OTHERS {
                inside.until("the others", || inside.at(other, "docs", &name) == "CONFIRMED");
            }
        }
        let store = inside.store("c");
        let readable = |name: &str| store.get(&format!("T1/docs/{name}")).is_some();
        // In this order: what is confirmed first must be gone from then on.
        let honest =
            || names().all(|name| inside.at("c", "docs", &name) != "CONFIRMED" || !readable(&name));
        match lie {
            Lie::KeepsWhatItRemoves => {
                let attempts =
                    || inside.deletion("docs", "d3").blockers.first().map_or(0, |it| it.attempts);
                inside.until("some attempts", || attempts() > 3);
                for name in names() {
                    assert_eq!(inside.gate("docs", &name), "closed", "{lie:?}");
                    assert_ne!(inside.at("c", "docs", &name), "CONFIRMED", "{lie:?}");
                    assert_eq!(inside.blockers("docs", &name), ["c"], "{lie:?}");
                }
            }
            _ => {
                inside.until("all gates to open", || {
                    assert!(honest(), "{lie:?}");
                    names().all(|name| inside.gate("docs", &name) == "open")
                });
                assert!(names().all(|name| !readable(&name)), "{lie:?}");
            }
        }
        inside.stop();
    }
}

/// Somebody writes behind our back: the look sees what stands there, and it is removed again.
#[test]
fn what_stands_there_without_a_version_of_ours_is_found_and_removed() {
    let faults = Faults::default();
    let inside = Inside::start(vec![faulty("c", &faults)]);
    inside.until("it to be open", || inside.standing("c").capabilities.is_some());
    faults.next(Call::Verify, Mode::Hang);
    inside.record(&delete("T1", "docs", "d3", 2));
    inside.until("the look, after the commit", || faults.hanging() == 1);
    let object = Object { version: None, parent: None, payload: "{}".into() };
    inside.store("c").put("T1/docs/d3", object);
    faults.release();
    inside.until("the gate to open", || inside.gate("docs", "d3") == "open");
    assert!(inside.store("c").is_empty());
    let evidence = inside.deletion("docs", "d3").destinations.remove(0).evidence.unwrap();
    assert!(evidence.attempts >= 2, "the first look found it: {evidence:?}");
    inside.stop();
}

#[test]
fn a_change_that_can_never_be_taken_is_parked_with_an_owner_and_stops_nobody() {
    let faults = Faults::default();
    let place = |faults: &Faults| vec![Place::new("a"), faulty("c", faults)];
    let inside = Inside::start(place(&faults));
    inside.until("it to be open", || inside.standing("c").capabilities.is_some());
    faults.next(Call::Apply, Mode::FailRecords(vec![0], terminal()));
    inside.record(&upsert("T1", "docs", "odd", 1));
    inside.until("it to be parked", || inside.standing("c").parked.len() == 1);
    docs(&inside, 0..3);
    inside.record(&barrier("all"));
    inside.caught_up(&["a", "c"]);
    assert_eq!(inside.store("c").ids(), ["T1/docs/d0", "T1/docs/d1", "T1/docs/d2"]);
    assert_eq!(inside.owed("c"), 1, "the cursor has moved on, and the position is owed");
    let parked = inside.standing("c").parked.remove(0);
    assert_eq!((parked.owner, parked.position.offset), ("producer", 0));
    assert!(parked.reason.contains("too odd"), "{}", parked.reason);
    assert!(!inside.is_released("all"), "a named barrier does not pass it");
    // It is tried again when the worker starts; still refused, it stays owed.
    faults.always(Call::Apply, Mode::Fail(terminal()));
    let inside = inside.restart(place(&faults));
    inside.until("it to be parked again", || inside.standing("c").parked.len() == 1);
    assert!(!inside.is_released("all"));
    assert_eq!(inside.owed("c"), 1);
    // Taken at last: the barrier opens.
    faults.clear();
    let inside = inside.restart(place(&faults));
    inside.until("the barrier to open", || inside.is_released("all"));
    assert!(inside.store("c").get("T1/docs/odd").is_some());
    assert!(inside.standing("c").parked.is_empty());
    assert_eq!(inside.owed("c"), 0);
    inside.stop();
}

#[test]
fn a_deletion_of_a_parked_object_settles_it() {
    let faults = Faults::default();
    let inside = Inside::start(vec![faulty("c", &faults)]);
    inside.until("it to be open", || inside.standing("c").capabilities.is_some());
    faults.always(Call::Apply, Mode::Fail(terminal()));
    inside.record(&upsert("T1", "docs", "odd", 1));
    inside.record(&barrier("all"));
    inside.until("it to be parked", || inside.standing("c").parked.len() == 1);
    inside.record(&delete("T1", "docs", "odd", 2));
    inside.until("the gate to open", || inside.gate("docs", "odd") == "open");
    inside.until("the barrier to open", || inside.is_released("all"));
    assert!(inside.standing("c").parked.is_empty());
    inside.stop();
}

/// The next existence of an object waits until the end of the one before it is proved. It fails
/// once when its turn has come: that is no reason to forget it.
#[test]
fn what_was_held_for_a_removal_is_applied_even_if_that_fails_at_first() {
    let faults = Faults::default();
    faults.always(Call::Verify, Mode::Fail(retriable()));
    let inside = Inside::start(vec![faulty("c", &faults)]);
    inside.record(&upsert("T1", "rows", "r", 1));
    inside.record(&delete("T1", "rows", "r", 2));
    inside.record(&upsert("T1", "rows", "r", 3));
    inside.record(&barrier("all"));
    inside.until("one to be owed", || inside.owed("c") == 1);
    faults.next(Call::Apply, Mode::Fail(retriable()));
    faults.always(Call::Verify, Mode::Pass);
    inside.until("the deletion to be confirmed", || {
        let view = inside.running();
        let committed = view.ledger.read();
        committed.books.destination("c").is_some_and(|book| book.pending.is_empty())
    });
    inside.until("the upsert to be there", || inside.store("c").get("T1/rows/r").is_some());
    inside.until("the barrier to open", || inside.is_released("all"));
    assert_eq!(inside.owed("c"), 0);
    inside.stop();
}

/// Held, it is an owed position below the cursor.
#[test]
fn a_held_change_is_an_owed_position_that_outlives_a_restart() {
    let faults = Faults::default();
    faults.always(Call::Verify, Mode::Fail(retriable()));
    let inside = Inside::start(vec![faulty("c", &faults)]);
    inside.record(&upsert("T1", "rows", "r", 1));
    inside.record(&delete("T1", "rows", "r", 2));
    inside.record(&upsert("T1", "rows", "r", 3));
    docs(&inside, 0..3);
    inside.record(&barrier("all"));
    inside.until("one to be owed", || inside.owed("c") == 1);
    inside.caught_up(&["c"]);
    assert!(inside.store("c").get("T1/rows/r").is_none_or(|it| it.version.unwrap().get() < 2));
    assert!(!inside.is_released("all"));
    let inside = inside.restart(vec![faulty("c", &faults)]);
    inside.until("some attempts", || faults.calls(Call::Verify) > 5);
    assert_eq!(inside.owed("c"), 1);
    faults.clear();
    inside.until("the barrier to open", || inside.is_released("all"));
    assert_eq!(inside.store("c").get("T1/rows/r").unwrap().version.unwrap().get(), 3);
    assert_eq!(inside.owed("c"), 0);
    inside.stop();
}

#[test]
fn a_panic_ends_a_session_and_not_the_destination() {
    let panics = Arc::new(AtomicUsize::new(0));
    let panicky = {
        let panics = Arc::clone(&panics);
        Place::wrapped("c", move |inner| {
            let panics = Arc::clone(&panics);
            let before_apply = Arc::new(move |upserts: &[cenotaph_connector::Upsert]| {
                let odd = upserts.iter().any(|it| &*it.key.object == "d1");
                assert!(!odd || panics.fetch_add(1, Ordering::SeqCst) >= 2, "on purpose");
            });
            Box::new(Odd { before_apply, ..Odd::new(inner) })
        })
    };
    let inside = Inside::start(vec![Place::new("a"), Place::new("b"), panicky]);
    docs(&inside, 0..10);
    inside.record(&delete("T1", "docs", "d3", 2));
    others_go_on(&inside);
    inside.until("the gate to open", || inside.gate("docs", "d3") == "open");
    inside.caught_up(&["c"]);
    assert_eq!(inside.store("c").ids(), inside.store("a").ids());
    assert!(panics.load(Ordering::SeqCst) > 2, "it did panic");
    inside.until("it to be well", || {
        let standing = inside.standing("c");
        standing.state.word() == "RUNNING" && standing.in_call.is_none()
    });
    inside.stop();
}

/// What a connector says it can take is what it is given.
#[test]
fn no_call_is_larger_than_the_connector_can_take() {
    let largest = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let small = {
        let largest = Arc::clone(&largest);
        Place::wrapped("c", move |inner| {
            let largest = Arc::clone(&largest);
            let before_apply = Arc::new(move |upserts: &[cenotaph_connector::Upsert]| {
                let bytes = upserts.iter().map(|it| it.payload.len()).sum();
                largest.0.fetch_max(upserts.len(), Ordering::SeqCst);
                largest.1.fetch_max(bytes, Ordering::SeqCst);
            });
            let says = |it| cenotaph_connector::Capabilities {
                max_batch_records: 7,
                max_batch_bytes: 4_000,
                ..it
            };
            Box::new(Odd { before_apply, says, ..Odd::new(inner) })
        })
    };
    let inside = Inside::start(vec![small]);
    inside.until("it to be open", || inside.standing("c").capabilities.is_some());
    for number in 0..40 {
        let payload = serde_json::json!({ "filling": "x".repeat(1_500) });
        inside.record(&upsert("T1", "docs", &format!("d{number}"), 1).with("payload", payload));
    }
    inside.caught_up(&["c"]);
    assert_eq!(inside.store("c").len(), 40);
    assert!(largest.0.load(Ordering::SeqCst) <= 7, "records: {largest:?}");
    assert!(largest.1.load(Ordering::SeqCst) <= 4_000, "bytes: {largest:?}");
    inside.stop();
}

/// A destination that cannot be read back only acknowledges, and everybody is told.
#[test]
fn an_acknowledgement_opens_the_gate_only_where_it_was_asked_for_and_says_unproven() {
    let mute = |name: &str, confirm| {
        Place::wrapped(name, |inner| {
            let says = |it| cenotaph_connector::Capabilities {
                evidence: EvidenceLevel::Acknowledged,
                ..it
            };
            Box::new(Odd { says, ..Odd::new(inner) })
        })
        .set(|settings| settings.confirm = confirm)
    };
    let inside = Inside::start(vec![Place::new("a"), mute("modest", EvidenceLevel::Acknowledged)]);
    inside.record(&delete("T1", "docs", "d3", 2));
    inside.until("the gate to open", || inside.gate("docs", "d3") == "open");
    assert_eq!(inside.deletion("docs", "d3").unproven, ["modest"]);
    inside.stop();

    let inside = Inside::start(vec![Place::new("a"), mute("strict", EvidenceLevel::Absent)]);
    inside.record(&delete("T1", "docs", "d3", 2));
    inside.until("some attempts", || {
        inside.deletion("docs", "d3").blockers.first().is_some_and(|it| it.attempts > 3)
    });
    assert_eq!(inside.gate("docs", "d3"), "closed");
    assert_eq!(inside.blockers("docs", "d3"), ["strict"]);
    inside.stop();
}

/// A control record that is ours and names no fact says nothing about the ledger.
#[test]
fn one_whose_control_record_is_damaged_stops_nobody_else() {
    let damaged = Place::wrapped("c", |inner| {
        let finds = |there: Option<cenotaph_core::Control>| {
            there.map(|it| cenotaph_core::Control { fact_hash: "gone".into(), ..it })
        };
        Box::new(Odd { finds, ..Odd::new(inner) })
    });
    let inside = Inside::start(vec![Place::new("a"), Place::new("b"), Place::new("c")]);
    docs(&inside, 0..5);
    inside.caught_up(&["a", "b", "c"]);
    let inside = inside.restart(vec![Place::new("a"), Place::new("b"), damaged]);
    inside.record(&delete("T1", "docs", "d3", 2));
    docs(&inside, 5..10);
    others_go_on(&inside);
    inside.until("what is wrong to be told", || {
        let standing = inside.standing("c");
        standing.last_error.is_some_and(|error| error.message.contains("names no fact"))
    });
    assert_eq!(inside.blockers("docs", "d3"), ["c"]);
    assert!(inside.running().ledger.failure().is_none());
    inside.stop();
}

/// What one lane does well says nothing about another.
#[test]
fn a_lane_that_fails_shows_until_that_very_lane_has_worked() {
    let faults = Faults::default();
    faults.always(Call::Apply, Mode::Fail(retriable()));
    let inside = Inside::start(vec![Place::new("a"), faulty("c", &faults)]);
    docs(&inside, 0..5);
    inside.until("it to fail", || inside.standing("c").failing.iter().any(|it| it.attempts > 3));
    // Removals go on, and commit each time.
    for number in 0..20 {
        inside.record(&delete("T1", "docs", &format!("x{number}"), 2));
    }
    inside.until("the removals to be confirmed", || inside.gate("docs", "x19") == "open");
    let standing = inside.standing("c");
    assert_eq!(standing.state.word(), "FAILED", "never running while a part of it has failed");
    assert_eq!(standing.failing.len(), 1);
    assert_eq!(standing.failing[0].lane.word(), "changes");
    let error = standing.last_error.expect("what is wrong is told");
    assert!(error.message.contains("it is busy"), "{}", error.message);
    assert_eq!(inside.standing("a").state.word(), "RUNNING");
    docs(&inside, 30..31);
    faults.clear();
    inside.until("it to run", || inside.standing("c").state.word() == "RUNNING");
    inside.caught_up(&["a", "c"]);
    assert!(inside.standing("c").last_error.is_none());
    inside.stop();
}

/// What is held back has a lane of its own, however well new changes go.
#[test]
fn what_is_held_back_and_fails_shows_beside_changes_that_go_on() {
    let faults = Faults::default();
    faults.always(Call::Verify, Mode::Fail(retriable()));
    let inside = Inside::start(vec![Place::new("a"), faulty("c", &faults)]);
    inside.record(&delete("T1", "rows", "R1", 1));
    inside.record(&upsert("T1", "rows", "R1", 2));
    inside.until("it to be held back", || inside.owed("c") == 1);
    inside.until("the removals to fail", || {
        let failing = inside.standing("c").failing;
        failing.iter().any(|it| it.lane.word() == "removals" && it.attempts >= 3)
    });
    assert_eq!(inside.standing("c").state.word(), "FAILED");
    docs(&inside, 0..5);
    inside.until("the changes to go on", || inside.store("c").len() == 5);
    assert_eq!(inside.standing("c").state.word(), "FAILED", "the removals have not worked");
    faults.clear();
    inside.until("it to run", || inside.standing("c").state.word() == "RUNNING");
    inside.caught_up(&["c"]);
    inside.until("what was held back to be there", || inside.owed("c") == 0);
    inside.stop();
}
