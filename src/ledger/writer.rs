//! The one writer: evaluates each proposal against the committed state, journals what follows,
//! syncs, and only then shows it. No locks are held while it decides or syncs but a reader's, and no
//! proposal is decided before the one ahead of it is durable.

use std::sync::Arc;
use std::time::Instant;

use cenotaph_core::{Control, Cursors, DestinationNo, Fact, Note, Record, TombstoneNo};
use tokio::sync::mpsc;

use super::committed::Chain;
use super::counts::Counts;
use super::draft::{Draft, Drafted, Room};
use super::error::LedgerError;
use super::keeping::Keeping;
use super::proposal::{
    BarrierAnswer, BarrierProposal, IngestBatch, Ingested, LookProposal, OpenedDestination,
    Proposal,
};
use super::rules::Rules;
use super::shared::Shared;
use super::{destinations, gatekeeper};
use crate::clock::Clock;
use crate::metrics;
use crate::window::Window;

/// The writer and what it alone may touch.
pub(super) struct Writer {
    pub(super) keeping: Keeping,
    pub(super) shared: Arc<Shared>,
    pub(super) rules: Rules,
    pub(super) clock: Clock,
    pub(super) window: Arc<Window>,
    pub(super) room: Room,
    /// Batches whose removals nobody has looked at yet for gates that may open.
    pub(super) gates_due: usize,
}

/// How many batches of ingest may come before the gates of the first of them: an opening is a frame
/// of its own, and while the stream is read at full speed one serves several batches.
const BATCHES_BEFORE_GATES: usize = 8;

impl Writer {
    /// Works until it is told to stop, or until it cannot write any more: then every later proposal
    /// is answered with that error, and the process has to end.
    pub(super) fn run(
        mut self,
        mut proposals: mpsc::Receiver<Proposal>,
    ) -> Result<(), LedgerError> {
        let outcome = self.work(&mut proposals);
        if let Err(error) = &outcome {
            self.shared.fail(error);
        }
        outcome
    }

    fn work(&mut self, proposals: &mut mpsc::Receiver<Proposal>) -> Result<(), LedgerError> {
        self.write(self.first_records())?;
        self.open_gates()?;
        while let Some(proposal) = proposals.blocking_recv() {
            if let Proposal::Stop { clean, reply } = proposal {
                let stopped = self.stop(clean);
                let _ = reply.send(stopped.clone());
                return stopped;
            }
            self.answer(proposal, proposals.is_empty())?;
            if self.gates_due > 0 && proposals.is_empty() {
                self.open_gates()?;
            }
            self.keeping.tend(&self.shared)?;
        }
        Ok(())
    }

    /// What a start has to say before anything else.
    fn first_records(&self) -> Vec<Record> {
        let committed = self.shared.read();
        let changed = committed.books.policy != Some(self.rules.hash);
        changed.then(|| Record::Fact(Fact::Policy { hash: self.rules.hash })).into_iter().collect()
    }

    /// Answers one proposal. What only this proposer did wrong is its answer; what keeps the
    /// ledger from working ends the writer too. `is_last`: nothing waits behind it.
    fn answer(&mut self, proposal: Proposal, is_last: bool) -> Result<(), LedgerError> {
        match proposal {
            Proposal::Ingest(batch, reply) => reply_with(reply, self.ingest(batch, is_last)),
            Proposal::Attach { name, collections, reply } => reply_with(reply, {
                let decided = destinations::attach(&self.shared.read(), &name, &collections);
                decided.and_then(|(number, records)| self.write(records).map(|()| number))
            }),
            Proposal::Open { destination, found, reply } => {
                reply_with(reply, self.open(destination, found.as_ref()))
            }
            Proposal::Committed { destination, control, owed, reply } => reply_with(reply, {
                let decided =
                    destinations::committed_note(&self.shared.read(), destination, control, &owed);
                decided.and_then(|records| self.write(records)).and_then(|()| self.open_gates())
            }),
            Proposal::Looked(look, reply) => reply_with(reply, self.looked(&look)),
            Proposal::Barrier(barrier, reply) => reply_with(reply, self.barrier(barrier)),
            Proposal::FeedMet { partition, feed, epoch, reply } => reply_with(reply, {
                let records = self.feed_records(partition, &feed, epoch);
                self.write(records).map(|()| self.shared.read().ingest_position(partition))
            }),
            // Taken out before, and nothing to answer.
            Proposal::Stop { .. } | Proposal::Tend => Ok(()),
        }
    }

