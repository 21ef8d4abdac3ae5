//! Every rule of the format, and that nothing makes it panic.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;

const AT: Position = Position { partition: 3, epoch: 1, offset: 900 };
const MINIMAL: &str =
    r#"{"event_id":"e","op":"upsert","tenant":"T","collection":"c","object":"o","payload":{}}"#;

fn read(line: impl AsRef<[u8]>) -> Result<Incoming, Undecodable> {
    decode(Bytes::copy_from_slice(line.as_ref()), AT, &Defaults::default())
}

fn change(line: &str) -> Change {
    match read(line) {
        Ok(Incoming::Change(change)) => change,
        other => panic!("{line}: {other:?}"),
    }
}

fn refused(line: impl AsRef<[u8]>) -> Undecodable {
    let line = line.as_ref();
    match read(line) {
        Err(undecodable) => undecodable,
        Ok(read) => panic!("{}: {read:?}", String::from_utf8_lossy(line)),
    }
}

/// The minimal upsert or delete with one field added or replaced.
fn with(op: &str, field: &str, value: &str) -> String {
    let mut fields = vec![
        ("event_id", r#""e""#.to_owned()),
        ("op", format!("\"{op}\"")),
        ("tenant", r#""T""#.to_owned()),
        ("collection", r#""c""#.to_owned()),
        ("object", r#""o""#.to_owned()),
    ];
    if op == "upsert" {
        fields.push(("payload", "{}".to_owned()));
    }
    fields.retain(|(name, _)| *name != field);
    if !value.is_empty() {
        fields.push((field, value.to_owned()));
    }
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

/// Each line of the file: what is expected, a tab, the record.
#[test]
fn the_table_of_records_holds() {
    let table = include_str!("../../../tests/testdata/envelope/cenotaph.tsv");
    let (mut rows, mut wrong) = (0, String::new());
    for row in table.lines().filter(|row| !row.is_empty() && !row.starts_with('#')) {
        let (expected, line) = row.split_once('\t').expect("a tab");
        let found = match read(line) {
            Ok(Incoming::Change(change)) => change.op.word().to_owned(),
            Ok(Incoming::Barrier(_)) => "barrier".to_owned(),
            Ok(Incoming::Ignored(_)) => "ignored".to_owned(),
            Err(Undecodable { detail, deletion, .. }) if deletion => format!("!! {detail}"),
            Err(Undecodable { detail, .. }) => format!("! {detail}"),
        };
        if found != expected {
            wrong.push_str(&format!("{line}\n  expected {expected}\n  found    {found}\n"));
        }
        rows += 1;
    }
    assert_eq!(wrong, "");
    assert!(rows > 60, "{rows} rows");
}

#[test]
fn all_fields_of_a_deletion_are_read() {
    let line = r#" {"event_id":"evt-48","op":"delete","tenant":"T1","collection":"docs",
        "object":"D7","generation":2,"version":8,"parent":"user-42","source":"crm",
        "type":"document.removed","schema":"document/3","occurred_at":"2026-11-30T10:00:00.5Z",
        "published_at":"2026-11-30T10:00:01Z","trace":{"id":[1,2]}} "#;
    let expected = Change {
        event_id: "evt-48".into(),
        op: Op::Delete,
        key: ObjectKey::new("T1", "docs", "D7", Generation(2)).unwrap(),
        parent: Some("user-42".into()),
        version: Some(Version::new(8).unwrap()),
        source: "crm".into(),
        kind: "document.removed".into(),
        schema: "document/3".into(),
        occurred_at_ms: Some(1_796_032_800_500),
        payload: None,
        position: AT,
    };
    assert_eq!(change(line), expected);
}

#[test]
fn names_and_payload_share_the_line() {
    let line = Bytes::from(MINIMAL.replace("{}", r#"{"a": [1, null, {"b":"\u00e9"}], "a": 2 }"#));
    let range = line.as_ptr_range();
    let Ok(Incoming::Change(change)) = decode(line.clone(), AT, &Defaults::default()) else {
        panic!("not a change")
    };
    let payload = change.payload.unwrap();
    assert_eq!(&payload[..], br#"{"a": [1, null, {"b":"\u00e9"}], "a": 2 }"#);
    for part in [payload.as_ptr(), change.key.object.as_ptr(), change.event_id.as_ptr()] {
        assert!(range.contains(&part));
    }
}

#[test]
fn escaped_names_are_read_as_they_mean() {
    let line = with("delete", "object", r#""a\"b\\\u00e9\ud83d\ude00\n""#);
    assert_eq!(&*change(&line).key.object, "a\"b\\é😀\n");
    let line = MINIMAL.replace("\"op\"", r#""\u006fp""#);
    assert_eq!(change(&line).op, Op::Upsert);
}

#[test]
fn configuration_fills_in_tenant_collection_and_source_only() {
    let defaults = Defaults {
        tenant: Some("dt".into()),
        collection: Some("dc".into()),
        source: Some("ds".into()),
    };
    let read = |line: &str| match decode(Bytes::from(line.to_owned()), AT, &defaults) {
        Ok(Incoming::Change(change)) => Ok((change.key, change.source)),
        Ok(other) => panic!("{other:?}"),
        Err(undecodable) => Err(undecodable.detail),
    };
    let key = |tenant, collection| ObjectKey::new(tenant, collection, "o", Generation(1)).unwrap();
    let bare = r#"{"event_id":"e","op":"delete","object":"o"}"#;
    assert_eq!(read(bare), Ok((key("dt", "dc"), "ds".into())));
    let own = with("delete", "source", r#""own""#);
    assert_eq!(read(&own), Ok((key("T", "c"), "own".into())));
    assert_eq!(read(&with("delete", "source", "\"\"")), Ok((key("T", "c"), "ds".into())));
    assert_eq!(
        read(&with("delete", "tenant", "null")),
        Err("tenant: null: expected a string".into())
    );
    assert_eq!(read(&with("delete", "object", "")), Err("object: missing".into()));
}

#[test]
fn a_barrier_names_what_it_waits_for() {
    let barrier = |line: &str, defaults: &Defaults| match decode(
        Bytes::from(line.to_owned()),
        AT,
        defaults,
    ) {
        Ok(Incoming::Barrier(barrier)) => barrier,
        other => panic!("{line}: {other:?}"),
    };
    let none = Defaults::default();
    let plain = barrier(r#"{"event_id":"e","op":"barrier","barrier":"job-42"}"#, &none);
    assert_eq!(
        (&*plain.event_id, &*plain.name, plain.scope, plain.position),
        ("e", "job-42", None, AT)
    );
    let line = r#"{"event_id":"e","op":"barrier","barrier":"j","scope":{"tenant":"T1","collection":"docs","parent":"\u0075"}}"#;
    let scope = ScopeName {
        tenant: "T1".into(),
        collection: Some("docs".into()),
        parent: Some("u".into()),
    };
    assert_eq!(barrier(line, &none).scope, Some(scope));
    let defaults =
        Defaults { tenant: Some("dt".into()), collection: Some("dc".into()), source: None };
    let line = r#"{"event_id":"e","op":"barrier","barrier":"j","scope":{}}"#;
    let scope = ScopeName { tenant: "dt".into(), collection: None, parent: None };
    assert_eq!(barrier(line, &defaults).scope, Some(scope));
}

#[test]
fn a_scope_is_refused_by_its_own_reason_and_a_deletion_is_an_alert() {
    let line = |op: &str| {
        format!(r#"{{"event_id":"e","op":"{op}","scope":{{"tenant":"T1","collection":"docs"}}}}"#)
    };
    let delete = refused(line("delete"));
    assert_eq!((delete.reason, delete.deletion), (QuarantineReason::ScopeUnsupported, true));
    let restore = refused(line("restore"));
    assert_eq!((restore.reason, restore.deletion), (QuarantineReason::ScopeUnsupported, false));
}

#[test]
fn bytes_that_are_no_text_are_refused_and_a_deletion_before_them_is_an_alert() {
    let mut line = MINIMAL.replace("upsert", "delete").into_bytes();
    line.truncate(60);
    line.extend_from_slice(b"\xff\"}");
    let refusal = refused(&line);
    assert_eq!(refusal.detail, "not UTF-8: at column 61");
    assert!(refusal.deletion);
    assert!(!refused(b"\xff").deletion);
    assert_eq!(
        refused("\u{feff}{}").detail,
        "not JSON: a byte order mark stands before the record"
    );
    assert_eq!(refused(b"\0\0\0\0").detail, "not JSON: a NUL byte stands at column 1");
}

#[test]
fn a_deletion_is_seen_in_a_line_that_breaks_off_after_its_op() {
    let line = MINIMAL.replace("upsert", "delete");
    let from = line.find("delete").unwrap() + "delete\"".len();
    for end in 1..line.len() {
        let refusal = refused(&line[..end]);
        assert_eq!(refusal.reason, QuarantineReason::Undecodable);
        assert_eq!(refusal.deletion, end >= from, "{}", &line[..end]);
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |open: &str, close: &str, depth: usize| {
        let value = format!("{{\"a\":{}1{}}}", open.repeat(depth), close.repeat(depth));
        with("upsert", "payload", &value)
    };
    change(&nested("[", "]", MAX_PAYLOAD_DEPTH - 1));
    let expected = "payload: nested deeper than 100";
    assert_eq!(refused(nested("[", "]", MAX_PAYLOAD_DEPTH)).detail, expected);
    assert_eq!(refused(nested("{\"a\":", "}", MAX_PAYLOAD_DEPTH)).detail, expected);
    assert_eq!(refused(nested("[", "]", 1_000_000)).detail, expected);
    let text = format!("{{\"a\":\"\\\"{}\"}}", "[".repeat(500));
    change(&with("upsert", "payload", &text));
    let flat = format!("{{\"a\":[{}[]]}}", "[],".repeat(500));
    change(&with("upsert", "payload", &flat));
    let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
    change(&with("upsert", "trace", &deep));
    assert_eq!(refused(with("upsert", "version", &deep)).detail, VERSION);
}

const VERSION: &str = "version: expected an integer from 1 to 9007199254740991, or no version";

#[test]
fn names_are_as_long_as_the_model_allows() {
    for field in
        ["event_id", "tenant", "collection", "object", "parent", "source", "type", "schema"]
    {
        let line = |length: usize| with("delete", field, &format!("\"{}\"", "x".repeat(length)));
        change(&line(MAX_NAME_BYTES));
        let expected = format!("{field}: longer than 4096 bytes");
        assert_eq!(refused(line(MAX_NAME_BYTES + 1)).detail, expected);
    }
}

#[test]
fn no_detail_ever_holds_what_stands_in_the_record() {
    let secret = "S3CR3T";
    let values = [
        format!("\"{secret}\""),
        format!("[\"{secret}\"]"),
        format!("{{\"{secret}\":\"{secret}\"}}"),
        format!("\"{secret}"),
        secret.to_owned(),
        format!("\"{}\"", secret.repeat(1000)),
    ];
    let fields = [
        "event_id",
        "op",
        "tenant",
        "collection",
        "object",
        "generation",
        "version",
        "parent",
        "source",
        "type",
        "schema",
        "barrier",
        "scope",
        "payload",
        "occurred_at",
        "published_at",
    ];
    for value in &values {
        for field in fields {
            for op in ["upsert", "delete", "barrier"] {
                if let Err(undecodable) = read(with(op, field, value)) {
                    assert!(!undecodable.detail.contains(secret), "{undecodable}");
                }
            }
        }
        if let Err(undecodable) = read(value) {
            assert!(!undecodable.detail.contains(secret), "{undecodable}");
        }
    }
}

fn name() -> impl Strategy<Value = ByteString> {
    prop_oneof!["[a-zA-Z0-9/_~.:-]{1,20}", "\\PC{1,8}", "[\"\\\\\u{0}-\u{1f}é😀]{1,8}"]
        .prop_map(ByteString::from)
}

fn any_change() -> impl Strategy<Value = Change> {
    let key = (name(), name(), name(), 1_u32..)
        .prop_map(|(t, c, o, g)| ObjectKey::new(t, c, o, Generation(g)).unwrap());
    let labels = (name(), name(), name());
    let version = prop::option::of((1..=Version::MAX.get()).prop_map(|v| Version::new(v).unwrap()));
    let time = prop::option::of(0_i64..4_000_000_000_000);
    let text = prop::option::of("\\PC{0,30}");
    let op = prop::sample::select(&Op::ALL[..]);
    (name(), op, key, prop::option::of(name()), version, labels, time, text).prop_map(
        |(event_id, op, key, parent, version, (source, kind, schema), time, text)| {
            let payload = |text: &str| {
                Bytes::from(serde_json::json!({ "b": text, "a": [null, 1.5] }).to_string())
            };
            let payload = match (op, text.as_deref()) {
                (Op::Delete, _) => None,
                (Op::Upsert, text) => Some(payload(text.unwrap_or("-"))),
                (_, text) => text.map(payload),
            };
            Change {
                event_id,
                op,
                key,
                parent,
                version,
                source,
                kind,
                schema,
                occurred_at_ms: time.filter(|_| op != Op::Upsert),
                payload,
                position: AT,
            }
        },
    )
}

proptest! {
    #[test]
    fn a_change_that_is_written_is_read_as_it_was(change in any_change()) {
        let line = encode(&change).unwrap();
        prop_assert!(!line.contains(&b'\n'));
        prop_assert_eq!(read(line), Ok(Incoming::Change(change)));
    }

    #[test]
    fn no_bytes_make_it_panic(line in prop::collection::vec(any::<u8>(), 0..200)) {
        let _any = read(line);
    }

    #[test]
    fn no_damage_makes_it_panic(
        change in any_change(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..4),
    ) {
        let mut line = encode(&change).unwrap();
        for (at, byte, how) in cuts {
            let at = at.index(line.len());
            match how {
                0 => line[at] = byte,
                1 => line.insert(at, byte),
                _ => line.truncate(at + 1),
            }
        }
        let _any = read(line);
    }
}

#[test]
fn a_barrier_that_is_written_is_read_as_it_was() {
    for (collection, parent) in [(None, None), (Some("c"), None), (Some("c"), Some("p\""))] {
        let scope = ScopeName {
            tenant: "T".into(),
            collection: collection.map(Into::into),
            parent: parent.map(Into::into),
        };
        for scope in [None, Some(scope)] {
            let barrier =
                BarrierRequest { event_id: "e".into(), name: "j\n".into(), scope, position: AT };
            let line = encode_barrier(&barrier).unwrap();
            assert_eq!(read(line), Ok(Incoming::Barrier(barrier)));
        }
    }
}

#[test]
fn a_payload_of_several_lines_is_written_as_one() {
    let mut change = change(MINIMAL);
    change.payload = Some(Bytes::from_static(b"{\r\n \"a\": \"x\\n\"\n}"));
    let line = encode(&change).unwrap();
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
    change.payload = Some(Bytes::from_static(b"{   \"a\": \"x\\n\" }"));
    assert_eq!(read(line), Ok(Incoming::Change(change.clone())));
    change.payload = Some(Bytes::from_static(b"{\"a\":"));
    assert!(matches!(encode(&change), Err(EncodeError::Payload)));
}

#[test]
fn real_changes_are_read() {
    let line = r#"{"event_id":"bcd-0001-000000","op":"upsert","tenant":"main","collection":"api","object":"api.AnalyserNode","version":1,"source":"browser-compat-data","type":"document.changed","schema":"document/1","occurred_at":"2021-01-02T00:00:00Z","published_at":"2021-01-02T00:00:00Z","payload":{"title":"api.AnalyserNode","body":"≤37\nx"}}"#;
    let read = change(line);
    assert_eq!(read.occurred_at_ms, None);
    assert_eq!(
        &read.payload.unwrap()[..],
        r#"{"title":"api.AnalyserNode","body":"≤37\nx"}"#.as_bytes()
    );
}
