//! The time of day. Decisions never ask for it; it is written beside them.

use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the time of day.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock;

impl Clock {
    /// Milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}
