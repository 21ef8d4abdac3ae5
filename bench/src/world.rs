//! The worker as the product runs it, over folders that go away: the source, the rules and the bounds
//! that a configuration without a word about them gives.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use cenotaph::api::ApiOptions;
use cenotaph::envelope::Decoder;
use cenotaph::ingest::ReadBounds;
use cenotaph::ledger::{LedgerOptions, Rules, UnknownCollections};
use cenotaph::pipeline::PipelineSettings;
use cenotaph::source::{FileOptions, FileSource, SharedSource};
use cenotaph::supervisor::{DestinationPlan, Running, Worker, WorkerPlan, connector_maker};
use cenotaph_connector::{Destination, Factory};
use cenotaph_core::{CollectionPolicy, EvidenceLevel, Lifecycle};
use serde_json::{Value, json};

use crate::data::{DOCS, HOT};

/// The longest that anything here may take before something is wrong.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often a run looks whether it is at its end: what a time may be off by.
const LOOK: Duration = Duration::from_millis(1);

/// A running worker.
pub struct World {
    worker: Worker,
    /// How long the ledger took to open, and everything to start.
    pub opening: Duration,
    began: Instant,
}

impl World {
    /// Starts the worker of this log and this ledger. Time counts from when ingest begins.
    pub async fn start(
        log: &Path,
        ledger: &Path,
        destinations: Vec<DestinationPlan>,
    ) -> anyhow::Result<World> {
        let plan = plan(log, ledger, destinations)?;
        let opened = Instant::now();
        let worker = Worker::start(plan).await?;
        // The last thing that a start does is to start ingest.
        let began = Instant::now();
        Ok(World { worker, opening: began - opened, began })
    }

    pub fn running(&self) -> Running {
        self.worker.running()
    }

    /// Waits until ingest has decided the log up to its byte `end`. Answers how long that took.
    pub async fn ingested(&self, end: u64) -> anyhow::Result<Duration> {
        let running = self.running();
        self.until("ingest", || running.ledger.ingest_cursor(0).offset >= end).await?;
        Ok(self.began.elapsed())
    }

    /// Waits until all these destinations hold the log up to its byte `end`. Answers how long that
    /// took each of them.
    pub async fn arrived(
        &self,
        names: &[&str],
        end: u64,
    ) -> anyhow::Result<BTreeMap<String, Duration>> {
        let running = self.running();
        let mut arrived = BTreeMap::new();
        self.until("the destinations", || {
            for name in names.iter().filter(|name| cursor(&running, name) >= end) {
                arrived.entry((*name).to_owned()).or_insert_with(|| self.began.elapsed());
            }
            arrived.len() == names.len()
        })
        .await?;
        Ok(arrived)
    }

    /// Stops the worker, with its last commits and its last checkpoint. Answers how long that took.
    pub async fn stop(self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        self.worker.stop().await?;
        Ok(began.elapsed())
    }

    async fn until(&self, what: &str, mut so: impl FnMut() -> bool) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        while !so() {
            let running = self.running();
            if let Some(error) = running.ledger.failure() {
                bail!(error);
            }
            if let Some(error) = running.partitions.values().find_map(|it| it.lock().error.clone())
            {
                bail!(error);
            }
            if Instant::now() > until {
                bail!("waited {} s for {what}", PATIENCE.as_secs());
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}

/// How far a destination has committed the log.
pub fn cursor(running: &Running, name: &str) -> u64 {
    let committed = running.ledger.read();
    let book = committed.books.destination(name);
    book.and_then(|book| book.cursors.get(&0)).map_or(0, |cursor| cursor.offset)
}

fn plan(
    log: &Path,
    ledger: &Path,
    destinations: Vec<DestinationPlan>,
) -> anyhow::Result<WorkerPlan> {
    let options = FileOptions { poll: Duration::from_millis(10), ..FileOptions::new(log) };
    let source: SharedSource = Arc::new(FileSource::open(options)?);
    Ok(WorkerPlan {
        source,
        decoder: Decoder::default(),
        bounds: ReadBounds {
            max_records: 1_000,
            max_bytes: 1 << 20,
            wait: Duration::from_millis(100),
        },
        ledger: LedgerOptions {
            dir: ledger.to_path_buf(),
            cache_bytes: 64 << 20,
            checkpoint_objects: 250_000,
        },
        rules: rules(),
        window_bytes: 64 << 20,
        destinations,
        api: ApiOptions {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            max_body_bytes: 1 << 20,
            max_wait: Duration::from_secs(60),
            max_waiters: 1_000,
        },
    })
}

fn rules() -> Rules {
    let hot = CollectionPolicy { lifecycle: Lifecycle::Versioned, ..CollectionPolicy::default() };
    Rules {
        collections: [(DOCS.into(), CollectionPolicy::default()), (HOT.into(), hot)].into(),
        unknown_collections: UnknownCollections::Quarantine,
        quarantine_max: 10_000,
        requests_kept: Duration::from_secs(90 * 86_400),
        ..Rules::default()
    }
}

/// The pipeline of a destination whose file says nothing of batches.
pub fn pipeline(name: &str, connector: &str) -> PipelineSettings {
    PipelineSettings {
        name: name.into(),
        connector: connector.into(),
        collections: vec![DOCS.into()],
        confirm: EvidenceLevel::Absent,
        owner: "bench".into(),
        settle: Duration::from_secs(30),
        max_records: 5_000,
        max_bytes: 8 << 20,
        max_wait: Duration::from_millis(200),
        max_commit: Duration::from_millis(250),
        retry_initial: Duration::from_millis(200),
        retry_max: Duration::from_secs(60),
        owed_max: 10_000,
    }
}

/// A tantivy destination in a folder. `more` joins the connector's settings.
pub fn tantivy(
    folder: &Path,
    settings: PipelineSettings,
    more: Value,
) -> anyhow::Result<DestinationPlan> {
    let mut connector = json!({
        "fields": {
            "title": {"type": "text"},
            "body": {"type": "text"},
            "year": {"type": "integer"},
        },
    });
    let fields = connector.as_object_mut().context("an object")?;
    fields.extend(more.as_object().cloned().unwrap_or_default());
    Ok(destination(folder, Arc::new(cenotaph_tantivy::Tantivy), settings, connector))
}

/// A memory destination; its folder is only its name.
pub fn memory(folder: &Path, settings: PipelineSettings) -> DestinationPlan {
    destination(folder, Arc::new(cenotaph_memory::Memory), settings, json!({}))
}

/// A destination of this factory.
pub fn destination(
    folder: &Path,
    factory: Arc<dyn Factory>,
    settings: PipelineSettings,
    connector: Value,
) -> DestinationPlan {
    let data_dir = folder.join(&settings.name);
    let destination = Destination { name: settings.name.clone(), data_dir };
    DestinationPlan { settings, make: connector_maker(factory, destination, connector) }
}
