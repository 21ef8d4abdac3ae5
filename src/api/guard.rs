//! Only who means this host is answered: a name that some page made point here is not it, and
//! neither is a page of another origin.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use super::errors::ApiError;

/// Refuses a request whose `Host` or `Origin` is not this machine's loopback.
pub(super) async fn same_host(request: Request, next: Next) -> Result<Response, ApiError> {
    check(request.headers())?;
    Ok(next.run(request).await)
}

/// Gives a request up that takes too long: one whose body stays away, most of all.
pub(super) async fn within(
    State(longest): State<Duration>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    tokio::time::timeout(longest, next.run(request)).await.map_err(|_| {
        let message = format!("the request took longer than {} s", longest.as_secs());
        let suggestion = "send the whole body at once, and wait in shorter slices";
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "request.timeout", message, suggestion)
    })
}

fn check(headers: &HeaderMap) -> Result<(), ApiError> {
    let text = |name| match headers.get(name) {
        Some(value) => Some(value.to_str().unwrap_or("")),
        None => None,
    };
    let refused = |what: &str| {
        let message = format!("the {what} header names another host");
        ApiError::new(
            StatusCode::FORBIDDEN,
            "request.foreign",
            message,
            "ask by 127.0.0.1, [::1] or localhost, and not from a page of another origin",
        )
    };
    if !text(header::HOST).is_some_and(is_loopback) {
        return Err(refused("Host"));
    }
    match text(header::ORIGIN) {
        None => Ok(()),
        Some(origin) => {
            let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            if host.is_some_and(is_loopback) { Ok(()) } else { Err(refused("Origin")) }
        }
    }
}

/// Whether an authority (`host` or `host:port`) is loopback.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    matches!(host, "127.0.0.1" | "localhost" | "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_are_this_host() {
        for good in ["127.0.0.1", "127.0.0.1:8083", "localhost:1", "[::1]:8083", "[::1]"] {
            assert!(is_loopback(good), "{good}");
        }
        for bad in
            ["", "example.org", "127.0.0.1.example.org", "localhost.evil:80", "10.0.0.1", "::1"]
        {
            assert!(!is_loopback(bad), "{bad}");
        }
    }

    #[test]
    fn a_page_of_another_origin_is_refused() {
        let headers = |host: &str, origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            check(&headers).is_ok()
        };
        assert!(headers("localhost:8083", None));
        assert!(headers("localhost:8083", Some("http://localhost:8083")));
        assert!(!headers("localhost:8083", Some("http://evil.example")));
        assert!(!headers("localhost:8083", Some("null")));
        assert!(!headers("evil.example", None));
        assert!(check(&HeaderMap::new()).is_err(), "no Host at all");
    }
}
