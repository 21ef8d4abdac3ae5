//! A worker inside this process, over connectors that fail when they are told to.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cenotaph::api::types::TombstoneView;
use cenotaph::api::{ApiOptions, Asked, object_view};
use cenotaph::envelope::Decoder;
use cenotaph::ingest::ReadBounds;
use cenotaph::ledger::{LedgerOptions, Rules};
use cenotaph::pipeline::PipelineSettings;
use cenotaph::pipeline::standing::Snapshot;
use cenotaph::source::{FileOptions, FileSource};
use cenotaph::supervisor::{DestinationPlan, Running, Worker, WorkerPlan};
use cenotaph_connector::{Connector, Destination, Factory as _};
use cenotaph_core::{CollectionPolicy, EvidenceLevel, Lifecycle};
use cenotaph_memory::{Handle, Memory};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::worker::{PATIENCE, wait_for};

/// Wraps the memory connector of a destination, each time it is opened.
pub type Wrap = Box<dyn Fn(Box<dyn Connector>) -> Box<dyn Connector> + Send + Sync>;

/// A destination of an [`Inside`].
pub struct Place {
    pub settings: PipelineSettings,
    pub wrap: Wrap,
}

impl Place {
    /// A destination in memory that keeps its promises.
    pub fn new(name: &str) -> Place {
        Place::wrapped(name, |inner| inner)
    }

    pub fn wrapped(
        name: &str,
        wrap: impl Fn(Box<dyn Connector>) -> Box<dyn Connector> + Send + Sync + 'static,
    ) -> Place {
        let settings = PipelineSettings {
            name: name.into(),
            connector: "memory".into(),
            collections: vec!["docs".into(), "rows".into()],
            confirm: EvidenceLevel::Absent,
            owner: format!("{name}-team@example.org"),
            settle: Duration::from_millis(300),
            max_records: 500,
            max_bytes: 8 << 20,
            max_wait: Duration::from_millis(5),
            max_commit: Duration::from_millis(250),
            retry_initial: Duration::from_millis(5),
            retry_max: Duration::from_millis(50),
            owed_max: 100,
        };
        Place { settings, wrap: Box::new(wrap) }
    }

    pub fn set(mut self, change: impl FnOnce(&mut PipelineSettings)) -> Place {
        change(&mut self.settings);
        self
    }
}

/// A worker over a folder of its own. `docs` is terminal, `rows` is versioned.
pub struct Inside {
    dir: Arc<TempDir>,
    runtime: tokio::runtime::Runtime,
    worker: Option<Worker>,
}

impl Inside {
    pub fn start(places: Vec<Place>) -> Inside {
        let dir = tempfile::Builder::new().prefix("cenotaph-inside-").tempdir().unwrap();
        std::fs::write(dir.path().join("changes.jsonl"), "").unwrap();
        Inside::start_in(Arc::new(dir), places)
    }

    fn start_in(dir: Arc<TempDir>, places: Vec<Place>) -> Inside {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let plan = plan(&dir, places);
        let worker = runtime.block_on(Worker::start(plan)).unwrap();
        Inside { dir, runtime, worker: Some(worker) }
    }

    /// Stops the worker and starts another over the same folder.
    pub fn restart(mut self, places: Vec<Place>) -> Inside {
        let dir = Arc::clone(&self.dir);
        self.runtime.block_on(self.worker.take().unwrap().stop()).unwrap();
        drop(self);
        Inside::start_in(dir, places)
    }

    pub fn stop(mut self) {
        self.runtime.block_on(self.worker.take().unwrap().stop()).unwrap();
    }

    pub fn running(&self) -> Running {
        self.worker.as_ref().unwrap().running()
    }

    pub fn record(&self, record: &Value) {
        use std::io::Write as _;
        let path = self.dir.path().join("changes.jsonl");
        let mut log = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        log.write_all(format!("{record}\n").as_bytes()).unwrap();
    }

    /// What a destination holds.
    pub fn store(&self, name: &str) -> Handle {
        cenotaph_memory::handle(&data_dir(&self.dir, name))
    }

    /// The last deletion of the object.
    pub fn deletion(&self, collection: &str, object: &str) -> TombstoneView {
        let running = self.running();
        let asked = Asked::of(&running, "T1", collection, object).unwrap();
        object_view(&running, &asked, true).unwrap()
    }

