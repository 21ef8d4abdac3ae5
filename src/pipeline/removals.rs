//! The removals lane: remove, commit, look, propose what was seen. A removal that fails stays
//! pending, however often it fails; only what the ledger judges confirmed leaves.

use std::time::{Duration, Instant};

use cenotaph_connector::{Finding as Seen, Look, Purge, Removal};
use cenotaph_core::decide::{Finding, Judgement, WaitReason};
use cenotaph_core::{Evidence, EvidenceLevel, TombstoneNo};
use roaring::RoaringTreemap;

use super::backoff::delay_after;
use super::late_writes::LateWrites;
use super::session::{Lost, Session};
use super::settings::PipelineSettings;
use super::standing::{RemovalState, Standing, removal_state};
use crate::clock::Clock;
use crate::ledger::state::numbers_from;
use crate::ledger::{Ledger, LookProposal, LookedAt, NamedTombstone};

/// The removals lane of one destination.
pub struct Removals<'a> {
    /// The settings of the destination.
    pub settings: &'a PipelineSettings,
    /// The ledger.
    pub ledger: &'a Ledger,
    /// How the destination stands.
    pub standing: &'a Standing,
    /// The clock.
    pub clock: &'a Clock,
}

/// What one turn of the lane did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Removals that are confirmed now.
    pub confirmed: usize,
    /// Removals that are still pending after this attempt.
    pub left: usize,
    /// A call failed: the destination itself may be unwell.
    pub faulted: bool,
}

/// One removal on its way to its confirmation.
struct Attempted {
    named: NamedTombstone,
    removal: Removal,
}

impl Attempted {
    fn number(&self) -> u64 {
        self.named.tombstone.number.0
    }
}

/// Which removals are due: fresh ones, above all that were taken before, then the backlog.
#[must_use]
pub fn pick(
    pending: &RoaringTreemap,
    seen: u64,
    limit: usize,
    is_due: impl Fn(u64) -> bool,
) -> Vec<u64> {
    let fresh = numbers_from(pending, seen.saturating_add(1));
    let backlog = pending.iter().take_while(|number| *number <= seen);
    let backlog = backlog.filter(|number| is_due(*number));
    fresh.chain(backlog).take(limit).collect()
}

