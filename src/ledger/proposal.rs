//! What others may propose to the writer, and what it answers. Whoever proposes decides nothing:
//! the writer evaluates the pure predicates against the committed state.

use std::collections::BTreeSet;

use cenotaph_core::decide::{Finding, Judgement};
use cenotaph_core::{
    BarrierRequest, Control, Cursor, Cursors, DestinationNo, EventHash, Evidence, EvidenceLevel,
    Identified, Position, QuarantineReason, ScopeHash, ScopeName, TombstoneNo,
};
use tokio::sync::oneshot;

use super::error::LedgerError;

/// One record of the stream, ready to be decided.
// Nearly all are changes: a box each would cost more than the room it saves.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub enum Item {
    /// A change of an object.
    Change(Identified),
    /// A named barrier.
    Barrier {
        /// What was asked for.
        request: BarrierRequest,
        /// Its event id; under the scope's tenant, or under none.
        event: EventHash,
        /// Its scope.
        scope: Option<ScopeHash>,
    },
    /// Nothing to do, by the format's rules.
    Ignored,
    /// Not readable: to quarantine.
    Undecodable {
        /// Where it stands.
        position: Position,
        /// Why.
        reason: QuarantineReason,
        /// What was expected where; never content.
        detail: String,
        /// It was a deletion: somebody has to look at it soon.
        deletion: bool,
    },
}

impl Item {
    /// Where the record stands, unless there is nothing to do about it.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        match self {
            Item::Change(identified) => Some(identified.change.position),
            Item::Barrier { request, .. } => Some(request.position),
            Item::Undecodable { position, .. } => Some(*position),
            Item::Ignored => None,
        }
    }
}

/// What ingest read of one partition.
#[derive(Debug)]
pub struct IngestBatch {
    /// The partition.
    pub partition: u32,
    /// Where it begins. A batch that does not begin where ingest is, is not decided: the one before
    /// it was stopped.
    pub begin: Cursor,
    /// What was read, in order.
    pub items: Vec<Item>,
    /// How many records that are, counted before anything was made of them (I9).
    pub read: u64,
    /// The cursor after it.
    pub cursor: Cursor,
    /// What the source needs to see that it is still the same log.
    pub proof: Vec<u8>,
}

/// Why ingest of a partition must stop before a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IngestStop {
    /// The quarantine is full.
    QuarantineFull {
        /// The record that has no place in it.
        position: Position,
    },
    /// A conflict, where the policy says `stop`.
    Conflict {
        /// The record.
        position: Position,
        /// What contradicts.
        reason: QuarantineReason,
    },
}

/// A batch of which nothing was decided, because of one of its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// Which record of the batch. Those before it can be proposed again without it.
    pub index: usize,
    /// Why.
    pub reason: IngestStop,
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ingested {
    /// It is decided, durable and shown.
    Decided,
    /// Nothing of it is decided.
    Stopped(Stopped),
    /// Nothing of it is decided, because the batch before it was stopped.
    NotNext,
}

/// A destination as the ledger opened it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedDestination {
    /// The control record that the destination must hold now: commit 0 of a new epoch.
    pub control: Control,
    /// Where its changes go on.
    pub cursors: Cursors,
    /// What it owes below that.
    pub owed: BTreeSet<Position>,
    /// Confirmations that were opened again because the copy is older than they are.
    pub revoked: u64,
    /// The last stop was not a clean one: requests of the process before may still be under way.
    pub after_unclean_stop: bool,
}

/// One look, with what is needed to judge it.
#[derive(Debug)]
pub struct LookProposal {
    /// Where.
    pub destination: DestinationNo,
    /// The epoch in which the look was made.
    pub epoch: u64,
    /// Whether the destination keeps a control record.
    pub keeps_control: bool,
    /// The stamp of the commit that made the removals durable.
    pub removed_at: (u64, u64),
    /// The level that its configuration asks for.
    pub required: EvidenceLevel,
    /// What was seen, beside the findings.
    pub evidence: Evidence,
    /// What was found of each.
    pub findings: Vec<LookedAt>,
}

/// What was found of one tombstone.
#[derive(Debug, Clone)]
pub struct LookedAt {
    /// The tombstone.
    pub number: TombstoneNo,
    /// The finding.
    pub finding: Finding,
    /// The level reached for it.
    pub reached: EvidenceLevel,
    /// A write of ours may still land.
    pub late_write_possible: bool,
}

/// A barrier that an operator or a job asks for.
#[derive(Debug)]
pub struct BarrierProposal {
    /// Its name.
    pub name: String,
    /// What it waits for.
    pub scope: Option<(ScopeHash, ScopeName)>,
    /// The end of the log, a partition each.
    pub cursors: Cursors,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarrierAnswer {
    /// It is made.
    Made,
    /// It was there before, for the same.
    AlreadyThere,
    /// The name stands for something else.
    Taken,
}

/// What the writer makes of each tombstone that was looked for.
pub type Judged = Vec<(TombstoneNo, Judgement)>;

pub(super) type Reply<T> = oneshot::Sender<Result<T, LedgerError>>;

/// A proposal and where its answer goes.
pub(super) enum Proposal {
    Ingest(IngestBatch, Reply<Ingested>),
    Attach {
        name: String,
        collections: Vec<String>,
        reply: Reply<DestinationNo>,
    },
    Open {
        destination: DestinationNo,
        found: Option<Control>,
        reply: Reply<OpenedDestination>,
    },
    Committed {
        destination: DestinationNo,
        control: Control,
        owed: BTreeSet<Position>,
        reply: Reply<()>,
    },
    Looked(LookProposal, Reply<Judged>),
    Barrier(BarrierProposal, Reply<BarrierAnswer>),
    FeedMet {
        partition: u32,
        feed: String,
        epoch: u32,
        reply: Reply<(Cursor, Vec<u8>)>,
    },
    Stop {
        clean: bool,
        reply: Reply<()>,
    },
    /// The checkpoint thread has something to show.
    Tend,
}
