//! The files as they are written. The schema that checks them is made from these types.

use std::collections::BTreeMap;

use cenotaph_core::{
    EqualVersionDelete, EvidenceLevel, Generations, Lifecycle, OnConflict, Op, VersionSpace,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::units::{DurationText, SizeText};
use super::words;
use super::{Format, SourceKind, UnknownCollections, VersionFrom};

/// `cenotaph.toml`: the worker.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkerFile {
    /// Where what the worker writes is kept; the ledger and embedded destinations have folders in
    /// it. Relative to this file.
    #[serde(default = "data_dir")]
    #[schemars(length(min = 1))]
    pub(super) data_dir: String,
    /// The folder of the destinations' files, beside or below this file.
    #[serde(default = "destinations")]
    #[schemars(length(min = 1))]
    pub(super) destinations: String,
    /// What becomes of a change whose collection is not configured.
    #[serde(default)]
    pub(super) unknown_collections: UnknownCollections,
    /// The stream that is read.
    pub(super) source: SourceTable,
    /// The ledger.
    #[serde(default)]
    pub(super) ledger: LedgerTable,
    /// The HTTP interface.
    #[serde(default)]
    pub(super) api: ApiTable,
    /// The rules of each collection.
    #[serde(default)]
    pub(super) collections: BTreeMap<String, CollectionTable>,
    /// Who may do what. Without a rule, every source may upsert and delete.
    #[serde(default)]
    pub(super) authority: Vec<RuleTable>,
}

fn data_dir() -> String {
    "data".into()
}

fn destinations() -> String {
    "destinations".into()
}

/// `[source]`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SourceTable {
    /// What kind of stream.
    pub(super) kind: SourceKind,
    /// The change log, relative to this file.
    #[schemars(length(min = 1))]
    pub(super) path: String,
    /// How its records are written.
    #[serde(default)]
    pub(super) format: Format,
    /// The tenant of changes that name none.
    #[schemars(length(min = 1, max = 4096))]
    pub(super) tenant: Option<String>,
    /// The collection of changes that name none.
    #[schemars(length(min = 1, max = 4096))]
    pub(super) collection: Option<String>,
    /// The producing system of changes that name none.
    #[schemars(length(min = 1, max = 4096))]
    pub(super) source: Option<String>,
    /// The longest record; a longer one goes to quarantine.
    #[serde(default = "max_record")]
    #[schemars(extend("x-minimum" = "1KiB", "x-maximum" = "64MiB"))]
    pub(super) max_record: SizeText,
    /// How long to wait at the end of the log before looking again.
    #[serde(default = "poll")]
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1m"))]
    pub(super) poll: DurationText,
}

fn max_record() -> SizeText {
    SizeText::mebibytes(1)
}

fn poll() -> DurationText {
    DurationText::millis(10)
}

/// `[ledger]`
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LedgerTable {
    /// Its folder, relative to this file; `ledger` in the data folder where it is not named.
    #[schemars(length(min = 1))]
    pub(super) dir: Option<String>,
    /// The most records that share one sync.
    #[schemars(range(min = 1, max = 100_000))]
    pub(super) group_max_records: usize,
    /// The memory of the view.
    #[schemars(extend("x-minimum" = "1MiB", "x-maximum" = "64GiB"))]
    pub(super) cache: SizeText,
    /// How many changed objects make a checkpoint due.
    #[schemars(range(min = 1_000, max = 10_000_000))]
    pub(super) checkpoint_objects: usize,
    /// How much journal is kept whole: up to there, a view that is lost or damaged is built anew
    /// from the journal alone.
    #[schemars(extend("x-minimum" = "1MiB", "x-maximum" = "1024GiB"))]
    pub(super) journal_whole: SizeText,
    /// The memory in which recent changes wait for the destinations.
    #[schemars(extend("x-minimum" = "1MiB", "x-maximum" = "64GiB"))]
    pub(super) window: SizeText,
    /// The most positions in quarantine; when it is full, reading stops.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub(super) quarantine_max: usize,
    /// How long a deletion request that changed nothing is remembered.
    #[schemars(extend("x-minimum" = "1h", "x-maximum" = "3650days"))]
    pub(super) requests_kept: DurationText,
    /// The most positions that one destination may owe; when it is full, its changes wait.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub(super) owed_max: usize,
}

impl Default for LedgerTable {
    fn default() -> LedgerTable {
        LedgerTable {
            dir: None,
            group_max_records: 2_000,
            cache: SizeText::mebibytes(64),
            checkpoint_objects: 500_000,
            journal_whole: SizeText::mebibytes(1_024),
            window: SizeText::mebibytes(64),
            quarantine_max: 10_000,
            requests_kept: DurationText::seconds(90 * 86_400),
            owed_max: 10_000,
        }
    }
}