impl Removals<'_> {
    /// Works on these tombstones.
    ///
    /// # Errors
    /// [`Lost`]: the session is over; everything stays pending.
    pub async fn turn(
        &self,
        session: &mut Session,
        late: &LateWrites,
        numbers: &[u64],
    ) -> Result<Turn, Lost> {
        let attempted = self.load(numbers)?;
        let removals: Vec<Removal> =
            attempted.iter().map(|attempt| attempt.removal.clone()).collect();
        self.standing.begin_call("remove");
        let outcomes = session.connector.remove(&removals).await;
        self.standing.end_call();
        session.wrote(0, 0);
        let mut acknowledged = Vec::with_capacity(attempted.len());
        let mut turn = Turn::default();
        for (attempt, outcome) in
            attempted.into_iter().zip(super::same_length(outcomes, removals.len()))
        {
            match outcome {
                Ok(()) => acknowledged.push(attempt),
                Err(fault) => {
                    turn.left += 1;
                    turn.faulted = true;
                    let delay = self.failure_delay(&fault, late);
                    let text = Some(fault.to_string());
                    self.standing.attempted(attempt.number(), removal_state(&fault), text, delay);
                }
            }
        }
        session.commit(self.ledger, self.standing).await?;
        if acknowledged.is_empty() {
            return Ok(turn);
        }
        let looked = self.look(session, &acknowledged).await;
        let proposal = match looked {
            Ok(look) => self.proposal(session, late, &acknowledged, look),
            Err(fault) => {
                for attempt in &acknowledged {
                    let text = Some(fault.to_string());
                    let delay = self.failure_delay(&fault, late);
                    self.standing.attempted(attempt.number(), removal_state(&fault), text, delay);
                }
                turn.left += acknowledged.len();
                turn.faulted = true;
                return Ok(turn);
            }
        };
        let judged = self.ledger.looked(proposal).await?;
        turn.confirmed = self.judged(late, &acknowledged, &judged);
        turn.left += acknowledged.len() - turn.confirmed;
        Ok(turn)
    }

    fn load(&self, numbers: &[u64]) -> Result<Vec<Attempted>, Lost> {
        let mut attempted = Vec::with_capacity(numbers.len());
        for number in numbers {
            let named = self.ledger.tombstone(TombstoneNo(*number))?;
            let removal = Removal { key: named.key.clone(), covers: named.tombstone.covers };
            attempted.push(Attempted { named, removal });
        }
        Ok(attempted)
    }

    /// A purge where one is asked for, then the look. Only a look confirms, and it is made after
    /// the commit that made the removals durable.
    async fn look(
        &self,
        session: &mut Session,
        attempted: &[Attempted],
    ) -> Result<Looked, cenotaph_connector::Fault> {
        let removals: Vec<Removal> = attempted.iter().map(|it| it.removal.clone()).collect();
        if self.settings.confirm == EvidenceLevel::Acknowledged
            || session.capabilities.evidence == EvidenceLevel::Acknowledged
        {
            return Ok(Looked { look: None, purged: vec![true; removals.len()] });
        }
        let mut purged = vec![true; removals.len()];
        if self.settings.confirm == EvidenceLevel::Purged {
            self.standing.begin_call("purge");
            let answers = session.connector.purge(&removals).await;
            self.standing.end_call();
            for (done, answer) in purged.iter_mut().zip(answers) {
                *done = matches!(answer, Ok(Purge::Purged));
            }
        }
        self.standing.begin_call("verify");
        let look = session.connector.verify(&removals, self.settings.confirm).await;
        self.standing.end_call();
        Ok(Looked { look: Some(look?), purged })
    }

    fn proposal(
        &self,
        session: &Session,
        late: &LateWrites,
        attempted: &[Attempted],
        looked: Looked,
    ) -> LookProposal {
        let level = looked.look.as_ref().map_or(EvidenceLevel::Acknowledged, |look| look.level);
        let seen = |index: usize| match &looked.look {
            None => Finding::Acknowledged,
            Some(look) => match look.findings.get(index) {
                Some(Seen::Gone) => Finding::Gone,
                Some(Seen::Present { oldest }) => Finding::Present { oldest: *oldest },
                Some(Seen::Unknown { .. }) | None => Finding::Unknown,
            },
        };
        let findings = attempted
            .iter()
            .enumerate()
            .map(|(index, attempt)| LookedAt {
                number: attempt.named.tombstone.number,
                finding: seen(index),
                reached: match looked.purged.get(index) {
                    Some(true) => level,
                    _ => level.min(EvidenceLevel::Absent),
                },
                late_write_possible: late
                    .possible_until(&attempt.named.tombstone.key.object)
                    .is_some(),
            })
            .collect();
        let attempts = attempted.iter().map(|it| self.standing.attempts_at(it.number()) + 1).max();
        let control = looked.look.as_ref().and_then(|look| look.control.as_ref());
        let evidence = Evidence {
            level,
            method: looked.look.as_ref().map_or("request accepted", |look| &look.method).into(),
            copies: looked.look.as_ref().map(|look| look.copies.clone()).unwrap_or_default(),
            looked_at_ms: self.clock.now_ms(),
            attempts: attempts.unwrap_or(1),
            control: control.map(cenotaph_core::Control::stamp),
        };
        LookProposal {
            destination: session.number(),
            epoch: session.epoch(),
            keeps_control: session.capabilities.control && looked.look.is_some(),
            removed_at: session.stamp(),
            required: self.settings.confirm,
            evidence,
            findings,
        }
    }

    fn judged(
        &self,
        late: &LateWrites,
        attempted: &[Attempted],
        judged: &[(TombstoneNo, Judgement)],
    ) -> usize {
        let mut confirmed = 0;
        for (attempt, (number, judgement)) in attempted.iter().zip(judged) {
            let error = match judgement {
                Judgement::Confirmed | Judgement::Waits(WaitReason::NotOwed) => {
                    confirmed += 1;
                    self.standing.confirmed(number.0);
                    continue;
                }
                Judgement::StillPresent => {
                    "the look found it still there after the delete was durable".to_owned()
                }
                Judgement::Waits(reason) => {
                    format!("the look does not count yet: {}", reason.word())
                }
            };
            let settles = late.possible_until(&attempt.named.tombstone.key.object);
            let delay = self.delay(settles);
            self.standing.attempted(number.0, RemovalState::Acknowledged, Some(error), delay);
        }
        confirmed
    }

    /// The delay before the next attempt: never before a write that may still land has settled.
    fn delay(&self, settles: Option<Instant>) -> impl FnOnce(u32) -> Duration + use<> {
        let (initial, max) = (self.settings.retry_initial, self.settings.retry_max);
        let settles = settles.map(|at| at.saturating_duration_since(Instant::now()));
        move |attempts| delay_after(attempts, initial, max).max(settles.unwrap_or_default())
    }

    /// After an unknown outcome the next look must not come before `settle`.
    fn failure_delay(
        &self,
        fault: &cenotaph_connector::Fault,
        late: &LateWrites,
    ) -> impl FnOnce(u32) -> Duration + use<> {
        let uncertain = fault.class == cenotaph_connector::Class::Uncertain;
        let settles = uncertain.then(|| Instant::now() + late.settle());
        self.delay(settles)
    }
}

/// What a look saw; none where the destination cannot be read back.
struct Looked {
    look: Option<Look>,
    purged: Vec<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_removals_come_before_the_backlog_and_what_is_not_due_waits() {
        let pending: RoaringTreemap = [1, 2, 3, 8, 9].into_iter().collect();
        assert_eq!(pick(&pending, 3, 10, |number| number != 2), [8, 9, 1, 3]);
        assert_eq!(pick(&pending, 3, 3, |_| true), [8, 9, 1]);
        assert_eq!(pick(&pending, 9, 10, |_| false), [] as [u64; 0]);
    }
}
