//! What is written and what is removed.

use bytes::Bytes;
use cenotaph_core::{Covers, ObjectKey, Version, record_key};

/// One object as it shall be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upsert {
    /// The object.
    pub key: ObjectKey,
    /// Its version: afterwards exactly the pieces of this version are there.
    pub version: Version,
    /// The parent it belongs to.
    pub parent: Option<String>,
    /// Its content: the text of a JSON value, as received.
    pub payload: Bytes,
}

/// One object that shall be gone: no content, only identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// The object.
    pub key: ObjectKey,
    /// Every piece whose version this includes goes, and every piece without a version; nothing
    /// above it does.
    pub covers: Covers,
}

impl Upsert {
    /// The id that the object has in destinations.
    #[must_use]
    pub fn id(&self) -> String {
        record_key(&self.key)
    }
}

impl Removal {
    /// The id that the object has in destinations.
    #[must_use]
    pub fn id(&self) -> String {
        record_key(&self.key)
    }
}
