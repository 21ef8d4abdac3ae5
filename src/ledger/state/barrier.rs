//! A named barrier.

use cenotaph_core::{Cursors, EventHash, ScopeHash, ScopeName, TombstoneNo};
use serde::{Deserialize, Serialize};

/// One named barrier, from its making to its opening.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BarrierBook {
    /// The event that made it; none where an operator or a job did.
    pub event: Option<EventHash>,
    /// What it waits for; everything where there is none.
    pub scope: Option<ScopeHash>,
    /// The readable name of the scope.
    pub scope_name: Option<ScopeName>,
    /// The cursors to reach.
    pub cursors: Cursors,
    /// The last tombstone to wait for; none until ingest has reached the cursors.
    pub through: Option<TombstoneNo>,
    /// When it was made, milliseconds since 1970.
    pub made_at_ms: i64,
    /// When it opened, if it did.
    pub opened_at_ms: Option<i64>,
    /// Destinations that only acknowledged.
    pub unproven: Vec<String>,
}
