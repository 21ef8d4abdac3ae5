//! The ledger as everybody else knows it: proposals go in, the committed state is read.

use std::collections::BTreeSet;
use std::sync::Arc;

use cenotaph_core::decide::{Acceptance, Judgement};
use cenotaph_core::{
    Control, Cursor, Cursors, DestinationNo, FactHash, KeyHasher, ObjectId, ObjectRecord, Position,
    TombstoneNo,
};
use parking_lot::RwLockReadGuard;
use roaring::RoaringTreemap;
use tokio::sync::{mpsc, oneshot, watch};

use super::committed::{Committed, NamedTombstone};
use super::counts::Counts;
use super::error::LedgerError;
use super::proposal::{
    BarrierAnswer, BarrierProposal, IngestBatch, Ingested, LookProposal, OpenedDestination,
    Proposal, Reply,
};
use super::shared::Shared;

/// The most proposals that wait for the writer; whoever comes then waits too.
pub(super) const PROPOSALS: usize = 64;

/// An object as a pipeline sees it.
#[derive(Debug, Clone, Default)]
pub struct ObjectView {
    /// Every generation.
    pub record: ObjectRecord,
    /// A removal of one of them is still pending at the destination.
    pub removal_pending: bool,
}

/// A handle to the ledger.
#[derive(Clone)]
pub struct Ledger {
    proposals: mpsc::Sender<Proposal>,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("id", &self.shared.ledger_id()).finish_non_exhaustive()
    }
}

/// The answer to a proposed batch, on its way.
pub struct IngestAnswer {
    answer: oneshot::Receiver<Result<Ingested, LedgerError>>,
    shared: Arc<Shared>,
}

impl IngestAnswer {
    /// Waits for it.
    ///
    /// # Errors
    /// [`LedgerError`] if nothing more can be decided.
    pub fn wait(self) -> Result<Ingested, LedgerError> {
        let stopped = |_| self.shared.failure().unwrap_or(LedgerError::Stopped);
        self.answer.blocking_recv().map_err(stopped)?
    }
}

impl Ledger {
    pub(super) fn new(proposals: mpsc::Sender<Proposal>, shared: Arc<Shared>) -> Ledger {
        Ledger { proposals, shared }
    }

    // Proposals.

    /// Proposes a batch of the stream. It is durable and shown once its answer has come. The next one
    /// may be proposed before: if this one is stopped, that one is not decided either, because it
    /// does not begin where ingest is. Blocks while the writer's queue is full; for the ingest
    /// thread.
    ///
    /// # Errors
    /// [`LedgerError`] if nothing more can be decided.
    pub fn begin_ingest(&self, batch: IngestBatch) -> Result<IngestAnswer, LedgerError> {
        let (reply, answer) = oneshot::channel();
        let proposal = Proposal::Ingest(batch, reply);
        self.proposals.blocking_send(proposal).map_err(|_| self.stopped())?;
        Ok(IngestAnswer { answer, shared: Arc::clone(&self.shared) })
    }

    /// Meets a feed: answers where ingest goes on there, and the proof that belongs to it. Blocks.
    ///
    /// # Errors
    /// [`LedgerError`] if nothing more can be decided.
    pub fn feed_met(
        &self,
        partition: u32,
        feed: String,
        epoch: u32,
    ) -> Result<(Cursor, Vec<u8>), LedgerError> {
        self.propose_blocking(|reply| Proposal::FeedMet { partition, feed, epoch, reply })
    }

    /// Attaches a destination to the collections that it is not attached to yet.
    ///
    /// # Errors
    /// [`LedgerError`] if nothing more can be decided.
    pub async fn attach(
        &self,
        name: &str,
        collections: &[String],
    ) -> Result<DestinationNo, LedgerError> {
        let (name, collections) = (name.to_owned(), collections.to_vec());
        self.propose(|reply| Proposal::Attach { name, collections, reply }).await
    }

    /// The collections that a destination is attached to and that are not among these: whatever its
    /// file says, it owes their deletions.
    #[must_use]
    pub fn attached_beside(&self, name: &str, collections: &[String]) -> Vec<String> {
        let committed = self.read();
        let attached = committed.books.destination(name).map(|book| &book.collections);
        let mut attached: Vec<String> = attached.into_iter().flatten().cloned().collect();
        attached.retain(|collection| !collections.contains(collection));
        attached
    }

    /// Judges the control record that a destination was found with, and opens it under a new epoch.
    ///
    /// # Errors
    /// [`LedgerError`] if it belongs to another ledger, or this one was set back.
    pub async fn open_destination(
        &self,
        destination: DestinationNo,
        found: Option<Control>,
    ) -> Result<OpenedDestination, LedgerError> {
        self.propose(|reply| Proposal::Open { destination, found, reply }).await
    }

    /// Notes a commit that is durable in the destination.
    ///
    /// # Errors
    /// [`LedgerError`] if nothing more can be decided.
    pub async fn note_commit(
        &self,
        destination: DestinationNo,
        control: Control,
        owed: BTreeSet<Position>,
    ) -> Result<(), LedgerError> {
        self.propose(|reply| Proposal::Committed { destination, control, owed, reply }).await
    }

