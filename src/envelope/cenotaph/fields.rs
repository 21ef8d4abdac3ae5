//! The fields of one line, borrowed from it: their kinds, not yet their meaning.
//!
//! A field of the wrong kind does not end the reading, and what was read before a line broke is
//! kept: so the op is known, where it can be, when the record goes to quarantine.

use std::borrow::Cow;
use std::fmt;

use serde::de::{
    self, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

/// The fields that mean something. Others are skipped: producers add fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    EventId,
    Op,
    Tenant,
    Collection,
    Object,
    Generation,
    Version,
    Parent,
    Source,
    Type,
    Schema,
    OccurredAt,
    Barrier,
    Scope,
    Payload,
}

/// How many fields hold one plain value; these stand first in [`Field`].
const PLAIN: usize = Field::Barrier as usize + 1;

impl Field {
    fn of(name: &str) -> Option<Field> {
        Some(match name {
            "event_id" => Field::EventId,
            "op" => Field::Op,
            "tenant" => Field::Tenant,
            "collection" => Field::Collection,
            "object" => Field::Object,
            "generation" => Field::Generation,
            "version" => Field::Version,
            "parent" => Field::Parent,
            "source" => Field::Source,
            "type" => Field::Type,
            "schema" => Field::Schema,
            "occurred_at" => Field::OccurredAt,
            "barrier" => Field::Barrier,
            "scope" => Field::Scope,
            "payload" => Field::Payload,
            _ => return None,
        })
    }

    /// The field's name in the record.
    pub(super) fn name(self) -> &'static str {
        match self {
            Field::EventId => "event_id",
            Field::Op => "op",
            Field::Tenant => "tenant",
            Field::Collection => "collection",
            Field::Object => "object",
            Field::Generation => "generation",
            Field::Version => "version",
            Field::Parent => "parent",
            Field::Source => "source",
            Field::Type => "type",
            Field::Schema => "schema",
            Field::OccurredAt => "occurred_at",
            Field::Barrier => "barrier",
            Field::Scope => "scope",
            Field::Payload => "payload",
        }
    }
}

/// One plain value, or what stands in its place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Scalar<'a> {
    /// The field is not there.
    #[default]
    Absent,
    /// The field is there and null, which is another thing.
    Null,
    Text(Cow<'a, str>),
    Number(u64),
    /// Anything else: a fraction, a negative number, a truth value, an array, an object.
    Other,
}

/// All fields of one line.
#[derive(Debug, Default)]
pub(super) struct Fields<'a> {
    plain: [Scalar<'a>; PLAIN],
    pub(super) scope: Option<&'a RawValue>,
    pub(super) payload: Option<&'a RawValue>,
    /// The field whose value is being read.
    at: Option<Field>,
    twice: bool,
}

impl<'a> Fields<'a> {
    /// Reads a line that holds one object and nothing else.
    ///
    /// # Errors
    /// Where the line is at fault and what was expected there. What stood before is kept.
    pub(super) fn read(&mut self, line: &'a str) -> Result<(), String> {
        let mut json = serde_json::Deserializer::from_str(line);
        let read = ObjectSeed(self).deserialize(&mut json).and_then(|()| json.end());
        read.map_err(|error| self.explain(&error))
    }

    pub(super) fn plain(&self, field: Field) -> &Scalar<'a> {
        self.plain.get(field as usize).unwrap_or(&Scalar::Other)
    }

    /// Takes a plain value out.
    pub(super) fn take(&mut self, field: Field) -> Scalar<'a> {
        self.plain.get_mut(field as usize).map(std::mem::take).unwrap_or(Scalar::Other)
    }

    /// The parser's own words are fixed texts for faults of syntax only; about a value of the wrong
    /// kind they would quote it.
    fn explain(&self, error: &serde_json::Error) -> String {
        match self.at {
            Some(field) if self.twice => format!("{}: given twice", field.name()),
            _ if error.is_data() => "the record is not a JSON object".to_owned(),
            Some(field) => format!("{}: not JSON: {error}", field.name()),
            None => format!("not JSON: {error}"),
        }
    }

    fn value<A: MapAccess<'a>>(&mut self, field: Field, map: &mut A) -> Result<(), A::Error> {
        self.at = Some(field);
        let seen = match field {
            Field::Payload => self.payload.replace(map.next_value()?).is_some(),
            Field::Scope => self.scope.replace(map.next_value()?).is_some(),
            _ => {
                let value = map.next_value_seed(ScalarSeed)?;
                let slot = self.plain.get_mut(field as usize);
                slot.is_some_and(|slot| put(slot, value))
            }
        };
        if seen {
            self.twice = true;
            return Err(A::Error::custom("given twice"));
        }
        self.at = None;
        Ok(())
    }
}

/// Whether there was a value already. Of two ops the record is refused, but that one of them was a
/// deletion must not be lost.
fn put<'a>(slot: &mut Scalar<'a>, value: Scalar<'a>) -> bool {
    let seen = *slot != Scalar::Absent;
    if !matches!(slot, Scalar::Text(text) if text == "delete") {
        *slot = value;
    }
    seen
}

struct ObjectSeed<'f, 'a>(&'f mut Fields<'a>);

impl<'a> DeserializeSeed<'a> for ObjectSeed<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for ObjectSeed<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key_seed(FieldSeed)? {
            match field {
                Some(field) => self.0.value(field, &mut map)?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

struct FieldSeed;

impl<'a> DeserializeSeed<'a> for FieldSeed {
    type Value = Option<Field>;

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<Option<Field>, D::Error> {
        json.deserialize_identifier(self)
    }
}

impl Visitor<'_> for FieldSeed {
    type Value = Option<Field>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field's name")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Option<Field>, E> {
        Ok(Field::of(name))
    }
}

struct ScalarSeed;

impl<'a> DeserializeSeed<'a> for ScalarSeed {
    type Value = Scalar<'a>;

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<Scalar<'a>, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for ScalarSeed {
    type Value = Scalar<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'a str) -> Result<Scalar<'a>, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar<'a>, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Scalar<'a>, E> {
        Ok(Scalar::Number(number))
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Scalar<'a>, E> {
        Ok(Scalar::Other)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Scalar<'a>, E> {
        Ok(Scalar::Other)
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Scalar<'a>, E> {
        Ok(Scalar::Other)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Scalar<'a>, E> {
        Ok(Scalar::Null)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<Scalar<'a>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Scalar<'a>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }
}
