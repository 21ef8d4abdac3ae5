//! A named barrier.

use super::{cursors, seconds, time, unassigned};
use crate::api::types::{BarrierView, BlockerView, ScopeView};
use crate::clock::Clock;
use crate::ledger::state::BarrierBook;
use crate::ledger::{BarrierBlock, Committed, LedgerError, barrier_blocks};
use crate::supervisor::Running;

/// One barrier; none of that name.
///
/// # Errors
/// [`LedgerError`] if the view does not hold what it should.
pub fn barrier(running: &Running, name: &str) -> Result<Option<BarrierView>, LedgerError> {
    let committed = running.ledger.read();
    let Some(book) = committed.books.barriers.get(name) else { return Ok(None) };
    view(running, &committed, name, book).map(Some)
}

/// The barriers after `after`, by name, at most `limit`.
///
/// # Errors
/// [`LedgerError`] if the view does not hold what it should.
pub fn barriers(
    running: &Running,
    after: &str,
    limit: usize,
) -> Result<Vec<BarrierView>, LedgerError> {
    let committed = running.ledger.read();
    let after = (std::ops::Bound::Excluded(after.to_owned()), std::ops::Bound::Unbounded);
    let books = committed.books.barriers.range::<String, _>(after).take(limit);
    books.map(|(name, book)| view(running, &committed, name, book)).collect()
}

fn view(
    running: &Running,
    committed: &Committed,
    name: &str,
    book: &BarrierBook,
) -> Result<BarrierView, LedgerError> {
    let blockers = barrier_blocks(committed, book)?
        .into_iter()
        .map(|(destination, block)| blocker(running, book, destination, &block))
        .collect();
    Ok(BarrierView {
        name: name.to_owned(),
        state: if book.opened_at_ms.is_some() { "RELEASED" } else { "HELD" }.to_owned(),
        scope: book.scope_name.clone().map(|scope| ScopeView {
            tenant: scope.tenant,
            collection: scope.collection,
            parent: scope.parent,
        }),
        cursors: cursors(&book.cursors),
        through: book.through.map(|number| number.0),
        made_at: time(book.made_at_ms),
        opened_at: book.opened_at_ms.map(time),
        blockers,
        unproven: book.unproven.clone(),
    })
}

fn blocker(
    running: &Running,
    book: &BarrierBook,
    destination: Option<String>,
    block: &BarrierBlock,
) -> BlockerView {
    let known = destination.as_ref().and_then(|name| running.destinations.get(name));
    let snapshot = known.map(|known| known.standing.snapshot());
    let reason = match block {
        BarrierBlock::Ingest => "ingest has not read up to it yet".to_owned(),
        BarrierBlock::NotOpened => {
            "the destination has not been opened since the worker started".to_owned()
        }
        BarrierBlock::Cursor => "the destination has not come so far yet".to_owned(),
        BarrierBlock::Owed(position) => format!(
            "the change at partition {} offset {} is held back or parked",
            position.partition, position.offset
        ),
        BarrierBlock::Pending(number) => format!("tombstone {number} is unconfirmed"),
    };
    let state = snapshot.as_ref().map(|snapshot| snapshot.state);
    let reason = match unassigned(state).filter(|_| destination.is_some()) {
        Some(why) => format!("{why}; {reason}"),
        None => reason,
    };
    BlockerView {
        destination,
        reason,
        owner: known.map(|known| known.settings.owner.clone()),
        since: Some(time(book.made_at_ms)),
        age_seconds: seconds(Clock.now_ms() - book.made_at_ms),
        attempts: 0,
        last_error: snapshot.and_then(|snapshot| snapshot.last_error.map(|error| error.message)),
    }
}
