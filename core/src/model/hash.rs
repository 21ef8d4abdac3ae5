//! Keyed hashes of names. An identifier can be personal data and a chain of facts cannot be edited,
//! so the ledger knows names by keyed BLAKE3 hashes; the key never leaves it.
//!
//! Every hash is taken over one tag byte and length-prefixed parts, so no two different lists of
//! parts give the same input.

mod fixed_bytes;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{Change, Generation, Op};

/// The secret that makes this ledger's hashes its own.
#[derive(Clone, PartialEq, Eq)]
pub struct HashKey(pub [u8; 32]);

impl std::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashKey(secret)")
    }
}

macro_rules! hash_type {
    ($(#[$doc:meta])* $name:ident, $bytes:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        pub struct $name(#[serde(with = "fixed_bytes")] pub [u8; $bytes]);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }
    };
}

hash_type!(
    /// A tenant.
    TenantHash, 8
);
hash_type!(
    /// A tenant's collection: the tenant's hash, then the collection's own.
    CollectionId, 16
);
hash_type!(
    /// An object's own hash, over tenant, collection and object.
    ObjectHash, 16
);
hash_type!(
    /// An object: its collection, then its own hash. The generation is not in it.
    ObjectId, 32
);
hash_type!(
    /// A scope: tenant, or tenant and collection, or these and a parent.
    ScopeHash, 16
);
hash_type!(
    /// An event id, within its tenant.
    EventHash, 16
);
hash_type!(
    /// Op, type and the payload's bytes as received.
    Fingerprint, 16
);
hash_type!(
    /// A source, or the version space that belongs to it.
    NameHash, 8
);
hash_type!(
    /// A link of the chain of facts.
    FactHash, 32
);

impl CollectionId {
    /// The tenant it belongs to.
    #[must_use]
    pub fn tenant(&self) -> TenantHash {
        TenantHash(first(&self.0))
    }
}

impl ObjectId {
    fn new(collection: CollectionId, object: ObjectHash) -> ObjectId {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&collection.0);
        bytes[16..].copy_from_slice(&object.0);
        ObjectId(bytes)
    }

    /// The tenant it belongs to.
    #[must_use]
    pub fn tenant(&self) -> TenantHash {
        TenantHash(first(&self.0))
    }

    /// The collection it belongs to.
    #[must_use]
    pub fn collection(&self) -> CollectionId {
        CollectionId(first(&self.0))
    }
}

/// An object key: an object and a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyHash {
    /// The object.
    pub object: ObjectId,
    /// The generation, plain.
    pub generation: Generation,
}

impl KeyHash {
    /// The object's 32 bytes, then the generation as u32 big-endian: sorts by tenant, collection,
    /// object, generation.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 36] {
        let mut bytes = [0; 36];
        bytes[..32].copy_from_slice(&self.object.0);
        bytes[32..].copy_from_slice(&self.generation.0.to_be_bytes());
        bytes
    }
}

impl std::fmt::Display for KeyHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}~{}", self.object, self.generation)
    }
}

/// All that the ledger needs to know a change by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ids {
    /// The object key.
    pub key: KeyHash,
    /// The event id.
    pub event: EventHash,
    /// Op, type and payload.
    pub fingerprint: Fingerprint,
    /// The source.
    pub source: NameHash,
    /// The scope of the parent, if the change names one.
    pub parent: Option<ScopeHash>,
}

/// A change with its hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identified {
    /// The change.
    pub change: Change,
    /// Its hashes.
    pub ids: Ids,
}

/// The most collections that are remembered; all are forgotten when there is one more.
const MAX_COLLECTIONS: usize = 4096;

/// Makes the hashes of one ledger. Remembers collections and the last source, because streams repeat
/// them.
#[derive(Clone)]
pub struct KeyHasher {
    key: HashKey,
    /// By what is hashed.
    collections: HashMap<Box<[u8]>, CollectionId>,
    last_source: Option<(String, NameHash)>,
    scratch: Vec<u8>,
}

// The scratch may hold a payload: nothing of it is for logs.
impl std::fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyHasher(secret)")
    }
}

#[derive(Clone, Copy)]
enum Tag {
    Key = 1,
    Event = 2,
    Scope = 3,
    Source = 4,
    Fingerprint = 5,
}

