//! From the committed state, and how the destinations stand, to what the API answers.

mod barrier;
mod destination;
mod status;
mod tombstone;

pub use barrier::{barrier, barriers};
pub use destination::{destination, destinations};
pub use status::{not_ready, quarantine, status};
pub use tombstone::{Asked, Filter, object, pending};

use cenotaph_core::{Cursor, Cursors, Position};

use crate::pipeline::standing::DestinationState;

use super::types::{CursorView, PositionView};

/// A moment, as RFC 3339.
#[must_use]
pub fn time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| String::from("?"), |at| at.to_string())
}

fn position(position: Position) -> PositionView {
    let Position { partition, epoch, offset } = position;
    PositionView { partition, epoch, offset }
}

fn cursor(cursor: Cursor) -> CursorView {
    CursorView { epoch: cursor.epoch, offset: cursor.offset }
}

fn cursors(cursors: &Cursors) -> std::collections::BTreeMap<u32, CursorView> {
    cursors.iter().map(|(partition, at)| (*partition, cursor(*at))).collect()
}

/// Why nobody works for a destination; none if somebody does.
fn unassigned(state: Option<DestinationState>) -> Option<&'static str> {
    match state {
        None => Some("unassigned: no configuration names this destination"),
        Some(DestinationState::Unassigned) => {
            Some("unassigned: its file does not name every collection that it is attached to")
        }
        Some(_) => None,
    }
}

fn seconds(ms: i64) -> f64 {
    ms.max(0) as f64 / 1000.0
}
