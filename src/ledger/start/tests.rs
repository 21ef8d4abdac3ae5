use std::time::Duration;

use cenotaph_core::{Cursor, Position};
use serde_json::json;

use super::*;
use crate::envelope::Decoder;
use crate::ledger::{Counts, IngestBatch, Ingested};
use crate::reading::Reading;
use crate::source::RawRecord;

/// A ledger and what was proposed to it.
struct Told {
    ledger: Ledger,
    reading: Reading,
    offset: u64,
}

impl Told {
    fn start(dir: &std::path::Path, rules: Rules) -> Told {
        let options = LedgerOptions {
            dir: dir.to_owned(),
            cache_bytes: 1 << 20,
            checkpoint_objects: 1_000,
            journal_whole_bytes: 1 << 20,
        };
        let window = Arc::new(Window::new(1 << 20));
        let (ledger, _writer) = start(options, rules, Clock, window).unwrap();
        let reading = Reading::new(Decoder::default(), ledger.hasher());
        Told { ledger, reading, offset: 0 }
    }

    fn record(&mut self, record: &serde_json::Value) {
        let position = Position { partition: 0, epoch: 0, offset: self.offset };
        self.offset += 1;
        let bytes = record.to_string().into();
        let item = self.reading.item(RawRecord { position, bytes, too_large: None });
        let cursor = Cursor { epoch: 0, offset: self.offset };
        let batch = IngestBatch { partition: 0, items: vec![item], cursor, proof: Vec::new() };
        let answer = self.ledger.begin_ingest(batch).unwrap().wait().unwrap();
        assert_eq!(answer, Ingested::Decided);
    }

    fn counts(&self) -> Counts {
        self.ledger.counts()
    }
}

fn deletion(event: &str) -> serde_json::Value {
    json!({
        "event_id": event, "op": "delete", "tenant": "T1", "collection": "docs", "object": "D1",
        "version": 2, "source": "crm",
    })
}

/// `ledger.requests_kept`: afterwards a repeat is decided by its version alone.
#[test]
fn a_deletion_request_is_remembered_for_as_long_as_is_said() {
    for (kept, repeated, satisfied) in [(3_600_000, 1, 1), (1, 0, 2)] {
        let dir = tempfile::tempdir().unwrap();
        let rules = Rules {
            collections: [("docs".to_owned(), cenotaph_core::CollectionPolicy::default())].into(),
            requests_kept: Duration::from_millis(kept),
            ..Rules::default()
        };
        let mut told = Told::start(dir.path(), rules);
        told.record(&deletion("first"));
        let lower = |event: &str| {
            let mut record = deletion(event);
            record["version"] = json!(1);
            record
        };
        told.record(&lower("lower"));
        assert_eq!(told.counts().satisfied, 1);
        std::thread::sleep(Duration::from_millis(10));
        told.record(&lower("lower"));
        assert_eq!((told.counts().repeated, told.counts().satisfied), (repeated, satisfied));
    }
}
