//! What a pipeline is told by its destination's TOML.

use std::time::Duration;

use cenotaph_core::EvidenceLevel;

/// The part of a destination's configuration that is not its connector's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineSettings {
    /// The destination's name.
    pub name: String,
    /// The connector's kind.
    pub connector: String,
    /// The collections it takes.
    pub collections: Vec<String>,
    /// The evidence that confirms.
    pub confirm: EvidenceLevel,
    /// Who answers for it.
    pub owner: String,
    /// The longest a request of ours may still be under way after we gave up on it.
    pub settle: Duration,
    /// The most records in one call.
    pub max_records: usize,
    /// The most payload bytes in one call.
    pub max_bytes: usize,
    /// The longest an applied change waits for its commit.
    pub max_wait: Duration,
    /// The longest a commit should take: while catching up, it holds as much as it can write in
    /// this.
    pub max_commit: Duration,
    /// The first delay after a failure.
    pub retry_initial: Duration,
    /// The longest delay after failures.
    pub retry_max: Duration,
    /// The most owed positions.
    pub owed_max: usize,
}
