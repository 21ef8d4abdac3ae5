//! One function a path: takes the question apart, asks, answers.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use cenotaph_core::{Cursors, Generation, KeyHash, MAX_NAME_BYTES, ObjectKey, ScopeName, Version};
use serde::{Deserialize, Serialize};

use super::errors::ApiError;
use super::types::{
    BarrierRequestBody, BarrierView, DestinationView, Page, QuarantineView, StatusView,
    TombstoneView,
};
use super::views::{self, Asked, Filter};
use super::{Context, waiting};
use crate::ledger::{BarrierAnswer, BarrierProposal};
use crate::reading::scope_hash;
use crate::source::FeedFault;

/// The most items of a page.
const MAX_PAGE: usize = 1_000;
const DEFAULT_PAGE: usize = 100;

/// The longest name of a barrier, in bytes.
const MAX_BARRIER_NAME_BYTES: usize = 255;

type Answer<T> = Result<Json<T>, ApiError>;
type ObjectPath = Result<Path<(String, String, String)>, PathRejection>;

/// What may be asked about a tombstone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TombstoneQuery {
    generation: Option<u32>,
    event_id: Option<String>,
    min_version: Option<u64>,
    wait: Option<String>,
}

/// The same, with the object's name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedQuery {
    tenant: String,
    collection: String,
    object: String,
    generation: Option<u32>,
    event_id: Option<String>,
    min_version: Option<u64>,
    wait: Option<String>,
}

/// What may be asked about a list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    state: Option<String>,
    destination: Option<String>,
    owner: Option<String>,
    tenant: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitQuery {
    wait: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct ObjectState {
    version: Option<u64>,
    active: bool,
    status: String,
}

pub(super) async fn healthz(State(context): State<Context>) -> Result<&'static str, ApiError> {
    context.running.ledger.failure().map_or(Ok("ok\n"), |error| Err(error.into()))
}

pub(super) async fn readyz(State(context): State<Context>) -> Response {
    let reasons = views::not_ready(&context.running);
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = BTreeMap::from([("reasons", reasons)]);
    (status, Json(body)).into_response()
}

pub(super) async fn metrics(State(context): State<Context>) -> String {
    crate::janitor::refresh(&context.running);
    context.metrics.render()
}

pub(super) async fn status(State(context): State<Context>) -> Json<StatusView> {
    Json(views::status(&context.running))
}

pub(super) async fn tombstone(
    State(context): State<Context>,
    path: ObjectPath,
    query: Result<Query<TombstoneQuery>, QueryRejection>,
) -> Answer<TombstoneView> {
    answer_tombstone(context, path?.0, query?.0).await
}

/// The same for a name that no path can hold: `.` and `..` would climb.
pub(super) async fn tombstone_by_name(
    State(context): State<Context>,
    query: Result<Query<NamedQuery>, QueryRejection>,
) -> Answer<TombstoneView> {
    let NamedQuery { tenant, collection, object, generation, event_id, min_version, wait } =
        query?.0;
    let query = TombstoneQuery { generation, event_id, min_version, wait };
    answer_tombstone(context, (tenant, collection, object), query).await
}

async fn answer_tombstone(
    context: Context,
    name: (String, String, String),
    query: TombstoneQuery,
) -> Answer<TombstoneView> {
    let asked = asked(&context, name, &query)?;
    let wait = parse_wait(query.wait.as_deref())?;
    // A log that is at fault keeps nobody from asking what was read of it.
    let end = marks(&context);
    let ask = || {
        let read = end.as_ref().is_ok_and(|end| has_read(&context, end));
        Ok(views::object(&context.running, &asked, read)?)
    };
    let view = waiting::until(&context, wait, ask, |view| !view.blocked).await?;
    let explicit = asked.event.is_some() || asked.min_version.is_some() || !wait.is_zero();
    if view.state == "unknown" && !explicit {
        return Err(ApiError::new(
            StatusCode::NOT_FOUND,
            "tombstone.not_found",
            "the ledger has never met this object",
            "check tenant, collection, object and generation; each part is percent-encoded",
        ));
    }
    Ok(Json(view))
}

