//! Walks a file against the schema that is made from the types, and gathers everything that does not
//! fit, each with its place: serde alone would stop at the first, and lose the place of many.

use serde_json::Value;

use super::document::{Entry, Kind, Node};
use super::errors::Collector;
use super::units::{DURATION_FORMAT, SIZE_FORMAT, parse_duration, parse_size};

/// Keys as near as this are suggested.
const NEAR: f64 = 0.7;

/// Checks a file.
pub(super) fn check(node: &Node, schema: &Value, collector: &mut Collector<'_>, path: &str) {
    Walk { root: schema, collector }.node(node, schema, path);
}

struct Walk<'a, 'c> {
    root: &'a Value,
    collector: &'a mut Collector<'c>,
}

impl<'a> Walk<'a, '_> {
    fn node(&mut self, node: &Node, schema: &'a Value, path: &str) {
        let schema = self.resolve(schema);
        if let Some(words) = words(schema) {
            return self.word(node, &words, path);
        }
        let types = types(schema);
        if !types.is_empty() && !types.iter().any(|it| is_a(node, it)) {
            let (expected, found) = (types.join(" or "), name(node));
            let what = format!("expected {expected}, found {found}");
            return self.wrong(node, path, what, format!("write a value that is {expected}"));
        }
        match &node.kind {
            Kind::Table(entries) => self.table(node, entries, schema, path),
            Kind::Array(items) => self.array(node, items, schema, path),
            Kind::Scalar(Value::Number(_)) => self.number(node, schema, path),
            Kind::Scalar(Value::String(text)) => self.text(node, text, schema, path),
            Kind::Scalar(_) | Kind::Other(_) => {}
        }
    }

    /// Follows references, and takes the form of an optional value that is not null.
    fn resolve(&self, schema: &'a Value) -> &'a Value {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            let definition =
                name.rsplit('/').next().and_then(|name| self.root.get("$defs")?.get(name));
            return definition.map_or(schema, |definition| self.resolve(definition));
        }
        let forms = schema.get("anyOf").and_then(Value::as_array);
        let form = forms.and_then(|forms| {
            forms.iter().find(|form| form.get("type").and_then(Value::as_str) != Some("null"))
        });
        form.map_or(schema, |form| self.resolve(form))
    }

    fn table(&mut self, node: &Node, entries: &[Entry], schema: &'a Value, path: &str) {
        let properties = schema.get("properties").and_then(Value::as_object);
        let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        for entry in entries {
            let path = join(path, &entry.key);
            let known = properties.and_then(|properties| properties.get(&entry.key));
            match known.or_else(|| schema.get("additionalProperties").filter(|it| it.is_object())) {
                Some(schema) => self.node(&entry.value, schema, &path),
                None if closed => {
                    let known = properties.into_iter().flatten().map(|(key, _)| key.as_str());
                    let fix = suggest(&entry.key, known.collect());
                    self.collector.at(entry.key_span.clone(), &path, "unknown key", fix);
                }
                None => {}
            }
        }
        for key in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            let Some(key) = key.as_str() else { continue };
            if !entries.iter().any(|entry| entry.key == key) {
                let fix = describe(properties.and_then(|it| it.get(key)), key);
                let span = node.span.start..node.span.start;
                self.collector.at(span, &join(path, key), "is missing", fix);
            }
        }
    }

    fn array(&mut self, node: &Node, items: &[Node], schema: &'a Value, path: &str) {
        if let Some(inner) = schema.get("items") {
            for (index, item) in items.iter().enumerate() {
                self.node(item, inner, &format!("{path}[{index}]"));
            }
        }
        let least =
            schema.get("minItems").or_else(|| schema.get("minLength")).and_then(Value::as_u64);
        if least.is_some_and(|least| (items.len() as u64) < least) {
            self.wrong(node, path, "has too few items", "name at least one");
        }
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            for (index, item) in items.iter().enumerate() {
                if items[..index].iter().any(|other| other.to_json() == item.to_json()) {
                    self.wrong(item, path, "is named twice", "name it once");
                }
            }
        }
    }

    fn number(&mut self, node: &Node, schema: &Value, path: &str) {
        let Some(number) = node.to_json().as_f64() else { return };
        let bound = |key| schema.get(key).and_then(Value::as_f64);
        if let Some(least) = bound("minimum").filter(|least| number < *least) {
            self.wrong(
                node,
                path,
                format!("is less than {least}"),
                format!("use at least {least}"),
            );
        }
        if let Some(most) = bound("maximum").filter(|most| number > *most) {
            self.wrong(node, path, format!("is more than {most}"), format!("use at most {most}"));
        }
    }

    fn text(&mut self, node: &Node, text: &str, schema: &Value, path: &str) {
        let count = text.chars().count() as u64;
        let bound = |key| schema.get(key).and_then(Value::as_u64);
        if bound("minLength").is_some_and(|least| count < least) {
            self.wrong(node, path, "is empty", "write something, or leave the key out");
        }
        if let Some(most) = bound("maxLength").filter(|most| count > *most) {
            let what = format!("is longer than {most} characters");
            self.wrong(node, path, what, "shorten it");
        }
        match schema.get("format").and_then(Value::as_str) {
            Some(DURATION_FORMAT) => self.measured(node, text, schema, path, |text| {
                parse_duration(text).map(|it| it.as_nanos())
            }),
            Some(SIZE_FORMAT) => {
                self.measured(node, text, schema, path, |text| parse_size(text).map(u128::from));
            }
            _ => {}
        }
    }

    fn measured(
        &mut self,
        node: &Node,
        text: &str,
        schema: &Value,
        path: &str,
        measure: impl Fn(&str) -> Result<u128, String>,
    ) {
        let value = match measure(text) {
            Ok(value) => value,
            Err(expected) => {
                return self.wrong(node, path, "has no such value", expected);
            }
        };
        let bound = |key: &str| schema.get(key).and_then(Value::as_str);
        if let Some(least) = bound("x-minimum")
            && measure(least).is_ok_and(|least| value < least)
        {
            self.wrong(
                node,
                path,
                format!("is less than {least}"),
                format!("use at least {least}"),
            );
        }
        if let Some(most) = bound("x-maximum")
            && measure(most).is_ok_and(|most| value > most)
        {
            self.wrong(node, path, format!("is more than {most}"), format!("use at most {most}"));
        }
    }

    fn word(&mut self, node: &Node, words: &[&str], path: &str) {
        match node.text() {
            Some(text) if words.contains(&text) => {}
            Some(text) => {
                let fix = suggest(text, words.to_vec());
                self.wrong(node, path, format!("{text:?} is none of its values"), fix);
            }
            None => {
                let what = format!("expected a string, found {}", name(node));
                self.wrong(node, path, what, suggest("", words.to_vec()));
            }
        }
    }

    fn wrong(&mut self, node: &Node, path: &str, what: impl Into<String>, fix: impl Into<String>) {
        self.collector.at(node.span.clone(), path, what, fix);
    }
}

