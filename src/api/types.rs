//! What the API answers, for the server and for the command line that reads it. Times are RFC 3339,
//! durations are seconds. Never content.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// An error, one shape everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The HTTP status.
    pub error_code: u16,
    /// What happened.
    pub message: String,
    /// A stable word for it.
    pub code: String,
    /// What to do.
    pub suggestion: String,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// `after` of the next page; none after the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Where a record stands in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PositionView {
    /// The partition.
    pub partition: u32,
    /// The feed's epoch.
    pub epoch: u32,
    /// The offset.
    pub offset: u64,
}

/// What the ledger knows of an object, and where its deletion stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TombstoneView {
    /// The tenant.
    pub tenant: String,
    /// The collection.
    pub collection: String,
    /// The object.
    pub object: String,
    /// The generation.
    pub generation: u32,
    /// `live`, `removed`, or `unknown` if it was never met.
    pub state: String,
    /// The highest version decided on.
    pub version: Option<u64>,
    /// The highest version that the deletion covers: a number, or `everything`.
    pub covers: Option<serde_json::Value>,
    /// The number of its last tombstone.
    pub tombstone: Option<u64>,
    /// Where the deletion stands in the stream.
    pub position: Option<PositionView>,
    /// When the ledger accepted it.
    pub accepted_at: Option<String>,
    /// When it happened at its source.
    pub occurred_at: Option<String>,
    /// `open`, `closed`, or `none` where nothing was ever deleted.
    pub gate: String,
    /// Destinations that only acknowledged it.
    pub unproven: Vec<String>,
    /// Each attached destination.
    pub destinations: Vec<DestinationTombstoneView>,
    /// Who keeps the gate closed.
    pub blockers: Vec<BlockerView>,
    /// What became of the event or version that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Whoever waits for this deletion must wait on.
    pub blocked: bool,
}

/// A deletion at one destination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DestinationTombstoneView {
    /// The destination.
    pub name: String,
    /// PENDING ACKNOWLEDGED CONFIRMED UNCERTAIN FAILED WAIVED.
    pub state: String,
    /// Who answers for it.
    pub owner: Option<String>,
    /// Attempts so far, in this run of the process.
    pub attempts: u32,
    /// What the last attempt met.
    pub last_error: Option<String>,
    /// The evidence, once it is confirmed.
    pub evidence: Option<EvidenceView>,
}

/// What a look saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceView {
    /// `acknowledged`, `absent` or `purged`.
    pub level: String,
    /// How it was looked for.
    pub method: String,
    /// Which copies were looked at.
    pub copies: Vec<String>,
    /// When.
    pub looked_at: String,
    /// After how many attempts.
    pub attempts: u32,
    /// Epoch and commit of the control record that the look saw.
    pub control: Option<ControlView>,
}

/// The stamp of a control record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlView {
    /// The epoch.
    pub epoch: u64,
    /// The commit.
    pub commit: u64,
}

/// Who keeps a gate closed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlockerView {
    /// The destination; none where ingest has not come there yet.
    pub destination: Option<String>,
    /// What is missing.
    pub reason: String,
    /// Who answers for it.
    pub owner: Option<String>,
    /// Since when.
    pub since: Option<String>,
    /// For how long.
    pub age_seconds: f64,
    /// Attempts so far.
    pub attempts: u32,
    /// What the last attempt, or the destination itself, met.
    pub last_error: Option<String>,
}

/// A named barrier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BarrierView {
    /// Its name.
    pub name: String,
    /// HELD or RELEASED.
    pub state: String,
    /// What it waits for; everything where there is none.
    pub scope: Option<ScopeView>,
    /// The cursors to reach.
    pub cursors: BTreeMap<u32, CursorView>,
    /// The last tombstone to wait for, once it is known.
    pub through: Option<u64>,
    /// When it was made.
    pub made_at: String,
    /// When it opened.
    pub opened_at: Option<String>,
    /// Who keeps it closed.
    pub blockers: Vec<BlockerView>,
    /// Destinations that only acknowledged.
    pub unproven: Vec<String>,
}

/// A scope's name. An unknown part is refused: one that is left out makes the scope wider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScopeView {
    /// The tenant.
    pub tenant: String,
    /// The collection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// The parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

