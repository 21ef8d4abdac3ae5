//! How a destination stands, for whoever asks: written by its pipeline, read by the API.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use cenotaph_connector::{Capabilities, Class, Fault};
use cenotaph_core::{ObjectId, Position};
use parking_lot::Mutex;

/// The state of a destination, in Kafka Connect's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DestinationState {
    /// Working.
    Running,
    /// Opening, or waiting to open again after a failure.
    Restarting,
    /// Opened once, and cannot work now.
    Failed,
    /// Not running, because somebody or the end of the process said so.
    Stopped,
    /// Not running, because its file does not name every collection that it is attached to.
    Unassigned,
}

impl DestinationState {
    /// The state's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            DestinationState::Running => "RUNNING",
            DestinationState::Restarting => "RESTARTING",
            DestinationState::Failed => "FAILED",
            DestinationState::Stopped => "STOPPED",
            DestinationState::Unassigned => "UNASSIGNED",
        }
    }
}

/// A part of a destination's work that fails or works by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LaneName {
    /// New changes.
    Changes,
    /// Changes that were held back or parked.
    Owed,
    /// Removals and looks.
    Removals,
}

impl LaneName {
    /// Every lane.
    pub const ALL: [LaneName; 3] = [LaneName::Changes, LaneName::Owed, LaneName::Removals];

    /// The lane's word in answers and metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            LaneName::Changes => "changes",
            LaneName::Owed => "owed",
            LaneName::Removals => "removals",
        }
    }
}

/// A lane that has not worked since it failed.
#[derive(Debug, Clone)]
pub struct Failing {
    /// Which.
    pub lane: LaneName,
    /// How often in a row.
    pub attempts: u32,
    /// What the last attempt met.
    pub error: LastError,
}

/// A lane that failed so often in a row is not only busy: its destination does not run.
const FAILED_AFTER: u32 = 3;

/// Where a tombstone stands at one destination that owes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalState {
    /// Not tried yet, or waiting for its next attempt.
    Pending,
    /// The delete was acknowledged; the look has not confirmed it.
    Acknowledged,
    /// A request has an unknown outcome.
    Uncertain,
    /// The last attempt failed.
    Failed,
}

impl RemovalState {
    /// The state's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            RemovalState::Pending => "PENDING",
            RemovalState::Acknowledged => "ACKNOWLEDGED",
            RemovalState::Uncertain => "UNCERTAIN",
            RemovalState::Failed => "FAILED",
        }
    }
}

/// The attempts at one removal.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// How many.
    pub attempts: u32,
    /// Not before this.
    pub next_due: Instant,
    /// Where it stands.
    pub state: RemovalState,
    /// What the last one met.
    pub last_error: Option<String>,
}

/// A change that the destination can never take.
#[derive(Debug, Clone)]
pub struct Parked {
    /// Where it stands in the stream.
    pub position: Position,
    /// Its object.
    pub object: ObjectId,
    /// Why; never content.
    pub reason: String,
    /// Who can mend it.
    pub owner: &'static str,
}

/// The last thing that went wrong.
#[derive(Debug, Clone)]
pub struct LastError {
    /// What happened, and what to do.
    pub message: String,
    /// Who can mend it.
    pub owner: &'static str,
    /// When, milliseconds since 1970.
    pub at_ms: i64,
}

/// The most removals whose attempts are told one by one.
const MAX_TRACKED_ATTEMPTS: usize = 10_000;

/// How a destination stands.
#[derive(Debug)]
pub struct Standing {
    inner: Mutex<Inner>,
}

#[derive(Debug, Clone)]
struct Inner {
    state: DestinationState,
    capabilities: Option<Capabilities>,
    last_error: Option<LastError>,
    failing: Vec<Failing>,
    in_call: Option<(&'static str, Instant)>,
    attempts: HashMap<u64, Attempt>,
    parked: Vec<Parked>,
}

/// What the API shows of it.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The state.
    pub state: DestinationState,
    /// What the connector can do, once it was opened.
    pub capabilities: Option<Capabilities>,
    /// The last error since it was opened, or since the lane that met it last worked.
    pub last_error: Option<LastError>,
    /// The lanes that have not worked since they failed.
    pub failing: Vec<Failing>,
    /// The call under way, and for how long.
    pub in_call: Option<(&'static str, Duration)>,
    /// Changes that it can never take.
    pub parked: Vec<Parked>,
}

impl Inner {
    /// Never *running* while a part of it has failed.
    fn state(&self) -> DestinationState {
        let failed = self.failing.iter().any(|failing| failing.attempts >= FAILED_AFTER);
        match self.state {
            DestinationState::Running if failed => DestinationState::Failed,
            state => state,
        }
    }

