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
    /// The destination has seen a fact that this journal lacks.
    #[error(
        "destination has seen fact {fact}, which this ledger lacks: the ledger was set back; \
         restore its newest copy before anything is confirmed on its account"
    )]
    WentBack {
        /// The fact's number.
        fact: u64,
    },
    /// No such destination.
    #[error("the ledger knows no destination number {}", .0.0)]
    UnknownDestination(DestinationNo),
}
