//! The tantivy connector keeps its promises.
#![allow(clippy::expect_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use cenotaph_conformance::{Harness, Liar, Lie};
use cenotaph_connector::{Connector, Destination, Factory};
use cenotaph_core::{ObjectKey, Version, record_key};
use cenotaph_tantivy::Tantivy;
use tantivy::collector::DocSetCollector;
use tantivy::query::AllQuery;
use tantivy::schema::{TantivyDocument, Value};
use tantivy::{Index, IndexWriter};

struct OnDisk {
    settings: serde_json::Value,
    refused: Vec<&'static str>,
    lie: Option<Lie>,
}

impl Harness for OnDisk {
    fn connector(&self, folder: &Path) -> Box<dyn Connector> {
        let destination = Destination { name: "bench".into(), data_dir: folder.into() };
        let honest = Tantivy.build(destination, self.settings.clone()).expect("settings are right");
        match self.lie {
            None => honest,
            Some(lie) => Box::new(Liar::new(honest, lie)),
        }
    }

    fn refused_payloads(&self) -> Vec<String> {
        self.refused.iter().map(|text| (*text).to_owned()).collect()
    }

    /// Every living document, by a reader that knows nothing of the connector.
    fn readable(&self, folder: &Path) -> Option<BTreeMap<String, Option<u64>>> {
        let index = Index::open_in_dir(folder).expect("the index opens");
        let searcher = index.reader().expect("a reader opens").searcher();
        let id = index.schema().get_field("_id").expect("there is an id");
        let found = searcher.search(&AllQuery, &DocSetCollector).expect("all are found");
        let mut readable = BTreeMap::new();
        for address in found {
            let document: TantivyDocument = searcher.doc(address).expect("it is stored");
            let id = document.get_first(id).and_then(|it| it.as_str()).expect("it has an id");
            let segment = searcher.segment_reader(address.segment_ord).fast_fields();
            let version = segment.u64_lenient("_version").expect("the column opens");
            let version = version.and_then(|(column, _)| column.first(address.doc_id));
            assert!(readable.insert(id.to_owned(), version).is_none(), "{id} is there twice");
        }
        Some(readable)
    }

    /// In a copy of the folder, because the connector holds the index's lock; then copied back.
    fn plant(&self, folder: &Path, key: &ObjectKey, version: Option<Version>) -> bool {
        // A merge that ends meanwhile takes files away under the copy: then again.
        let beside = loop {
            let beside = tempfile::tempdir().expect("a folder");
            if copy(folder, beside.path()).is_ok() {
                break beside;
            }
        };
        let index = Index::open_in_dir(beside.path()).expect("the copy opens");
        let payload = index.load_metas().expect("it has a commit").payload;
        let (schema, mut document) = (index.schema(), TantivyDocument::new());
        document.add_text(schema.get_field("_id").expect("an id"), record_key(key));
        if let Some(version) = version {
            document.add_u64(schema.get_field("_version").expect("a version"), version.get());
        }
        let mut writer: IndexWriter = index.writer(15_000_000).expect("a writer");
        writer.add_document(document).expect("it is added");
        let mut commit = writer.prepare_commit().expect("a commit");
        commit.set_payload(&payload.unwrap_or_default());
        commit.commit().expect("it is committed");
        drop(writer);
        copy(beside.path(), folder).is_ok()
    }

    fn purge_patience(&self) -> Duration {
        Duration::from_secs(if self.lie.is_some() { 1 } else { 30 })
    }

    fn random_sequences(&self) -> std::ops::Range<u64> {
        0..8
    }
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(from)? {
        let (path, name) = entry.map(|it| (it.path(), it.file_name()))?;
        if !name.to_string_lossy().ends_with(".lock") {
            fs::copy(path, to.join(name))?;
        }
    }
    Ok(())
}

#[test]
fn keeps_its_promises_with_the_payload_whole() {
    let settings = serde_json::json!({});
    cenotaph_conformance::check(&OnDisk { settings, refused: vec!["{\"a\":s3cret}"], lie: None });
}

#[test]
fn keeps_its_promises_with_named_fields_and_two_threads() {
    let settings = serde_json::json!({
        "threads": 2,
        "max_segment_docs": 1_000,
        "fields": {
            "title": { "type": "text" },
            "body": { "type": "text", "stored": false },
            "year": { "type": "integer" },
        },
    });
    let refused = vec![
        r#"{"title":"t","year":"s3cret"}"#,
        r#"{"title":{"s3cret":1},"year":1}"#,
        r#"{"title":["s3cret",7]}"#,
    ];
    cenotaph_conformance::check(&OnDisk { settings, refused, lie: None });
}

#[test]
fn a_purge_that_is_only_claimed_is_caught() {
    let settings = serde_json::json!({});
    let report = cenotaph_conformance::run(&OnDisk {
        settings,
        refused: Vec::new(),
        lie: Some(Lie::ClaimsPurge),
    });
    let caught: Vec<_> = report.broken.iter().map(|it| it.promise).collect();
    assert!(
        caught.contains(&"after a purge no byte of what was removed is in any file"),
        "{report}"
    );
}