impl KeyHasher {
    /// A hasher under `key`.
    #[must_use]
    pub fn new(key: HashKey) -> KeyHasher {
        let scratch = Vec::with_capacity(256);
        KeyHasher { key, collections: HashMap::new(), last_source: None, scratch }
    }

    /// All hashes of a change.
    pub fn identify(&mut self, change: Change) -> Identified {
        let key = &change.key;
        let object = self.object(&key.tenant, &key.collection, &key.object);
        let ids = Ids {
            key: KeyHash { object, generation: key.generation },
            event: self.event(&key.tenant, &change.event_id),
            fingerprint: self.fingerprint(change.op, &change.kind, change.payload.as_deref()),
            source: self.source(&change.source),
            parent: change
                .parent
                .as_deref()
                .map(|parent| self.scope(&key.tenant, Some(&key.collection), Some(parent))),
        };
        Identified { change, ids }
    }

    /// An object.
    pub fn object(&mut self, tenant: &str, collection: &str, object: &str) -> ObjectId {
        let id = self.collection(tenant, collection);
        // The collection is what the scratch begins with.
        self.part(object);
        ObjectId::new(id, ObjectHash(self.finish()))
    }

    /// A collection of a tenant.
    // Leaves in the scratch what it hashes.
    pub fn collection(&mut self, tenant: &str, collection: &str) -> CollectionId {
        self.begin(Tag::Key, &[tenant, collection]);
        if let Some(id) = self.collections.get(self.scratch.as_slice()) {
            return *id;
        }
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.tenant(tenant).0);
        id[8..].copy_from_slice(&self.hash::<8>(Tag::Key, &[tenant, collection]));
        let id = CollectionId(id);
        if self.collections.len() >= MAX_COLLECTIONS {
            self.collections.clear();
        }
        self.collections.insert(self.scratch.as_slice().into(), id);
        id
    }

    /// A tenant.
    pub fn tenant(&mut self, tenant: &str) -> TenantHash {
        TenantHash(self.hash(Tag::Key, &[tenant]))
    }

    /// An event id within its tenant.
    pub fn event(&mut self, tenant: &str, event_id: &str) -> EventHash {
        EventHash(self.hash(Tag::Event, &[tenant, event_id]))
    }

    /// A scope. A parent without a collection names no scope and hashes like one with an empty
    /// collection; the envelope refuses it before it comes here.
    pub fn scope(
        &mut self,
        tenant: &str,
        collection: Option<&str>,
        parent: Option<&str>,
    ) -> ScopeHash {
        let parts = [tenant, collection.unwrap_or(""), parent.unwrap_or("")];
        let count = 1 + usize::from(collection.is_some()) + usize::from(parent.is_some());
        ScopeHash(self.hash(Tag::Scope, &parts[..count]))
    }

    /// A source. The last one is remembered as well.
    pub fn source(&mut self, source: &str) -> NameHash {
        if let Some((last, hash)) = &self.last_source
            && last == source
        {
            return *hash;
        }
        let hash = NameHash(self.hash(Tag::Source, &[source]));
        self.last_source = Some((source.into(), hash));
        hash
    }

    /// What an event means: op, type and payload as received. No payload and an empty one differ.
    pub fn fingerprint(&mut self, op: Op, kind: &str, payload: Option<&[u8]>) -> Fingerprint {
        let has_payload = if payload.is_some() { "1" } else { "0" };
        self.begin(Tag::Fingerprint, &[op.word(), kind, has_payload]);
        self.scratch.extend_from_slice(payload.unwrap_or_default());
        Fingerprint(self.finish())
    }

    fn hash<const N: usize>(&mut self, tag: Tag, parts: &[&str]) -> [u8; N] {
        self.begin(tag, parts);
        self.finish()
    }

    fn begin(&mut self, tag: Tag, parts: &[&str]) {
        self.scratch.clear();
        self.scratch.push(tag as u8);
        parts.iter().for_each(|part| self.part(part));
    }

    fn part(&mut self, part: &str) {
        // A part is never longer than MAX_NAME_BYTES, so its length fits.
        self.scratch.extend_from_slice(&(part.len() as u32).to_be_bytes());
        self.scratch.extend_from_slice(part.as_bytes());
    }

    fn finish<const N: usize>(&self) -> [u8; N] {
        first(blake3::keyed_hash(&self.key.0, &self.scratch).as_bytes())
    }
}

fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut first = [0; N];
    first.copy_from_slice(&bytes[..N]);
    first
}

#[cfg(test)]
mod tests;
