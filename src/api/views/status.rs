//! The worker at one glance.

use super::{cursor, destinations, position, time};
use crate::api::types::{DestinationView, LedgerView, PartitionView, QuarantineView, StatusView};
use crate::supervisor::Running;

/// The worker at one glance.
#[must_use]
pub fn status(running: &Running) -> StatusView {
    let destinations = destinations(running);
    let partitions = partitions(running);
    let failure = running.ledger.failure();
    let committed = running.ledger.read();
    let books = &committed.books;
    let held = books.barriers.values().filter(|book| book.opened_at_ms.is_none()).count() as u64;
    let closed_gates = books.closed_gates.len();
    let quarantined = books.quarantine.len() as u64;
    let ledger = LedgerView {
        id: running.ledger.id().to_owned(),
        last_frame: books.last_frame,
        last_fact: books.last_fact.0,
        last_tombstone: books.last_tombstone.0,
    };
    drop(committed);
    let actions = actions(&destinations, &partitions, quarantined);
    let summary = match (&failure, actions.is_empty(), closed_gates) {
        (Some(error), ..) => format!("action needed: operator: {error}"),
        (None, false, _) => format!("action needed: {}", actions.join("; ")),
        (None, true, 0) => "all clear".to_owned(),
        (None, true, 1) => "1 deletion waiting".to_owned(),
        (None, true, waiting) => format!("{waiting} deletions waiting"),
    };
    let counts = running.ledger.counts();
    let records =
        counts.classes().iter().map(|(word, count)| ((*word).to_owned(), *count)).collect();
    StatusView {
        summary,
        state: if failure.is_some() { "LEDGER_SUSPECT" } else { "RUNNING" }.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ledger,
        partitions,
        destinations,
        closed_gates,
        held_barriers: held,
        quarantined,
        records_read: counts.read,
        records,
    }
}

/// What somebody has to do, and who.
fn actions(
    destinations: &[DestinationView],
    partitions: &[PartitionView],
    quarantined: u64,
) -> Vec<String> {
    let mut actions = Vec::new();
    for partition in partitions.iter().filter(|partition| partition.error.is_some()) {
        actions.push(format!("operator: partition {} has failed", partition.partition));
    }
    for view in destinations {
        let owner = view.owner.as_deref().unwrap_or("operator");
        match view.state.as_str() {
            "FAILED" | "UNASSIGNED" | "REBUILD_REQUIRED" => {
                actions.push(format!("{owner}: destination {} is {}", view.name, view.state));
            }
            _ if !view.parked.is_empty() => actions.push(format!(
                "{owner}: destination {} refuses {} changes",
                view.name,
                view.parked.len()
            )),
            _ => {}
        }
    }
    if quarantined > 0 {
        actions.push(format!("operator: {quarantined} records in quarantine"));
    }
    actions
}

fn partitions(running: &Running) -> Vec<PartitionView> {
    running
        .partitions
        .iter()
        .map(|(partition, standing)| {
            let error = standing.lock().error.clone();
            let end = running.source.marks(*partition).ok().map(|marks| cursor(marks.end));
            let committed = running.ledger.read();
            let feed = committed.books.feeds.get(partition).cloned().unwrap_or_default();
            PartitionView {
                partition: *partition,
                feed: feed.feed,
                cursor: cursor(feed.cursor),
                end,
                state: if error.is_some() { "FAILED" } else { "RUNNING" }.to_owned(),
                error,
            }
        })
        .collect()
}

/// Why the worker is not ready; empty if it is.
#[must_use]
pub fn not_ready(running: &Running) -> Vec<String> {
    let mut reasons = Vec::new();
    if let Some(error) = running.ledger.failure() {
        reasons.push(error.to_string());
    }
    for (partition, standing) in running.partitions.iter() {
        if let Some(error) = &standing.lock().error {
            reasons.push(format!("partition {partition}: {error}"));
        }
    }
    for view in destinations(running) {
        if view.state != "RUNNING" {
            reasons.push(format!("destination {} is {}", view.name, view.state));
        }
    }
    reasons
}

/// What waits in quarantine, by position, at most `limit`.
#[must_use]
pub fn quarantine(running: &Running, limit: usize) -> Vec<QuarantineView> {
    let committed = running.ledger.read();
    let notes = committed.books.quarantine.values().take(limit);
    notes
        .map(|note| QuarantineView {
            position: position(note.position),
            reason: note.reason.word().to_owned(),
            detail: note.detail.clone(),
            since: time(note.at_ms),
        })
        .collect()
}