pub(super) async fn tombstones(
    State(context): State<Context>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Answer<Page<TombstoneView>> {
    let query = query?.0;
    if query.state.as_deref().is_some_and(|state| state != "pending") {
        return Err(ApiError::bad_request(
            "state is not \"pending\"",
            "only deletions that wait are listed; ask for one object by its path",
        ));
    }
    let after = match query.after.as_deref().map(str::parse) {
        None => 0,
        Some(Ok(after)) => after,
        Some(Err(_)) => {
            return Err(ApiError::bad_request("after is no number", "take it from a page's next"));
        }
    };
    // A misspelt name must not read as "nothing waits".
    if let Some(name) = &query.destination
        && views::destination(&context.running, name).is_none()
    {
        return Err(no_such_destination());
    }
    let filter = Filter {
        destination: query.destination,
        owner: query.owner,
        tenant: query.tenant,
        after,
        limit: limit(query.limit),
    };
    Ok(Json(views::pending(&context.running, &filter)?))
}

pub(super) async fn object_state(
    State(context): State<Context>,
    path: ObjectPath,
    query: Result<Query<TombstoneQuery>, QueryRejection>,
) -> Answer<ObjectState> {
    let asked = asked(&context, path?.0, &query?.0)?;
    let view = views::object(&context.running, &asked, true)?;
    Ok(Json(ObjectState {
        version: view.version,
        active: view.state == "live",
        status: view.state,
    }))
}

pub(super) async fn barriers(
    State(context): State<Context>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Answer<Page<BarrierView>> {
    let query = query?.0;
    let limit = limit(query.limit);
    let after = query.after.unwrap_or_default();
    let items = views::barriers(&context.running, &after, limit)?;
    let next = (items.len() == limit).then(|| items.last().map(|it| it.name.clone())).flatten();
    Ok(Json(Page { items, next }))
}

pub(super) async fn barrier(
    State(context): State<Context>,
    path: Result<Path<String>, PathRejection>,
    query: Result<Query<WaitQuery>, QueryRejection>,
) -> Answer<BarrierView> {
    let name = path?.0;
    let wait = parse_wait(query?.0.wait.as_deref())?;
    let ask = || Ok(views::barrier(&context.running, &name)?);
    let released =
        |view: &Option<BarrierView>| view.as_ref().is_some_and(|view| view.state == "RELEASED");
    let view = waiting::until(&context, wait, ask, released).await?;
    view.map(Json).ok_or_else(|| {
        ApiError::new(
            StatusCode::NOT_FOUND,
            "barrier.not_found",
            "there is no barrier of this name",
            "create it, or wait until the record that makes it has been read",
        )
    })
}

pub(super) async fn make_barrier(
    State(context): State<Context>,
    body: Result<Json<BarrierRequestBody>, JsonRejection>,
) -> Result<(StatusCode, Json<BarrierView>), ApiError> {
    let BarrierRequestBody { name, scope } = body?.0;
    if name.is_empty() || name.len() > MAX_BARRIER_NAME_BYTES {
        return Err(ApiError::bad_request(
            format!("name is {} bytes long", name.len()),
            format!("choose one of 1 to {MAX_BARRIER_NAME_BYTES} bytes"),
        ));
    }
    if scope.as_ref().is_some_and(|scope| scope.parent.is_some() && scope.collection.is_none()) {
        return Err(ApiError::bad_request(
            "scope names a parent and no collection",
            "name the collection that the parent's members are in",
        ));
    }
    let mut hasher = context.running.ledger.hasher();
    if scope.as_ref().is_some_and(|scope| !scope.names().all(is_a_name)) {
        return Err(ApiError::bad_request(
            "scope has a name that is empty or too long",
            format!("use names of 1 to {MAX_NAME_BYTES} bytes; leave out what it does not name"),
        ));
    }
    let scope = scope.map(|scope| {
        let scope =
            ScopeName { tenant: scope.tenant, collection: scope.collection, parent: scope.parent };
        (scope_hash(&mut hasher, &scope), scope)
    });
    let cursors = marks(&context)?;
    let proposal = BarrierProposal { name: name.clone(), scope, cursors };
    let status = match context.running.ledger.make_barrier(proposal).await? {
        BarrierAnswer::Made => StatusCode::CREATED,
        BarrierAnswer::AlreadyThere => StatusCode::OK,
        BarrierAnswer::Taken => {
            return Err(ApiError::new(
                StatusCode::CONFLICT,
                "barrier.name_taken",
                "a barrier of this name stands for something else",
                "choose another name",
            ));
        }
    };
    let view = views::barrier(&context.running, &name)?;
    let view = view.ok_or_else(|| ApiError::from(crate::ledger::LedgerError::Stopped))?;
    Ok((status, Json(view)))
}

pub(super) async fn destinations(State(context): State<Context>) -> Json<Vec<DestinationView>> {
    Json(views::destinations(&context.running))
}

pub(super) async fn destination(
    State(context): State<Context>,
    path: Result<Path<String>, PathRejection>,
) -> Answer<DestinationView> {
    let name = path?.0;
    views::destination(&context.running, &name).map(Json).ok_or_else(no_such_destination)
}

fn no_such_destination() -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "destination.not_found",
        "the ledger knows no destination of this name",
        "`cenotaph destination list` names them",
    )
}

