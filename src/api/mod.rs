//! HTTP on loopback: how deletions, barriers and destinations stand, for people, jobs and tools.
//!
//! Reads the committed state; the only thing it changes, a barrier, it proposes to the writer.
//! Bounded in bodies, time, connections and waiters. Host and Origin are checked, so that a page in
//! somebody's browser cannot ask in their name.

mod errors;
mod guard;
mod handlers;
pub mod types;
mod views;
mod waiting;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

pub use views::{Asked, object as object_view};

use crate::stop::Stop;
use crate::supervisor::Running;

/// The most requests that are worked on at once, those that wait included.
const MAX_REQUESTS: usize = 1_024;

/// What a request may take beside what it may wait.
const ANSWER: Duration = Duration::from_secs(5);

/// Where the API listens, and its limits.
#[derive(Debug, Clone)]
pub struct ApiOptions {
    /// The address: loopback.
    pub listen: SocketAddr,
    /// The most bytes of a request's body.
    pub max_body_bytes: usize,
    /// The longest that a request may wait.
    pub max_wait: Duration,
    /// The most requests that wait at once.
    pub max_waiters: usize,
}

/// What every handler has.
#[derive(Clone)]
pub(crate) struct Context {
    pub running: Running,
    pub metrics: PrometheusHandle,
    pub waiters: Arc<Semaphore>,
    pub max_wait: Duration,
    pub stop: Stop,
}

/// Serves until told to stop. `listener` is bound by the caller, who can tell where.
///
/// # Errors
/// An I/O error if it cannot accept any more.
pub async fn serve(
    listener: TcpListener,
    options: ApiOptions,
    running: Running,
    metrics: PrometheusHandle,
    stop: Stop,
) -> std::io::Result<()> {
    let context = Context {
        running,
        metrics,
        waiters: Arc::new(Semaphore::new(options.max_waiters)),
        max_wait: options.max_wait,
        stop: stop.clone(),
    };
    let mut stop = stop;
    axum::serve(listener, router(context, &options))
        .with_graceful_shutdown(async move { stop.given().await })
        .await
}

fn router(context: Context, options: &ApiOptions) -> Router {
    Router::new()
        .route("/healthz", get(handlers::healthz))
        .route("/readyz", get(handlers::readyz))
        .route("/metrics", get(handlers::metrics))
        .route("/v1/status", get(handlers::status))
        .route("/v1/tombstones", get(handlers::tombstones))
        .route("/v1/tombstone", get(handlers::tombstone_by_name))
        .route("/v1/tombstones/{tenant}/{collection}/{object}", get(handlers::tombstone))
        .route("/v1/objects/{tenant}/{collection}/{object}/state", get(handlers::object_state))
        .route("/v1/barriers", get(handlers::barriers).post(handlers::make_barrier))
        .route("/v1/barriers/{name}", get(handlers::barrier))
        .route("/v1/destinations", get(handlers::destinations))
        .route("/v1/destinations/{name}", get(handlers::destination))
        .route("/v1/quarantine", get(handlers::quarantine))
        .fallback(handlers::not_found)
        .method_not_allowed_fallback(handlers::method_not_allowed)
        .layer(axum::middleware::from_fn(guard::same_host))
        .layer(axum::middleware::from_fn_with_state(options.max_wait + ANSWER, guard::within))
        .layer(DefaultBodyLimit::max(options.max_body_bytes))
        .layer(tower::limit::GlobalConcurrencyLimitLayer::new(MAX_REQUESTS))
        .with_state(context)
}
