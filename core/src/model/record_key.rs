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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VECTORS: &str = include_str!("../../testdata/record_key.txt");

    type Parts = (String, String, String, u32);

    fn key(parts: &Parts) -> Result<ObjectKey, KeyError> {
        let (tenant, collection, object, generation) = parts;
        let name = String::as_str;
        ObjectKey::new(name(tenant), name(collection), name(object), Generation(*generation))
    }

    fn check_vector(line: &str) -> Result<(), String> {
        let (left, right) = line.rsplit_once(" = ").ok_or("not a vector")?;
        if let Some(text) = left.strip_prefix("refused ") {
            let text: String = serde_json::from_str(text).map_err(|e| e.to_string())?;
            let got = match parse_record_key(&text) {
                Ok(key) => return Err(format!("expected a refusal, got {key:?}")),
                Err(RecordKeyError::Shape) => "shape",
                Err(RecordKeyError::Encoding) => "encoding",
                Err(RecordKeyError::Key(_)) => "key",
            };
            let wrong = format!("expected {right}, got {got}");
            return if got == right { Ok(()) } else { Err(wrong) };
        }
        let parts: Parts = serde_json::from_str(left).map_err(|e| e.to_string())?;
        let key = key(&parts).map_err(|e| e.to_string())?;
        let got = record_key(&key);
        if got != right {
            return Err(format!("expected {right}, got {got}"));
        }
        match parse_record_key(right) {
            Ok(parsed) if parsed == key => Ok(()),
            other => Err(format!("read back as {other:?}")),
        }
    }

    #[test]
    fn the_vectors_hold() {
        let lines = VECTORS.lines().enumerate();
        let vectors: Vec<_> =
            lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect();
        let wrong: Vec<String> = vectors
            .iter()
            .filter_map(|(at, line)| {
                let error = check_vector(line).err()?;
                Some(format!("record_key.txt:{}: {error}", at + 1))
            })
            .collect();
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
        assert!(vectors.len() >= 45, "only {} vectors were read", vectors.len());
    }

    fn any_part() -> impl Strategy<Value = String> {
        prop::collection::vec(any::<char>(), 1..12).prop_map(|chars| chars.into_iter().collect())
    }

    /// Parts made of what separates and encodes, so that different keys often look alike.
    fn awkward_part() -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(vec!['/', '~', '%', '2', 'F', 'é']), 1..4)
            .prop_map(|chars| chars.into_iter().collect())
    }

    fn generation() -> impl Strategy<Value = u32> {
        prop_oneof![Just(1), Just(2), Just(22), 1..=u32::MAX]
    }

    proptest! {
        #[test]
        fn any_key_comes_back(
            parts in (any_part(), any_part(), any_part(), generation()),
        ) {
            let key = key(&parts)?;
            let text = record_key(&key);
            prop_assert!(text.is_ascii());
            prop_assert_eq!(parse_record_key(&text), Ok(key));
        }

        #[test]
        fn no_two_keys_have_the_same_text(
            a in (awkward_part(), awkward_part(), awkward_part(), generation()),
            b in (awkward_part(), awkward_part(), awkward_part(), generation()),
        ) {
            let same = record_key(&key(&a)?) == record_key(&key(&b)?);
            prop_assert_eq!(same, a == b);
        }

        /// Whatever a producer sends: what is read at all is the one text of its key.
        #[test]
        fn only_what_record_key_makes_is_read(text in "[a~/%2F+0é]{0,12}") {
            if let Ok(key) = parse_record_key(&text) {
                prop_assert_eq!(record_key(&key), text);
            }
        }
    }
}
