//! What the journal records: facts about deletions and who owes what, kept for ever and chained;
//! notes about all else. A record states resulting values, never a difference: replaying it twice
//! changes nothing.

use bytestring::ByteString;
use serde::{Deserialize, Serialize};

use super::{
    Control, Cursor, Cursors, Entry, EventHash, Fingerprint, Generation, KeyHash, NameHash,
    ObjectId, Position, ScopeHash, Tombstone, TombstoneNo, Version,
};

/// The ledger's number for a destination; names can come back, numbers cannot.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct DestinationNo(pub u32);

/// How strong the evidence of an absence is, weakest first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "lowercase")]
pub enum EvidenceLevel {
    /// The destination accepted the request.
    Acknowledged,
    /// A look by identity after the delete was durable and visible found nothing.
    #[default]
    Absent,
    /// The bytes are gone as well.
    Purged,
}

impl EvidenceLevel {
    /// The level's word in configuration and answers.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            EvidenceLevel::Acknowledged => "acknowledged",
            EvidenceLevel::Absent => "absent",
            EvidenceLevel::Purged => "purged",
        }
    }
}

/// What one look saw, for every tombstone that it confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// How strong it is.
    pub level: EvidenceLevel,
    /// How it was looked for, in the connector's words; never content.
    pub method: String,
    /// Which copies were looked at.
    pub copies: Vec<String>,
    /// When, milliseconds since 1970.
    pub looked_at_ms: i64,
    /// The most attempts that one of the removals took.
    pub attempts: u32,
    /// The epoch and the commit of the control record that the look saw; none where the
    /// destination cannot keep one, and the evidence is weaker for it.
    pub control: Option<(u64, u64)>,
}

/// Tombstone numbers from `first` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NumberRange {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

/// One look that confirmed tombstones at one destination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfirmedFact {
    /// Where.
    pub destination: DestinationNo,
    /// Counts the looks of this destination: 1 and up.
    pub look: u64,
    /// Which tombstones.
    pub tombstones: Vec<NumberRange>,
    /// What was seen.
    pub evidence: Evidence,
}

/// A link of the chain: about deletions and who owes what. Kept for ever. Identities are hashed.
/// New kinds are added at the end; the order of what stands here is the format on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    /// A deletion was accepted.
    Removed(Tombstone),
    /// An authorised restore, or a higher version under `versioned`, opened a removed key again.
    Reopened {
        /// The key.
        key: KeyHash,
        /// The version that opened it.
        version: Version,
        /// The event that did.
        event: EventHash,
        /// Whose it was.
        source: NameHash,
    },
    /// An authorised `create` opened a generation and closed all below it.
    GenerationOpened {
        /// The object.
        object: ObjectId,
        /// The generation, and the object's floor from now on.
        generation: Generation,
        /// The event that did.
        event: EventHash,
        /// Whose it was.
        source: NameHash,
    },
    /// A destination was attached to a collection of every tenant.
    Attached {
        /// Its number.
        destination: DestinationNo,
        /// Its name.
        name: String,
        /// The collection's name, which is configuration and not data.
        collection: String,
    },
    /// An attributed act detached a destination from a collection.
    Detached {
        /// Its number.
        destination: DestinationNo,
        /// The collection's name.
        collection: String,
        /// Who did it, and why.
        by: String,
    },
    /// One look confirmed tombstones.
    Confirmed(ConfirmedFact),
    /// Confirmations do not hold any more.
    Revoked {
        /// Where.
        destination: DestinationNo,
        /// Which tombstones.
        tombstones: Vec<NumberRange>,
        /// Why.
        reason: String,
        /// When it was found, milliseconds since 1970.
        at_ms: i64,
    },
    /// The gates of deletions opened.
    GatesOpened {
        /// Whose.
        tombstones: Vec<NumberRange>,
        /// Destinations that only acknowledged.
        unproven: Vec<String>,
        /// When, milliseconds since 1970.
        at_ms: i64,
    },
    /// A named barrier was made, or the last tombstone was fixed in it.
    BarrierMade {
        /// Its name.
        name: String,
        /// The event that made it; none where an operator or a job did.
        event: Option<EventHash>,
        /// What it waits for; everything where there is none.
        scope: Option<ScopeHash>,
        /// The cursors to reach.
        cursors: Cursors,
        /// The last tombstone to wait for; none until ingest has reached the cursors.
        through: Option<TombstoneNo>,
        /// When, milliseconds since 1970.
        at_ms: i64,
    },
    /// A named barrier opened.
    BarrierOpened {
        /// Its name.
        name: String,
        /// When, milliseconds since 1970.
        at_ms: i64,
        /// Destinations that only acknowledged.
        unproven: Vec<String>,
    },
    /// The ledger opened a destination.
    DestinationOpened {
        /// Which.
        destination: DestinationNo,
        /// The epoch from now on.
        epoch: u64,
        /// The stamp of the control record that was found there; none where there was none.
        found: Option<(u64, u64)>,
    },
    /// A feed was met for the first time, or an operator accepted its new epoch.
    FeedEpoch {
        /// The partition.
        partition: u32,
        /// The feed's identity in the source's words.
        feed: String,
        /// Its epoch.
        epoch: u32,
    },
    /// The policy in force from here on, as a hash of its text.
    Policy {
        /// The hash.
        hash: [u8; 16],
    },
    /// The worker stopped after everything was written.
    CleanStop {
        /// When, milliseconds since 1970.
        at_ms: i64,
    },
}

