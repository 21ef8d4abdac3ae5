//! Durations and sizes as people write them: `"200ms"`, `"64MiB"`.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error};

/// The `format` of a duration in a schema.
pub(super) const DURATION_FORMAT: &str = "duration-text";
/// The `format` of a size in a schema.
pub(super) const SIZE_FORMAT: &str = "size-text";

const UNITS: [(&str, u64); 7] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

/// A duration in a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DurationText(pub(super) Duration);

/// A number of bytes in a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SizeText(pub(super) u64);

/// Reads a duration such as `1m 30s`.
///
/// # Errors
/// Says what was expected.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text.trim()).map_err(|_| {
        "expected a duration with its unit, such as \"200ms\", \"30s\" or \"5m\"".into()
    })
}

/// Reads a size such as `64MiB`.
///
/// # Errors
/// Says what was expected.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let expected = || "expected a size with its unit, such as \"512KiB\", \"64MiB\" or \"1GiB\"";
    let unit = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, bytes)));
    let Some((number, bytes)) = unit else { return Err(expected().into()) };
    let number: u64 = number.trim().parse().map_err(|_| expected().to_owned())?;
    number.checked_mul(*bytes).ok_or_else(|| format!("{text} is more bytes than can be counted"))
}

/// A duration as [`parse_duration`] reads it.
pub(super) fn duration_text(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// A size in the largest unit that shows it whole.
pub(super) fn size_text(bytes: u64) -> String {
    let whole = |unit: u64| bytes >= unit && bytes.is_multiple_of(unit);
    match UNITS[..3].iter().rev().find(|(_, unit)| whole(*unit)) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => format!("{bytes}B"),
    }
}

impl DurationText {
    pub(super) const fn millis(number: u64) -> DurationText {
        DurationText(Duration::from_millis(number))
    }

    pub(super) const fn seconds(number: u64) -> DurationText {
        DurationText(Duration::from_secs(number))
    }
}

impl SizeText {
    pub(super) const fn mebibytes(number: u64) -> SizeText {
        SizeText(number << 20)
    }
}

impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        parse_duration(&text).map(DurationText).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for SizeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        parse_size(&text).map(SizeText).map_err(D::Error::custom)
    }
}

impl serde::Serialize for DurationText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&duration_text(self.0))
    }
}

impl serde::Serialize for SizeText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&size_text(self.0))
    }
}

impl JsonSchema for DurationText {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": DURATION_FORMAT })
    }
}

impl JsonSchema for SizeText {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": SIZE_FORMAT })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes) in [("64MiB", 64 << 20), ("1 KiB", 1024), ("3MB", 3_000_000), ("7B", 7)] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in
            ["64", "MiB", "-1MiB", "1.5MiB", "64mb", "99999999999999999999GiB", "20000000000GiB"]
        {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert_eq!(size_text(64 << 20), "64MiB");
        assert_eq!(size_text(1500), "1500B");
    }

    #[test]
    fn durations_are_read_and_shown() {
        assert_eq!(parse_duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("90days"), Ok(Duration::from_secs(90 * 86_400)));
        assert!(parse_duration("5").is_err());
        assert_eq!(duration_text(Duration::from_millis(1500)), "1s 500ms");
    }
}
