//! Batches, looks and gates against a naive statement of each.

use std::collections::BTreeMap;

use cenotaph_core::decide::{
    BarrierView, Finding, Gate, Judgement, LookContext, Standing, barrier_gate, confirm,
    highest_only,
};
use cenotaph_core::{
    Covers, Cursor, Cursors, EvidenceLevel, Generation, KeyHash, ObjectId, Position, TombstoneNo,
    Version,
};
use proptest::prelude::*;

fn version() -> impl Strategy<Value = Version> {
    (1..6u64).prop_filter_map("a version", |number| Version::new(number).ok())
}

fn key() -> impl Strategy<Value = KeyHash> {
    (0..3u8, 1..3u32).prop_map(|(object, generation)| KeyHash {
        object: ObjectId([object; 32]),
        generation: Generation(generation),
    })
}

fn level() -> impl Strategy<Value = EvidenceLevel> {
    let all = [EvidenceLevel::Acknowledged, EvidenceLevel::Absent, EvidenceLevel::Purged];
    prop::sample::select(all.to_vec())
}

fn stamp() -> impl Strategy<Value = (u64, u64)> {
    (1..4u64, 0..3u64)
}

fn finding() -> impl Strategy<Value = Finding> {
    prop_oneof![
        4 => Just(Finding::Gone),
        2 => prop::option::of(version()).prop_map(|oldest| Finding::Present { oldest }),
        1 => Just(Finding::Acknowledged),
        1 => Just(Finding::Unknown),
    ]
}

fn covers() -> impl Strategy<Value = Covers> {
    prop_oneof![version().prop_map(Covers::through), Just(Covers::EVERYTHING)]
}

fn often() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.9)
}

prop_compose! {
    fn look()(
        (pending, keeps_control, no_late_write, reopened) in
            (often(), any::<bool>(), often(), any::<bool>()),
        (current_epoch, look_epoch) in (2..4u64, 2..4u64),
        removed_at in prop::option::weighted(0.9, stamp()),
        seen in prop::option::weighted(0.9, stamp()),
        (required, reached, covers) in (level(), level(), covers()),
    ) -> LookContext {
        LookContext {
            pending, current_epoch, look_epoch, removed_at, seen, keeps_control, required, reached,
            late_write_possible: !no_late_write, covers, reopened,
        }
    }
}

/// When a look may confirm, as one long "and".
fn proves(finding: &Finding, look: &LookContext) -> bool {
    let found = match finding {
        Finding::Gone => true,
        Finding::Present { oldest: Some(version) } => {
            look.reopened && version.get() > look.covers.to_number()
        }
        Finding::Present { oldest: None } => false,
        Finding::Acknowledged => look.required == EvidenceLevel::Acknowledged,
        Finding::Unknown => false,
    };
    let seen_after = match (look.removed_at, look.seen) {
        (None, _) => false,
        (Some(_), _) if !look.keeps_control => true,
        (Some(removed), Some(seen)) => seen >= removed && seen.0 <= look.current_epoch,
        (Some(_), None) => false,
    };
    let enough = *finding == Finding::Acknowledged || look.reached >= look.required;
    found
        && look.pending
        && look.look_epoch == look.current_epoch
        && seen_after
        && !look.late_write_possible
        && enough
}

fn cursors() -> impl Strategy<Value = Cursors> {
    let cursor = (0..2u32, 0..4u64).prop_map(|(epoch, offset)| Cursor { epoch, offset });
    prop::collection::btree_map(0..3u32, cursor, 0..3)
}

type Stood = (Cursors, Vec<Position>, Option<u64>);

fn stood() -> impl Strategy<Value = Stood> {
    let position = (0..3u32, 0..2u32, 0..4u64).prop_map(|(partition, epoch, offset)| Position {
        partition,
        epoch,
        offset,
    });
    let owed = prop_oneof![
        3 => Just(Vec::new()),
        1 => prop::collection::vec(position, 1..3),
    ];
    (cursors(), owed, prop::option::weighted(0.3, 1..6u64))
}

/// When a destination does not hold a barrier.
fn passed(cursors: &Cursors, through: u64, (has, owed, pending): &Stood) -> bool {
    let at = |of: &BTreeMap<u32, Cursor>, partition| {
        let cursor = of.get(&partition).copied().unwrap_or_default();
        (cursor.epoch, cursor.offset)
    };
    (0..3).all(|partition| at(has, partition) >= at(cursors, partition))
        && owed.iter().all(|p| (p.epoch, p.offset) >= at(cursors, p.partition))
        && pending.is_none_or(|number| number > through)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn of_a_batch_survives_what_nothing_outranks(
        batch in prop::collection::vec((key(), version()), 0..20),
    ) {
        let outranked = |at: usize| {
            let (key, version) = batch[at];
            let mut others = batch.iter().enumerate();
            others.any(|(other, (k, v))| *k == key && (*v, other) > (version, at))
        };
        let expected: Vec<usize> = (0..batch.len()).filter(|at| !outranked(*at)).collect();
        prop_assert_eq!(highest_only(&batch), expected);
    }

    #[test]
    fn a_look_confirms_only_where_everything_speaks_for_it(finding in finding(), look in look()) {
        let confirmed = confirm(&finding, &look) == Judgement::Confirmed;
        prop_assert_eq!(confirmed, proves(&finding, &look));
    }

    #[test]
    fn a_barrier_opens_when_no_destination_holds_it(
        cursors in cursors(),
        through in prop::option::weighted(0.9, 0..6u64),
        all in prop::collection::vec(stood(), 0..3),
    ) {
        let barrier = BarrierView { cursors: &cursors, through: through.map(TombstoneNo) };
        let standings = all.iter().map(|(cursors, owed, pending)| Standing {
            destination: "d",
            cursors,
            owed,
            pending: pending.map(TombstoneNo),
        });
        let open = barrier_gate(&barrier, standings) == Gate::Open;
        let expected =
            through.is_some_and(|through| all.iter().all(|s| passed(&cursors, through, s)));
        prop_assert_eq!(open, expected);
    }
}
