//! What stands in the destinations, read from their folders as a program beside us would: never
//! from what the worker says about them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use cenotaph_connector::{Connector, Destination, Factory as _};
use serde_json::{Value, json};

/// Ids with the lowest version that can be read under each.
pub type Versions = BTreeMap<String, u64>;

/// Everything that can be read in a tantivy folder: the last commit on disk.
pub fn in_tantivy(dir: &Path) -> Versions {
    let mut tries = 0;
    loop {
        match scan(dir) {
            Ok(held) => return held,
            // A worker that runs may take away a segment between our reading its name and opening
            // it.
            Err(error) => {
                tries += 1;
                assert!(tries < 50, "{}: {error}", dir.display());
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

fn scan(dir: &Path) -> Result<Versions, String> {
    if !dir.join("meta.json").exists() {
        return Ok(Versions::new());
    }
    let destination = Destination { name: "read-from-outside".into(), data_dir: dir.into() };
    let made = cenotaph_tantivy::Tantivy.build(destination, json!({}));
    let mut connector: Box<dyn Connector> = made.map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut versions = Versions::new();
    let mut after: Option<String> = None;
    loop {
        let page = runtime.block_on(connector.scan(after.as_deref(), 1_000));
        let page = page.map_err(|fault| fault.to_string())?;
        for held in page.held {
            versions.insert(held.id, held.oldest.map_or(0, |version| version.get()));
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(versions),
        }
    }
}

/// The ids that a full-text search in a tantivy folder finds.
pub fn search(dir: &Path, query: &str) -> Vec<String> {
    let mut tries = 0;
    loop {
        match cenotaph_tantivy::search(dir, query, 1_000) {
            Ok(hits) => {
                let mut ids: Vec<_> = hits.into_iter().map(|hit| hit.id).collect();
                ids.sort_unstable();
                return ids;
            }
            Err(fault) => {
                tries += 1;
                assert!(tries < 50, "{}: {fault}", dir.display());
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// One object of a memory snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    pub version: u64,
    pub payload: Value,
}

/// Everything in the snapshot of a memory destination, which is replaced as a whole.
pub fn in_snapshot(dir: &Path) -> BTreeMap<String, Kept> {
    let Ok(text) = std::fs::read_to_string(dir.join("snapshot.jsonl")) else {
        return BTreeMap::new();
    };
    let mut objects = BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if let Some(object) = line.get("object") {
            let payload = serde_json::from_str(object["payload"].as_str().unwrap()).unwrap();
            let kept = Kept { version: object["version"].as_u64().unwrap_or(0), payload };
            objects.insert(object["id"].as_str().unwrap().to_owned(), kept);
        }
    }
    objects
}

/// The ids and versions in a memory snapshot.
pub fn versions_in_snapshot(dir: &Path) -> Versions {
    in_snapshot(dir).into_iter().map(|(id, kept)| (id, kept.version)).collect()
}
