//! A destination in memory: the reference connector, and the template to copy.
//!
//! What it holds belongs to the process, not to the connector: [`handle`] shows it to others, as a
//! server would. With `snapshot = true` each commit also replaces a file with the whole content;
//! without, a restarted process finds no control record, which is how cenotaph notices an emptied
//! destination and fills it again.

mod config;
mod store;

use std::fs;
use std::io;
use std::ops::Bound;

use bytes::Bytes;
use cenotaph_connector::{
    Capabilities, Commit, Connector, Destination, Fault, Fence, Finding, Held, Look, Outcome,
    Owner, Page, Purge, Removal, SettingsError, TypedFactory, Upsert, async_trait,
};
use cenotaph_core::{Control, EvidenceLevel};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

pub use config::Settings;
pub use store::{Handle, Object, Store, handle};
use store::{Step, clear_leftovers, read_snapshot, write_snapshot};

/// `connector = "memory"`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory;

impl TypedFactory for Memory {
    type Settings = Settings;
    const KIND: &'static str = "memory";

    fn make(
        &self,
        destination: Destination,
        settings: Settings,
    ) -> Result<Box<dyn Connector>, SettingsError> {
        let handle = handle(&destination.data_dir);
        Ok(Box::new(MemoryConnector { destination, settings, handle, staged: Vec::new() }))
    }
}

struct MemoryConnector {
    destination: Destination,
    settings: Settings,
    handle: Handle,
    /// What the next commit makes visible. It dies with the connector, as it should.
    staged: Vec<Step>,
}

#[async_trait]
impl Connector for MemoryConnector {
    async fn open(&mut self) -> Result<Option<Control>, Fault> {
        self.staged.clear();
        let kept = if self.settings.snapshot { self.load().map_err(disk)? } else { None };
        let mut held = self.handle.lock();
        if self.settings.snapshot {
            // What stands on disk is the truth; the memory may come from before a restore.
            *held = kept;
        }
        Ok(held.get_or_insert_default().control.clone())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            evidence: EvidenceLevel::Purged,
            fence: Fence::InProcess,
            control: true,
            scan: true,
            max_batch_records: 10_000,
            max_batch_bytes: 64 << 20,
            max_batch_removals: 10_000,
        }
    }

    async fn apply(&mut self, upserts: &[Upsert]) -> Vec<Outcome> {
        upserts.iter().map(|upsert| self.stage(upsert)).collect()
    }

    async fn remove(&mut self, removals: &[Removal]) -> Vec<Outcome> {
        let steps = removals.iter().map(|removal| Step::Remove(removal.id(), removal.covers));
        self.staged.extend(steps);
        removals.iter().map(|_| Ok(())).collect()
    }

    async fn commit(
        &mut self,
        control: &Control,
        expected: Option<&Control>,
    ) -> Result<Commit, Fault> {
        let steps = std::mem::take(&mut self.staged);
        let mut held = self.handle.lock();
        let Some(store) = held.as_mut() else { return Err(lost()) };
        if store.control.as_ref() != expected {
            return Ok(Commit::Found(store.control.clone()));
        }
        if !self.settings.snapshot {
            store.run(steps);
            store.control = Some(control.clone());
            return Ok(Commit::Done);
        }
        // On disk before it is shown: a reader never sees what a kill would take back.
        let mut next = store.clone();
        next.run(steps);
        next.control = Some(control.clone());
        write_snapshot(&self.destination.data_dir, &next).map_err(disk)?;
        *store = next;
        Ok(Commit::Done)
    }

    async fn verify(&mut self, removals: &[Removal], level: EvidenceLevel) -> Result<Look, Fault> {
        let held = self.handle.lock();
        let Some(store) = held.as_ref() else { return Err(lost()) };
        let findings = removals.iter().map(|removal| match store.objects.get(&removal.id()) {
            None => Finding::Gone,
            Some(object) => Finding::Present { oldest: object.version },
        });
        Ok(Look {
            findings: findings.collect(),
            level: level.max(EvidenceLevel::Absent),
            copies: vec![format!("memory of {}", self.destination.name)],
            method: "look-up by id in the committed content".into(),
            control: store.control.clone(),
        })
    }

    async fn purge(&mut self, removals: &[Removal]) -> Vec<Result<Purge, Fault>> {
        let held = self.handle.lock();
        let answer = |removal: &Removal| match held.as_ref() {
            None => Err(lost()),
            // A commit replaces the whole snapshot: what is not in the content is in no file.
            Some(store) => match store.objects.get(&removal.id()) {
                Some(object) if removal.covers.includes_piece(object.version) => Ok(Purge::Pending),
                _ => Ok(Purge::Purged),
            },
        };
        removals.iter().map(answer).collect()
    }

    async fn scan(&mut self, after: Option<&str>, limit: usize) -> Result<Page, Fault> {
        let held = self.handle.lock();
        let Some(store) = held.as_ref() else { return Err(lost()) };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = store.objects.range::<str, _>((from, Bound::Unbounded));
        let page = rest.by_ref().take(limit);
        let page: Vec<Held> =
            page.map(|(id, object)| Held { id: id.clone(), oldest: object.version }).collect();
        let more = rest.next().is_some();
        let next = page.last().filter(|_| more).map(|last| last.id.clone());
        Ok(Page { held: page, next })
    }

    async fn close(&mut self) -> Result<(), Fault> {
        self.staged.clear();
        Ok(())
    }
}

impl MemoryConnector {
    fn load(&self) -> io::Result<Option<Store>> {
        fs::create_dir_all(&self.destination.data_dir)?;
        clear_leftovers(&self.destination.data_dir);
        read_snapshot(&self.destination.data_dir)
    }

    fn stage(&mut self, upsert: &Upsert) -> Outcome {
        if !is_object(&upsert.payload) {
            return Err(Fault::terminal(
                Owner::Producer,
                "the payload is not a JSON object",
                "send an object, or leave this destination out of the collection",
            ));
        }
        let object = Object {
            version: Some(upsert.version),
            parent: upsert.parent.clone(),
            // In bytes of its own: the payload is a slice of a much larger block that was read.
            payload: Bytes::copy_from_slice(&upsert.payload),
        };
        self.staged.push(Step::Put(upsert.id(), object));
        Ok(())
    }
}

/// Whether the text is a JSON object, without building it.
fn is_object(payload: &[u8]) -> bool {
    struct Object;
    impl<'de> Visitor<'de> for Object {
        type Value = ();
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(())
        }
    }
    let mut json = serde_json::Deserializer::from_slice(payload);
    json.deserialize_map(Object).is_ok() && json.end().is_ok()
}

fn lost() -> Fault {
    Fault::uncertain(
        Owner::Operator,
        "the destination's memory is gone",
        "restart the destination: it is filled again",
    )
}

fn disk(error: io::Error) -> Fault {
    Fault::uncertain(
        Owner::Operator,
        format!("the snapshot could not be used: {}", error.kind()),
        "check the destination's folder: space, rights, and whether the file is whole",
    )
}
