//! Whether whoever waits may go on.

use crate::{Cursor, Cursors, Position, TombstoneNo};

/// A gate, as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Gate<'a> {
    /// Nothing holds it.
    Open,
    /// At least this holds it.
    Held(Blocker<'a>),
}

/// What holds a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocker<'a> {
    /// Ingest has not read up to the barrier, so its last tombstone is not known yet.
    Ingest,
    /// A destination has not confirmed the deletion.
    Unconfirmed {
        /// Which.
        destination: &'a str,
    },
    /// A destination's changes are behind.
    Cursor {
        /// Which.
        destination: &'a str,
        /// In which partition.
        partition: u32,
        /// How far it is.
        has: Cursor,
        /// How far it must be.
        needs: Cursor,
    },
    /// A destination holds back or has parked a change that the barrier waits for.
    Owed {
        /// Which.
        destination: &'a str,
        /// The change.
        position: Position,
    },
    /// A destination has not confirmed a removal that the barrier waits for.
    Pending {
        /// Which.
        destination: &'a str,
        /// The lowest such tombstone.
        tombstone: TombstoneNo,
    },
}

/// How one attached destination stands towards one deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Obligation<'a> {
    /// Its name.
    pub destination: &'a str,
    /// Whether it still owes the confirmation: neither confirmed nor waived.
    pub owed: bool,
}

/// A deletion's own gate: open if no attached destination owes it.
pub fn deletion_gate<'a>(attached: impl IntoIterator<Item = Obligation<'a>>) -> Gate<'a> {
    match attached.into_iter().find(|obligation| obligation.owed) {
        None => Gate::Open,
        Some(Obligation { destination, .. }) => Gate::Held(Blocker::Unconfirmed { destination }),
    }
}

/// What a named barrier waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BarrierView<'a> {
    /// The cursors to reach.
    pub cursors: &'a Cursors,
    /// The last tombstone to wait for; none until ingest has reached the cursors.
    pub through: Option<TombstoneNo>,
}

/// How one destination, attached to a collection of a barrier's scope, stands towards it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing<'a> {
    /// Its name.
    pub destination: &'a str,
    /// How far its changes are.
    pub cursors: &'a Cursors,
    /// Its owed positions, or the lowest of each partition, in any order.
    pub owed: &'a [Position],
    /// Its lowest pending tombstone of the barrier's scope.
    pub pending: Option<TombstoneNo>,
}

/// A named barrier: open if each destination of its scope has reached its cursors, owes no position
/// before them, and has no tombstone of the scope pending up to the last one.
pub fn barrier_gate<'a>(
    barrier: &BarrierView<'_>,
    standings: impl IntoIterator<Item = Standing<'a>>,
) -> Gate<'a> {
    let Some(through) = barrier.through else { return Gate::Held(Blocker::Ingest) };
    let blocker = standings.into_iter().find_map(|standing| {
        behind(barrier, &standing)
            .or_else(|| owed(barrier, &standing))
            .or_else(|| pending(through, &standing))
    });
    blocker.map_or(Gate::Open, Gate::Held)
}

fn behind<'a>(barrier: &BarrierView<'_>, standing: &Standing<'a>) -> Option<Blocker<'a>> {
    barrier.cursors.iter().find_map(|(partition, needs)| {
        let has = standing.cursors.get(partition).copied().unwrap_or_default();
        (has < *needs).then_some(Blocker::Cursor {
            destination: standing.destination,
            partition: *partition,
            has,
            needs: *needs,
        })
    })
}

fn owed<'a>(barrier: &BarrierView<'_>, standing: &Standing<'a>) -> Option<Blocker<'a>> {
    let before_the_barrier = |position: &&Position| {
        barrier.cursors.get(&position.partition).is_some_and(|needs| position.cursor() < *needs)
    };
    standing
        .owed
        .iter()
        .filter(before_the_barrier)
        .min()
        .map(|position| Blocker::Owed { destination: standing.destination, position: *position })
}

fn pending<'a>(through: TombstoneNo, standing: &Standing<'a>) -> Option<Blocker<'a>> {
    standing
        .pending
        .filter(|tombstone| *tombstone <= through)
        .map(|tombstone| Blocker::Pending { destination: standing.destination, tombstone })
}
