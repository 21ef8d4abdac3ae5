//! Writes changes in the native format.

use cenotaph_core::{BarrierRequest, Change, Generation};
use serde::Serialize;
use serde_json::value::RawValue;

/// A change could not be written.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The payload is not JSON text.
    #[error("the payload is not JSON")]
    Payload,
    /// The time is outside what a date can say.
    #[error("occurred_at_ms is outside the calendar")]
    Time,
    /// JSON could not be written.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

#[derive(Serialize)]
struct ChangeLine<'a> {
    event_id: &'a str,
    op: &'static str,
    tenant: &'a str,
    collection: &'a str,
    object: &'a str,
    #[serde(skip_serializing_if = "is_first")]
    generation: Generation,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    source: &'a str,
    #[serde(rename = "type", skip_serializing_if = "str::is_empty")]
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    schema: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    occurred_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct BarrierLine<'a> {
    event_id: &'a str,
    op: &'static str,
    barrier: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<ScopeLine<'a>>,
}

#[derive(Serialize)]
struct ScopeLine<'a> {
    tenant: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    collection: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'a str>,
}

fn is_first(generation: &Generation) -> bool {
    *generation == Generation::FIRST
}

/// A change as one line, without the end of the line. The payload stays as it is, except that line
/// breaks between its tokens become blanks.
///
/// # Errors
/// [`EncodeError`] if the payload is not JSON or the time is no date.
pub fn encode(change: &Change) -> Result<Vec<u8>, EncodeError> {
    let payload = change.payload.as_deref().map(serde_json::from_slice::<&RawValue>);
    let payload = payload.transpose().map_err(|_| EncodeError::Payload)?;
    let occurred_at = change.occurred_at_ms.map(jiff::Timestamp::from_millisecond);
    let occurred_at = occurred_at.transpose().map_err(|_| EncodeError::Time)?;
    one_line(&ChangeLine {
        event_id: &change.event_id,
        op: change.op.word(),
        tenant: &change.key.tenant,
        collection: &change.key.collection,
        object: &change.key.object,
        generation: change.key.generation,
        version: change.version.map(u64::from),
        parent: change.parent.as_deref(),
        source: &change.source,
        kind: &change.kind,
        schema: &change.schema,
        occurred_at: occurred_at.map(|time| time.to_string()),
        payload,
    })
}

/// A named barrier as one line, without the end of the line.
///
/// # Errors
/// [`EncodeError`] if JSON can't be written.
pub fn encode_barrier(barrier: &BarrierRequest) -> Result<Vec<u8>, EncodeError> {
    let scope = barrier.scope.as_ref().map(|scope| ScopeLine {
        tenant: &scope.tenant,
        collection: scope.collection.as_deref(),
        parent: scope.parent.as_deref(),
    });
    one_line(&BarrierLine {
        event_id: &barrier.event_id,
        op: "barrier",
        barrier: &barrier.name,
        scope,
    })
}

/// Inside JSON strings a line break is always escaped, so one in the text stands between tokens.
fn one_line(line: &impl Serialize) -> Result<Vec<u8>, EncodeError> {
    let mut json = serde_json::to_vec(line)?;
    for byte in &mut json {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    Ok(json)
}
