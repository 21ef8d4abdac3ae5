//! The little world of the story: a folder with a change log, a configuration as anybody would
//! write it, and a worker over it.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use cenotaph_connector::Connector;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::watch;

use super::held::Held;
use crate::api::types::TombstoneView;
use crate::api::{Asked, object_view};
use crate::config::Config;
use crate::pipeline::turn::MakeConnector;
use crate::supervisor::{DestinationPlan, Running, Worker};

/// The documents: notes of the project's own about real things.
const DOCUMENTS: &str = include_str!("documents.jsonl");

const WORKER: &str = r#"
[source]
kind = "file"
path = "changes.jsonl"
tenant = "main"
collection = "docs"
source = "library"

[collections.docs]
lifecycle = "terminal"
"#;

const SEARCH: &str = r#"
connector = "tantivy"
collections = ["docs"]
owner = "search-team@example.org"

[settings.fields.title]
type = "text"
stored = true
[settings.fields.body]
type = "text"
[settings.fields.topic]
type = "keyword"
[settings.fields.year]
type = "number"
"#;

const CACHE: &str = r#"
connector = "memory"
collections = ["docs"]
owner = "platform-team@example.org"
"#;

/// The longest that any step may take before something is wrong.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Deserialize, Serialize)]
struct Document {
    #[serde(skip_serializing)]
    object: String,
    title: String,
    body: String,
    topic: String,
    year: i64,
}

/// A worker over a folder that goes away with it.
pub(super) struct World {
    folder: tempfile::TempDir,
    worker: Worker,
    free: watch::Sender<bool>,
    documents: usize,
}

impl World {
    /// Writes the folder and starts the worker.
    pub(super) async fn begin() -> anyhow::Result<World> {
        let folder = tempfile::Builder::new().prefix("cenotaph-quickstart-").tempdir()?;
        let path = folder.path();
        std::fs::create_dir(path.join("destinations"))?;
        std::fs::write(path.join("cenotaph.toml"), WORKER)?;
        std::fs::write(path.join("destinations/search.toml"), SEARCH)?;
        std::fs::write(path.join("destinations/cache.toml"), CACHE)?;
        let documents = write_documents(&path.join("changes.jsonl"))?;
        let config = Config::load(&path.join("cenotaph.toml"))?;
        let mut plan = crate::wire::plan(config)?;
        let (free, freed) = watch::channel(false);
        let hold = |destination: DestinationPlan| match destination.settings.name.as_str() {
            "cache" => held(destination, &freed),
            _ => destination,
        };
        plan.destinations = plan.destinations.into_iter().map(hold).collect();
        let worker = Worker::start(plan).await?;
        Ok(World { folder, worker, free, documents })
    }

    pub(super) fn documents(&self) -> usize {
        self.documents
    }

    pub(super) fn running(&self) -> Running {
        self.worker.running()
    }

    /// Appends a change to the log, as a producer would.
    pub(super) fn append(&self, change: &serde_json::Value) -> anyhow::Result<()> {
        append(&self.folder.path().join("changes.jsonl"), &format!("{change}\n"))
    }

    /// The first upsert of a document, as it stands in the log.
    pub(super) fn first_upsert(&self, object: &str) -> anyhow::Result<serde_json::Value> {
        documents()?
            .into_iter()
            .find(|document| document.object == object)
            .map(|document| upsert(&document))
            .context("the document is not among the quickstart's")
    }

    /// Lets the held destination go on.
    pub(super) fn let_go(&self) {
        self.free.send_replace(true);
    }

    /// Full-text search, as a reader of the index.
    pub(super) fn search(&self, query: &str) -> anyhow::Result<Vec<String>> {
        let dir = destination_dir(self.folder.path(), "search");
        let hits = cenotaph_tantivy::search(&dir, query, 3)?;
        Ok(hits
            .into_iter()
            .map(|hit| match hit.payload.get("title").and_then(|title| title.as_str()) {
                Some(title) => title.to_owned(),
                None => hit.id,
            })
            .collect())
    }

    /// The deletion of an object, as the API would tell it.
    pub(super) fn deletion(&self, object: &str) -> anyhow::Result<TombstoneView> {
        let running = self.running();
        let asked = Asked::of(&running, "main", "docs", object)?;
        Ok(object_view(&running, &asked, true)?)
    }

    /// Waits until every destination has what the log holds.
    pub(super) async fn caught_up(&self) -> anyhow::Result<()> {
        let running = self.running();
        let source = running.source.clone();
        let end = tokio::task::spawn_blocking(move || source.marks(0)).await??.end;
        self.until("every destination to catch up", |world| {
            let running = world.running();
            let committed = running.ledger.read();
            let there = committed.ingest_cursors().get(&0).is_some_and(|at| *at >= end);
            Ok(there && committed.books.destinations.values().all(|it| committed.lag_of(it) == 0))
        })
        .await
    }

    /// Waits until something is so.
    pub(super) async fn until(
        &self,
        what: &str,
        so: impl Fn(&World) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let running = self.running();
        let mut revision = running.ledger.subscribe();
        let until = Instant::now() + PATIENCE;
        while !so(self)? {
            if let Some(error) = running.ledger.failure() {
                bail!(error);
            }
            if Instant::now() > until {
                bail!("waited {} s for {what}; report this", PATIENCE.as_secs());
            }
            let nap = tokio::time::sleep(Duration::from_millis(20));
            tokio::select! { _ = revision.changed() => {}, () = nap => {} }
        }
        Ok(())
    }

    /// Stops the worker and takes the folder away.
    pub(super) async fn end(self) -> anyhow::Result<()> {
        self.let_go();
        self.worker.stop().await?;
        Ok(self.folder.close()?)
    }
}

/// A destination whose removals wait until they are let go.
fn held(destination: DestinationPlan, freed: &watch::Receiver<bool>) -> DestinationPlan {
    let DestinationPlan { settings, make } = destination;
    let free = freed.clone();
    let make: MakeConnector = Box::new(move || {
        let held = Held { inner: make()?, free: free.clone() };
        Ok(Box::new(held) as Box<dyn Connector>)
    });
    DestinationPlan { settings, make }
}

/// The folder of an embedded destination below a configuration's folder.
fn destination_dir(folder: &Path, name: &str) -> PathBuf {
    folder.join("data").join("destinations").join(name)
}

fn documents() -> anyhow::Result<Vec<Document>> {
    DOCUMENTS.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

fn write_documents(log: &Path) -> anyhow::Result<usize> {
    let documents = documents()?;
    let lines: String =
        documents.iter().map(|document| format!("{}\n", upsert(document))).collect();
    append(log, &lines)?;
    Ok(documents.len())
}

fn upsert(document: &Document) -> serde_json::Value {
    json!({
        "event_id": format!("add-{}", document.object),
        "op": "upsert",
        "object": document.object,
        "version": 1,
        "type": "document.changed",
        "payload": document,
    })
}

fn append(log: &Path, lines: &str) -> anyhow::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(log)?;
    Ok(file.write_all(lines.as_bytes())?)
}
