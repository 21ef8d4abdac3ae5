//! What can go wrong between a proposal and its answer.

use cenotaph_core::DestinationNo;

/// A proposal could not be answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The writer has stopped; its own error says why.
    #[error("the ledger has stopped; see the error before this one, then start the worker again")]
    Stopped,
    /// The journal could not be written: nothing may be promised any more.
    #[error(
        "the ledger could not write: {0}; free the disk or mend it, then start the worker again"
    )]
    Write(String),
    /// The view does not hold what it should.
    #[error("the ledger's view is damaged: {0}; stop the worker and run `cenotaph ledger verify`")]
    ViewDamaged(String),
    /// The destination's control record belongs to another ledger.
    #[error(
        "destination holds the control record of ledger {found}, and this is ledger {ours}; \
         point it at a copy of its own, or empty that one"
    )]
    Foreign {
        /// The ledger it belongs to.
        found: String,
        /// This one.
        ours: String,
    },
    /// The destination has seen what this journal lacks: the worker stops, as for a damaged journal.
    #[error(
        "destination {destination:?} holds commit {epoch}.{commit}, made after fact {fact} of this \
         ledger, and this ledger lacks that: it was set back; nothing more is decided, confirmed or \
         opened; put its newest copy back, or, if there is none, empty that destination, so that it \
         is filled and proved again, and start the worker again"
    )]
    WentBack {
        /// The destination's name.
        destination: String,
        /// The epoch that stands there.
        epoch: u64,
        /// The commit.
        commit: u64,
        /// The last fact before it.
        fact: u64,
    },
    /// The destination's control record is ours and names no fact.
    #[error(
        "the control record in destination {0:?} names no fact of a ledger: it is damaged; empty \
         that destination, so that it is filled and proved again"
    )]
    ControlDamaged(String),
    /// No such destination.
    #[error("the ledger knows no destination number {}", .0.0)]
    UnknownDestination(DestinationNo),
}

impl LedgerError {
    /// Whether the ledger can do nothing more, whoever asks.
    #[must_use]
    pub fn ends_the_ledger(&self) -> bool {
        match self {
            LedgerError::Stopped
            | LedgerError::Write(_)
            | LedgerError::ViewDamaged(_)
            | LedgerError::WentBack { .. } => true,
            LedgerError::Foreign { .. }
            | LedgerError::ControlDamaged(_)
            | LedgerError::UnknownDestination(_) => false,
        }
    }
}