impl ScopeView {
    /// The names that it has.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let below = self.collection.iter().chain(&self.parent);
        std::iter::once(&self.tenant).chain(below).map(String::as_str)
    }
}

/// A cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CursorView {
    /// The feed's epoch.
    pub epoch: u32,
    /// The offset of the next record.
    pub offset: u64,
}

/// A request for a named barrier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BarrierRequestBody {
    /// Its name.
    pub name: String,
    /// What it waits for; everything where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeView>,
}

/// A destination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DestinationView {
    /// Its name.
    pub name: String,
    /// Its connector.
    pub connector: Option<String>,
    /// RUNNING PAUSED STOPPED FAILED RESTARTING UNASSIGNED REBUILD_REQUIRED.
    pub state: String,
    /// The collections it is attached to.
    pub collections: Vec<String>,
    /// The evidence that confirms there.
    pub confirm: Option<String>,
    /// The strongest evidence that it can give, once it was opened.
    pub can_prove: Option<String>,
    /// Who answers for it.
    pub owner: Option<String>,
    /// How far it is.
    pub cursors: BTreeMap<u32, CursorView>,
    /// How far it is behind ingest, in the units of the source.
    pub lag: u64,
    /// Deletions that it has not confirmed.
    pub pending_removals: u64,
    /// The age of the oldest.
    pub oldest_pending_age_seconds: Option<f64>,
    /// Positions that it holds back or has parked.
    pub owed: u64,
    /// Changes that it can never take.
    pub parked: Vec<ParkedView>,
    /// The last error since it was opened, or since the lane that met it last worked.
    pub last_error: Option<DestinationErrorView>,
    /// The lanes that have not worked since they failed.
    #[serde(default)]
    pub failing: Vec<FailingView>,
    /// The call under way, if it takes long.
    pub in_call: Option<String>,
}

/// A change that a destination can never take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParkedView {
    /// Where it stands.
    pub position: PositionView,
    /// Why.
    pub reason: String,
    /// Who can mend it.
    pub owner: String,
}

/// A lane that has not worked since it failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailingView {
    /// `changes`, `owed` or `removals`.
    pub lane: String,
    /// How often in a row.
    pub attempts: u32,
    /// What the last attempt met.
    pub error: DestinationErrorView,
}

/// What went wrong at a destination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestinationErrorView {
    /// What happened, and what to do.
    pub message: String,
    /// Who can mend it.
    pub owner: String,
    /// When.
    pub at: String,
}

/// A record in quarantine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineView {
    /// Where it stands.
    pub position: PositionView,
    /// Why.
    pub reason: String,
    /// What was expected where.
    pub detail: String,
    /// Since when.
    pub since: String,
}

/// A partition of the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionView {
    /// Its number.
    pub partition: u32,
    /// Which feed it is.
    pub feed: String,
    /// How far ingest is.
    pub cursor: CursorView,
    /// Where the log ends, if that can be told.
    pub end: Option<CursorView>,
    /// RUNNING or FAILED.
    pub state: String,
    /// Why it does not go on.
    pub error: Option<String>,
}

/// The ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerView {
    /// Its id.
    pub id: String,
    /// The last frame of its journal.
    pub last_frame: u64,
    /// The last fact of its chain.
    pub last_fact: u64,
    /// The last tombstone.
    pub last_tombstone: u64,
}

/// The worker at one glance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusView {
    /// `all clear`, `n deletions waiting`, or `action needed: …`.
    pub summary: String,
    /// RUNNING, or LEDGER_SUSPECT.
    pub state: String,
    /// This program's version.
    pub version: String,
    /// The ledger.
    pub ledger: LedgerView,
    /// The source's partitions.
    pub partitions: Vec<PartitionView>,
    /// The destinations.
    pub destinations: Vec<DestinationView>,
    /// Deletions whose gate is closed.
    pub closed_gates: u64,
    /// Named barriers that are held.
    pub held_barriers: u64,
    /// Records in quarantine.
    pub quarantined: u64,
    /// Records of the stream that were read and decided in this run of the process.
    #[serde(default)]
    pub records_read: u64,
    /// The same by what became of them: they add up to it.
    pub records: BTreeMap<String, u64>,
}
