//! The ledger: what was deleted, who owes what, and the proof.
//!
//! **The journal is the truth; sled is the view of it that is queried, and may be thrown away.**
//! One [`writer`](self) decides, journals, syncs and shows; everybody else proposes to it and reads
//! what it shows, through a [`Ledger`].
//!
//! ```text
//! proposal -> draft | destinations -> records -> journal (sync) -> committed state -> gatekeeper
//!             (pure decisions of core)            storage           books, tables      gates open
//! ```

pub(crate) mod boundary;
mod bucket;
mod checkpoint;
mod committed;
mod counts;
mod destinations;
mod directory;
mod draft;
mod error;
mod files;
mod frame;
mod gatekeeper;
mod handle;
mod identity;
mod journal;
mod keeping;
mod lock;
mod lookup;
mod proposal;
mod replay;
mod requests;
mod rules;
mod segment;
mod shared;
mod start;
pub mod state;
mod storage;
mod table;
mod verify;
mod view;
mod witness;
mod writer;

pub use committed::{Committed, NamedTombstone};
pub use counts::Counts;
pub use error::LedgerError;
pub use gatekeeper::{BarrierBlock, barrier_blocks};
pub use handle::{IngestAnswer, Ledger, ObjectView};
pub use proposal::{
    BarrierAnswer, BarrierProposal, IngestBatch, IngestStop, Ingested, Item, LookProposal,
    LookedAt, OpenedDestination, Stopped,
};
pub use rules::{Rules, UnknownCollections};
pub use start::{LedgerOptions, StartError, WriterThread, start};
pub use storage::OpenError;
pub use verify::{VerifyReport, verify};
