//! Starts everything in order, watches it, and stops it in order: ingest first, then the pipelines,
//! which commit what they hold, then the ledger.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cenotaph_connector::{Destination, Factory};
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::envelope::Decoder;
use crate::ingest::{Ingest, PartitionStanding, ReadBounds};
use crate::ledger::{self, Ledger, LedgerError, LedgerOptions, Rules};
use crate::pipeline::feed::Feed;
use crate::pipeline::standing::LastError;
use crate::pipeline::turn::MakeConnector;
use crate::pipeline::{Pipeline, PipelineSettings, Standing, Wiring};
use crate::reading::Reading;
use crate::source::{FeedFault, SharedSource};
use crate::stop::Stopper;
use crate::window::Window;

/// How long the pipelines have to finish what they are at when the worker stops.
const DRAIN: Duration = Duration::from_secs(20);

/// One destination to be run.
pub struct DestinationPlan {
    /// The part of its configuration that is not its connector's.
    pub settings: PipelineSettings,
    /// Makes its connector.
    pub make: MakeConnector,
}

/// A worker to be run: the configuration, resolved.
pub struct WorkerPlan {
    /// The source.
    pub source: SharedSource,
    /// Reads its records.
    pub decoder: Decoder,
    /// Bounds of ingest.
    pub bounds: ReadBounds,
    /// The ledger's folder and limits.
    pub ledger: LedgerOptions,
    /// The rules in force.
    pub rules: Rules,
    /// The bound of the window.
    pub window_bytes: u64,
    /// The destinations.
    pub destinations: Vec<DestinationPlan>,
    /// Where the API listens.
    pub api: crate::api::ApiOptions,
}

/// The worker could not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The ledger could not be opened.
    #[error(transparent)]
    Open(#[from] ledger::StartError),
    /// The ledger stopped working.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The source is not there.
    #[error(transparent)]
    Source(#[from] FeedFault),
    /// A thread could not be started.
    #[error("a thread could not be started: {0}; raise the process's limits")]
    Thread(#[from] std::io::Error),
    /// The API could not listen.
    #[error("the API cannot listen on {address}: {error}; free the port or change api.listen")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
    /// Some destinations did not finish.
    #[error(
        "did not finish within {} s: {}; what they hold is applied again at the next start",
        DRAIN.as_secs(), .0.join(", ")
    )]
    NotDrained(Vec<String>),
}

/// What the API and the janitor may see of a running worker.
#[derive(Clone)]
pub struct Running {
    /// The ledger.
    pub ledger: Ledger,
    /// The source.
    pub source: SharedSource,
    /// The window.
    pub window: Arc<Window>,
    /// How each partition stands.
    pub partitions: Arc<BTreeMap<u32, Arc<Mutex<PartitionStanding>>>>,
    /// The destinations, by name.
    pub destinations: Arc<BTreeMap<String, RunningDestination>>,
    /// When it began.
    pub started: Instant,
    /// The ledger's folder.
    pub ledger_dir: Arc<PathBuf>,
}

/// What may be seen of a destination.
#[derive(Debug, Clone)]
pub struct RunningDestination {
    /// Its settings.
    pub settings: Arc<PipelineSettings>,
    /// How it stands.
    pub standing: Arc<Standing>,
}

/// A running worker.
pub struct Worker {
    running: Running,
    stopper: Stopper,
    writer: JoinHandle<Result<(), LedgerError>>,
    ingests: Vec<JoinHandle<Result<(), LedgerError>>>,
    pipelines: Vec<(String, JoinHandle<()>)>,
}

impl Worker {
    /// Opens the ledger and starts everything.
    ///
    /// # Errors
    /// [`WorkerError`] if something needed is not there.
    pub async fn start(plan: WorkerPlan) -> Result<Worker, WorkerError> {
        // Without a destination nobody reads it.
        let window_bytes = if plan.destinations.is_empty() { 0 } else { plan.window_bytes };
        let window = Arc::new(Window::new(window_bytes));
        let ledger_dir = Arc::new(plan.ledger.dir.clone());
        let (ledger, writer) = {
            let window = Arc::clone(&window);
            let (options, rules) = (plan.ledger, plan.rules);
            blocking(move || ledger::start(options, rules, Clock, window)).await??
        };
        let stopper = Stopper::new();
        let reading = Reading::new(plan.decoder, ledger.hasher());
        let mut pipelines = Vec::new();
        let mut destinations = BTreeMap::new();
        for destination in plan.destinations {
            let name = destination.settings.name.clone();
            let standing = Arc::new(Standing::default());
            let settings = Arc::new(destination.settings.clone());
            let known = RunningDestination { settings, standing: Arc::clone(&standing) };
            destinations.insert(name.clone(), known);
            if is_unassigned(&ledger, &destination.settings, &standing) {
                continue;
            }
            let number = ledger.attach(&name, &destination.settings.collections).await?;
            let feed = Feed::new(
                Arc::clone(&window),
                Arc::clone(&plan.source),
                ledger.clone(),
                reading.clone(),
            );
            let wiring = Wiring {
                settings: destination.settings,
                number,
                make: destination.make,
                ledger: ledger.clone(),
                feed,
                standing,
                stop: stopper.listen(),
                clock: Clock,
            };
            pipelines.push((name.clone(), spawn_pipeline(&name, wiring)?));
        }
        let mut ingests = Vec::new();
        let mut partitions = BTreeMap::new();
        let source = Arc::clone(&plan.source);
        for partition in blocking(move || source.partitions()).await?? {
            let standing = Arc::new(Mutex::new(PartitionStanding::default()));
            partitions.insert(partition.partition, Arc::clone(&standing));
            let ingest = Ingest {
                source: Arc::clone(&plan.source),
                partition,
                reading: reading.clone(),
                ledger: ledger.clone(),
                bounds: plan.bounds,
                standing,
                stop: stopper.listen(),
            };
            let builder = std::thread::Builder::new().name("ingest".into());
            ingests.push(builder.spawn(move || ingest.run())?);
        }
        let running = Running {
            ledger,
            source: plan.source,
            window,
            partitions: Arc::new(partitions),
            destinations: Arc::new(destinations),
            started: Instant::now(),
            ledger_dir,
        };
        Ok(Worker { running, stopper, writer, ingests, pipelines })
    }

