//! The faulty connector does what its script says, and nothing else.
#![allow(clippy::expect_used)]

use std::time::Duration;

use bytes::Bytes;
use cenotaph_conformance::{Call, Faults, FaultyFactory, Mode};
use cenotaph_connector::{
    Commit, Connector, Destination, Factory, Fault, Finding, Owner, Removal, Upsert,
};
use cenotaph_core::{Control, Covers, Cursors, EvidenceLevel, Generation, ObjectKey, Version};
use cenotaph_memory::{Memory, handle};

fn fault() -> Fault {
    Fault::retriable(Owner::Destination, "scripted", "wait")
}

fn key(object: &str) -> ObjectKey {
    ObjectKey::new("T1", "docs", object, Generation::FIRST).expect("a key")
}

fn upsert(object: &str) -> Upsert {
    let payload = Bytes::from_static(b"{}");
    Upsert { key: key(object), version: Version::MIN, parent: None, payload }
}

fn removal(object: &str) -> Removal {
    Removal { key: key(object), covers: Covers::EVERYTHING }
}

fn control(commit: u64) -> Control {
    Control {
        ledger: "0".into(),
        destination: "bench".into(),
        epoch: 1,
        commit,
        cursors: Cursors::new(),
        fact: 0,
        fact_hash: String::new(),
    }
}

fn faulty(folder: &std::path::Path) -> (Faults, Box<dyn Connector>) {
    let faults = Faults::default();
    let factory = FaultyFactory::new(Box::new(Memory), faults.clone());
    let destination = Destination { name: "bench".into(), data_dir: folder.into() };
    let connector = factory.build(destination, serde_json::json!({})).expect("right settings");
    (faults, connector)
}

#[tokio::test]
async fn records_fail_alone_and_once() {
    let home = tempfile::tempdir().expect("a folder");
    let (faults, mut connector) = faulty(home.path());
    connector.open().await.expect("it opens");
    faults.next(Call::Apply, Mode::FailRecords(vec![1], fault()));
    let three = [upsert("a"), upsert("b"), upsert("c")];
    assert_eq!(connector.apply(&three).await, [Ok(()), Err(fault()), Ok(())]);
    assert_eq!(connector.commit(&control(0), None).await, Ok(Commit::Done));
    assert_eq!(handle(home.path()).ids(), ["T1/docs/a", "T1/docs/c"]);
    assert_eq!(connector.apply(&three).await, [Ok(()), Ok(()), Ok(())]);
    assert_eq!(faults.calls(Call::Apply), 2);
}

#[tokio::test]
async fn a_fault_before_has_no_effect_and_one_after_has() {
    let home = tempfile::tempdir().expect("a folder");
    let (faults, mut connector) = faulty(home.path());
    connector.open().await.expect("it opens");
    faults.next(Call::Commit, Mode::Fail(fault()));
    faults.next(Call::Commit, Mode::FailAfter(fault()));
    assert_eq!(connector.apply(&[upsert("a")]).await, [Ok(())]);
    assert_eq!(connector.commit(&control(0), None).await, Err(fault()));
    assert!(handle(home.path()).is_empty());
    assert_eq!(connector.commit(&control(0), None).await, Err(fault()));
    assert_eq!(handle(home.path()).len(), 1);
    let found = Commit::Found(Some(control(0)));
    assert_eq!(connector.commit(&control(0), None).await, Ok(found));
    faults.always(Call::Verify, Mode::Fail(fault()));
    for _ in 0..3 {
        assert!(connector.verify(&[removal("a")], EvidenceLevel::Absent).await.is_err());
    }
    faults.clear();
    assert!(connector.verify(&[removal("a")], EvidenceLevel::Absent).await.is_ok());
}

#[tokio::test]
async fn a_hanging_call_returns_when_it_is_released() {
    let home = tempfile::tempdir().expect("a folder");
    let (faults, mut connector) = faulty(home.path());
    connector.open().await.expect("it opens");
    assert_eq!(connector.apply(&[upsert("a")]).await, [Ok(())]);
    assert_eq!(connector.commit(&control(0), None).await, Ok(Commit::Done));
    faults.next(Call::Remove, Mode::Hang);
    let call = tokio::spawn(async move {
        let outcomes = connector.remove(&[removal("a")]).await;
        assert_eq!(connector.commit(&control(1), Some(&control(0))).await, Ok(Commit::Done));
        let look = connector.verify(&[removal("a")], EvidenceLevel::Absent).await;
        (outcomes, look.expect("a look").findings)
    });
    while faults.hanging() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(handle(home.path()).len(), 1);
    faults.release();
    let (outcomes, findings) = call.await.expect("it returns");
    assert_eq!((outcomes, findings), (vec![Ok(())], vec![Finding::Gone]));
    assert_eq!(faults.hanging(), 0);
}