    fn open(
        &mut self,
        destination: DestinationNo,
        found: Option<&Control>,
    ) -> Result<OpenedDestination, LedgerError> {
        let knows_fact = match found {
            Some(found) => self.keeping.knows_fact(found.fact, found.fact_hash())?,
            None => true,
        };
        let (id, now_ms) = (self.shared.ledger_id(), self.clock.now_ms());
        let (opened, records) =
            destinations::open(&self.shared.read(), destination, found, knows_fact, id, now_ms)?;
        if opened.revoked > 0
            && let Some(book) = self.shared.read().books.destinations.get(&destination)
        {
            metrics::reappeared(&book.name, opened.revoked);
        }
        self.write(records)?;
        // What named barriers may have waited for.
        self.open_gates()?;
        Ok(opened)
    }

    fn ingest(&mut self, batch: IngestBatch, is_last: bool) -> Result<Ingested, LedgerError> {
        let (partition, cursor, read) = (batch.partition, batch.cursor, batch.read);
        let (drafted, begins_at): (Drafted, Cursors) = {
            let committed = self.shared.read();
            if committed.ingest_position(partition).0 != batch.begin {
                return Ok(Ingested::NotNext);
            }
            let room = std::mem::take(&mut self.room);
            let draft = Draft::new(&committed, &self.rules, self.clock.now_ms(), room);
            (draft.decide(batch)?, committed.ingest_cursors())
        };
        match drafted {
            Drafted::Stopped(stopped) => Ok(Ingested::Stopped(stopped)),
            Drafted::Whole { records, accepted, counts, mut objects } => {
                let opens = records.iter().any(can_open_a_gate);
                let chain = self.append(&records)?;
                self.shared.change(|committed| {
                    committed.apply_batch(&records, &mut objects)?;
                    committed.books.chained(chain.frame, chain.last_fact);
                    Ok::<(), LedgerError>(())
                })?;
                self.room = Room::of(records, objects);
                self.shared.count(&Counts { read, ..counts });
                self.window.push(begins_at, partition, cursor, accepted);
                self.shared.wake();
                let may_open = opens || self.shared.read().waits_for_ingest();
                self.gates_due += usize::from(may_open || self.gates_due > 0);
                if self.gates_due >= if is_last { 1 } else { BATCHES_BEFORE_GATES } {
                    self.open_gates()?;
                }
                Ok(Ingested::Decided)
            }
        }
    }

    fn looked(
        &mut self,
        look: &LookProposal,
    ) -> Result<Vec<(TombstoneNo, cenotaph_core::decide::Judgement)>, LedgerError> {
        let (judged, records) = destinations::looked(&self.shared.read(), look)?;
        if records.is_empty() {
            return Ok(judged);
        }
        self.observe_confirmations(look, &judged);
        self.write(records)?;
        self.open_gates()?;
        Ok(judged)
    }

    fn observe_confirmations(
        &self,
        look: &LookProposal,
        judged: &[(TombstoneNo, cenotaph_core::decide::Judgement)],
    ) {
        let committed = self.shared.read();
        let Some(book) = committed.books.destinations.get(&look.destination) else { return };
        let now = self.clock.now_ms();
        for (number, judgement) in judged {
            if *judgement != cenotaph_core::decide::Judgement::Confirmed {
                continue;
            }
            if let Ok(named) = committed.tombstone(*number) {
                let age = now.saturating_sub(named.tombstone.accepted_at_ms);
                let age = std::time::Duration::from_millis(u64::try_from(age).unwrap_or(0));
                metrics::confirmed(&book.name, age);
            }
        }
    }

