//! The one place where gates open (I2): after each frame that could have opened one, and once at
//! start. What it finds becomes a frame of its own; nobody is told before that is synced.

use cenotaph_core::decide::{BarrierView, Blocker, Gate, Standing, barrier_gate};
use cenotaph_core::{Cursors, Fact, Position, TombstoneNo};
use roaring::RoaringTreemap;

use super::committed::Committed;
use super::error::LedgerError;
use super::state::{BarrierBook, Books, DestinationBook, to_ranges};

/// Everything that may open now, as facts.
pub(super) fn due(committed: &Committed, now_ms: i64) -> Result<Vec<Fact>, LedgerError> {
    let mut facts = deletion_gates(&committed.books, now_ms);
    for (name, barrier) in &committed.books.barriers {
        if barrier.opened_at_ms.is_none() {
            facts.extend(named_barrier(committed, name, barrier, now_ms)?);
        }
    }
    Ok(facts)
}

/// A deletion's gate opens when no attached destination owes its tombstone any more.
fn deletion_gates(books: &Books, now_ms: i64) -> Vec<Fact> {
    let mut open = books.closed_gates.clone();
    for book in books.destinations.values() {
        open -= &book.pending;
    }
    if open.is_empty() {
        return Vec::new();
    }
    // I2: what opens is owed by nobody.
    debug_assert!(books.destinations.values().all(|book| book.pending.is_disjoint(&open)));
    let tombstones = to_ranges(&open);
    vec![Fact::GatesOpened { tombstones, unproven: unproven(books, &open), at_ms: now_ms }]
}

/// Destinations that only acknowledged one of these.
fn unproven(books: &Books, numbers: &RoaringTreemap) -> Vec<String> {
    books
        .destinations
        .values()
        .filter(|book| !book.unproven.is_disjoint(numbers))
        .map(|book| book.name.clone())
        .collect()
}

fn named_barrier(
    committed: &Committed,
    name: &str,
    barrier: &BarrierBook,
    now_ms: i64,
) -> Result<Option<Fact>, LedgerError> {
    let Some(through) = barrier.through else {
        return Ok(fix_last_tombstone(&committed.books, name, barrier));
    };
    let mut unproven = Vec::new();
    for book in concerned(&committed.books, barrier) {
        if blocker_at(committed, book, barrier)?.is_some() {
            return Ok(None);
        }
        if book.unproven.min().is_some_and(|number| number <= through.0) {
            unproven.push(book.name.clone());
        }
    }
    Ok(Some(Fact::BarrierOpened { name: name.to_owned(), at_ms: now_ms, unproven }))
}

/// What keeps a barrier closed at one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BarrierBlock {
    /// Ingest has not read up to the barrier yet.
    Ingest,
    /// The destination has not been opened since the worker started: what it holds is not known.
    NotOpened,
    /// The destination's cursor has not come there yet.
    Cursor,
    /// It holds a change back, or has parked one.
    Owed(Position),
    /// It has not confirmed a tombstone.
    Pending(TombstoneNo),
}

/// Everything that keeps a barrier closed, a destination each; none of one where ingest does.
///
/// # Errors
/// [`LedgerError`] if the view does not hold what it should.
pub fn barrier_blocks(
    committed: &Committed,
    barrier: &BarrierBook,
) -> Result<Vec<(Option<String>, BarrierBlock)>, LedgerError> {
    if barrier.opened_at_ms.is_some() {
        return Ok(Vec::new());
    }
    if barrier.through.is_none() {
        return Ok(vec![(None, BarrierBlock::Ingest)]);
    }
    let mut blocks = Vec::new();
    for book in concerned(&committed.books, barrier) {
        if let Some(block) = blocker_at(committed, book, barrier)? {
            blocks.push((Some(book.name.clone()), block));
        }
    }
    Ok(blocks)
}

fn blocker_at(
    committed: &Committed,
    book: &DestinationBook,
    barrier: &BarrierBook,
) -> Result<Option<BarrierBlock>, LedgerError> {
    if !committed.books.opened.contains(&book.number) {
        return Ok(Some(BarrierBlock::NotOpened));
    }
    let pending = match barrier.through {
        Some(through) => lowest_pending(committed, book, barrier, through)?,
        None => None,
    };
    let owed: Vec<Position> = book.owed.iter().copied().collect();
    let standing =
        Standing { destination: &book.name, cursors: &book.cursors, owed: &owed, pending };
    let view = BarrierView { cursors: &barrier.cursors, through: barrier.through };
    Ok(match barrier_gate(&view, [standing]) {
        Gate::Open => None,
        Gate::Held(Blocker::Ingest) => Some(BarrierBlock::Ingest),
        Gate::Held(Blocker::Owed { position, .. }) => Some(BarrierBlock::Owed(position)),
        Gate::Held(Blocker::Pending { tombstone, .. }) => Some(BarrierBlock::Pending(tombstone)),
        Gate::Held(Blocker::Cursor { .. } | Blocker::Unconfirmed { .. }) => {
            Some(BarrierBlock::Cursor)
        }
    })
}

/// Once ingest has read up to a barrier, the last tombstone before it is known.
fn fix_last_tombstone(books: &Books, name: &str, barrier: &BarrierBook) -> Option<Fact> {
    let ingested: Cursors =
        books.feeds.iter().map(|(partition, feed)| (*partition, feed.cursor)).collect();
    let there = barrier
        .cursors
        .iter()
        .all(|(partition, needs)| ingested.get(partition).is_some_and(|has| has >= needs));
    there.then(|| Fact::BarrierMade {
        name: name.to_owned(),
        event: barrier.event,
        scope: barrier.scope,
        cursors: barrier.cursors.clone(),
        through: Some(books.last_tombstone),
        at_ms: barrier.made_at_ms,
    })
}

/// The destinations attached to a collection of the barrier's scope.
fn concerned<'a>(
    books: &'a Books,
    barrier: &'a BarrierBook,
) -> impl Iterator<Item = &'a DestinationBook> {
    let collection = barrier.scope_name.as_ref().and_then(|scope| scope.collection.as_deref());
    books.destinations.values().filter(move |book| match collection {
        Some(collection) => book.collections.contains(collection),
        None => !book.collections.is_empty(),
    })
}

/// The lowest tombstone of the scope, up to `through`, that a destination owes.
fn lowest_pending(
    committed: &Committed,
    book: &DestinationBook,
    barrier: &BarrierBook,
    through: TombstoneNo,
) -> Result<Option<TombstoneNo>, LedgerError> {
    for number in book.pending.iter().take_while(|number| *number <= through.0) {
        let number = TombstoneNo(number);
        if barrier.scope.is_none() || committed.is_in_scope(number, barrier)? {
            return Ok(Some(number));
        }
    }
    Ok(None)
}
