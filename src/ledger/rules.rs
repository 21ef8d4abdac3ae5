//! What an operator decided beforehand, as the writer uses it.

use std::collections::BTreeMap;
use std::time::Duration;

use cenotaph_core::{Authority, CollectionPolicy};

/// What becomes of a change whose collection is not configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownCollections {
    /// It waits for somebody.
    #[default]
    Quarantine,
    /// It is counted and passed over.
    Ignore,
    /// It is decided under the default policy.
    Accept,
}

/// The rules in force.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rules {
    /// The policy of each configured collection.
    pub collections: BTreeMap<String, CollectionPolicy>,
    /// What becomes of the others.
    pub unknown_collections: UnknownCollections,
    /// Their policy, where they are accepted.
    pub default_policy: CollectionPolicy,
    /// Who may do what.
    pub authority: Authority,
    /// The most positions in quarantine.
    pub quarantine_max: usize,
    /// How long a deletion request that changed nothing is remembered.
    pub requests_kept: Duration,
    /// A hash of the text of all this, for the journal.
    pub hash: [u8; 16],
}

/// What the rules say of a collection.
pub(super) enum Ruling<'a> {
    Policy(&'a CollectionPolicy),
    Ignore,
    Quarantine,
}

impl Rules {
    pub(super) fn collection(&self, name: &str) -> Ruling<'_> {
        match (self.collections.get(name), self.unknown_collections) {
            (Some(policy), _) => Ruling::Policy(policy),
            (None, UnknownCollections::Accept) => Ruling::Policy(&self.default_policy),
            (None, UnknownCollections::Ignore) => Ruling::Ignore,
            (None, UnknownCollections::Quarantine) => Ruling::Quarantine,
        }
    }
}
