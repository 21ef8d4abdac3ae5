//! The schemas of words that the core's types have: the core itself knows nothing of schemas.

use schemars::{Schema, SchemaGenerator, json_schema};

macro_rules! words {
    ($($name:ident = $words:expr;)*) => {
        $(pub(super) fn $name(_: &mut SchemaGenerator) -> Schema {
            json_schema!({ "type": "string", "enum": $words })
        })*
    };
}

words! {
    lifecycle = ["terminal", "restorable", "versioned"];
    generations = ["authorised", "open"];
    equal_version_delete = ["conflict", "accept"];
    on_conflict = ["quarantine", "suspend", "stop"];
    version_space = ["source", "shared"];
    evidence_level = ["acknowledged", "absent", "purged"];
}

/// The ops that a rule may name.
pub(super) fn ops(_: &mut SchemaGenerator) -> Schema {
    let words = ["upsert", "delete", "restore", "create"];
    json_schema!({
        "type": "array", "uniqueItems": true, "items": { "type": "string", "enum": words },
    })
}
