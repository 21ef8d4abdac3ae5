//! `[settings]` of a tantivy destination.

use std::collections::BTreeMap;

use cenotaph_connector::SettingsError;
use schemars::JsonSchema;
use serde::Deserialize;

/// What tantivy asks for at least, for each thread.
const MIN_HEAP_BYTES: usize = 15_000_000;
/// What tantivy allows at most, for each thread and in threads.
const MAX_HEAP_BYTES: usize = 4_000_000_000;
const MAX_THREADS: usize = 8;
const MIN_SEGMENT_DOCS: u32 = 1_000;

/// `[settings]` of a tantivy destination.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Memory for documents that are not written yet, of all threads together.
    pub heap_bytes: usize,
    /// Indexing threads.
    pub threads: usize,
    /// The most documents in one segment. Purging one document rewrites its segment: about 2.5
    /// seconds for 100,000 documents of 1 KB. More segments make each write and each look slower.
    pub max_segment_docs: u32,
    /// The fields of the payload that are indexed, by name; a field that is not named here does not
    /// get into the index. Without any, all text of the payload is searchable and the payload is
    /// stored whole.
    pub fields: BTreeMap<String, FieldSettings>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            heap_bytes: 64 << 20,
            threads: 2,
            max_segment_docs: 100_000,
            fields: BTreeMap::new(),
        }
    }
}

/// `[settings.fields.NAME]`: how one field of the payload is indexed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FieldSettings {
    /// What the field holds: one value, or an array of them. `null` counts as absent.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Whether search results show it.
    #[serde(default = "yes")]
    pub stored: bool,
}

fn yes() -> bool {
    true
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Text, searched word by word.
    Text,
    /// Text that is matched as a whole.
    Keyword,
    /// A whole number that fits in 64 bits with a sign.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// `2026-11-30` or `2026-11-30T10:00:00Z`, in the years 1678 to 2262.
    Date,
    /// Anything: shown in search results and not searched.
    Stored,
}

impl Kind {
    /// What a value of it is called in a fault.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Kind::Text | Kind::Keyword => "text",
            Kind::Integer => "a whole number of 64 bits",
            Kind::Number => "a number",
            Kind::Boolean => "true or false",
            Kind::Date => "a date, as in 2026-11-30 or 2026-11-30T10:00:00Z",
            Kind::Stored => "a JSON value",
        }
    }
}

impl Settings {
    /// Refuses what tantivy could not work with.
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        let error = |key: &str, what: String| Err(SettingsError { key: key.into(), what });
        if !(1..=MAX_THREADS).contains(&self.threads) {
            return error("threads", format!("must be 1 to {MAX_THREADS}"));
        }
        let (least, most) = (MIN_HEAP_BYTES * self.threads, MAX_HEAP_BYTES * self.threads);
        if !(least..=most).contains(&self.heap_bytes) {
            let what = format!("must be {least} to {most} with {} threads", self.threads);
            return error("heap_bytes", what);
        }
        if self.max_segment_docs < MIN_SEGMENT_DOCS {
            return error("max_segment_docs", format!("must be at least {MIN_SEGMENT_DOCS}"));
        }
        for (name, field) in &self.fields {
            let key = format!("fields.{name}");
            if name.is_empty() || name.starts_with('_') || name.starts_with('-') {
                return error(&key, "a field's name must not begin with `_` or `-`".into());
            }
            if field.kind == Kind::Stored && !field.stored {
                return error(&key, "a field that is neither searched nor stored is none".into());
            }
        }
        Ok(())
    }
}
