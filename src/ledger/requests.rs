//! How long, and how many of one key, deletion requests that changed nothing are remembered: a repeat
//! of one that was forgotten is decided by its version alone, which refuses it all the same.

use std::time::Duration;

use cenotaph_core::RequestNote;

/// The most of one key; the oldest go.
const MOST_OF_A_KEY: usize = 256;

/// The bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestsKept {
    for_ms: i64,
}

impl RequestsKept {
    /// Each for so long.
    #[must_use]
    pub fn each_for(duration: Duration) -> RequestsKept {
        RequestsKept { for_ms: i64::try_from(duration.as_millis()).unwrap_or(i64::MAX) }
    }

    /// Takes a request in behind those before it; one that is there already changes nothing.
    pub(super) fn add(self, requests: &mut Vec<RequestNote>, request: &RequestNote) {
        if requests.iter().all(|known| known.event != request.event) {
            requests.push(request.clone());
            self.cut(requests, request.at_ms);
        }
    }

    /// Those that are too old by now go, then the oldest.
    pub(super) fn cut(self, requests: &mut Vec<RequestNote>, now_ms: i64) {
        requests.retain(|request| request.at_ms >= now_ms.saturating_sub(self.for_ms));
        let excess = requests.len().saturating_sub(MOST_OF_A_KEY);
        requests.drain(..excess);
    }
}

/// 90 days.
impl Default for RequestsKept {
    fn default() -> RequestsKept {
        RequestsKept::each_for(Duration::from_secs(90 * 86_400))
    }
}

#[cfg(test)]
mod tests {
    use cenotaph_core::{EventHash, Fingerprint, Generation, KeyHash, ObjectId, RequestOutcome};

    use super::*;

    fn request(number: u16, at_ms: i64) -> RequestNote {
        let mut event = [0; 16];
        event[..2].copy_from_slice(&number.to_le_bytes());
        RequestNote {
            key: KeyHash { object: ObjectId::default(), generation: Generation::FIRST },
            event: EventHash(event),
            fingerprint: Fingerprint([1; 16]),
            outcome: RequestOutcome::Satisfied,
            tombstone: None,
            at_ms,
        }
    }

    #[test]
    fn the_oldest_go_by_age_and_by_number() {
        let kept = RequestsKept::each_for(Duration::from_secs(10));
        let mut requests = Vec::new();
        for number in 0..300 {
            kept.add(&mut requests, &request(number, 0));
        }
        assert_eq!(requests.len(), MOST_OF_A_KEY);
        assert_eq!(requests.last(), Some(&request(299, 0)));
        assert_eq!(requests.first(), Some(&request(44, 0)));
        kept.add(&mut requests, &request(299, 5_000));
        assert_eq!(requests.len(), MOST_OF_A_KEY, "it is known");
        kept.add(&mut requests, &request(300, 10_000));
        assert_eq!(requests.len(), MOST_OF_A_KEY, "none is older than ten seconds");
        kept.add(&mut requests, &request(301, 10_001));
        assert_eq!(requests, [request(300, 10_000), request(301, 10_001)]);
        kept.cut(&mut requests, 20_001);
        assert_eq!(requests, [request(301, 10_001)]);
    }
}
