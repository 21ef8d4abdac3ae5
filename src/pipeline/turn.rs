//! The pipeline's turn: due removals first, then a batch of changes, then a commit if one is due;
//! where there is nothing to do, it waits for whatever comes first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cenotaph_connector::{Connector, SettingsError};
use cenotaph_core::{DestinationNo, ObjectId, Position, TombstoneNo};
use tokio::sync::watch;

use super::backoff::Backoff;
use super::changes::{Applied, Lane};
use super::feed::Feed;
use super::late_writes::LateWrites;
use super::removals::{Removals, pick};
use super::session::{Lost, Session};
use super::settings::PipelineSettings;
use super::standing::{DestinationState, LaneName, LastError, Standing};
use crate::clock::Clock;
use crate::ledger::{Ledger, LedgerError};
use crate::metrics;
use crate::stop::Stop;

/// Makes a fresh connector, each time the destination is opened.
pub type MakeConnector =
    Box<dyn Fn() -> Result<Box<dyn Connector>, SettingsError> + Send + Sync + 'static>;

/// The most records of one `apply`: between two, a due removal gets its turn.
const SLICE_RECORDS: usize = 500;

/// The longest a pipeline sleeps: what nobody wakes it for (a back-off of one removal, a clock) is
/// seen by then.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// What a pipeline is wired to.
pub struct Wiring {
    /// The settings of its destination.
    pub settings: PipelineSettings,
    /// The ledger's number for it.
    pub number: DestinationNo,
    /// Makes its connector.
    pub make: MakeConnector,
    /// The ledger.
    pub ledger: Ledger,
    /// Where its changes come from.
    pub feed: Feed,
    /// How it stands, for the API.
    pub standing: Arc<Standing>,
    /// Says when to stop.
    pub stop: Stop,
    /// The clock.
    pub clock: Clock,
}

/// One destination's pipeline.
pub struct Pipeline {
    wiring: Wiring,
    /// The highest tombstone that was ever taken up.
    seen: u64,
    /// How many changes a commit holds, so that it stays below `max_commit`.
    commit_records: usize,
    removals_wait: Option<Instant>,
    removals_backoff: Backoff,
    changes_wait: Option<Instant>,
    changes_backoff: Backoff,
    /// When positions that are held back are looked at again, if nothing else brings it up.
    owed_due: Instant,
    /// Where the last look at them broke off.
    owed_after: Option<Position>,
}

impl Pipeline {
    /// A pipeline that has not begun.
    #[must_use]
    pub fn new(wiring: Wiring) -> Pipeline {
        let backoff = Backoff::new(wiring.settings.retry_initial, wiring.settings.retry_max);
        let commit_records = wiring.settings.max_records;
        Pipeline {
            wiring,
            seen: 0,
            commit_records,
            removals_wait: None,
            removals_backoff: backoff.clone(),
            changes_wait: None,
            changes_backoff: backoff,
            owed_due: Instant::now(),
            owed_after: None,
        }
    }

    /// Runs until told to stop: opens the destination, works, and opens it again after a failure.
    /// A deletion is never dropped on the way, however often this happens.
    ///
    /// # Errors
    /// [`LedgerError`] if the ledger has stopped: there is nothing left to work for.
    pub async fn run(&mut self) -> Result<(), LedgerError> {
        let mut reopen =
            Backoff::new(self.wiring.settings.retry_initial, self.wiring.settings.retry_max);
        while !self.wiring.stop.is_set() {
            let begun = Instant::now();
            let Err(lost) = self.session().await else { break };
            if let Lost::Ledger(error) = &lost
                && error.ends_the_ledger()
            {
                self.ended(DestinationState::Stopped, &lost);
                return Err(error.clone());
            }
            if begun.elapsed() > self.wiring.settings.retry_max {
                reopen.reset();
            }
            self.failed(&lost);
            self.sleep_until(Instant::now() + reopen.delay()).await;
        }
        self.wiring.standing.enter(DestinationState::Stopped);
        Ok(())
    }

    /// The connector panicked: its session is over. Waits as after any failure.
    pub async fn panicked(&mut self) {
        let fault = cenotaph_connector::Fault::uncertain(
            cenotaph_connector::Owner::Cenotaph,
            "the connector panicked",
            "report this with the log's lines before it",
        );
        self.failed(&Lost::Fault(fault));
        let delay = self.changes_backoff.delay();
        self.sleep_until(Instant::now() + delay).await;
    }

