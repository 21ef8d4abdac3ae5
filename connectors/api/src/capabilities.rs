//! What a connector can do.

use std::time::Duration;

use cenotaph_core::EvidenceLevel;

/// How long the store itself refuses a write of an older version to a *removed* key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// No request of ours can arrive late: the store lives in this process and every call has
    /// returned before the next one begins.
    InProcess,
    /// For ever.
    Forever,
    /// For this long; shorter than the destination's `settle` it counts as none.
    For(Duration),
    /// Not at all: a look counts only after `settle`.
    None,
}

/// What a connector can do. Asked once, after `open`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The strongest evidence it can give.
    pub evidence: EvidenceLevel,
    /// Whether late writes can land.
    pub fence: Fence,
    /// Whether it keeps a control record.
    pub control: bool,
    /// Whether it can list what it holds.
    pub scan: bool,
    /// The most records in one `apply`.
    pub max_batch_records: usize,
    /// The most payload bytes in one `apply`.
    pub max_batch_bytes: usize,
    /// The most keys in one `remove`, `verify` or `purge`.
    pub max_batch_removals: usize,
}
