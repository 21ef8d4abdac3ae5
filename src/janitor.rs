//! What only time brings: gauges that age.

use std::time::Duration;

use cenotaph_core::TombstoneNo;

use crate::clock::Clock;
use crate::metrics::{self, DestinationGauges};
use crate::pipeline::standing::LaneName;
use crate::stop::Stop;
use crate::supervisor::Running;

/// How often gauges are refreshed.
const EVERY: Duration = Duration::from_secs(1);

/// Refreshes the gauges until told to stop.
pub async fn run(running: Running, mut stop: Stop) {
    loop {
        let looked = running.clone();
        // Reading the ledger may wait for the writer, and the folder for the disk.
        let _ = tokio::task::spawn_blocking(move || refresh(&looked)).await;
        tokio::select! {
            () = stop.given() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

/// Shows how everything stands now.
pub fn refresh(running: &Running) {
    // All that the ledger knows: one that nobody works for owes what it owes.
    let names: Vec<String> = {
        let committed = running.ledger.read();
        committed.books.destinations.values().map(|book| book.name.clone()).collect()
    };
    for name in &names {
        metrics::destination(name, gauges(running, name));
        lanes(running, name);
    }
    let committed = running.ledger.read();
    let barriers = &committed.books.barriers;
    let released = barriers.values().filter(|book| book.opened_at_ms.is_some()).count() as u64;
    let held = barriers.len() as u64 - released;
    let quarantined = committed.books.quarantine.len() as u64;
    drop(committed);
    let window = running.window.bytes_in_flight();
    metrics::worker(held, released, quarantined, window, folder_bytes(&running.ledger_dir));
}

fn lanes(running: &Running, name: &str) {
    let Some(known) = running.destinations.get(name) else { return };
    let failing = known.standing.snapshot().failing;
    for lane in LaneName::ALL {
        let its = failing.iter().find(|it| it.lane == lane);
        metrics::lane(name, lane.word(), its.map_or(0, |it| it.attempts));
    }
}

fn gauges(running: &Running, name: &str) -> DestinationGauges {
    let committed = running.ledger.read();
    let Some(book) = committed.books.destination(name) else { return DestinationGauges::default() };
    let oldest = book.pending.min().and_then(|number| {
        committed.tombstone(TombstoneNo(number)).ok().map(|it| it.tombstone.accepted_at_ms)
    });
    let age_ms = oldest.map_or(0, |at| Clock.now_ms().saturating_sub(at));
    DestinationGauges {
        pending: book.pending.len(),
        oldest_pending: Duration::from_millis(u64::try_from(age_ms).unwrap_or(0)),
        lag: committed.lag_of(book),
        owed: book.owed.len() as u64,
    }
}

/// The size of everything in a folder; what vanishes meanwhile counts nothing.
fn folder_bytes(dir: &std::path::Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => folder_bytes(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}
