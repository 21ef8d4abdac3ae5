//! What the stream says.

use bytes::Bytes;
use bytestring::ByteString;
use serde::{Deserialize, Serialize};

use super::{ObjectKey, Position, Version};

/// What a change does to its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Makes the object be its payload.
    Upsert,
    /// Removes the object.
    Delete,
    /// Re-opens a removed identity; needs authority.
    Restore,
    /// Opens a new generation; needs authority.
    Create,
}

impl Op {
    /// Every op.
    pub const ALL: [Op; 4] = [Op::Upsert, Op::Delete, Op::Restore, Op::Create];

    /// The op's word in envelopes, configuration and metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Op::Upsert => "upsert",
            Op::Delete => "delete",
            Op::Restore => "restore",
            Op::Create => "create",
        }
    }
}

impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

/// One event of the stream about one object.
///
/// Three identities never mix: the event id (stable across retransmission), the object key
/// (partitioning and ordering), the position (where in the stream).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Stable across retransmissions of the same event.
    pub event_id: ByteString,
    /// What it does.
    pub op: Op,
    /// To which object.
    pub key: ObjectKey,
    /// The parent that the object belongs to.
    pub parent: Option<ByteString>,
    /// The version, where the source gave one.
    pub version: Option<Version>,
    /// The producing system; empty where none is named.
    pub source: ByteString,
    /// The event's type; empty where none is named.
    pub kind: ByteString,
    /// The payload's schema; empty where none is named.
    pub schema: ByteString,
    /// When it happened, milliseconds since 1970. Read for deletions, restores and creations only.
    pub occurred_at_ms: Option<i64>,
    /// The payload as received, JSON text. Never for a deletion.
    pub payload: Option<Bytes>,
    /// Where it was read.
    pub position: Position,
}

/// The readable name of a scope: a tenant, a collection of it, or a parent in that.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ScopeName {
    /// The tenant.
    pub tenant: String,
    /// The collection, if the scope is no wider.
    pub collection: Option<String>,
    /// The parent, if the scope is no wider; only with a collection.
    pub parent: Option<String>,
}

/// A named barrier asked for by a record of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BarrierRequest {
    /// The record's event id.
    pub event_id: ByteString,
    /// The barrier's name.
    pub name: ByteString,
    /// What it waits for; everything where it names none.
    pub scope: Option<ScopeName>,
    /// Where the record was read.
    pub position: Position,
}

/// What one record of the stream turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// A change of one object.
    Change(Change),
    /// A named barrier.
    Barrier(BarrierRequest),
    /// Nothing to do, by the format's rules: a null value in a log that only tidies itself.
    Ignored(Position),
}
