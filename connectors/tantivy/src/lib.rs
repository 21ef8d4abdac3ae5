//! A destination that is a tantivy index in this process: full-text search.
//!
//! - One object is one document; its id is one term, never taken apart.
//! - The control record is the payload of tantivy's own commit: data and record change together.
//! - A look opens the folder anew: it sees what a reader of another process would see.
//! - A purge rewrites the segments that still hold bytes of what was removed. The proof: in every
//!   segment, each posting of the id belongs to a living document, and no file lies in the folder
//!   that the commit does not name.

mod config;
mod document;
mod doomed;
mod faults;
mod layout;
mod merges;
mod purge;
mod queue;
mod search;
mod store;
mod view;

use cenotaph_connector::{
    Capabilities, Commit, Connector, Destination, Fault, Fence, Finding, Look, Outcome, Owner,
    Page, Purge, Removal, SettingsError, TypedFactory, Upsert, async_trait,
};
use cenotaph_core::{Control, EvidenceLevel};

pub use config::{FieldSettings, Kind, Settings};
use document::document;
use layout::Layout;
pub use search::{Hit, search};
use store::{Fresh, Store};
use view::View;

/// `connector = "tantivy"`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tantivy;

impl TypedFactory for Tantivy {
    type Settings = Settings;
    const KIND: &'static str = "tantivy";

    fn make(
        &self,
        destination: Destination,
        settings: Settings,
    ) -> Result<Box<dyn Connector>, SettingsError> {
        settings.check()?;
        let layout = Layout::new(&settings);
        Ok(Box::new(TantivyConnector { destination, settings, layout, store: None }))
    }
}

struct TantivyConnector {
    destination: Destination,
    settings: Settings,
    layout: Layout,
    store: Option<Store>,
}

#[async_trait]
impl Connector for TantivyConnector {
    async fn open(&mut self) -> Result<Option<Control>, Fault> {
        // The lock of an index is given back before it is taken again.
        self.store = None;
        let (layout, settings) = (self.layout.clone(), self.settings.clone());
        let store = Store::open(&self.destination.data_dir, layout, settings)?;
        let found = store.control()?;
        self.store = Some(store);
        Ok(found)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            evidence: EvidenceLevel::Purged,
            fence: Fence::InProcess,
            control: true,
            scan: true,
            // A commit of so many documents of 1 KB takes about 165 ms on two busy processors.
            max_batch_records: 1_000,
            max_batch_bytes: 4 << 20,
            max_batch_removals: 10_000,
        }
    }

    async fn apply(&mut self, upserts: &[Upsert]) -> Vec<Outcome> {
        let mut documents = Vec::with_capacity(upserts.len());
        let mut outcomes: Vec<Outcome> = Vec::with_capacity(upserts.len());
        for upsert in upserts {
            let (id, payload_bytes) = (upsert.id(), upsert.payload.len());
            outcomes.push(document(&self.layout, upsert, &id).map(|document| {
                documents.push(Fresh { id, document, payload_bytes });
            }));
        }
        if let Err(fault) = self.store().and_then(|store| store.put(documents)) {
            let good = outcomes.iter_mut().filter(|outcome| outcome.is_ok());
            good.for_each(|outcome| *outcome = Err(fault.clone()));
        }
        outcomes
    }

    async fn remove(&mut self, removals: &[Removal]) -> Vec<Outcome> {
        let targets = removals.iter().map(|it| (it.id(), it.covers)).collect();
        let removed = self.store().and_then(|store| store.remove(targets));
        removals.iter().map(|_| removed.clone()).collect()
    }

    async fn commit(
        &mut self,
        control: &Control,
        expected: Option<&Control>,
    ) -> Result<Commit, Fault> {
        self.store()?.commit(control, expected)
    }

    fn backlog(&mut self, behind: bool) {
        if let Some(store) = &mut self.store {
            store.merges.put_off(behind);
        }
    }

    async fn verify(&mut self, removals: &[Removal], level: EvidenceLevel) -> Result<Look, Fault> {
        let view = View::open(&self.destination.data_dir)?;
        let purged = level == EvidenceLevel::Purged && view.loose_files()?.is_empty();
        let findings: Result<Vec<Finding>, Fault> =
            removals.iter().map(|removal| find(&view, removal, purged)).collect();
        Ok(Look {
            findings: findings?,
            level: if purged { EvidenceLevel::Purged } else { EvidenceLevel::Absent },
            copies: vec![format!("{}: {}", self.destination.name, view.name())],
            method: if purged {
                "look-up of the id in every segment, dead postings included; no file beside the \
                 commit's"
            } else {
                "look-up of the id in every segment of the commit on disk"
            }
            .into(),
            control: view.control()?,
        })
    }

    async fn purge(&mut self, removals: &[Removal]) -> Vec<Result<Purge, Fault>> {
        match self.store().and_then(|store| store.purge(removals)) {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            Err(fault) => removals.iter().map(|_| Err(fault.clone())).collect(),
        }
    }

    async fn scan(&mut self, after: Option<&str>, limit: usize) -> Result<Page, Fault> {
        View::open(&self.destination.data_dir)?.page(after, limit)
    }

    async fn close(&mut self) -> Result<(), Fault> {
        self.store.take().map_or(Ok(()), Store::close)
    }
}

impl TantivyConnector {
    fn store(&mut self) -> Result<&mut Store, Fault> {
        self.store.as_mut().ok_or_else(|| {
            Fault::retriable(Owner::Cenotaph, "the index is not open", "open it first")
        })
    }
}

fn find(view: &View, removal: &Removal, purged: bool) -> Result<Finding, Fault> {
    let traces = view.traces(&removal.id())?;
    let dead = traces.dead_in.len();
    // What can still be read outweighs what cannot.
    if purged && dead > 0 && !traces.alive_below(removal.covers) {
        let why = format!("it cannot be read, but its bytes are still in {dead} segments: purge");
        return Ok(Finding::Unknown { why });
    }
    Ok(match traces.oldest() {
        Some(oldest) => Finding::Present { oldest },
        None => Finding::Gone,
    })
}
