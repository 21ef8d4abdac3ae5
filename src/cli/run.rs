//! `cenotaph run`: the worker, until a signal says stop.

use std::process::ExitCode;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::exit::Exit;
use crate::api;
use crate::config::Config;
use crate::supervisor::{Worker, WorkerError, WorkerPlan};
use crate::{janitor, metrics, stop::Stopper};

/// Runs the worker of a configuration.
///
/// # Errors
/// Whatever kept it from starting, or from ending well.
pub async fn worker(plan: WorkerPlan) -> Result<(), WorkerError> {
    let recorder = metrics::install().map_err(std::io::Error::other)?;
    let options = plan.api.clone();
    let address = options.listen;
    let listen = |error| WorkerError::Listen { address, error };
    // Bound before anything is opened: whoever cannot be asked must not run.
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let bound = listener.local_addr().map_err(listen)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let worker = Worker::start(plan).await?;
    let stopper = Stopper::new();
    let janitor = tokio::spawn(janitor::run(worker.running(), stopper.listen()));
    let api =
        tokio::spawn(api::serve(listener, options, worker.running(), recorder, stopper.listen()));
    tracing::info!(address = %bound, "running");
    tokio::select! {
        _ = terminate.recv() => tracing::info!("told to stop: finishing what is under way"),
        _ = interrupt.recv() => tracing::info!("interrupted: finishing what is under way"),
        error = worker.failed() => tracing::error!(%error, "the ledger has failed: stopping"),
    }
    stopper.set();
    let stopped = worker.stop().await;
    // Neither holds anything that could be lost.
    let _ = tokio::time::timeout(std::time::Duration::from_secs(2), api).await;
    janitor.abort();
    stopped
}

/// `cenotaph run`.
#[must_use]
pub fn run(config: Config) -> ExitCode {
    let plan = match crate::wire::plan(config) {
        Ok(plan) => plan,
        Err(fault) => return Exit::Unreachable.say(&fault.to_string()),
    };
    let runtime =
        match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                return Exit::Failed.say(&format!("the runtime could not be started: {error}"));
            }
        };
    let ended = runtime.block_on(worker(plan));
    // A hung connector's thread must not keep the process alive.
    runtime.shutdown_background();
    match ended {
        Ok(()) => Exit::Done.into(),
        Err(error @ (WorkerError::Listen { .. } | WorkerError::Source(_))) => {
            Exit::Unreachable.say(&error.to_string())
        }
        Err(error) => Exit::Failed.say(&error.to_string()),
    }
}
