//! `[settings]` of a memory destination.

use schemars::JsonSchema;
use serde::Deserialize;

/// `[settings]` of a memory destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Write everything to a file at each commit, so that it survives a restart. Without it the
    /// destination is empty after a restart; cenotaph notices and fills it again.
    pub snapshot: bool,
}