    /// One session, from opening to the end or to a failure.
    async fn session(&mut self) -> Result<(), Lost> {
        self.wiring.feed.rewind();
        let connector = (self.wiring.make)().map_err(|error| {
            let advice = "mend the destination's TOML and start the worker again";
            cenotaph_connector::Fault::retriable(
                cenotaph_connector::Owner::Operator,
                error.to_string(),
                advice,
            )
        })?;
        let Wiring { number, ledger, standing, .. } = &self.wiring;
        let mut session = Session::open(connector, *number, ledger, standing).await?;
        standing.opened(session.capabilities);
        let mut late = LateWrites::new(
            session.capabilities.fence,
            self.wiring.settings.settle,
            session.after_unclean_stop,
        );
        let mut revision = self.wiring.ledger.subscribe();
        self.try_owed(&mut session, &mut late, Owed::All).await?;
        while !self.wiring.stop.is_set() {
            revision.borrow_and_update();
            let removed = self.removals(&mut session, &mut late).await?;
            let changed = self.changes(&mut session, &mut late).await?;
            if !session.owed.is_empty() && self.owed_due <= Instant::now() {
                self.try_owed(&mut session, &mut late, Owed::HeldOrOf(&[])).await?;
            }
            if session.owed.is_empty() {
                // Nothing of that lane is left to fail.
                self.wiring.standing.lane_worked(LaneName::Owed);
            }
            let behind = changed && self.wiring.feed.has_more();
            self.commit_if_due(&mut session, behind).await?;
            if !removed && !changed {
                self.wait(&session, &mut revision).await;
            }
        }
        session.commit(&self.wiring.ledger, &self.wiring.standing).await?;
        self.wiring.standing.begin_call("close");
        let closed = session.connector.close().await;
        self.wiring.standing.end_call();
        closed.map_err(Lost::Fault)
    }

    /// Works on the removals that are due. Answers whether there were any.
    async fn removals(
        &mut self,
        session: &mut Session,
        late: &mut LateWrites,
    ) -> Result<bool, Lost> {
        if self.removals_wait.is_some_and(|until| until > Instant::now()) {
            return Ok(false);
        }
        let limit = session.capabilities.max_batch_removals.clamp(1, 2_000);
        let now = Instant::now();
        let standing = Arc::clone(&self.wiring.standing);
        let numbers = self.wiring.ledger.with_pending(self.wiring.number, |pending| {
            pick(pending, self.seen, limit, |number| standing.is_due(number, now))
        });
        if numbers.is_empty() {
            return Ok(false);
        }
        self.seen = numbers.iter().copied().fold(self.seen, u64::max);
        let lane = Removals {
            settings: &self.wiring.settings,
            ledger: &self.wiring.ledger,
            standing: &self.wiring.standing,
            clock: &self.wiring.clock,
        };
        let turn = lane.turn(session, late, &numbers).await?;
        if turn.confirmed == 0 && (turn.faulted || standing.is_full()) {
            self.removals_wait = Some(Instant::now() + self.removals_backoff.delay());
            if turn.faulted {
                self.lane_failed(LaneName::Removals, REMOVALS_FAIL.to_owned(), "destination");
            }
        } else if turn.confirmed > 0 {
            self.removals_backoff.reset();
            self.removals_wait = None;
            standing.lane_worked(LaneName::Removals);
            // What was planned before these were removed is planned anew; what was held for them
            // may go.
            let removed = self.objects_of(&numbers)?;
            self.try_owed(session, late, Owed::HeldOrOf(&removed)).await?;
        }
        Ok(turn.confirmed > 0)
    }

    fn objects_of(&self, numbers: &[u64]) -> Result<Vec<ObjectId>, LedgerError> {
        let object = |number: &u64| {
            let named = self.wiring.ledger.tombstone(TombstoneNo(*number))?;
            Ok(named.tombstone.key.object)
        };
        numbers.iter().map(object).collect()
    }

    /// Works on the next batch of changes. Answers whether there was one.
    async fn changes(
        &mut self,
        session: &mut Session,
        late: &mut LateWrites,
    ) -> Result<bool, Lost> {
        if self.changes_wait.is_some_and(|until| until > Instant::now()) {
            return Ok(false);
        }
        self.changes_wait = None;
        let slice = SLICE_RECORDS.min(self.wiring.settings.max_records);
        let records = slice.min(session.capabilities.max_batch_records).max(1);
        let bytes = self.wiring.settings.max_bytes.min(session.capabilities.max_batch_bytes).max(1);
        let batch = match self.wiring.feed.next(&session.applied, records, bytes) {
            Ok(Some(batch)) => batch,
            Ok(None) => {
                self.wiring.standing.lane_worked(LaneName::Changes);
                return Ok(false);
            }
            Err(fault) => {
                self.changes_failed(fault.to_string(), "operator");
                return Ok(false);
            }
        };
        let lane = self.lane();
        match lane.apply(session, late, &batch).await {
            Applied::All { sent } => {
                session.applied.insert(batch.partition, batch.cursor);
                session.wrote(0, 0);
                self.wiring.feed.pass(&batch);
                self.changes_backoff.reset();
                self.wiring.standing.lane_worked(LaneName::Changes);
                metrics::sent(&self.wiring.settings.name, sent as u64);
                Ok(true)
            }
            Applied::Again(fault) => {
                self.wiring.feed.put_back(batch);
                self.changes_failed(fault.to_string(), fault.owner.word());
                Ok(false)
            }
            Applied::Full => {
                self.wiring.feed.put_back(batch);
                self.changes_failed(
                    "no place for another owed position: the destination refuses too many \
                     changes; resolve what it has parked"
                        .to_owned(),
                    "operator",
                );
                Ok(false)
            }
        }
    }

