//! The object key.

use bytestring::ByteString;

use super::Generation;

/// The longest tenant, collection, object, parent, source, type, schema or event id, in bytes.
pub const MAX_NAME_BYTES: usize = 4096;

/// A name was empty or too long.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The named part was empty.
    #[error("{0} is empty")]
    Empty(&'static str),
    /// The named part was longer than [`MAX_NAME_BYTES`].
    #[error("{part} is {bytes} bytes long; at most {MAX_NAME_BYTES} are allowed")]
    TooLong {
        /// Which part.
        part: &'static str,
        /// How long it was.
        bytes: usize,
    },
    /// Generation 0 is no generation.
    #[error("generation is 0; the first generation is 1")]
    GenerationZero,
}

/// `tenant / collection / object / generation`: what is deleted, ordered and proved.
///
/// The names share the bytes they were read from; [`ObjectKey::detached`] copies them for those who
/// keep a key for longer than a batch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Tenants never see or affect each other.
    pub tenant: ByteString,
    /// A deletion in one collection says nothing about another.
    pub collection: ByteString,
    /// The object's name at its authority.
    pub object: ByteString,
    /// Which existence of that name.
    pub generation: Generation,
}

impl ObjectKey {
    /// A key of checked parts.
    ///
    /// # Errors
    /// [`KeyError`] if a part is empty or longer than [`MAX_NAME_BYTES`], or the generation is 0.
    pub fn new(
        tenant: impl Into<ByteString>,
        collection: impl Into<ByteString>,
        object: impl Into<ByteString>,
        generation: Generation,
    ) -> Result<ObjectKey, KeyError> {
        if generation.0 == 0 {
            return Err(KeyError::GenerationZero);
        }
        Ok(ObjectKey {
            tenant: checked("tenant", tenant.into())?,
            collection: checked("collection", collection.into())?,
            object: checked("object", object.into())?,
            generation,
        })
    }

    /// The same key in bytes of its own, so that it does not keep a read block alive.
    #[must_use]
    pub fn detached(&self) -> ObjectKey {
        let copy = |name: &ByteString| ByteString::from(&**name);
        ObjectKey {
            tenant: copy(&self.tenant),
            collection: copy(&self.collection),
            object: copy(&self.object),
            generation: self.generation,
        }
    }
}

fn checked(part: &'static str, name: ByteString) -> Result<ByteString, KeyError> {
    match name.len() {
        0 => Err(KeyError::Empty(part)),
        bytes if bytes > MAX_NAME_BYTES => Err(KeyError::TooLong { part, bytes }),
        _ => Ok(name),
    }
}
