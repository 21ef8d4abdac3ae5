//! Records of the native envelope, one at a time.

use serde_json::{Value, json};

/// An upsert whose payload tells object and version, and nothing else.
pub fn upsert(tenant: &str, collection: &str, object: &str, version: u64) -> Value {
    json!({
        "event_id": format!("put-{tenant}-{collection}-{object}-{version}"),
        "op": "upsert",
        "tenant": tenant,
        "collection": collection,
        "object": object,
        "version": version,
        "source": "crm",
        "type": "document.changed",
        "schema": "document/1",
        "occurred_at": "2026-11-30T10:00:00Z",
        "payload": { "title": format!("{object} as of {version}"), "words": word(object, version) },
    })
}

/// The word by which a search finds this version of an object, and no other.
pub fn word(object: &str, version: u64) -> String {
    let plain: String = object.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("word{}version{version}", plain.to_lowercase())
}

pub fn delete(tenant: &str, collection: &str, object: &str, version: u64) -> Value {
    json!({
        "event_id": format!("del-{tenant}-{collection}-{object}-{version}"),
        "op": "delete",
        "tenant": tenant,
        "collection": collection,
        "object": object,
        "version": version,
        "source": "crm",
        "type": "document.removed",
        "occurred_at": "2026-11-30T11:00:00Z",
    })
}

pub fn barrier(name: &str) -> Value {
    json!({ "event_id": format!("barrier-{name}"), "op": "barrier", "barrier": name })
}

/// A record with a field changed.
pub trait With {
    #[must_use]
    fn with(self, field: &str, value: impl Into<Value>) -> Value;
    #[must_use]
    fn without(self, field: &str) -> Value;
}

impl With for Value {
    fn with(mut self, field: &str, value: impl Into<Value>) -> Value {
        self[field] = value.into();
        self
    }

    fn without(mut self, field: &str) -> Value {
        self.as_object_mut().unwrap().remove(field);
        self
    }
}
