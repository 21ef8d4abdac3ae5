//! What happens, in order.

use std::time::Instant;

use anyhow::ensure;
use serde_json::json;

use super::tell::{Replay, Teller, Told};
use super::world::World;

/// The document that is deleted.
const OBJECT: &str = "alexandria-library";

/// Its title.
const TITLE: &str = "Library of Alexandria";

/// What it is searched by.
const QUERY: &str = "alexandria";

/// Plays the story.
pub(super) async fn play(mut teller: Teller) -> anyhow::Result<()> {
    let begun = Instant::now();
    let world = World::begin().await?;
    let outcome = tell(&world, &mut teller).await;
    // The folder goes away whatever happened.
    let ended = world.end().await;
    let told = outcome?;
    ended?;
    teller.end(&told, begun.elapsed())
}

async fn tell(world: &World, teller: &mut Teller) -> anyhow::Result<Told> {
    world.caught_up().await?;
    let search_before = world.search(QUERY)?;
    teller.filled(world.documents(), QUERY, &search_before)?;

    world.append(&json!({
        "event_id": "remove-1", "op": "delete", "object": OBJECT, "version": 2,
        "type": "document.removed",
    }))?;
    let waiting_for = |wanted: &'static [&'static str]| {
        move |world: &World| {
            let view = world.deletion(OBJECT)?;
            let missing: Vec<_> =
                view.blockers.iter().map(|it| it.destination.as_deref()).collect();
            let wanted: Vec<_> = wanted.iter().map(|name| Some(*name)).collect();
            Ok(view.gate == "closed" && missing == wanted)
        }
    };
    world.until("the search index to confirm", waiting_for(&["cache"])).await?;
    let closed = world.deletion(OBJECT)?;
    teller.closed(&closed)?;

    world.let_go();
    world.until("the gate to open", |world| Ok(world.deletion(OBJECT)?.gate == "open")).await?;
    let open = world.deletion(OBJECT)?;
    let search_after = world.search(QUERY)?;
    teller.open(&open, QUERY, &search_after)?;

    let before = world.running().ledger.counts();
    world.append(&world.first_upsert(OBJECT)?)?;
    world.caught_up().await?;
    let after = world.running().ledger.counts();
    let replay = Replay {
        refused: after.refused - before.refused,
        resurrections_refused: after.resurrections_refused - before.resurrections_refused,
        search: world.search(QUERY)?,
    };
    teller.replayed(&replay)?;
    let told =
        Told { documents: world.documents(), search_before, closed, open, search_after, replay };
    check(&told)?;
    Ok(told)
}

/// The story is only told if it is true.
fn check(told: &Told) -> anyhow::Result<()> {
    let finds = |hits: &[String]| hits.iter().any(|hit| hit == TITLE);
    ensure!(finds(&told.search_before), "the document was not found before its deletion");
    ensure!(!finds(&told.search_after), "the document was still found after its deletion");
    ensure!(told.open.blockers.is_empty(), "the gate opened while somebody was missing");
    ensure!(told.open.destinations.iter().all(|it| it.evidence.is_some()), "evidence is missing");
    ensure!(told.replay.resurrections_refused == 1, "the old update was not refused");
    ensure!(told.replay.search == told.search_after, "the document came back");
    Ok(())
}
