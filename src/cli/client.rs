//! Asks the running worker.

use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;

use super::exit::Exit;
use crate::api::types::ErrorBody;

/// One slice of a long wait.
const SLICE: Duration = Duration::from_secs(20);
/// How long an answer may take beside what it waits for.
const ANSWER: Duration = Duration::from_secs(15);
/// How long to wait before an unreachable worker is tried again.
const RETRY: Duration = Duration::from_millis(250);

/// Why there is no answer.
#[derive(Debug, Clone)]
pub enum NoAnswer {
    /// The worker can't be reached.
    Unreachable(String),
    /// It refused.
    Refused(ErrorBody),
}

impl NoAnswer {
    /// The exit code that this is.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            NoAnswer::Unreachable(_) => Exit::Unreachable,
            NoAnswer::Refused(body) if body.error_code >= 500 => Exit::Unreachable,
            NoAnswer::Refused(_) => Exit::Failed,
        }
    }

    /// Whether it says that there is no such thing.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, NoAnswer::Refused(body) if body.error_code == 404)
    }
}

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoAnswer::Unreachable(what) => f.write_str(what),
            NoAnswer::Refused(body) => {
                write!(f, "{} ({}); {}", body.message, body.code, body.suggestion)
            }
        }
    }
}

/// What a wait came to.
#[derive(Debug)]
pub enum Waited<T> {
    /// It may go on.
    Open(T),
    /// Still blocked when the time was up; the last answer, if it was one about the thing itself.
    Blocked(Option<T>),
}

/// A client of one worker.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    server: String,
}

/// One part of a path, with everything encoded that a path could mistake: dots too, because `..`
/// would climb.
#[must_use]
pub fn segment(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// A parameter of a query, if it is given.
#[must_use]
pub fn parameter(name: &str, value: Option<&str>) -> String {
    value.map_or_else(String::new, |value| format!("{name}={}&", segment(value)))
}

impl Client {
    /// A client of the worker at `server`.
    ///
    /// # Errors
    /// If the HTTP client cannot be made.
    pub fn new(server: &str) -> Result<Client, NoAnswer> {
        let http = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(5))
            .build()
            .map_err(|error| NoAnswer::Unreachable(format!("no HTTP client: {error}")))?;
        Ok(Client { http, server: server.trim_end_matches('/').to_owned() })
    }

    /// Asks a path.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, NoAnswer> {
        self.answer(self.http.get(self.url(path)).timeout(ANSWER)).await
    }

    /// Sends a body to a path.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl serde::Serialize,
    ) -> Result<T, NoAnswer> {
        self.answer(self.http.post(self.url(path)).json(body).timeout(ANSWER)).await
    }

    /// Asks a path until `open` says so, for at most `timeout`. A worker that can't be reached is
    /// tried again until then; it is *blocked* only if the last answer said so.
    ///
    /// # Errors
    /// [`NoAnswer`] if the last try got none, or one that waiting does not change.
    pub async fn wait<T: DeserializeOwned>(
        &self,
        path: &str,
        timeout: Duration,
        open: impl Fn(&T) -> bool,
    ) -> Result<Waited<T>, NoAnswer> {
        let until = Instant::now() + timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let slice = left.min(SLICE);
            let glue = if path.contains('?') { '&' } else { '?' };
            let asked = format!("{path}{glue}wait={}ms", slice.as_millis());
            let request = self.http.get(self.url(&asked)).timeout(slice + ANSWER);
            let answer = self.answer::<T>(request).await;
            let over = until.saturating_duration_since(Instant::now()).is_zero();
            match answer {
                Ok(answer) if open(&answer) => return Ok(Waited::Open(answer)),
                Ok(answer) if over => return Ok(Waited::Blocked(Some(answer))),
                Ok(_) => {}
                Err(none) if none.is_not_found() && over => return Ok(Waited::Blocked(None)),
                Err(none) if over => return Err(none),
                Err(none) if none.exit() == Exit::Failed && !none.is_not_found() => {
                    return Err(none);
                }
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server)
    }

    async fn answer<T: DeserializeOwned>(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<T, NoAnswer> {
        let unreachable = |error: reqwest::Error| {
            NoAnswer::Unreachable(format!(
                "no answer from {}: {error}; is the worker running there? Name it with --server",
                self.server
            ))
        };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let bytes = response.bytes().await.map_err(unreachable)?;
        if status.is_success() {
            return serde_json::from_slice(&bytes).map_err(|error| {
                let what =
                    format!("{} answered what this version does not know: {error}", self.server);
                NoAnswer::Unreachable(what)
            });
        }
        Err(NoAnswer::Refused(serde_json::from_slice(&bytes).unwrap_or_else(|_| ErrorBody {
            error_code: status.as_u16(),
            message: format!("{} answered {status}", self.server),
            code: "http".to_owned(),
            suggestion: "see that a cenotaph worker listens there".to_owned(),
        })))
    }
}