    /// Reads owed positions again: those held back for a removal that may be confirmed now, and,
    /// after a restart, those that were parked.
    async fn try_owed(
        &mut self,
        session: &mut Session,
        late: &mut LateWrites,
        which: Owed<'_>,
    ) -> Result<(), Lost> {
        self.owed_due = Instant::now() + self.wiring.settings.retry_max.min(OWED_EVERY);
        let standing = Arc::clone(&self.wiring.standing);
        let wanted = |position: &Position| match (which, standing.parked_object(*position)) {
            (Owed::All, _) | (_, None) => true,
            (Owed::HeldOrOf(removed), Some(object)) => removed.contains(&object),
        };
        let after = if which == Owed::HeldOrOf(&[]) { self.owed_after.take() } else { None };
        let rest = |position: &Position| after.is_none_or(|after| *position > after);
        let positions: Vec<_> = session.owed.iter().copied().filter(rest).filter(wanted).collect();
        let begun = Instant::now();
        let mut failed = None;
        for (at, &position) in positions.iter().enumerate() {
            if at > 0 && begun.elapsed() > LONGEST_OWED_TURN {
                // A due removal comes before the rest. It is looked at in the next turns, also what
                // was parked.
                positions[at..].iter().for_each(|position| standing.unpark(*position));
                self.owed_after = positions.get(at - 1).copied();
                self.owed_due = Instant::now();
                break;
            }
            match self.wiring.feed.owed(position) {
                Ok(Some(batch)) => {
                    let held_before = session.owed.len();
                    session.owed.remove(&position);
                    match self.lane().apply(session, late, &batch).await {
                        Applied::All { .. } => {}
                        Applied::Again(fault) => {
                            session.owed.insert(position);
                            // Tried again as if it had never been parked.
                            standing.unpark(position);
                            failed = Some((fault.to_string(), fault.owner.word()));
                        }
                        Applied::Full => {
                            session.owed.insert(position);
                        }
                    }
                    if session.owed.len() < held_before {
                        self.wiring.standing.unpark(position);
                    }
                    session.wrote(0, 0);
                }
                Ok(None) => {}
                Err(error) => failed = Some((error.to_string(), "operator")),
            }
        }
        match failed {
            Some((message, owner)) => self.lane_failed(LaneName::Owed, message, owner),
            None if !positions.is_empty() => standing.lane_worked(LaneName::Owed),
            None => {}
        }
        Ok(())
    }

    /// Commits once enough was applied, or the oldest has waited long enough. A due removal does not
    /// wait for this: it commits by itself.
    async fn commit_if_due(&mut self, session: &mut Session, behind: bool) -> Result<(), Lost> {
        let full = session.changes_since_commit() >= self.commit_records
            || session.bytes_since_commit() >= MAX_COMMIT_BYTES;
        if full || !behind {
            session.tell_backlog(behind);
        }
        let Some(waiting) = session.waiting() else { return Ok(()) };
        let longest = if behind { LONGEST_UNCOMMITTED } else { self.wiring.settings.max_wait };
        if !full && waiting < longest {
            return Ok(());
        }
        let records = session.changes_since_commit();
        let took = session.commit(&self.wiring.ledger, &self.wiring.standing).await?;
        metrics::committed(&self.wiring.settings.name, took);
        self.adapt(records, took);
        Ok(())
    }

    fn adapt(&mut self, records: usize, took: Duration) {
        let max_commit = self.wiring.settings.max_commit;
        self.commit_records = adapted(self.commit_records, records, took, max_commit);
    }

