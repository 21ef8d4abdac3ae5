//! The worker as the product runs it, from configuration files, over folders that go away. What a
//! file here does not say is as it is for everybody.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;
use cenotaph::config::Config;
use cenotaph::supervisor::{Running, Worker, WorkerPlan};

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
    /// Starts a worker. Time counts from when ingest begins.
    pub async fn start(plan: WorkerPlan) -> anyhow::Result<World> {
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

/// One destination's file.
pub struct DestinationFile {
    pub name: &'static str,
    pub toml: String,
}

/// A worker of this log, with everything that it keeps in `folder`, and these destinations.
pub fn plan(
    log: &Path,
    folder: &Path,
    destinations: &[DestinationFile],
) -> anyhow::Result<WorkerPlan> {
    let files = folder.join("destinations");
    fs::create_dir_all(&files)?;
    // A configuration without a destination is refused; this one is left out again below.
    let placeholder = memory("placeholder");
    for DestinationFile { name, toml } in destinations.iter().chain([&placeholder]) {
        fs::write(files.join(format!("{name}.toml")), toml)?;
    }
    let main = folder.join("cenotaph.toml");
    let log = toml_text(log);
    let worker = format!(
        "[source]\nkind = \"file\"\npath = {log}\n[collections.{DOCS}]\n\
         [collections.{HOT}]\nlifecycle = \"versioned\"\n"
    );
    fs::write(&main, worker)?;
    let mut plan = cenotaph::wire::plan(Config::load(&main)?)?;
    plan.destinations.retain(|it| it.settings.name != placeholder.name);
    Ok(plan)
}

/// A path as TOML text.
fn toml_text(path: &Path) -> String {
    format!("'{}'", path.display())
}

/// How a tantivy destination differs from the one that says nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct TantivyWay {
    /// Indexing threads, and the memory of all of them.
    pub indexing: Option<(usize, usize)>,
    /// The longest a commit should take.
    pub max_commit: Option<Duration>,
}

impl TantivyWay {
    /// The same, with commits of at most this where it says nothing of them.
    pub fn or_commits_of(self, ms: Option<u64>) -> TantivyWay {
        TantivyWay { max_commit: self.max_commit.or(ms.map(Duration::from_millis)), ..self }
    }
}

/// A tantivy destination with the payload's fields of the logs here.
pub fn tantivy(name: &'static str, way: TantivyWay) -> anyhow::Result<DestinationFile> {
    let mut toml = of("tantivy");
    if let Some(time) = way.max_commit {
        write!(toml, "[batch]\nmax_commit = \"{}ms\"\n", time.as_millis())?;
    }
    if let Some((threads, heap_bytes)) = way.indexing {
        write!(toml, "[settings]\nthreads = {threads}\nheap_bytes = {heap_bytes}\n")?;
    }
    for (field, kind) in [("title", "text"), ("body", "text"), ("year", "integer")] {
        write!(toml, "[settings.fields.{field}]\ntype = \"{kind}\"\n")?;
    }
    Ok(DestinationFile { name, toml })
}

/// A memory destination.
pub fn memory(name: &'static str) -> DestinationFile {
    DestinationFile { name, toml: of("memory") }
}

fn of(connector: &str) -> String {
    format!("connector = \"{connector}\"\ncollections = [\"{DOCS}\"]\nowner = \"bench\"\n")
}