pub(super) async fn quarantine(
    State(context): State<Context>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Answer<Page<QuarantineView>> {
    let items = views::quarantine(&context.running, limit(query?.0.limit));
    Ok(Json(Page { items, next: None }))
}

pub(super) async fn not_found(uri: Uri) -> ApiError {
    let message = format!("there is no {}", uri.path());
    let suggestion = "the paths are under /v1, and /healthz, /readyz, /metrics";
    ApiError::new(StatusCode::NOT_FOUND, "path.not_found", message, suggestion)
}

pub(super) async fn method_not_allowed() -> ApiError {
    let message = "this path does not take that method";
    let suggestion = "GET asks; POST /v1/barriers creates";
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method.not_allowed", message, suggestion)
}

fn asked(
    context: &Context,
    (tenant, collection, object): (String, String, String),
    query: &TombstoneQuery,
) -> Result<Asked, ApiError> {
    let generation = Generation(query.generation.unwrap_or(1));
    let key = ObjectKey::new(tenant, collection, object, generation)
        .map_err(|error| ApiError::bad_request(error.to_string(), "correct the path"))?;
    let min_version = query
        .min_version
        .map(Version::new)
        .transpose()
        .map_err(|error| ApiError::bad_request(error.to_string(), "correct min_version"))?;
    let mut hasher = context.running.ledger.hasher();
    let object = hasher.object(&key.tenant, &key.collection, &key.object);
    let event = query.event_id.as_deref().map(|event| hasher.event(&key.tenant, event));
    Ok(Asked { hash: KeyHash { object, generation }, key, event, min_version })
}

fn is_a_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len())
}

fn limit(asked: Option<usize>) -> usize {
    asked.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE)
}

fn parse_wait(text: Option<&str>) -> Result<Duration, ApiError> {
    let Some(text) = text else { return Ok(Duration::ZERO) };
    humantime::parse_duration(text).map_err(|error| {
        ApiError::bad_request(format!("wait is no duration: {error}"), "write it like 30s")
    })
}

/// The end of the log now, a partition each.
fn marks(context: &Context) -> Result<Cursors, ApiError> {
    let partitions = context.running.partitions.keys();
    let end = |partition: &u32| {
        context.running.source.marks(*partition).map(|marks| (*partition, marks.end))
    };
    partitions.map(end).collect::<Result<_, FeedFault>>().map_err(|fault| {
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "source.unavailable",
            fault.to_string(),
            "the end of the log has to be known for this",
        )
    })
}

fn has_read(context: &Context, end: &Cursors) -> bool {
    let ingested = context.running.ledger.ingest_cursors();
    end.iter().all(|(partition, end)| ingested.get(partition).copied().unwrap_or_default() >= *end)
}

impl From<JsonRejection> for ApiError {
    fn from(rejection: JsonRejection) -> ApiError {
        let suggestion = "send a JSON object as the documentation shows, and its content type";
        ApiError::new(rejection.status(), "request.invalid", rejection.body_text(), suggestion)
    }
}

impl From<PathRejection> for ApiError {
    fn from(rejection: PathRejection) -> ApiError {
        let suggestion = "percent-encode each part of the path as UTF-8";
        ApiError::new(rejection.status(), "request.invalid", rejection.body_text(), suggestion)
    }
}

impl From<QueryRejection> for ApiError {
    fn from(rejection: QueryRejection) -> ApiError {
        let suggestion = "see the documentation for what may be asked here";
        ApiError::new(rejection.status(), "request.invalid", rejection.body_text(), suggestion)
    }
}
