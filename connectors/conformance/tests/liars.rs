//! The suite catches every lie, and the connector that does not lie passes.
#![allow(clippy::expect_used)]

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use cenotaph_conformance::{Harness, Liar, Lie, run};
use cenotaph_connector::{Connector, Destination, Factory};
use cenotaph_core::{ObjectKey, Version, record_key};
use cenotaph_memory::{Memory, Object, handle};

struct Lying(Option<Lie>);

impl Harness for Lying {
    fn connector(&self, folder: &Path) -> Box<dyn Connector> {
        let destination = Destination { name: "bench".into(), data_dir: folder.into() };
        let settings = serde_json::json!({ "snapshot": true });
        let honest = Memory.build(destination, settings).expect("the settings are right");
        match self.0 {
            None => honest,
            Some(lie) => Box::new(Liar::new(honest, lie)),
        }
    }

    fn plant(&self, folder: &Path, key: &ObjectKey, version: Option<Version>) -> bool {
        let object = Object { version, parent: None, payload: Bytes::from_static(b"{}") };
        handle(folder).put(record_key(key), object);
        version.is_some()
    }

    fn take_away(&self, folder: &Path) -> bool {
        handle(folder).lose();
        std::fs::remove_dir_all(folder).is_ok()
    }

    fn purge_patience(&self) -> Duration {
        Duration::from_millis(100)
    }

    fn random_sequences(&self) -> std::ops::Range<u64> {
        0..2
    }
}

fn caught(lie: Lie) -> Vec<&'static str> {
    run(&Lying(Some(lie))).broken.into_iter().map(|it| it.promise).collect()
}

#[test]
fn honesty_passes() {
    let report = run(&Lying(None));
    assert!(report.broken.is_empty(), "{report}");
}

#[test]
fn each_lie_is_caught_by_the_promise_it_breaks() {
    let lies = [
        (Lie::KeepsWhatItRemoves, "a removal removes"),
        (Lie::EchoesRemovals, "a stale write after a removal is seen"),
        (Lie::TakesErrorsForAbsence, "a missing store is never an absence"),
        (Lie::CommitsLate, "a removal removes"),
        (
            Lie::FlapsBack(1),
            "what was removed stays removed, however often and whenever it is looked for",
        ),
        (
            Lie::FlapsBack(5),
            "what was removed stays removed, however often and whenever it is looked for",
        ),
        (Lie::RemovesNewer, "a removal leaves what is above its covers"),
        (Lie::RemovesGenerations, "tenants, collections and generations do not touch each other"),
        (Lie::KeepsTheLastOfMany, "thousands are removed at once, and nothing else"),
        (Lie::AnswersShort, "of each key only the last version is there"),
        (
            Lie::AllOrNothing,
            "one bad record fails alone: same length, same order, the others are applied",
        ),
        (Lie::TakesBadRecords, "a bad record is the producer's, and its fault repeats no content"),
        (
            Lie::IgnoresExpected,
            "a commit over another control record than the expected one is refused",
        ),
        (
            Lie::RemembersControl,
            "a look tells what it looked at, how, and the control record it saw",
        ),
        (Lie::ScansShort, "a scan lists everything once, with its version, and nothing else"),
        (Lie::ScansOldVersions, "a scan lists everything once, with its version, and nothing else"),
    ];
    // All at once: they mostly wait for the disk.
    std::thread::scope(|scope| {
        for (lie, promise) in lies {
            scope.spawn(move || {
                let caught = caught(lie);
                assert!(caught.contains(&promise), "{lie:?} was caught only by {caught:?}");
            });
        }
    });
}
