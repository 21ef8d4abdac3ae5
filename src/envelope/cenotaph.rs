//! The native format: one JSON object a record.
//!
//! ```json
//! {"event_id":"evt-48","op":"delete","tenant":"T1","collection":"docs","object":"D7","version":8}
//! ```
//!
//! Three things are never the same: a field that is null, a field that is absent, a deletion. Where a
//! null could change the meaning of a change (ids, version, generation, op, a scope's parts, the
//! payload of an upsert) it is refused; elsewhere it counts as absent. A JSON `null` or an empty line
//! in place of a record is a log tidying itself, and is ignored.

mod encode;
mod fields;

use std::borrow::Cow;

use bytes::Bytes;
use bytestring::ByteString;
use cenotaph_core::{
    BarrierRequest, Change, Generation, Incoming, MAX_NAME_BYTES, ObjectKey, Op, Position,
    QuarantineReason, ScopeName, Version,
};
use serde::Deserialize;

pub use encode::{EncodeError, encode, encode_barrier};
use fields::{Field, Fields, Scalar};

use super::{Defaults, Undecodable};

/// How deep a payload may nest. Parsers stop at 128, and destinations wrap it in more of their own.
pub const MAX_PAYLOAD_DEPTH: usize = 100;

/// What one line says. Names that hold no escapes, and the payload, share the line's bytes.
///
/// # Errors
/// [`Undecodable`] if it is not a change, a barrier or a null.
pub fn decode(
    line: Bytes,
    position: Position,
    defaults: &Defaults,
) -> Result<Incoming, Undecodable> {
    if matches!(line.trim_ascii(), b"" | b"null") {
        return Ok(Incoming::Ignored(position));
    }
    let Ok(line) = ByteString::try_from(line.clone()) else {
        return Err(not_text(&line));
    };
    let mut fields = Fields::default();
    let read = fields.read(&line);
    let op = Word::of(fields.plain(Field::Op));
    let decoded = match read {
        Ok(()) => Line { line: &line, position, defaults, fields }.decode(op),
        Err(detail) => Err(fault(plainer(&line).unwrap_or(detail))),
    };
    decoded.map_err(|(reason, detail)| Undecodable { reason, detail, deletion: op.is_delete() })
}

/// A line that is not UTF-8. What stands before the fault may still tell a deletion.
fn not_text(line: &[u8]) -> Undecodable {
    let valid = match std::str::from_utf8(line) {
        Ok(valid) => valid,
        Err(error) => std::str::from_utf8(&line[..error.valid_up_to()]).unwrap_or_default(),
    };
    let mut fields = Fields::default();
    let _broken_off = fields.read(valid);
    Undecodable {
        reason: QuarantineReason::Undecodable,
        detail: format!("not UTF-8: at column {}", valid.len() + 1),
        deletion: Word::of(fields.plain(Field::Op)).is_delete(),
    }
}

/// Faults that the parser can only call an unexpected character.
fn plainer(line: &str) -> Option<String> {
    if line.starts_with('\u{feff}') {
        return Some("not JSON: a byte order mark stands before the record".to_owned());
    }
    let nul = line.bytes().position(|byte| byte == 0)?;
    Some(format!("not JSON: a NUL byte stands at column {}", nul + 1))
}

/// What the field `op` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Op(Op),
    Barrier,
    Null,
    Absent,
    Unknown,
}

impl Word {
    fn of(value: &Scalar<'_>) -> Word {
        match value {
            Scalar::Absent => Word::Absent,
            Scalar::Null => Word::Null,
            Scalar::Text(word) => match word.as_ref() {
                "upsert" => Word::Op(Op::Upsert),
                "delete" => Word::Op(Op::Delete),
                "restore" => Word::Op(Op::Restore),
                "create" => Word::Op(Op::Create),
                "barrier" => Word::Barrier,
                _ => Word::Unknown,
            },
            Scalar::Number(_) | Scalar::Other => Word::Unknown,
        }
    }

    fn is_delete(self) -> bool {
        self == Word::Op(Op::Delete)
    }
}

type Fault = (QuarantineReason, String);

fn fault(detail: impl Into<String>) -> Fault {
    (QuarantineReason::Undecodable, detail.into())
}

fn at(field: Field, expected: &str) -> Fault {
    fault(format!("{}: {expected}", field.name()))
}

/// A line whose fields have been told apart.
struct Line<'l> {
    line: &'l ByteString,
    position: Position,
    defaults: &'l Defaults,
    fields: Fields<'l>,
}

