//! The schema: our own fields, and those of the payload.

use std::collections::HashMap;

use tantivy::schema::{
    DateOptions, DateTimePrecision, FAST, Field, INDEXED, STORED, STRING, Schema, SchemaBuilder,
    TEXT, TextOptions,
};

use crate::config::{FieldSettings, Kind, Settings};

/// The object's id as one term, never taken apart: a deletion by a tokenised id deletes nothing.
pub(crate) const ID: &str = "_id";
/// The object's version, kept in a column.
pub(crate) const VERSION: &str = "_version";
const TENANT: &str = "_tenant";
const COLLECTION: &str = "_collection";
/// All text of the payload, where no fields are named.
pub(crate) const TEXT_OF_ALL: &str = "_text";
/// The payload as received, where no fields are named.
pub(crate) const PAYLOAD: &str = "_payload";

/// The schema and its fields.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub schema: Schema,
    pub id: Field,
    pub version: Field,
    pub tenant: Field,
    pub collection: Field,
    pub body: Body,
}

/// What becomes of the payload.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// All its text is searchable, and it is stored whole.
    Whole { text: Field, payload: Field },
    /// Only these fields of it get into the index.
    Fields(HashMap<String, Slot>),
}

/// Where a field of the payload goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub field: Field,
    pub kind: Kind,
}

impl Layout {
    pub(crate) fn new(settings: &Settings) -> Layout {
        let mut schema = Schema::builder();
        let id = schema.add_text_field(ID, STRING | STORED);
        let version = schema.add_u64_field(VERSION, FAST);
        let tenant = schema.add_text_field(TENANT, STRING);
        let collection = schema.add_text_field(COLLECTION, STRING);
        let body = if settings.fields.is_empty() {
            let text = schema.add_text_field(TEXT_OF_ALL, TEXT);
            let payload = schema.add_text_field(PAYLOAD, STORED);
            Body::Whole { text, payload }
        } else {
            let slot = |(name, it): (&String, &FieldSettings)| {
                (name.clone(), Slot { field: add(&mut schema, name, *it), kind: it.kind })
            };
            Body::Fields(settings.fields.iter().map(slot).collect())
        };
        Layout { schema: schema.build(), id, version, tenant, collection, body }
    }
}

fn add(schema: &mut SchemaBuilder, name: &str, settings: FieldSettings) -> Field {
    let text = |options: TextOptions| if settings.stored { options | STORED } else { options };
    let indexed = INDEXED | FAST;
    match settings.kind {
        Kind::Text => schema.add_text_field(name, text(TEXT)),
        Kind::Keyword => schema.add_text_field(name, text(STRING)),
        Kind::Stored => schema.add_text_field(name, STORED),
        Kind::Integer if settings.stored => schema.add_i64_field(name, indexed | STORED),
        Kind::Integer => schema.add_i64_field(name, indexed),
        Kind::Number if settings.stored => schema.add_f64_field(name, indexed | STORED),
        Kind::Number => schema.add_f64_field(name, indexed),
        Kind::Boolean if settings.stored => schema.add_bool_field(name, indexed | STORED),
        Kind::Boolean => schema.add_bool_field(name, indexed),
        Kind::Date => {
            let options = DateOptions::default()
                .set_indexed()
                .set_fast()
                .set_precision(DateTimePrecision::Milliseconds);
            schema
                .add_date_field(name, if settings.stored { options.set_stored() } else { options })
        }
    }
}
