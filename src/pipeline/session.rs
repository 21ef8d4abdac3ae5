//! An opened destination: its connector, the control record that stands there, and what was written
//! since the last commit. A session ends when a commit is not answered with *done*; the next one
//! opens the destination again, under a higher epoch.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use cenotaph_connector::{Capabilities, Commit, Connector, Fault, Owner};
use cenotaph_core::{Control, Cursors, DestinationNo, Position};

use super::standing::Standing;
use crate::ledger::{Ledger, LedgerError};

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// The destination did not do what it was asked.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The ledger refused, or has stopped.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// An opened destination.
pub struct Session {
    /// The connector.
    pub connector: Box<dyn Connector>,
    /// What it can do.
    pub capabilities: Capabilities,
    /// How far the changes lane has applied; durable once committed.
    pub applied: Cursors,
    /// Positions held back or parked below `applied`.
    pub owed: BTreeSet<Position>,
    /// The last stop was not clean: requests of the process before may still land.
    pub after_unclean_stop: bool,
    number: DestinationNo,
    control: Control,
    changes_since_commit: usize,
    bytes_since_commit: usize,
    dirty: bool,
    dirty_since: Option<Instant>,
    /// What the connector was told last.
    behind: bool,
}

impl Session {
    /// Opens a destination: connects, lets the ledger judge the control record found there, and
    /// writes commit 0 of the new epoch.
    ///
    /// # Errors
    /// [`Lost`], if the destination or the ledger refuses.
    pub async fn open(
        mut connector: Box<dyn Connector>,
        number: DestinationNo,
        ledger: &Ledger,
        standing: &Standing,
    ) -> Result<Session, Lost> {
        standing.begin_call("open");
        let found = connector.open().await;
        standing.end_call();
        let found = found?;
        let capabilities = connector.capabilities();
        let opened = ledger.open_destination(number, found.clone()).await?;
        if opened.revoked > 0 {
            tracing::warn!(
                confirmations = opened.revoked,
                "this copy is older than its confirmations: they are opened again and proved anew"
            );
        }
        let mut session = Session {
            connector,
            capabilities,
            applied: opened.cursors,
            owed: opened.owed,
            after_unclean_stop: opened.after_unclean_stop,
            number,
            control: opened.control.clone(),
            changes_since_commit: 0,
            bytes_since_commit: 0,
            behind: false,
            dirty: false,
            dirty_since: None,
        };
        session.write(opened.control, found.as_ref(), standing).await?;
        session.note(ledger).await?;
        Ok(session)
    }

    /// The ledger's number for this destination.
    #[must_use]
    pub fn number(&self) -> DestinationNo {
        self.number
    }

    /// The epoch of this session.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.control.epoch
    }

    /// The stamp of the last commit.
    #[must_use]
    pub fn stamp(&self) -> (u64, u64) {
        self.control.stamp()
    }

    /// Something was written, or the cursors moved, that the next commit makes durable.
    pub fn wrote(&mut self, changes: usize, payload_bytes: usize) {
        self.changes_since_commit += changes;
        self.bytes_since_commit += payload_bytes;
        self.dirty = true;
        self.dirty_since.get_or_insert_with(Instant::now);
    }

    /// How many changes were applied since the last commit.
    #[must_use]
    pub fn changes_since_commit(&self) -> usize {
        self.changes_since_commit
    }

    /// The bytes of their payloads.
    #[must_use]
    pub fn bytes_since_commit(&self) -> usize {
        self.bytes_since_commit
    }

    /// Tells the connector whether there is a backlog, if that is news. That there is none any more
    /// is followed by a commit, for which it may have put off something.
    pub fn tell_backlog(&mut self, behind: bool) {
        if self.behind == behind {
            return;
        }
        self.behind = behind;
        self.connector.backlog(behind);
        if !behind {
            self.wrote(0, 0);
        }
    }

    /// How long the oldest of what was written has waited for its commit.
    #[must_use]
    pub fn waiting(&self) -> Option<Duration> {
        self.dirty_since.map(|since| since.elapsed())
    }

    /// Makes everything written so far durable and visible, and notes it in the ledger. Answers how
    /// long the destination took; at once if there is nothing to commit.
    ///
    /// # Errors
    /// [`Lost`]: the session is over.
    pub async fn commit(&mut self, ledger: &Ledger, standing: &Standing) -> Result<Duration, Lost> {
        if !self.dirty {
            return Ok(Duration::ZERO);
        }
        let begun = Instant::now();
        let (fact, fact_hash) = ledger.last_fact();
        let next = Control {
            commit: self.control.commit + 1,
            cursors: self.applied.clone(),
            fact,
            fact_hash: fact_hash.to_string(),
            ..self.control.clone()
        };
        let expected = self.control.clone();
        self.write(next.clone(), Some(&expected), standing).await?;
        self.control = next;
        let took = begun.elapsed();
        self.note(ledger).await?;
        self.changes_since_commit = 0;
        self.bytes_since_commit = 0;
        self.dirty = false;
        self.dirty_since = None;
        Ok(took)
    }

    async fn write(
        &mut self,
        control: Control,
        expected: Option<&Control>,
        standing: &Standing,
    ) -> Result<(), Lost> {
        standing.begin_call("commit");
        let answer = self.connector.commit(&control, expected).await;
        standing.end_call();
        match answer? {
            Commit::Done => Ok(()),
            Commit::Found(_) => Err(Lost::Fault(Fault::retriable(
                Owner::Operator,
                "another control record than ours stands in the destination: somebody else writes \
                 to it",
                "see that only one worker uses this copy; it is opened again now",
            ))),
        }
    }

    async fn note(&self, ledger: &Ledger) -> Result<(), LedgerError> {
        ledger.note_commit(self.number, self.control.clone(), self.owed.clone()).await
    }
}