    /// What may be seen of it.
    #[must_use]
    pub fn running(&self) -> Running {
        self.running.clone()
    }

    /// Returns once the ledger has stopped working.
    pub async fn failed(&self) -> LedgerError {
        let mut revision = self.running.ledger.subscribe();
        loop {
            if let Some(error) = self.running.ledger.failure() {
                return error;
            }
            if revision.changed().await.is_err() {
                return LedgerError::Stopped;
            }
        }
    }

    /// Stops everything in order.
    ///
    /// # Errors
    /// [`WorkerError`] if the ledger failed, or a destination did not finish in time.
    pub async fn stop(self) -> Result<(), WorkerError> {
        self.stopper.set();
        let (ingests, pipelines, writer) = (self.ingests, self.pipelines, self.writer);
        let late = blocking(move || {
            let until = Instant::now() + DRAIN;
            for ingest in ingests {
                join_until(ingest, until);
            }
            let mut late = Vec::new();
            for (name, pipeline) in pipelines {
                if join_until(pipeline, until).is_none() {
                    late.push(name);
                }
            }
            late
        })
        .await?;
        if let Some(error) = self.running.ledger.failure() {
            return Err(error.into());
        }
        self.running.ledger.stop(late.is_empty()).await?;
        let ended = blocking(move || writer.join()).await?;
        if let Ok(Err(error)) = ended {
            return Err(error.into());
        }
        if late.is_empty() { Ok(()) } else { Err(WorkerError::NotDrained(late)) }
    }
}

/// Whether a destination's file leaves out a collection that the ledger has it attached to. Then
/// nothing of it is run, nor is it attached to anything more: its cursor must not pass changes that it
/// should have had, and what it owes stays owed (I2) until the file names them again.
fn is_unassigned(ledger: &Ledger, settings: &PipelineSettings, standing: &Standing) -> bool {
    let missing = ledger.attached_beside(&settings.name, &settings.collections);
    if missing.is_empty() {
        return false;
    }
    let message = format!(
        "its file does not name {}, which it is attached to: nothing is written, removed or confirmed \
         there; name every collection again in `collections` of destinations/{}.toml and start the \
         worker again; it cannot be detached yet",
        missing.join(", "),
        settings.name
    );
    tracing::error!(destination = %settings.name, error = %message, "the destination is unassigned");
    standing.unassigned(LastError { message, owner: "operator", at_ms: Clock.now_ms() });
    true
}

/// A pipeline's thread. A panic of a connector ends a session, not the destination: everything it
/// had not committed is applied again.
fn spawn_pipeline(name: &str, wiring: Wiring) -> std::io::Result<JoinHandle<()>> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().enable_io().build()?;
    let span = tracing::info_span!("pipeline", destination = name);
    let mut pipeline = Pipeline::new(wiring);
    std::thread::Builder::new().name(format!("dest-{name}")).spawn(move || {
        let _in_span = span.entered();
        loop {
            let run = AssertUnwindSafe(|| runtime.block_on(pipeline.run()));
            match catch_unwind(run) {
                Ok(Ok(())) => break,
                Ok(Err(error)) => {
                    tracing::error!(%error, "the pipeline has ended");
                    break;
                }
                Err(_) => runtime.block_on(pipeline.panicked()),
            }
        }
    })
}

fn join_until<T>(thread: JoinHandle<T>, until: Instant) -> Option<T> {
    while !thread.is_finished() {
        if Instant::now() >= until {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    thread.join().ok()
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, std::io::Error> {
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)
}

#[cfg(test)]
mod kills;

/// Makes connectors of one destination, from its factory and its settings.
#[must_use]
pub fn connector_maker(
    factory: Arc<dyn Factory>,
    destination: Destination,
    settings: serde_json::Value,
) -> MakeConnector {
    Box::new(move || factory.build(destination.clone(), settings.clone()))
}
