//! The memory connector keeps its promises, with a snapshot and without.
#![allow(clippy::expect_used)]

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use cenotaph_conformance::Harness;
use cenotaph_connector::{Connector, Destination, Factory};
use cenotaph_core::{ObjectKey, Version, record_key};
use cenotaph_memory::{Memory, Object, handle};

struct InMemory {
    snapshot: bool,
}

impl Harness for InMemory {
    fn connector(&self, folder: &Path) -> Box<dyn Connector> {
        let destination = Destination { name: "bench".into(), data_dir: folder.into() };
        let settings = serde_json::json!({ "snapshot": self.snapshot });
        Memory.build(destination, settings).expect("the settings are right")
    }

    fn folder_is_the_store(&self) -> bool {
        self.snapshot
    }

    fn readable(&self, folder: &Path) -> Option<BTreeMap<String, Option<u64>>> {
        let store = handle(folder);
        let version = |id: &String| store.get(id).and_then(|it| it.version).map(Version::get);
        Some(store.ids().into_iter().map(|id| (id.clone(), version(&id))).collect())
    }

    fn plant(&self, folder: &Path, key: &ObjectKey, version: Option<Version>) -> bool {
        let object = Object { version, parent: None, payload: Bytes::from_static(b"{}") };
        handle(folder).put(record_key(key), object);
        // A closed one reads its snapshot again, and the plant would be lost.
        !self.snapshot || version.is_some()
    }

    fn take_away(&self, folder: &Path) -> bool {
        handle(folder).lose();
        !self.snapshot || std::fs::remove_dir_all(folder).is_ok()
    }
}

#[test]
fn keeps_its_promises_without_a_snapshot() {
    cenotaph_conformance::check(&InMemory { snapshot: false });
}

#[test]
fn keeps_its_promises_with_a_snapshot() {
    cenotaph_conformance::check(&InMemory { snapshot: true });
}
