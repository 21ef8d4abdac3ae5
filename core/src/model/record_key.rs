//! The record key: an object key as text. Producers use it as the key of their topic's records
//! (without the generation, so that an object's generations share a partition); destinations use it
//! as the id of the object.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::{Generation, KeyError, ObjectKey};

/// Everything but letters, digits, `-`, `.` and `_` is percent-encoded: `/` and `~` separate, and
/// what is left is safe in URLs, file names and the query languages of destinations.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// A text was not a record key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordKeyError {
    /// Not `tenant/collection/object`, with `~N` from generation 2 on.
    #[error("expected tenant/collection/object, followed by ~N from generation 2 on")]
    Shape,
    /// A part was encoded in another way than [`record_key`] does it.
    #[error("a part is not percent-encoded the way record keys are")]
    Encoding,
    /// A part is not one a key may have.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Percent-encoded `tenant/collection/object`, from generation 2 on followed by `~N`.
#[must_use]
pub fn record_key(key: &ObjectKey) -> String {
    let encode = |part| utf8_percent_encode(part, ENCODED);
    let names =
        format!("{}/{}/{}", encode(&key.tenant), encode(&key.collection), encode(&key.object));
    if key.generation == Generation::FIRST { names } else { format!("{names}~{}", key.generation) }
}

/// The object key that [`record_key`] made this text from.
///
/// # Errors
/// [`RecordKeyError`] for any text that [`record_key`] does not make.
pub fn parse_record_key(text: &str) -> Result<ObjectKey, RecordKeyError> {
    let (names, generation) = match text.split_once('~') {
        Some((names, number)) => (names, parse_generation(number)?),
        None => (text, Generation::FIRST),
    };
    let mut parts = names.split('/').map(decode);
    let mut next = || parts.next().ok_or(RecordKeyError::Shape)?;
    let key = ObjectKey::new(next()?, next()?, next()?, generation)?;
    if parts.next().is_some() {
        return Err(RecordKeyError::Shape);
    }
    if record_key(&key) == text { Ok(key) } else { Err(RecordKeyError::Encoding) }
}

fn parse_generation(number: &str) -> Result<Generation, RecordKeyError> {
    match number.parse() {
        Ok(number) if number >= 2 => Ok(Generation(number)),
        _ => Err(RecordKeyError::Shape),
    }
}

fn decode(part: &str) -> Result<String, RecordKeyError> {
    match percent_decode_str(part).decode_utf8() {
        Ok(text) => Ok(text.into_owned()),
        Err(_) => Err(RecordKeyError::Encoding),
    }
}
