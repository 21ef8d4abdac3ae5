//! A TOML file as a tree whose every key and value knows where it stands.

use std::ops::Range;

use serde_json::{Map, Number, Value};
use toml::de::{DeTable, DeValue};

/// Where something stands, in bytes.
pub(super) type Span = Range<usize>;

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) span: Span,
    pub(super) kind: Kind,
}

/// What it is.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    Scalar(Value),
    /// A date or a number that JSON does not have.
    Other(&'static str),
    Array(Vec<Node>),
    Table(Vec<Entry>),
}

/// A key of a table and its value.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_span: Span,
    pub(super) value: Node,
}

/// Reads a file's text.
///
/// # Errors
/// What is wrong with its syntax, and where.
pub(super) fn parse(text: &str) -> Result<Node, (String, Span)> {
    match DeTable::parse(text) {
        Ok(table) => {
            let span = table.span();
            Ok(Node { span, kind: Kind::Table(entries(table.get_ref())) })
        }
        Err(error) => {
            let span = error.span().unwrap_or(0..text.len().min(1));
            Err((error.message().to_owned(), span))
        }
    }
}

fn entries(table: &DeTable<'_>) -> Vec<Entry> {
    table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            key_span: key.span(),
            value: node(value.get_ref(), value.span()),
        })
        .collect()
}

fn node(value: &DeValue<'_>, span: Span) -> Node {
    let kind = match value {
        DeValue::String(text) => Kind::Scalar(Value::String(text.to_string())),
        DeValue::Boolean(yes) => Kind::Scalar(Value::Bool(*yes)),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Kind::Scalar(Value::Number(number.into())),
            Err(_) => Kind::Other("a number that is too large"),
        },
        DeValue::Float(number) => match number.as_str().parse().ok().and_then(Number::from_f64) {
            Some(number) => Kind::Scalar(Value::Number(number)),
            None => Kind::Other("a number that is none"),
        },
        DeValue::Datetime(_) => Kind::Other("a date"),
        DeValue::Array(items) => {
            Kind::Array(items.iter().map(|item| node(item.get_ref(), item.span())).collect())
        }
        DeValue::Table(table) => Kind::Table(entries(table)),
    };
    Node { span, kind }
}

impl Node {
    /// The value of a key, if this is a table that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.kind {
            Kind::Table(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Where a dotted path leads, as far as it leads.
    pub(super) fn span_of(&self, path: &[&str]) -> Span {
        let mut here = self;
        let mut span = self.span.clone();
        for key in path {
            match here.entry(key) {
                Some(entry) => {
                    span = entry.value.span.clone();
                    here = &entry.value;
                }
                None => break,
            }
        }
        span
    }

    /// Changes every text in it.
    pub(super) fn each_text<E>(
        &mut self,
        change: &mut impl FnMut(&str) -> Result<String, E>,
        failed: &mut impl FnMut(Span, E),
    ) {
        match &mut self.kind {
            Kind::Scalar(Value::String(text)) => match change(text) {
                Ok(changed) => *text = changed,
                Err(error) => failed(self.span.clone(), error),
            },
            Kind::Scalar(_) | Kind::Other(_) => {}
            Kind::Array(items) => items.iter_mut().for_each(|item| item.each_text(change, failed)),
            Kind::Table(entries) => {
                entries.iter_mut().for_each(|entry| entry.value.each_text(change, failed));
            }
        }
    }

    /// As JSON.
    pub(super) fn to_json(&self) -> Value {
        match &self.kind {
            Kind::Scalar(value) => value.clone(),
            Kind::Other(_) => Value::Null,
            Kind::Array(items) => Value::Array(items.iter().map(Node::to_json).collect()),
            Kind::Table(entries) => {
                let pairs = entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json()));
                Value::Object(pairs.collect::<Map<_, _>>())
            }
        }
    }
}
