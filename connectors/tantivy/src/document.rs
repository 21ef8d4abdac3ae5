//! From an upsert to a document, in one pass over the payload's text.

use std::fmt;

use cenotaph_connector::{Fault, Owner, Upsert};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tantivy::schema::Field;
use tantivy::{DateTime, TantivyDocument};

use crate::config::Kind;
use crate::layout::{Body, Layout, Slot};

/// The document of this upsert, under this id.
pub(crate) fn document(
    layout: &Layout,
    upsert: &Upsert,
    id: &str,
) -> Result<TantivyDocument, Fault> {
    let Ok(payload) = std::str::from_utf8(&upsert.payload) else {
        return Err(refused("the payload is not UTF-8"));
    };
    let mut doc = TantivyDocument::new();
    doc.add_text(layout.id, id);
    doc.add_u64(layout.version, upsert.version.get());
    doc.add_text(layout.tenant, &*upsert.key.tenant);
    doc.add_text(layout.collection, &*upsert.key.collection);
    let mut build = Build { doc, at: None };
    let mut json = serde_json::Deserializer::from_str(payload);
    let read = match &layout.body {
        Body::Whole { text, payload: whole } => {
            build.doc.add_text(*whole, payload);
            json.deserialize_map(AllText { build: &mut build, text: *text })
        }
        Body::Fields(slots) => json.deserialize_map(Named { build: &mut build, slots }),
    };
    match read.and_then(|()| json.end()) {
        Ok(()) => Ok(build.doc),
        Err(error) => Err(explain(&error, build.at)),
    }
}

/// The error's own text may quote the payload; this does not.
fn explain(error: &serde_json::Error, at: Option<(&str, Kind)>) -> Fault {
    match (at, error.is_data()) {
        (Some((name, kind)), true) => {
            refused(format!("the payload's field `{name}` is not {}", kind.noun()))
        }
        (None, true) => refused("the payload is not a JSON object"),
        (_, false) => refused(format!(
            "the payload is not JSON: line {}, column {}",
            error.line(),
            error.column()
        )),
    }
}

fn refused(what: impl Into<String>) -> Fault {
    let advice = "mend the record at its producer, or the destination's [settings.fields]";
    Fault::terminal(Owner::Producer, what, advice)
}

/// The document under construction, and which field is being read.
struct Build<'a> {
    doc: TantivyDocument,
    at: Option<(&'a str, Kind)>,
}

/// Adds every text of the payload, however deep, to one field.
struct AllText<'b, 'a> {
    build: &'b mut Build<'a>,
    text: Field,
}

impl<'de> DeserializeSeed<'de> for AllText<'_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AllText<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.build.doc.add_text(self.text, value);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key::<IgnoredAny>()?.is_some() {
            map.next_value_seed(AllText { build: self.build, text: self.text })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let (build, text) = (self.build, self.text);
        while seq.next_element_seed(AllText { build, text })?.is_some() {}
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
}

/// Adds the fields that the settings name.
struct Named<'b, 'a> {
    build: &'b mut Build<'a>,
    slots: &'a std::collections::HashMap<String, Slot>,
}

impl<'de> Visitor<'de> for Named<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(slot) = map.next_key_seed(Name(self.slots))? {
            let Some((name, slot)) = slot else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            self.build.at = Some((name, slot.kind));
            map.next_value_seed(Value { build: self.build, slot })?;
            self.build.at = None;
        }
        Ok(())
    }
}

/// Reads a name and finds its slot, without keeping the name.
struct Name<'a>(&'a std::collections::HashMap<String, Slot>);

impl<'de, 'a> DeserializeSeed<'de> for Name<'a> {
    type Value = Option<(&'a str, Slot)>;
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for Name<'a> {
    type Value = Option<(&'a str, Slot)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.get_key_value(name).map(|(name, slot)| (name.as_str(), *slot)))
    }
}

/// Adds the value of one field; each element, if it is an array.
struct Value<'b, 'a> {
    build: &'b mut Build<'a>,
    slot: Slot,
}

impl<'de> DeserializeSeed<'de> for Value<'_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        if self.slot.kind != Kind::Stored {
            return json.deserialize_any(self);
        }
        let value = <&RawValue as serde::Deserialize>::deserialize(json)?;
        if value.get() != "null" {
            self.build.doc.add_text(self.slot.field, value.get());
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for Value<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.slot.kind.noun())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let (build, slot) = (self.build, self.slot);
        while seq.next_element_seed(Value { build, slot })?.is_some() {}
        Ok(())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        match self.slot.kind {
            Kind::Text | Kind::Keyword => self.build.doc.add_text(self.slot.field, value),
            Kind::Date => match date(value) {
                Some(date) => self.build.doc.add_date(self.slot.field, date),
                None => return Err(E::custom("no date")),
            },
            _ => return Err(E::custom("text")),
        }
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        match self.slot.kind {
            Kind::Boolean => self.build.doc.add_bool(self.slot.field, value),
            _ => return Err(E::custom("true or false")),
        }
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        match self.slot.kind {
            Kind::Integer => self.build.doc.add_i64(self.slot.field, value),
            Kind::Number => self.build.doc.add_f64(self.slot.field, value as f64),
            _ => return Err(E::custom("a number")),
        }
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        match (i64::try_from(value), self.slot.kind) {
            (Ok(value), _) => self.visit_i64(value),
            (Err(_), _) => self.visit_f64(value as f64),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        match self.slot.kind {
            Kind::Number => self.build.doc.add_f64(self.slot.field, value),
            _ => return Err(E::custom("a number")),
        }
        Ok(())
    }
}

