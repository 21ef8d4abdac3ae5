//! The marker an accepted removal leaves.

use serde::{Deserialize, Serialize};

use super::{EventHash, Fingerprint, KeyHash, NameHash, Position, ScopeHash, Version};

/// The number of a tombstone in the sequence that the ledger makes: 1 and up, without gaps.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct TombstoneNo(pub u64);

impl std::fmt::Display for TombstoneNo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The highest version that a removal removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Covers(u64);

impl Covers {
    /// Nothing was ever removed.
    pub const NOTHING: Covers = Covers(0);
    /// Every version, past and future: what a `terminal` removal covers.
    pub const EVERYTHING: Covers = Covers(u64::MAX);

    /// Everything up to and including `version`.
    #[must_use]
    pub fn through(version: Version) -> Covers {
        Covers(version.get())
    }

    /// Whether `version` is removed by this.
    #[must_use]
    pub fn includes(self, version: Version) -> bool {
        version.get() <= self.0
    }

    /// Whether a piece whose version is unknown or known is removed by this: one without a version
    /// is below everything.
    #[must_use]
    pub fn includes_piece(self, version: Option<Version>) -> bool {
        version.is_none_or(|version| self.includes(version))
    }

    /// Whether nothing is covered.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        self == Self::NOTHING
    }

    /// Whether every version is covered.
    #[must_use]
    pub fn is_everything(self) -> bool {
        self == Self::EVERYTHING
    }

    /// The version, where it is one.
    #[must_use]
    pub fn version(self) -> Option<Version> {
        Version::new(self.0).ok()
    }

    /// As a number: 0 for nothing, `u64::MAX` for everything.
    #[must_use]
    pub fn to_number(self) -> u64 {
        self.0
    }

    /// From [`Covers::to_number`].
    #[must_use]
    pub fn from_number(number: u64) -> Covers {
        Covers(number)
    }
}

impl std::fmt::Display for Covers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Covers::NOTHING => f.write_str("nothing"),
            Covers::EVERYTHING => f.write_str("everything"),
            Covers(version) => write!(f, "through {version}"),
        }
    }
}

/// The content-free marker of one accepted removal. Identities are hashed: a fact cannot be edited,
/// and an identifier can be personal data. The readable name is a note beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// Its number.
    pub number: TombstoneNo,
    /// What was removed.
    pub key: KeyHash,
    /// The highest version it removes.
    pub covers: Covers,
    /// The version the deletion itself carried.
    pub version: Option<Version>,
    /// The deletion's event id.
    pub event: EventHash,
    /// The deletion's fingerprint.
    pub fingerprint: Fingerprint,
    /// The source that asked.
    pub source: NameHash,
    /// The scope of the parent that the object named.
    pub parent: Option<ScopeHash>,
    /// Where the deletion stood in the stream.
    pub position: Position,
    /// When it happened at the source, milliseconds since 1970, if the deletion said so.
    pub occurred_at_ms: Option<i64>,
    /// When the ledger accepted it, milliseconds since 1970.
    pub accepted_at_ms: i64,
    /// The tombstone of the same key before this one.
    pub previous: Option<TombstoneNo>,
    /// Counts the decisions about how long it is kept; 0 when made.
    pub retention_revision: u32,
}