impl Line<'_> {
    fn decode(mut self, op: Word) -> Result<Incoming, Fault> {
        match op {
            Word::Op(op) => self.change(op).map(Incoming::Change),
            Word::Barrier => self.barrier().map(Incoming::Barrier),
            Word::Absent => Err(at(Field::Op, "missing")),
            Word::Null => Err(at(Field::Op, "null is no op")),
            Word::Unknown => {
                Err(at(Field::Op, "expected upsert, delete, restore, create or barrier"))
            }
        }
    }

    fn change(&mut self, op: Op) -> Result<Change, Fault> {
        self.no_scope(op)?;
        if !matches!(self.fields.plain(Field::Barrier), Scalar::Absent | Scalar::Null) {
            return Err(at(Field::Barrier, "only the op barrier may have one"));
        }
        Ok(Change {
            event_id: self.id(Field::EventId)?,
            op,
            key: self.key()?,
            parent: self.parent()?,
            version: self.version()?,
            source: match self.label(Field::Source)? {
                source if !source.is_empty() => source,
                _ => self.defaults.source.clone().unwrap_or_default(),
            },
            kind: self.label(Field::Type)?,
            schema: self.label(Field::Schema)?,
            occurred_at_ms: if op == Op::Upsert { None } else { self.occurred_at_ms() },
            payload: self.payload(op)?,
            position: self.position,
        })
    }

    /// A change of one object names no scope.
    fn no_scope(&self, op: Op) -> Result<(), Fault> {
        if self.fields.scope.is_none_or(|scope| scope.get() == "null") {
            return Ok(());
        }
        let object = !matches!(self.fields.plain(Field::Object), Scalar::Absent | Scalar::Null);
        match op {
            Op::Delete | Op::Restore if !object => Err((
                QuarantineReason::ScopeUnsupported,
                format!("scope: this version does not {op} a scope, only an object"),
            )),
            Op::Delete | Op::Restore => {
                Err(at(Field::Scope, "expected an object or a scope, not both"))
            }
            Op::Upsert | Op::Create => {
                Err(at(Field::Scope, "only a delete, a restore or a barrier may have one"))
            }
        }
    }

    fn key(&mut self) -> Result<ObjectKey, Fault> {
        let defaults = self.defaults;
        let tenant = self.name_or(Field::Tenant, defaults.tenant.as_ref())?;
        let collection = self.name_or(Field::Collection, defaults.collection.as_ref())?;
        let object = self.id(Field::Object)?;
        let generation = match self.fields.plain(Field::Generation) {
            Scalar::Absent => Some(Generation::FIRST),
            Scalar::Number(number) => u32::try_from(*number).ok().map(Generation),
            _ => None,
        };
        let generation = generation
            .filter(|generation| generation.0 > 0)
            .ok_or_else(|| at(Field::Generation, "expected an integer from 1 to 4294967295"))?;
        ObjectKey::new(tenant, collection, object, generation)
            .map_err(|error| fault(error.to_string()))
    }

    fn version(&self) -> Result<Option<Version>, Fault> {
        let version = match self.fields.plain(Field::Version) {
            Scalar::Absent => return Ok(None),
            Scalar::Number(number) => Version::new(*number).ok(),
            _ => None,
        };
        version.map(Some).ok_or_else(|| {
            let max = Version::MAX;
            at(Field::Version, &format!("expected an integer from 1 to {max}, or no version"))
        })
    }

    /// An unreadable time is no reason to lose a deletion.
    fn occurred_at_ms(&self) -> Option<i64> {
        let Scalar::Text(time) = self.fields.plain(Field::OccurredAt) else { return None };
        let time: jiff::Timestamp = time.parse().ok()?;
        Some(time.as_millisecond())
    }

    fn payload(&self, op: Op) -> Result<Option<Bytes>, Fault> {
        let payload = match (op, self.fields.payload.map(|payload| payload.get())) {
            (Op::Delete, _) => return Ok(None),
            (Op::Upsert, None) => {
                return Err(at(Field::Payload, "missing: an upsert needs one"));
            }
            (Op::Upsert, Some("null")) => {
                let expected = "null: an upsert needs a payload, a deletion is op delete";
                return Err(at(Field::Payload, expected));
            }
            (_, None | Some("null")) => return Ok(None),
            (_, Some(payload)) => payload,
        };
        if !payload.starts_with('{') {
            return Err(at(Field::Payload, "expected an object"));
        }
        if is_deeper(payload.as_bytes(), MAX_PAYLOAD_DEPTH) {
            return Err(at(Field::Payload, &format!("nested deeper than {MAX_PAYLOAD_DEPTH}")));
        }
        Ok(Some(self.line.as_bytes().slice_ref(payload.as_bytes())))
    }

    fn barrier(&mut self) -> Result<BarrierRequest, Fault> {
        if !matches!(self.fields.plain(Field::Object), Scalar::Absent | Scalar::Null) {
            return Err(at(Field::Object, "a barrier has a scope, not an object"));
        }
        Ok(BarrierRequest {
            event_id: self.id(Field::EventId)?,
            name: self.id(Field::Barrier)?,
            scope: self.scope()?,
            position: self.position,
        })
    }

    fn scope(&self) -> Result<Option<ScopeName>, Fault> {
        let scope = match self.fields.scope.map(|scope| scope.get()) {
            None | Some("null") => return Ok(None),
            Some(scope) => scope,
        };
        // Serde would take an array for the fields in their order.
        let object = Some(scope).filter(|scope| scope.starts_with('{'));
        let scope: Option<ScopeFields> =
            object.and_then(|object| serde_json::from_str(object).ok());
        let scope = scope.ok_or_else(|| {
            at(Field::Scope, "expected an object of tenant, collection and parent, each a string")
        })?;
        let default = || self.defaults.tenant.as_deref().map(str::to_owned);
        let tenant = scope.tenant.or_else(default);
        let tenant = tenant.ok_or_else(|| at(Field::Scope, "tenant is missing"))?;
        if scope.parent.is_some() && scope.collection.is_none() {
            return Err(at(Field::Scope, "a parent needs its collection"));
        }
        for name in [Some(&tenant), scope.collection.as_ref(), scope.parent.as_ref()] {
            if name.is_some_and(|name| name.is_empty() || name.len() > MAX_NAME_BYTES) {
                let expected = format!("expected names of 1 to {MAX_NAME_BYTES} bytes");
                return Err(at(Field::Scope, &expected));
            }
        }
        Ok(Some(ScopeName { tenant, collection: scope.collection, parent: scope.parent }))
    }

    /// A name that must be there.
    fn id(&mut self, field: Field) -> Result<ByteString, Fault> {
        self.name_or(field, None)
    }

    /// A name that must be there, or be given by the configuration. Null does not stand for absent.
    fn name_or(&mut self, field: Field, default: Option<&ByteString>) -> Result<ByteString, Fault> {
        match (self.fields.take(field), default) {
            (Scalar::Text(text), _) => self.named(field, text),
            (Scalar::Absent, Some(default)) => Ok(default.clone()),
            (Scalar::Absent, None) => Err(at(field, "missing")),
            (Scalar::Null, _) => Err(at(field, "null: expected a string")),
            (Scalar::Number(_) | Scalar::Other, _) => Err(at(field, "expected a string")),
        }
    }

    /// The parent, if the object has one.
    fn parent(&mut self) -> Result<Option<ByteString>, Fault> {
        match self.fields.take(Field::Parent) {
            Scalar::Absent | Scalar::Null => Ok(None),
            Scalar::Text(text) => self.named(Field::Parent, text).map(Some),
            Scalar::Number(_) | Scalar::Other => Err(at(Field::Parent, "expected a string")),
        }
    }

    /// A name that may be missing, null or empty.
    fn label(&mut self, field: Field) -> Result<ByteString, Fault> {
        match self.fields.take(field) {
            Scalar::Absent | Scalar::Null => Ok(ByteString::new()),
            Scalar::Text(text) if text.is_empty() => Ok(ByteString::new()),
            Scalar::Text(text) => self.named(field, text),
            Scalar::Number(_) | Scalar::Other => Err(at(field, "expected a string")),
        }
    }

    fn named(&self, field: Field, text: Cow<'_, str>) -> Result<ByteString, Fault> {
        match text.len() {
            0 => Err(at(field, "empty")),
            length if length > MAX_NAME_BYTES => {
                Err(at(field, &format!("longer than {MAX_NAME_BYTES} bytes")))
            }
            _ => Ok(match text {
                Cow::Borrowed(text) => self.line.slice_ref(text),
                Cow::Owned(text) => ByteString::from(text),
            }),
        }
    }
}

/// A scope. What it does not know it refuses, and null as well: a part that is left out makes the
/// scope wider, so nothing may be taken for left out that was not.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopeFields {
    #[serde(default, deserialize_with = "present")]
    tenant: Option<String>,
    #[serde(default, deserialize_with = "present")]
    collection: Option<String>,
    #[serde(default, deserialize_with = "present")]
    parent: Option<String>,
}

fn present<'de, D: serde::Deserializer<'de>>(json: D) -> Result<Option<String>, D::Error> {
    String::deserialize(json).map(Some)
}

/// Whether JSON text that has been found well-formed nests deeper than `limit`. Each level takes two
/// brackets, so short texts need no look, and few brackets no second one.
fn is_deeper(json: &[u8], limit: usize) -> bool {
    if json.len() <= 2 * limit || json.iter().filter(|byte| opens(**byte)).count() <= limit {
        return false;
    }
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest > limit
}

fn opens(byte: u8) -> bool {
    matches!(byte, b'[' | b'{')
}

#[cfg(test)]
mod tests;
