//! A destination.

use std::time::Duration;

use cenotaph_core::TombstoneNo;

use super::{cursors, position, seconds, time};
use crate::api::types::{DestinationErrorView, DestinationView, FailingView, ParkedView};
use crate::clock::Clock;
use crate::ledger::Committed;
use crate::ledger::state::DestinationBook;
use crate::pipeline::standing::{Failing, LastError, Snapshot};
use crate::supervisor::Running;

/// A call that is under way for longer is shown.
const LONG_CALL: Duration = Duration::from_secs(2);

/// Every destination that the ledger knows, by name.
#[must_use]
pub fn destinations(running: &Running) -> Vec<DestinationView> {
    let committed = running.ledger.read();
    let mut views: Vec<_> =
        committed.books.destinations.values().map(|book| view(running, &committed, book)).collect();
    views.sort_by(|a, b| a.name.cmp(&b.name));
    views
}

/// One destination; none of that name.
#[must_use]
pub fn destination(running: &Running, name: &str) -> Option<DestinationView> {
    let committed = running.ledger.read();
    let book = committed.books.destination(name)?;
    Some(view(running, &committed, book))
}

fn view(running: &Running, committed: &Committed, book: &DestinationBook) -> DestinationView {
    let known = running.destinations.get(&book.name);
    let snapshot = known.map(|known| known.standing.snapshot());
    let state = snapshot.as_ref().map_or("UNASSIGNED", |snapshot| snapshot.state.word());
    let oldest = book.pending.min().and_then(|number| {
        let named = committed.tombstone(TombstoneNo(number)).ok()?;
        Some(seconds(Clock.now_ms() - named.tombstone.accepted_at_ms))
    });
    let settings = known.map(|known| &known.settings);
    DestinationView {
        name: book.name.clone(),
        connector: settings.map(|settings| settings.connector.clone()),
        state: state.to_owned(),
        collections: book.collections.iter().cloned().collect(),
        confirm: settings.map(|settings| settings.confirm.word().to_owned()),
        can_prove: snapshot
            .as_ref()
            .and_then(|snapshot| snapshot.capabilities)
            .map(|capabilities| capabilities.evidence.word().to_owned()),
        owner: settings.map(|settings| settings.owner.clone()),
        cursors: cursors(&book.cursors),
        lag: committed.lag_of(book),
        pending_removals: book.pending.len(),
        oldest_pending_age_seconds: oldest,
        owed: book.owed.len() as u64,
        parked: snapshot.as_ref().map(parked).unwrap_or_default(),
        last_error: snapshot.as_ref().and_then(|it| it.last_error.as_ref()).map(error),
        failing: snapshot.as_ref().map(failing).unwrap_or_default(),
        in_call: snapshot.and_then(|snapshot| snapshot.in_call).and_then(|(call, since)| {
            (since > LONG_CALL).then(|| format!("{call}, for {} s", since.as_secs()))
        }),
    }
}

fn parked(snapshot: &Snapshot) -> Vec<ParkedView> {
    snapshot
        .parked
        .iter()
        .map(|parked| ParkedView {
            position: position(parked.position),
            reason: parked.reason.clone(),
            owner: parked.owner.to_owned(),
        })
        .collect()
}

fn failing(snapshot: &Snapshot) -> Vec<FailingView> {
    let view = |failing: &Failing| FailingView {
        lane: failing.lane.word().to_owned(),
        attempts: failing.attempts,
        error: error(&failing.error),
    };
    snapshot.failing.iter().map(view).collect()
}

fn error(error: &LastError) -> DestinationErrorView {
    DestinationErrorView {
        message: error.message.clone(),
        owner: error.owner.to_owned(),
        at: time(error.at_ms),
    }
}