/// The whole entry that a change results in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedNote {
    /// The key.
    pub key: KeyHash,
    /// The entry from now on.
    pub entry: Entry,
    /// The object's floor from now on.
    pub floor: u32,
    /// The object's readable name.
    pub object: ByteString,
    /// Where the accepted change stands; none where the entry changed without one (a version rose,
    /// a key was suspended, a request was recorded).
    pub position: Option<Position>,
}

/// Why a change is in quarantine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuarantineReason {
    /// The record is not what its format says.
    Undecodable,
    /// The record is longer than allowed.
    TooLarge,
    /// A version is needed and there is none.
    VersionMissing,
    /// The event id was seen with another meaning.
    EventMeansOther,
    /// The version was seen with another content.
    VersionMeansOther,
    /// The version belongs to another space.
    OtherVersionSpace,
    /// The key is suspended after a conflict.
    Suspended,
    /// The collection does not know the schema.
    UnknownSchema,
    /// The collection is not configured.
    UnknownCollection,
    /// A deletion or restore of a scope, which this version does not do.
    ScopeUnsupported,
    /// A barrier's name was used for another event.
    BarrierNameTaken,
}

impl QuarantineReason {
    /// The reason's word in answers and logs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            QuarantineReason::Undecodable => "undecodable",
            QuarantineReason::TooLarge => "too-large",
            QuarantineReason::VersionMissing => "version-missing",
            QuarantineReason::EventMeansOther => "event-means-other",
            QuarantineReason::VersionMeansOther => "version-means-other",
            QuarantineReason::OtherVersionSpace => "other-version-space",
            QuarantineReason::Suspended => "suspended",
            QuarantineReason::UnknownSchema => "unknown-schema",
            QuarantineReason::UnknownCollection => "unknown-collection",
            QuarantineReason::ScopeUnsupported => "scope-unsupported",
            QuarantineReason::BarrierNameTaken => "barrier-name-taken",
        }
    }
}

/// A change that waits for somebody, by position; never its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineNote {
    /// Where it stands in the stream.
    pub position: Position,
    /// Why it waits.
    pub reason: QuarantineReason,
    /// Where in the record the fault is, or what was expected; never content.
    pub detail: String,
    /// Its key, where it could be read.
    pub key: Option<KeyHash>,
    /// Since when, milliseconds since 1970.
    pub at_ms: i64,
}

/// What became of a deletion request that made no tombstone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestOutcome {
    /// The object was removed already; its tombstone serves this request too.
    Satisfied,
    /// The entry is newer than what should be deleted.
    Stale,
}

/// A deletion request that changed nothing, recorded so that whoever asked learns it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestNote {
    /// The key.
    pub key: KeyHash,
    /// The request's event id.
    pub event: EventHash,
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
    /// What became of it.
    pub outcome: RequestOutcome,
    /// The tombstone that serves it, if one does.
    pub tombstone: Option<TombstoneNo>,
    /// When, milliseconds since 1970.
    pub at_ms: i64,
}

/// What is needed only until a checkpoint has absorbed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    /// An entry changed, most often because a change was accepted.
    Accepted(AcceptedNote),
    /// The readable names of a tenant's collection.
    CollectionNamed {
        /// The tenant and collection, hashed.
        collection: super::CollectionId,
        /// The tenant's name.
        tenant: String,
        /// The collection's name.
        name: String,
    },
    /// The readable names that a tombstone's key had.
    TombstoneNamed {
        /// Which tombstone.
        number: TombstoneNo,
        /// The object.
        object: String,
        /// The parent.
        parent: Option<String>,
    },
    /// How far ingest has read a partition, with what the source needs to go on there.
    Ingested {
        /// The partition.
        partition: u32,
        /// The cursor.
        cursor: Cursor,
        /// What the source needs to see that it is still the same log.
        proof: Vec<u8>,
    },
    /// A destination's commit: how far it is, and what it owes below that.
    Committed {
        /// Which.
        destination: DestinationNo,
        /// The control record as it stands there.
        control: Control,
        /// The cursors.
        cursors: Cursors,
        /// The positions held back or parked below the cursors.
        owed: Vec<Position>,
    },
    /// Earlier tombstones that a destination owes from now on, because it was attached to their
    /// collection.
    Backlog {
        /// Which.
        destination: DestinationNo,
        /// The tombstones.
        tombstones: Vec<NumberRange>,
    },
    /// The readable name of a barrier's scope.
    BarrierScope {
        /// The barrier.
        name: String,
        /// The scope.
        scope: super::ScopeName,
    },
    /// A change went to quarantine.
    Quarantined(QuarantineNote),
    /// A deletion request changed nothing.
    Requested(RequestNote),
}

/// One record of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// Chained, for ever.
    Fact(Fact),
    /// Until a checkpoint has absorbed it.
    Note(Note),
}