    pub fn gate(&self, collection: &str, object: &str) -> String {
        self.deletion(collection, object).gate
    }

    /// The state of the deletion at one destination.
    pub fn at(&self, destination: &str, collection: &str, object: &str) -> String {
        let view = self.deletion(collection, object);
        let at = view.destinations.into_iter().find(|it| it.name == destination);
        at.map_or_else(|| "NONE".into(), |at| at.state)
    }

    /// Who keeps the gate closed.
    pub fn blockers(&self, collection: &str, object: &str) -> Vec<String> {
        let blockers = self.deletion(collection, object).blockers;
        blockers.into_iter().filter_map(|it| it.destination).collect()
    }

    pub fn standing(&self, destination: &str) -> Snapshot {
        self.running().destinations[destination].standing.snapshot()
    }

    pub fn is_released(&self, barrier: &str) -> bool {
        let running = self.running();
        let committed = running.ledger.read();
        committed.books.barriers.get(barrier).is_some_and(|book| book.opened_at_ms.is_some())
    }

    /// How many positions a destination holds back or has parked.
    pub fn owed(&self, destination: &str) -> usize {
        let running = self.running();
        let committed = running.ledger.read();
        committed.books.destination(destination).map_or(0, |book| book.owed.len())
    }

    /// Everything before this moment's end of the log is committed at a destination.
    pub fn is_caught_up(&self, destination: &str) -> bool {
        let running = self.running();
        let end = std::fs::metadata(self.dir.path().join("changes.jsonl")).unwrap().len();
        let committed = running.ledger.read();
        let read = committed.ingest_cursors().get(&0).is_some_and(|at| at.offset >= end);
        let book = committed.books.destination(destination);
        read && book.is_some_and(|book| committed.lag_of(book) == 0)
    }

    pub fn caught_up(&self, destinations: &[&str]) {
        for name in destinations {
            self.until(&format!("{name} to catch up"), || self.is_caught_up(name));
        }
    }

    pub fn until(&self, what: &str, so: impl Fn() -> bool) {
        let failure = || self.running().ledger.failure();
        wait_for(|| so().then_some(())).unwrap_or_else(|| {
            panic!("waited {} s for {what}; the ledger: {:?}", PATIENCE.as_secs(), failure())
        });
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // After a failure the threads end with the process: some of them may hang on purpose.
        if let Some(worker) = self.worker.take()
            && !std::thread::panicking()
        {
            self.runtime.block_on(worker.stop()).unwrap();
        }
    }
}

fn data_dir(dir: &TempDir, name: &str) -> PathBuf {
    dir.path().join("destinations").join(name)
}

fn plan(dir: &TempDir, places: Vec<Place>) -> WorkerPlan {
    let source = FileSource::open(FileOptions::new(dir.path().join("changes.jsonl"))).unwrap();
    let lifecycle = |lifecycle| CollectionPolicy { lifecycle, ..CollectionPolicy::default() };
    let rules = Rules {
        collections: [
            ("docs".to_owned(), lifecycle(Lifecycle::Terminal)),
            ("rows".to_owned(), lifecycle(Lifecycle::Versioned)),
        ]
        .into(),
        quarantine_max: 1_000,
        requests_kept: Duration::from_secs(3_600),
        ..Rules::default()
    };
    let destination = |place: Place| {
        let Place { settings, wrap } = place;
        let told =
            Destination { name: settings.name.clone(), data_dir: data_dir(dir, &settings.name) };
        let make = move || Ok(wrap(Memory.build(told.clone(), json!({}))?));
        DestinationPlan { settings, make: Box::new(make) }
    };
    WorkerPlan {
        source: Arc::new(source),
        decoder: Decoder::default(),
        bounds: ReadBounds {
            max_records: 1_000,
            max_bytes: 1 << 20,
            wait: Duration::from_millis(5),
        },
        ledger: LedgerOptions {
            dir: dir.path().join("ledger"),
            cache_bytes: 8 << 20,
            checkpoint_objects: 10_000,
            journal_whole_bytes: 64 << 20,
        },
        rules,
        window_bytes: 8 << 20,
        destinations: places.into_iter().map(destination).collect(),
        api: ApiOptions {
            listen: ([127, 0, 0, 1], 0).into(),
            max_body_bytes: 1 << 20,
            max_wait: Duration::from_secs(10),
            max_waiters: 10,
        },
    }
}
