//! The table `gate.txt`.

use cenotaph_core::decide::{
    BarrierView, Blocker, Gate, Obligation, Standing, barrier_gate, deletion_gate,
};
use cenotaph_core::{Cursor, Cursors, Position, TombstoneNo};

use crate::words::{Words, cursor, number, numbered, parts, shown_cursor, unknown};

struct Destination<'a> {
    name: &'a str,
    cursors: Cursors,
    owed: Vec<Position>,
    pending: Option<TombstoneNo>,
}

/// `deletion | destinations -> gate` or `barrier … | destinations -> gate`.
pub fn decide(left: &str) -> Result<String, String> {
    let columns = parts(left, '|');
    let (gate, destinations) = columns.split_first().ok_or("no gate")?;
    let destinations: Vec<&str> = destinations.iter().copied().filter(|d| *d != "nobody").collect();
    if *gate == "deletion" {
        let attached = destinations.iter().map(|text| obligation(text));
        return Ok(shown(deletion_gate(attached.collect::<Result<Vec<_>, _>>()?)));
    }
    let (cursors, through) = barrier(gate)?;
    let all = destinations.iter().map(|d| destination(d)).collect::<Result<Vec<_>, _>>()?;
    let standings = all.iter().map(|destination| Standing {
        destination: destination.name,
        cursors: &destination.cursors,
        owed: &destination.owed,
        pending: destination.pending,
    });
    Ok(shown(barrier_gate(&BarrierView { cursors: &cursors, through }, standings)))
}

fn obligation(text: &str) -> Result<Obligation<'_>, String> {
    match text.split_once(' ') {
        Some((destination, "owes")) => Ok(Obligation { destination, owed: true }),
        Some((destination, "done")) => Ok(Obligation { destination, owed: false }),
        _ => unknown(text),
    }
}

fn barrier(text: &str) -> Result<(Cursors, Option<TombstoneNo>), String> {
    let mut words = Words::of(text);
    let (mut cursors, mut through) = (Cursors::new(), None);
    if !words.take("barrier") {
        return unknown(text);
    }
    while let Some(word) = words.pop() {
        match word {
            "through" => through = Some(TombstoneNo(number(words.after(word)?)?)),
            _ => {
                let (partition, at) = placed(word, &mut words)?;
                cursors.insert(partition, at);
            }
        }
    }
    Ok((cursors, through))
}

fn destination(text: &str) -> Result<Destination<'_>, String> {
    let mut words = Words::of(text);
    let name = words.pop().ok_or("no destination")?;
    let mut found = Destination { name, cursors: Cursors::new(), owed: Vec::new(), pending: None };
    while let Some(word) = words.pop() {
        match word {
            "owes" => {
                let (partition, at) = placed(words.after(word)?, &mut words)?;
                found.owed.push(Position { partition, epoch: at.epoch, offset: at.offset });
            }
            "pending" => found.pending = Some(TombstoneNo(number(words.after(word)?)?)),
            _ => {
                let (partition, at) = placed(word, &mut words)?;
                found.cursors.insert(partition, at);
            }
        }
    }
    Ok(found)
}

/// `p0 10`: a partition and a place in it.
fn placed(word: &str, words: &mut Words<'_>) -> Result<(u32, Cursor), String> {
    let partition = numbered(word, 'p').map_or_else(|| unknown(word), Ok)?;
    Ok((partition, cursor(words.after(word)?)?))
}

fn shown(gate: Gate<'_>) -> String {
    let blocker = match gate {
        Gate::Open => return "open".into(),
        Gate::Held(blocker) => blocker,
    };
    match blocker {
        Blocker::Ingest => "held: ingest".into(),
        Blocker::Unconfirmed { destination } => format!("held: {destination} unconfirmed"),
        Blocker::Cursor { destination, partition, has, needs } => format!(
            "held: {destination} p{partition} has {} needs {}",
            shown_cursor(has),
            shown_cursor(needs)
        ),
        Blocker::Owed { destination, position } => format!(
            "held: {destination} owes p{} {}",
            position.partition,
            shown_cursor(position.cursor())
        ),
        Blocker::Pending { destination, tombstone } => {
            format!("held: {destination} pending {tombstone}")
        }
    }
}