    fn lane(&self) -> Lane<'_> {
        Lane {
            settings: &self.wiring.settings,
            ledger: &self.wiring.ledger,
            standing: &self.wiring.standing,
        }
    }

    fn changes_failed(&mut self, message: String, owner: &'static str) {
        self.changes_wait = Some(Instant::now() + self.changes_backoff.delay());
        self.lane_failed(LaneName::Changes, message, owner);
    }

    fn lane_failed(&self, lane: LaneName, message: String, owner: &'static str) {
        let at_ms = self.wiring.clock.now_ms();
        self.wiring.standing.lane_failed(lane, LastError { message, owner, at_ms });
    }

    fn failed(&self, lost: &Lost) {
        let owner = owner_of(lost);
        let name = &self.wiring.settings.name;
        tracing::error!(destination = %name, owner, error = %lost, "the destination failed");
        self.ended(DestinationState::Failed, lost);
    }

    fn ended(&self, state: DestinationState, lost: &Lost) {
        let at_ms = self.wiring.clock.now_ms();
        let error = LastError { message: lost.to_string(), owner: owner_of(lost), at_ms };
        self.wiring.standing.failed(state, error);
    }

    /// Sleeps until the ledger shows something new, or the next thing is due.
    async fn wait(&mut self, session: &Session, revision: &mut watch::Receiver<u64>) {
        let now = Instant::now();
        let commit_due = session
            .waiting()
            .map(|waiting| now + self.wiring.settings.max_wait.saturating_sub(waiting));
        let wake = [
            commit_due,
            self.removals_wait.filter(|at| *at > now),
            self.changes_wait.filter(|at| *at > now),
            self.wiring.standing.earliest_due().filter(|at| *at > now),
            (!session.owed.is_empty()).then_some(self.owed_due).filter(|at| *at > now),
        ];
        let until = wake.into_iter().flatten().min().unwrap_or(now + LONGEST_SLEEP);
        let until = until.min(now + LONGEST_SLEEP);
        tokio::select! {
            biased;
            () = self.wiring.stop.given() => {}
            _ = revision.changed() => {}
            () = tokio::time::sleep_until(until.into()) => {}
        }
    }

    async fn sleep_until(&mut self, until: Instant) {
        tokio::select! {
            biased;
            () = self.wiring.stop.given() => {}
            () = tokio::time::sleep_until(until.into()) => {}
        }
    }
}

fn owner_of(lost: &Lost) -> &'static str {
    match lost {
        Lost::Fault(fault) => fault.owner.word(),
        Lost::Ledger(_) => "operator",
    }
}

/// How many records the next commit may hold after one of `records` took this long: as many as would
/// take four fifths of `max_commit`, at most four times as many as before. What was not full says
/// nothing of larger ones.
fn adapted(limit: usize, records: usize, took: Duration, max_commit: Duration) -> usize {
    if took <= max_commit && records < limit {
        return limit;
    }
    let factor = 0.8 * max_commit.as_secs_f64() / took.as_secs_f64().max(0.001);
    let next = limit as f64 * factor.clamp(0.5, 4.0);
    (next as usize).clamp(SLICE_RECORDS, MAX_COMMIT_RECORDS)
}

/// Which owed positions are read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed<'a> {
    /// All: a destination that was opened anew may take what it refused.
    All,
    /// Those that are held back for a removal, or for a request of unknown outcome; and those that
    /// are parked, if their object was removed: that settles them.
    HeldOrOf(&'a [ObjectId]),
}

/// Each removal tells its own error.
const REMOVALS_FAIL: &str = "no removal of the last attempt was confirmed; each of them says why: \
     see the deletions that wait for this destination";

/// How long owed positions are worked on before a due removal gets its turn.
const LONGEST_OWED_TURN: Duration = Duration::from_millis(100);

/// How often positions that are held back are looked at again.
const OWED_EVERY: Duration = Duration::from_secs(1);

/// How long the oldest change waits for its commit at most while more are applied. A commit can be
/// cheap however much came before it; what is not committed is not visible, and applied again after
/// a crash.
const LONGEST_UNCOMMITTED: Duration = Duration::from_secs(10);

/// The most payload bytes of one commit: a connector may hold them until then.
const MAX_COMMIT_BYTES: usize = 64 << 20;

/// The most changes of one commit: what a connector may keep of each until then is bounded by it.
const MAX_COMMIT_RECORDS: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_took_too_long_holds_less_and_a_full_one_that_left_room_holds_more() {
        let max = Duration::from_millis(500);
        let took = |ms, records| adapted(8_000, records, Duration::from_millis(ms), max);
        assert_eq!(took(800, 100), 4_000);
        assert_eq!(took(9_000, 100), 4_000, "once may be chance");
        assert_eq!(took(400, 8_000), 8_000);
        assert_eq!(took(200, 8_000), 16_000);
        assert_eq!(took(1, 8_000), 32_000);
        assert_eq!(took(200, 7_999), 8_000, "it says nothing of larger ones");
        let most = MAX_COMMIT_RECORDS;
        assert_eq!(adapted(most, most, max / 9, max), most);
        assert_eq!(adapted(SLICE_RECORDS, 10, max * 9, max), SLICE_RECORDS);
    }
}