/// The words that a schema allows, if it is a list of words.
fn words(schema: &Value) -> Option<Vec<&str>> {
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return Some(words.iter().filter_map(Value::as_str).collect());
    }
    let forms = schema.get("oneOf").and_then(Value::as_array)?;
    let word = |form: &'_ Value| -> Option<Vec<String>> {
        match form.get("const") {
            Some(word) => Some(vec![word.as_str()?.to_owned()]),
            None => None,
        }
    };
    forms.iter().all(|form| word(form).is_some()).then(|| {
        forms.iter().filter_map(|form| form.get("const").and_then(Value::as_str)).collect()
    })
}

fn types(schema: &Value) -> Vec<&str> {
    let name = |name: &str| match name {
        "object" => Some("a table"),
        "array" => Some("an array"),
        "string" => Some("a string"),
        "boolean" => Some("true or false"),
        "integer" => Some("a whole number"),
        "number" => Some("a number"),
        _ => None,
    };
    match schema.get("type") {
        Some(Value::String(word)) => name(word).into_iter().collect(),
        Some(Value::Array(words)) => {
            words.iter().filter_map(Value::as_str).filter_map(name).collect()
        }
        _ => Vec::new(),
    }
}

fn is_a(node: &Node, expected: &str) -> bool {
    match &node.kind {
        Kind::Table(_) => expected == "a table",
        Kind::Array(_) => expected == "an array",
        Kind::Scalar(Value::String(_)) => expected == "a string",
        Kind::Scalar(Value::Bool(_)) => expected == "true or false",
        Kind::Scalar(Value::Number(number)) => {
            expected == "a number" || (expected == "a whole number" && !number.is_f64())
        }
        Kind::Scalar(_) | Kind::Other(_) => false,
    }
}

fn name(node: &Node) -> &'static str {
    match &node.kind {
        Kind::Table(_) => "a table",
        Kind::Array(_) => "an array",
        Kind::Scalar(Value::String(_)) => "a string",
        Kind::Scalar(Value::Bool(_)) => "true or false",
        Kind::Scalar(_) => "a number",
        Kind::Other(name) => name,
    }
}

fn describe(schema: Option<&Value>, key: &str) -> String {
    let text = schema.and_then(|schema| schema.get("description")).and_then(Value::as_str);
    match text {
        Some(text) => format!("add `{key}`: {}", text.replace('\n', " ")),
        None => format!("add `{key}`"),
    }
}

/// The nearest of the known words, or all of them.
pub(super) fn suggest(word: &str, known: Vec<&str>) -> String {
    let nearest = known
        .iter()
        .map(|known| (strsim::jaro_winkler(word, known), *known))
        .filter(|(nearness, _)| *nearness >= NEAR)
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    match nearest {
        Some((_, known)) => format!("did you mean `{known}`?"),
        None => format!("known here: {}", known.join(", ")),
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
