//! Hashes as one run of bytes: a journal of millions of them is not written a byte at a time.

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};

pub(super) fn serialize<S: Serializer, const N: usize>(
    bytes: &[u8; N],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>, const N: usize>(
    deserializer: D,
) -> Result<[u8; N], D::Error> {
    deserializer.deserialize_bytes(Exactly::<N>)
}

struct Exactly<const N: usize>;

impl<const N: usize> Visitor<'_> for Exactly<N> {
    type Value = [u8; N];

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{N} bytes")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<[u8; N], E> {
        bytes.try_into().map_err(|_| E::invalid_length(bytes.len(), &self))
    }
}
