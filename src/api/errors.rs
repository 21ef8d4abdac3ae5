//! One shape for every error.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::types::ErrorBody;
use crate::ledger::LedgerError;

/// An error as the API answers it.
#[derive(Debug, Clone)]
pub struct ApiError {
    status: StatusCode,
    body: ErrorBody,
}

impl ApiError {
    /// An error with a stable code, what happened and what to do.
    #[must_use]
    pub fn new(
        status: StatusCode,
        code: &str,
        message: impl Into<String>,
        suggestion: impl Into<String>,
    ) -> ApiError {
        let body = ErrorBody {
            error_code: status.as_u16(),
            message: message.into(),
            code: code.to_owned(),
            suggestion: suggestion.into(),
        };
        ApiError { status, body }
    }

    /// The request itself is wrong.
    #[must_use]
    pub fn bad_request(message: impl Into<String>, suggestion: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "request.invalid", message, suggestion)
    }
}

impl From<LedgerError> for ApiError {
    fn from(error: LedgerError) -> ApiError {
        let suggestion = "see the worker's log and `cenotaph status`";
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ledger.unavailable",
            error.to_string(),
            suggestion,
        )
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(self.body)).into_response()
    }
}