    fn barrier(&mut self, barrier: BarrierProposal) -> Result<BarrierAnswer, LedgerError> {
        let scope = barrier.scope.as_ref().map(|(hash, _)| *hash);
        if let Some(book) = self.shared.read().books.barriers.get(&barrier.name) {
            let same = book.event.is_none() && book.scope == scope;
            return Ok(if same { BarrierAnswer::AlreadyThere } else { BarrierAnswer::Taken });
        }
        let mut records = vec![Record::Fact(Fact::BarrierMade {
            name: barrier.name.clone(),
            event: None,
            scope,
            cursors: barrier.cursors,
            through: None,
            at_ms: self.clock.now_ms(),
        })];
        if let Some((_, scope)) = barrier.scope {
            records.push(Record::Note(Note::BarrierScope { name: barrier.name, scope }));
        }
        self.write(records)?;
        self.open_gates()?;
        Ok(BarrierAnswer::Made)
    }

    fn feed_records(&self, partition: u32, feed: &str, epoch: u32) -> Vec<Record> {
        let committed = self.shared.read();
        let known = committed.books.feeds.get(&partition);
        let same = known.is_some_and(|book| book.feed == feed && book.epoch == epoch);
        if same {
            return Vec::new();
        }
        vec![Record::Fact(Fact::FeedEpoch { partition, feed: feed.to_owned(), epoch })]
    }

    /// Opens every gate that may open (I2), until there is none left: fixing a barrier's last
    /// tombstone can be what opens it.
    fn open_gates(&mut self) -> Result<(), LedgerError> {
        self.gates_due = 0;
        loop {
            let facts = gatekeeper::due(&self.shared.read(), self.clock.now_ms())?;
            if facts.is_empty() {
                return Ok(());
            }
            self.write(facts.into_iter().map(Record::Fact).collect())?;
        }
    }

    fn write(&mut self, records: Vec<Record>) -> Result<(), LedgerError> {
        if !records.is_empty() {
            self.write_quietly(records)?;
            self.shared.wake();
        }
        Ok(())
    }

    /// Journals and syncs, then shows. The order is the promise (I4).
    fn write_quietly(&mut self, records: Vec<Record>) -> Result<(), LedgerError> {
        let chain = self.append(&records)?;
        self.shared.show(&records, chain)
    }

    fn append(&mut self, records: &[Record]) -> Result<Chain, LedgerError> {
        let begun = Instant::now();
        let chain = self.keeping.append(records)?;
        metrics::synced(begun.elapsed());
        Ok(chain)
    }

    fn stop(&mut self, clean: bool) -> Result<(), LedgerError> {
        if self.gates_due > 0 {
            self.open_gates()?;
        }
        if clean {
            let at_ms = self.clock.now_ms();
            self.write(vec![Record::Fact(Fact::CleanStop { at_ms })])?;
        }
        self.keeping.finish(&self.shared)
    }
}

fn reply_with<T>(
    reply: super::proposal::Reply<T>,
    answer: Result<T, LedgerError>,
) -> Result<(), LedgerError> {
    let fatal = match &answer {
        Err(error) if error.ends_the_ledger() => Some(error.clone()),
        _ => None,
    };
    // A proposer that has gone does not need its answer.
    let _ = reply.send(answer);
    fatal.map_or(Ok(()), Err)
}

/// What may be open as soon as it is made: nobody may owe it.
fn can_open_a_gate(record: &Record) -> bool {
    matches!(record, Record::Fact(Fact::Removed(_) | Fact::BarrierMade { .. }))
}