/// A moment, or the beginning of a day in UTC.
fn date(text: &str) -> Option<DateTime> {
    let moment = text.parse().or_else(|_| format!("{text}T00:00:00Z").parse::<jiff::Timestamp>());
    let moment = moment.ok()?;
    // Outside of this range tantivy's arithmetic would overflow.
    i64::try_from(moment.as_nanosecond()).ok().map(DateTime::from_timestamp_nanos)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use bytes::Bytes;
    use cenotaph_core::{Generation, ObjectKey, Version};
    use tantivy::schema::OwnedValue;

    use super::*;
    use crate::config::Settings;

    fn settings() -> Settings {
        serde_json::from_str(
            r#"{"fields":{"title":{"type":"text"},"tag":{"type":"keyword"},"year":{"type":"integer"},
                "price":{"type":"number"},"open":{"type":"boolean"},"day":{"type":"date"},
                "extra":{"type":"stored"}}}"#,
        )
        .unwrap()
    }

    fn read(settings: &Settings, payload: &str) -> Result<Vec<(String, OwnedValue)>, Fault> {
        let layout = Layout::new(settings);
        let upsert = Upsert {
            key: ObjectKey::new("T1", "docs", "D7", Generation::FIRST).unwrap(),
            version: Version::MIN,
            parent: None,
            payload: Bytes::from(payload.to_owned()),
        };
        let doc = document(&layout, &upsert, &upsert.id())?;
        let named = doc.field_values().map(|(field, value)| {
            (layout.schema.get_field_name(field).to_owned(), OwnedValue::from(value))
        });
        Ok(named
            .filter(|(name, _)| !["_id", "_version", "_tenant", "_collection"].contains(&&**name))
            .collect())
    }

    #[test]
    fn named_fields_are_typed_and_others_left_out() {
        let payload = r#"{"title":["a","b"],"tag":null,"year":-280,"price":7,"open":true,"secret":{"x":[1]},
                          "day":"1970-01-02","extra":{"k": [1, "ü"]}}"#;
        let found = read(&settings(), payload).unwrap();
        let text = |it: &str| OwnedValue::Str(it.into());
        let wanted = [
            ("title", text("a")),
            ("title", text("b")),
            ("year", OwnedValue::I64(-280)),
            ("price", OwnedValue::F64(7.0)),
            ("open", OwnedValue::Bool(true)),
            ("day", OwnedValue::Date(DateTime::from_timestamp_secs(86_400))),
            ("extra", text(r#"{"k": [1, "ü"]}"#)),
        ];
        assert_eq!(found, wanted.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn without_named_fields_all_text_is_searchable_and_the_payload_is_stored() {
        let payload = r#"{"a":"x","n":3,"deep":{"list":["y",{"z":"z"},[null,true,1.5]]}}"#;
        let found = read(&Settings::default(), payload).unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["_payload", "_text", "_text", "_text"]);
        assert_eq!(found[0].1, OwnedValue::Str(payload.into()));
    }

    #[test]
    fn a_refusal_names_the_field_and_no_content() {
        for (payload, wanted) in [
            (r#"{"year":"s3cret"}"#, "field `year` is not a whole number"),
            (r#"{"year":1.5}"#, "field `year` is not a whole number"),
            (r#"{"year":18446744073709551615}"#, "field `year` is not a whole number"),
            (r#"{"title":{"s3cret":1}}"#, "field `title` is not text"),
            (r#"{"title":[["x"],3]}"#, "field `title` is not text"),
            (r#"{"open":"s3cret"}"#, "field `open` is not true or false"),
            (r#"{"day":"s3cret"}"#, "field `day` is not a date"),
            (r#"{"day":"9999-12-31"}"#, "field `day` is not a date"),
            (r#"{"extra":s3cret}"#, "not JSON: line 1, column 10"),
            (r#"{"year":1} s3cret"#, "not JSON: line 1"),
            (r#"["s3cret"]"#, "not a JSON object"),
            ("", "not JSON"),
        ] {
            let fault = read(&settings(), payload).unwrap_err();
            assert!(fault.what.contains(wanted), "{payload}: {fault}");
            assert!(!fault.to_string().contains("s3cret"), "{fault}");
        }
    }

    #[test]
    fn endless_nesting_is_refused() {
        let payload = format!("{{\"a\":{}", "[".repeat(100_000));
        assert!(read(&Settings::default(), &payload).is_err());
        assert!(read(&settings(), &payload.replace("\"a\"", "\"title\"")).is_err());
    }
}
