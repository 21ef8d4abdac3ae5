//! Which keys a write of ours could still land on, so that a look would prove nothing yet.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use cenotaph_connector::Fence;
use cenotaph_core::ObjectId;

/// The most keys told one by one; above it, every key waits.
const MAX_KEYS: usize = 10_000;

/// Requests of unknown outcome, by the key they could still write.
#[derive(Debug)]
pub struct LateWrites {
    fenced: bool,
    settle: Duration,
    keys: HashMap<ObjectId, Instant>,
    every_key_until: Option<Instant>,
}

impl LateWrites {
    /// For a destination with this fence. After an unclean stop, every key of a store without a
    /// fence counts from now.
    #[must_use]
    pub fn new(fence: Fence, settle: Duration, after_unclean_stop: bool) -> LateWrites {
        let fenced = match fence {
            Fence::InProcess | Fence::Forever => true,
            Fence::For(length) => length >= settle,
            Fence::None => false,
        };
        let every_key_until = (after_unclean_stop && !fenced).then(|| Instant::now() + settle);
        LateWrites { fenced, settle, keys: HashMap::new(), every_key_until }
    }

    /// How long a request of unknown outcome may still be under way.
    #[must_use]
    pub fn settle(&self) -> Duration {
        if self.fenced { Duration::ZERO } else { self.settle }
    }

    /// A request about this key has an unknown outcome.
    pub fn unknown_outcome(&mut self, object: ObjectId) {
        if self.fenced {
            return;
        }
        let until = Instant::now() + self.settle;
        self.keys.retain(|_, until| *until > Instant::now());
        if self.keys.len() < MAX_KEYS {
            self.keys.insert(object, until);
        } else {
            self.every_key_until = Some(until);
        }
    }

    /// Until when a write of this key may still land, if one may.
    #[must_use]
    pub fn possible_until(&self, object: &ObjectId) -> Option<Instant> {
        let now = Instant::now();
        let own = self.keys.get(object).copied();
        own.max(self.every_key_until).filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn a_fence_shorter_than_settle_is_none() {
        let object = ObjectId::default();
        for (fence, possible) in [
            (Fence::InProcess, false),
            (Fence::Forever, false),
            (Fence::For(LONG), false),
            (Fence::For(LONG / 2), true),
            (Fence::None, true),
        ] {
            let mut late = LateWrites::new(fence, LONG, false);
            assert_eq!(late.possible_until(&object), None, "{fence:?}: nothing was sent yet");
            late.unknown_outcome(object);
            assert_eq!(late.possible_until(&object).is_some(), possible, "{fence:?}");
            let unclean = LateWrites::new(fence, LONG, true);
            assert_eq!(unclean.possible_until(&object).is_some(), possible, "{fence:?}");
        }
    }

    #[test]
    fn one_keys_unknown_outcome_does_not_hold_another() {
        let mut late = LateWrites::new(Fence::None, LONG, false);
        late.unknown_outcome(ObjectId([1; 32]));
        assert_eq!(late.possible_until(&ObjectId([2; 32])), None);
    }
}