    /// The newest: the lane that failed last stands last.
    fn last_error(&self) -> Option<&LastError> {
        self.last_error.as_ref().or_else(|| self.failing.last().map(|failing| &failing.error))
    }
}

impl Default for Standing {
    fn default() -> Standing {
        Standing {
            inner: Mutex::new(Inner {
                state: DestinationState::Restarting,
                capabilities: None,
                last_error: None,
                failing: Vec::new(),
                in_call: None,
                attempts: HashMap::new(),
                parked: Vec::new(),
            }),
        }
    }
}

impl Standing {
    /// For the API.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let inner = self.inner.lock();
        Snapshot {
            state: inner.state(),
            capabilities: inner.capabilities,
            last_error: inner.last_error().cloned(),
            failing: inner.failing.clone(),
            in_call: inner.in_call.map(|(call, since)| (call, since.elapsed())),
            parked: inner.parked.clone(),
        }
    }

    /// The attempts at one removal, if there were any.
    #[must_use]
    pub fn attempt(&self, tombstone: u64) -> Option<Attempt> {
        self.inner.lock().attempts.get(&tombstone).cloned()
    }

    pub(super) fn enter(&self, state: DestinationState) {
        self.inner.lock().state = state;
    }

    pub(super) fn opened(&self, capabilities: Capabilities) {
        let mut inner = self.inner.lock();
        inner.capabilities = Some(capabilities);
        inner.state = DestinationState::Running;
        inner.last_error = None;
    }

    /// It is not run, and why.
    pub fn unassigned(&self, error: LastError) {
        self.failed(DestinationState::Unassigned, error);
    }

    pub(super) fn failed(&self, state: DestinationState, error: LastError) {
        let mut inner = self.inner.lock();
        inner.state = state;
        inner.last_error = Some(error);
    }

    /// A lane failed. What another lane does meanwhile says nothing about it.
    pub(super) fn lane_failed(&self, lane: LaneName, error: LastError) {
        let mut inner = self.inner.lock();
        let before = inner.failing.iter().position(|failing| failing.lane == lane);
        let attempts = before.map_or(0, |at| inner.failing.remove(at).attempts) + 1;
        inner.failing.push(Failing { lane, attempts, error });
    }

    /// That very lane has worked.
    pub(super) fn lane_worked(&self, lane: LaneName) {
        self.inner.lock().failing.retain(|failing| failing.lane != lane);
    }

    pub(super) fn begin_call(&self, call: &'static str) {
        self.inner.lock().in_call = Some((call, Instant::now()));
    }

    pub(super) fn end_call(&self) {
        self.inner.lock().in_call = None;
    }

    pub(super) fn is_due(&self, tombstone: u64, now: Instant) -> bool {
        self.inner.lock().attempts.get(&tombstone).is_none_or(|attempt| attempt.next_due <= now)
    }

    /// Whether no further removal can be told one by one: the lane must wait as a whole.
    pub(super) fn is_full(&self) -> bool {
        self.inner.lock().attempts.len() >= MAX_TRACKED_ATTEMPTS
    }

    /// When the earliest of the tracked removals is due again.
    pub(super) fn earliest_due(&self) -> Option<Instant> {
        self.inner.lock().attempts.values().map(|attempt| attempt.next_due).min()
    }

    pub(super) fn attempts_at(&self, tombstone: u64) -> u32 {
        self.inner.lock().attempts.get(&tombstone).map_or(0, |attempt| attempt.attempts)
    }

    /// Another attempt ended without a confirmation. Above the bound it is only counted with the
    /// lane's own back-off: it stays pending either way.
    pub(super) fn attempted(
        &self,
        tombstone: u64,
        state: RemovalState,
        error: Option<String>,
        delay: impl FnOnce(u32) -> Duration,
    ) {
        let mut inner = self.inner.lock();
        if inner.attempts.len() >= MAX_TRACKED_ATTEMPTS && !inner.attempts.contains_key(&tombstone)
        {
            return;
        }
        let attempts = inner.attempts.get(&tombstone).map_or(0, |attempt| attempt.attempts) + 1;
        let next_due = Instant::now() + delay(attempts);
        inner.attempts.insert(tombstone, Attempt { attempts, next_due, state, last_error: error });
    }

    pub(super) fn confirmed(&self, tombstone: u64) {
        self.inner.lock().attempts.remove(&tombstone);
    }

    pub(super) fn park(&self, parked: Parked) {
        let mut inner = self.inner.lock();
        inner.parked.retain(|known| known.position != parked.position);
        inner.parked.push(parked);
    }

    /// The object of a parked change, if the one at this position is parked.
    pub(super) fn parked_object(&self, position: Position) -> Option<ObjectId> {
        let inner = self.inner.lock();
        inner.parked.iter().find(|known| known.position == position).map(|known| known.object)
    }

    pub(super) fn unpark(&self, position: Position) {
        self.inner.lock().parked.retain(|known| known.position != position);
    }
}

/// The state that a failed removal is in.
#[must_use]
pub(super) fn removal_state(fault: &Fault) -> RemovalState {
    match fault.class {
        Class::Uncertain => RemovalState::Uncertain,
        Class::Retriable | Class::Terminal => RemovalState::Failed,
    }
}
