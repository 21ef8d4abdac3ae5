//! The configuration: one `cenotaph.toml` for the worker, one TOML a destination. Typed; everything
//! that is wrong is told at once, with its place.

mod document;
mod errors;
mod file;
mod interpolate;
mod load;
mod units;
mod walk;
mod words;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cenotaph_connector::{Destination, Factory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use errors::{ConfigError, ConfigErrors};

use crate::envelope::Defaults;
use crate::ledger::Rules;
use crate::pipeline::PipelineSettings;

/// How a source's records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// The native envelope: a JSON object a line.
    #[default]
    Cenotaph,
}

/// What kind of stream a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// An append-only log of JSON lines.
    File,
}

/// What becomes of a change whose collection is not configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnknownCollections {
    /// It waits in quarantine for somebody.
    #[default]
    Quarantine,
    /// It is counted and passed over.
    Ignore,
    /// It is decided under the default policy.
    Accept,
}

/// Where a collection's versions come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VersionFrom {
    /// From the change itself.
    #[default]
    Source,
}

/// A configuration that can be run.
#[derive(Debug)]
pub struct Config {
    /// The file it comes from.
    pub file: PathBuf,
    /// The stream.
    pub source: SourceConfig,
    /// The ledger.
    pub ledger: LedgerConfig,
    /// The API.
    pub api: ApiConfig,
    /// The rules.
    pub rules: Rules,
    /// The destinations, by name.
    pub destinations: Vec<DestinationConfig>,
}

/// `[source]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceConfig {
    /// The change log.
    pub path: PathBuf,
    /// How its records are written.
    pub format: Format,
    /// What its changes may leave out.
    pub defaults: Defaults,
    /// The longest record.
    pub max_record_bytes: usize,
    /// How long to wait at the end of the log.
    pub poll: Duration,
}

/// `[ledger]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerConfig {
    /// Its folder.
    pub dir: PathBuf,
    /// The most records that share a sync.
    pub group_max_records: usize,
    /// The memory of the view.
    pub cache_bytes: u64,
    /// Changed objects that make a checkpoint due.
    pub checkpoint_objects: usize,
    /// Journal bytes that are kept whole.
    pub journal_whole_bytes: u64,
    /// The memory of the window.
    pub window_bytes: u64,
}

/// `[api]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiConfig {
    /// Where it listens: loopback.
    pub listen: SocketAddr,
    /// The longest request body.
    pub max_body_bytes: usize,
    /// The longest a request may wait.
    pub max_wait: Duration,
    /// The most requests that wait at once.
    pub max_waiters: usize,
}

/// One destination.
pub struct DestinationConfig {
    /// What its pipeline is told.
    pub pipeline: PipelineSettings,
    /// What its connector is told beside its settings.
    pub destination: Destination,
    /// Makes its connector.
    pub factory: Arc<dyn Factory>,
    /// The connector's own settings. Never shown: they may hold secrets.
    pub settings: serde_json::Value,
}

impl std::fmt::Debug for DestinationConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DestinationConfig")
            .field("pipeline", &self.pipeline)
            .field("destination", &self.destination)
            .finish_non_exhaustive()
    }
}
