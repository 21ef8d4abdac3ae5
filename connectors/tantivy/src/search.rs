//! Searching a destination's folder: read only, by a reader of its own.

use std::path::Path;

use cenotaph_connector::Fault;
use serde_json::{Map, Value};
use tantivy::collector::TopDocs;
use tantivy::query::QueryParser;
use tantivy::schema::{Field, FieldType, Schema, TantivyDocument, Value as _};
use tantivy::{Index, TantivyError};

use crate::faults::fault;
use crate::layout::{ID, PAYLOAD};
use crate::view::View;

/// One result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The object's record key.
    pub id: String,
    /// How well it fits.
    pub score: f32,
    /// What is stored of its payload.
    pub payload: Map<String, Value>,
}

/// The best `limit` objects for `query`, in tantivy's query language, over all fields of text. What
/// cannot be understood of the query is left out.
///
/// # Errors
/// If the folder holds no index that can be read.
pub fn search(data_dir: &Path, query: &str, limit: usize) -> Result<Vec<Hit>, Fault> {
    let view = View::open(data_dir)?;
    run(&view, query, limit).map_err(|error| {
        fault(cenotaph_connector::Class::Retriable, "the index could not be searched", &error)
    })
}

fn run(view: &View, query: &str, limit: usize) -> Result<Vec<Hit>, TantivyError> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let searcher = view.searcher();
    let (index, schema): (&Index, &Schema) = (searcher.index(), searcher.schema());
    let parser = QueryParser::for_index(index, text_fields(schema));
    let (query, _) = parser.parse_query_lenient(query);
    let best = searcher.search(&query, &TopDocs::with_limit(limit).order_by_score())?;
    let hit = |(score, address)| {
        let document: TantivyDocument = searcher.doc(address)?;
        let (id, payload) = show(schema, &document);
        Ok(Hit { id, score, payload })
    };
    best.into_iter().map(hit).collect()
}

/// The fields that are searched word by word.
fn text_fields(schema: &Schema) -> Vec<Field> {
    let words = |kind: &FieldType| match kind {
        FieldType::Str(options) => {
            options.get_indexing_options().is_some_and(|it| it.tokenizer() != "raw")
        }
        _ => false,
    };
    schema.fields().filter(|(_, entry)| words(entry.field_type())).map(|(field, _)| field).collect()
}

/// The id, and what is stored of the payload.
fn show(schema: &Schema, document: &TantivyDocument) -> (String, Map<String, Value>) {
    let mut id = String::new();
    let mut payload = Map::new();
    for (field, value) in document.field_values() {
        let entry = schema.get_field_entry(field);
        match (entry.name(), value.as_str()) {
            (ID, Some(text)) => id = text.into(),
            (PAYLOAD, Some(text)) => {
                if let Ok(Value::Object(whole)) = serde_json::from_str(text) {
                    payload = whole;
                }
            }
            // Stored as the text of a JSON value.
            (name, Some(text)) if !entry.is_indexed() => {
                add(&mut payload, name, serde_json::from_str(text).unwrap_or_default());
            }
            (name, _) => {
                let value = tantivy::schema::OwnedValue::from(value);
                add(&mut payload, name, serde_json::to_value(value).unwrap_or_default());
            }
        }
    }
    (id, payload)
}

/// A field that occurs more than once becomes an array.
fn add(payload: &mut Map<String, Value>, name: &str, value: Value) {
    match payload.get_mut(name) {
        None => {
            payload.insert(name.into(), value);
        }
        Some(Value::Array(all)) => all.push(value),
        Some(first) => {
            let all = vec![first.take(), value];
            *first = Value::Array(all);
        }
    }
}
