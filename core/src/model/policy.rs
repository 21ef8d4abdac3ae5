//! What an operator decides beforehand: the policy of a collection, and who may say what.

use serde::{Deserialize, Serialize};

use super::Op;

/// What may re-open a removed identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lifecycle {
    /// Nothing: the identity stays closed, whatever comes later.
    #[default]
    Terminal,
    /// An authorised `restore`.
    Restorable,
    /// Any higher version.
    Versioned,
}

/// How a generation above the first begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Generations {
    /// Only by an authorised `create`.
    #[default]
    Authorised,
    /// Also by a plain upsert.
    Open,
}

/// What a deletion does that has the version of the live entry (not under `terminal`, where it
/// always removes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EqualVersionDelete {
    /// It contradicts the entry: a conflict.
    #[default]
    Conflict,
    /// It removes: for sources whose deletions repeat the last version.
    Accept,
}

/// What becomes of an object whose change was a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnConflict {
    /// Goes on; the change waits in quarantine.
    #[default]
    Quarantine,
    /// Its further upserts join the quarantine until somebody resolves it. Deletions pass.
    Suspend,
    /// The partition stops.
    Stop,
}

/// Whose numbers a collection's versions are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VersionSpace {
    /// Each source counts for itself; a change of another source is a conflict.
    #[default]
    Source,
    /// All sources share one count.
    Shared,
}

/// The rules of a collection.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CollectionPolicy {
    /// What may re-open a removed identity.
    pub lifecycle: Lifecycle,
    /// How a generation above the first begins.
    pub generations: Generations,
    /// What a deletion of equal version does.
    pub equal_version_delete: EqualVersionDelete,
    /// What becomes of an object in conflict.
    pub on_conflict: OnConflict,
    /// Whose numbers the versions are.
    pub version_space: VersionSpace,
    /// The schemas that may come; any where the list is empty.
    pub schemas: Vec<String>,
}

/// One statement of who may do what. An empty list leaves that matter open.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rule {
    /// The sources that may.
    pub sources: Vec<String>,
    /// What they may do. Empty: upsert and delete; `restore` and `create` are only ever granted by
    /// name.
    pub ops: Vec<Op>,
    /// For which tenants.
    pub tenants: Vec<String>,
    /// In which collections.
    pub collections: Vec<String>,
    /// With which event types.
    pub types: Vec<String>,
}

/// Whether a change may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// It may.
    Granted,
    /// Its source may not do this.
    Unauthorised,
    /// The collection does not know its schema.
    UnknownSchema,
}

/// Who may say what on the configured feed. Without rules, every source may upsert and delete.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Authority {
    /// A change is granted if any rule grants it.
    pub rules: Vec<Rule>,
}

/// The words of a change that authority looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim<'a> {
    /// The source it says it comes from.
    pub source: &'a str,
    /// What it does.
    pub op: Op,
    /// Its tenant.
    pub tenant: &'a str,
    /// Its collection.
    pub collection: &'a str,
    /// Its event type.
    pub kind: &'a str,
}

impl Authority {
    /// Whether a claim is granted.
    #[must_use]
    pub fn grants(&self, claim: Claim<'_>) -> bool {
        if self.rules.is_empty() {
            return Rule::default().grants(claim);
        }
        self.rules.iter().any(|rule| rule.grants(claim))
    }
}

impl Rule {
    fn grants(&self, claim: Claim<'_>) -> bool {
        let names = |list: &[String], name: &str| list.is_empty() || list.iter().any(|n| n == name);
        let op = if self.ops.is_empty() {
            matches!(claim.op, Op::Upsert | Op::Delete)
        } else {
            self.ops.contains(&claim.op)
        };
        op && names(&self.sources, claim.source)
            && names(&self.tenants, claim.tenant)
            && names(&self.collections, claim.collection)
            && names(&self.types, claim.kind)
    }
}