/// `[api]`
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ApiTable {
    /// Where it listens: an address of this machine only.
    #[schemars(length(min = 1))]
    pub(super) listen: String,
    /// The longest request body.
    #[schemars(extend("x-minimum" = "1KiB", "x-maximum" = "64MiB"))]
    pub(super) max_body: SizeText,
    /// The longest a request may take; one that waits for a deletion answers within it.
    #[schemars(extend("x-minimum" = "1s", "x-maximum" = "10m"))]
    pub(super) request_timeout: DurationText,
    /// The most requests that may wait for something at once.
    #[schemars(range(min = 1, max = 100_000))]
    pub(super) max_waiters: usize,
}

impl Default for ApiTable {
    fn default() -> ApiTable {
        ApiTable {
            listen: "127.0.0.1:8083".into(),
            max_body: SizeText::mebibytes(1),
            request_timeout: DurationText::seconds(60),
            max_waiters: 1_000,
        }
    }
}

/// `[collections.NAME]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CollectionTable {
    /// What may re-open a removed identity.
    #[schemars(schema_with = "words::lifecycle")]
    pub(super) lifecycle: Lifecycle,
    /// How a generation above the first begins.
    #[schemars(schema_with = "words::generations")]
    pub(super) generations: Generations,
    /// What a deletion does that has the version of the live entry; not under `terminal`.
    #[schemars(schema_with = "words::equal_version_delete")]
    pub(super) equal_version_delete: EqualVersionDelete,
    /// What becomes of an object whose change was a conflict.
    #[schemars(schema_with = "words::on_conflict")]
    pub(super) on_conflict: OnConflict,
    /// Whose numbers the versions are.
    #[schemars(schema_with = "words::version_space")]
    pub(super) version_space: VersionSpace,
    /// Where the versions come from.
    pub(super) version: VersionFrom,
    /// The schemas that may come; any where the list is empty.
    #[schemars(extend("uniqueItems" = true))]
    pub(super) schemas: Vec<String>,
}

/// `[[authority]]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RuleTable {
    /// The sources that may; all where the list is empty.
    #[schemars(extend("uniqueItems" = true))]
    pub(super) sources: Vec<String>,
    /// What they may do; upsert and delete where the list is empty.
    #[schemars(schema_with = "words::ops")]
    pub(super) ops: Vec<Op>,
    /// For which tenants; all where the list is empty.
    #[schemars(extend("uniqueItems" = true))]
    pub(super) tenants: Vec<String>,
    /// In which collections; all where the list is empty.
    #[schemars(extend("uniqueItems" = true))]
    pub(super) collections: Vec<String>,
    /// With which event types; all where the list is empty.
    #[schemars(extend("uniqueItems" = true))]
    pub(super) types: Vec<String>,
}

/// `destinations/NAME.toml`: one destination.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DestinationFile {
    /// The kind of the connector.
    #[schemars(length(min = 1))]
    pub(super) connector: String,
    /// The collections it takes.
    #[schemars(length(min = 1), inner(length(min = 1)), extend("uniqueItems" = true))]
    pub(super) collections: Vec<String>,
    /// The evidence that confirms a deletion.
    #[serde(default)]
    #[schemars(schema_with = "words::evidence_level")]
    pub(super) confirm: EvidenceLevel,
    /// Who answers for it: a team or an address.
    #[schemars(length(min = 1, max = 256))]
    pub(super) owner: String,
    /// The longest a request of ours may still be under way after we gave up on it.
    #[serde(default = "settle")]
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1day"))]
    pub(super) settle: DurationText,
    /// How changes are put together.
    #[serde(default)]
    pub(super) batch: BatchTable,
    /// How failures are repeated.
    #[serde(default)]
    pub(super) retry: RetryTable,
    /// The connector's own settings.
    #[serde(default)]
    #[schemars(schema_with = "settings")]
    pub(super) settings: serde_json::Map<String, serde_json::Value>,
}

fn settle() -> DurationText {
    DurationText::seconds(30)
}

/// Each connector has a schema of its own; the walker is given it once the kind is known.
fn settings(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object" })
}

/// `[batch]`
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct BatchTable {
    /// The most records in one call.
    #[schemars(range(min = 1, max = 100_000))]
    pub(super) max_records: usize,
    /// The most payload bytes in one call.
    #[schemars(extend("x-minimum" = "1KiB", "x-maximum" = "256MiB"))]
    pub(super) max_bytes: SizeText,
    /// The longest an applied change waits for its commit.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1m"))]
    pub(super) max_wait: DurationText,
    /// The longest a commit should take: batches are cut to stay below it.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1m"))]
    pub(super) max_commit: DurationText,
}

impl Default for BatchTable {
    fn default() -> BatchTable {
        BatchTable {
            max_records: 5_000,
            max_bytes: SizeText::mebibytes(8),
            max_wait: DurationText::millis(200),
            max_commit: DurationText::millis(500),
        }
    }
}

/// `[retry]`
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RetryTable {
    /// The first delay after a failure.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1h"))]
    pub(super) initial: DurationText,
    /// The longest delay after failures.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1h"))]
    pub(super) max: DurationText,
}

impl Default for RetryTable {
    fn default() -> RetryTable {
        RetryTable { initial: DurationText::millis(200), max: DurationText::seconds(60) }
    }
}