    /// Proposes a look: what it confirms is durable when this returns.
    ///
    /// # Errors
    /// [`LedgerError`] if nothing more can be decided.
    pub async fn looked(
        &self,
        look: LookProposal,
    ) -> Result<Vec<(TombstoneNo, Judgement)>, LedgerError> {
        self.propose(|reply| Proposal::Looked(look, reply)).await
    }

    /// Makes a named barrier.
    ///
    /// # Errors
    /// [`LedgerError`] if nothing more can be decided.
    pub async fn make_barrier(
        &self,
        barrier: BarrierProposal,
    ) -> Result<BarrierAnswer, LedgerError> {
        self.propose(|reply| Proposal::Barrier(barrier, reply)).await
    }

    /// Ends the writer, after a last checkpoint. Clean if no request of ours is under way.
    ///
    /// # Errors
    /// [`LedgerError`] if it could not be written.
    pub async fn stop(&self, clean: bool) -> Result<(), LedgerError> {
        self.propose(|reply| Proposal::Stop { clean, reply }).await
    }

    async fn propose<T>(
        &self,
        proposal: impl FnOnce(Reply<T>) -> Proposal,
    ) -> Result<T, LedgerError> {
        let (reply, answer) = oneshot::channel();
        self.proposals.send(proposal(reply)).await.map_err(|_| self.stopped())?;
        answer.await.map_err(|_| self.stopped())?
    }

    fn propose_blocking<T>(
        &self,
        proposal: impl FnOnce(Reply<T>) -> Proposal,
    ) -> Result<T, LedgerError> {
        let (reply, answer) = oneshot::channel();
        self.proposals.blocking_send(proposal(reply)).map_err(|_| self.stopped())?;
        answer.blocking_recv().map_err(|_| self.stopped())?
    }

    fn stopped(&self) -> LedgerError {
        self.shared.failure().unwrap_or(LedgerError::Stopped)
    }

    // The committed state.

    /// The committed state. Held for short: the writer shows nothing meanwhile.
    pub fn read(&self) -> RwLockReadGuard<'_, Committed> {
        self.shared.read()
    }

    /// Tells when something new is shown.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.shared.subscribe()
    }

    /// What became of the stream's records in this run of the process.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Why the ledger works no more, if so.
    #[must_use]
    pub fn failure(&self) -> Option<LedgerError> {
        self.shared.failure()
    }

    /// The ledger's id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.shared.ledger_id()
    }

    /// Hashes names as this ledger does.
    #[must_use]
    pub fn hasher(&self) -> KeyHasher {
        self.shared.hasher()
    }

    /// The last fact's number and hash.
    #[must_use]
    pub fn last_fact(&self) -> (u64, FactHash) {
        self.read().books.last_fact
    }

    /// How far ingest is, in every partition.
    #[must_use]
    pub fn ingest_cursors(&self) -> Cursors {
        self.read().ingest_cursors()
    }

    /// How far ingest is in one.
    #[must_use]
    pub fn ingest_cursor(&self, partition: u32) -> Cursor {
        self.ingest_position(partition).0
    }

    /// The same, with the proof that belongs to it.
    #[must_use]
    pub fn ingest_position(&self, partition: u32) -> (Cursor, Vec<u8>) {
        self.read().ingest_position(partition)
    }

    /// Whether the change at a position was accepted, as far as that is still known.
    #[must_use]
    pub fn acceptance(&self, position: Position) -> Acceptance {
        self.read().books.accepted.acceptance(position)
    }

    /// A tombstone with its names.
    ///
    /// # Errors
    /// [`LedgerError`] if the view does not hold what it should.
    pub fn tombstone(&self, number: TombstoneNo) -> Result<NamedTombstone, LedgerError> {
        self.read().tombstone(number)
    }

    /// What a destination still owes.
    pub fn with_pending<T>(
        &self,
        destination: DestinationNo,
        look: impl FnOnce(&RoaringTreemap) -> T,
    ) -> T {
        let committed = self.read();
        match committed.books.destinations.get(&destination) {
            Some(book) => look(&book.pending),
            None => look(&RoaringTreemap::new()),
        }
    }

    /// Objects as a destination's pipeline needs to see them, all of the same moment.
    pub fn object_views(
        &self,
        objects: &[ObjectId],
        destination: DestinationNo,
    ) -> Vec<ObjectView> {
        let committed = self.read();
        let book = committed.books.destinations.get(&destination);
        let found = committed.objects(objects).into_iter();
        found
            .map(|found| {
                let record = found.record.into_owned();
                let removal_pending = book.is_some_and(|book| {
                    let mut last = record.generations.iter().filter_map(|(_, it)| it.tombstone);
                    last.any(|number| book.pending.contains(number.0))
                });
                ObjectView { record, removal_pending }
            })
            .collect()
    }
}
