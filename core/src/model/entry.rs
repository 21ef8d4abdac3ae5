//! What the ledger knows of an object.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::{
    Covers, EventHash, Fingerprint, Generation, NameHash, ScopeHash, TombstoneNo, Version,
};

/// Whether an object key is live or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum State {
    /// It exists at its authority.
    Live,
    /// It was deleted; the entry is what remembers that.
    Removed,
}

/// Yes-or-no knowledge of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct EntryFlags {
    /// The last accepted change carried a payload.
    pub with_content: bool,
    /// Its upserts go to quarantine until somebody resolves a conflict.
    pub suspended: bool,
    /// Deletion requests that changed nothing are recorded for this key.
    pub has_requests: bool,
    /// Removed under `terminal`: stays closed under any later policy.
    pub terminal: bool,
    /// Removed as a member of a scope, which has been restored since.
    pub scope_restored: bool,
    /// It has tombstones beside the last one.
    pub older_tombstones: bool,
}

/// What the ledger knows of one object key. Never content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Live or removed.
    pub state: State,
    /// The highest version decided on; none only where a deletion without a version was all that
    /// was ever seen.
    pub version: Option<Version>,
    /// The event id of the last accepted change.
    pub event: EventHash,
    /// The fingerprint of the last accepted change.
    pub fingerprint: Fingerprint,
    /// The version space.
    pub space: NameHash,
    /// The scope of the parent that the last accepted change named.
    pub parent: Option<ScopeHash>,
    /// The highest version a removal ever covered.
    pub erased_through: Covers,
    /// The partition of the last accepted change.
    pub partition: u32,
    /// The last tombstone of this key.
    pub tombstone: Option<TombstoneNo>,
    /// Yes-or-no knowledge.
    pub flags: EntryFlags,
}

/// What the ledger knows of every generation of one object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectRecord {
    /// Generations below this are closed for upserts; 0 where none was ever raised.
    pub floor: u32,
    /// One entry a known generation, ascending. Nearly every object has one.
    pub generations: SmallVec<[(Generation, Entry); 1]>,
}

impl ObjectRecord {
    /// The entry of one generation.
    #[must_use]
    pub fn entry(&self, generation: Generation) -> Option<&Entry> {
        self.generations.iter().find(|(known, _)| *known == generation).map(|(_, entry)| entry)
    }

    /// Puts an entry in its place.
    pub fn set(&mut self, generation: Generation, entry: Entry) {
        match self.generations.binary_search_by_key(&generation, |(known, _)| *known) {
            Ok(at) => self.generations[at].1 = entry,
            Err(at) => self.generations.insert(at, (generation, entry)),
        }
    }

    /// Whether every known generation below `generation` is removed.
    #[must_use]
    pub fn all_removed_below(&self, generation: Generation) -> bool {
        self.generations
            .iter()
            .filter(|(known, _)| *known < generation)
            .all(|(_, entry)| entry.state == State::Removed)
    }
}
