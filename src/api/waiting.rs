//! Long polls: a question is asked again each time the ledger shows something new, until its answer
//! says *go on* or the time is up.

use std::time::{Duration, Instant};

use axum::http::StatusCode;

use super::Context;
use super::errors::ApiError;

/// Between two looks of one waiter, however much the ledger shows.
const AT_MOST_EVERY: Duration = Duration::from_millis(5);

/// What changes without the ledger showing it (ages, attempts) is seen by then.
const AT_LEAST_EVERY: Duration = Duration::from_millis(500);

/// Asks until `done`, for at most `wait`; answers the last answer either way.
pub(super) async fn until<T>(
    context: &Context,
    wait: Duration,
    ask: impl Fn() -> Result<T, ApiError>,
    done: impl Fn(&T) -> bool,
) -> Result<T, ApiError> {
    let mut revision = context.running.ledger.subscribe();
    let mut answer = ask()?;
    if wait.is_zero() || done(&answer) {
        return Ok(answer);
    }
    let Ok(_waiter) = context.waiters.try_acquire() else {
        return Err(ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "api.too_many_waiters",
            "too many requests are waiting",
            "ask again later, or raise api.max_waiters",
        ));
    };
    let until = Instant::now() + wait.min(context.max_wait);
    let mut stop = context.stop.clone();
    while !done(&answer) && Instant::now() < until {
        let nap = until.min(Instant::now() + AT_LEAST_EVERY);
        tokio::select! {
            () = stop.given() => return Ok(answer),
            _ = revision.changed() => tokio::time::sleep(AT_MOST_EVERY).await,
            () = tokio::time::sleep_until(nap.into()) => {}
        }
        revision.borrow_and_update();
        answer = ask()?;
    }
    Ok(answer)
}
