//! The words of the project, as types.

mod change;
mod control;
mod entry;
mod fact;
mod hash;
mod key;
mod policy;
mod position;
mod record_key;
mod tombstone;
mod version;

pub use change::{BarrierRequest, Change, Incoming, Op, ScopeName};
pub use control::{Control, ControlError};
pub use entry::{Entry, EntryFlags, ObjectRecord, State};
pub use fact::{
    AcceptedNote, ConfirmedFact, DestinationNo, Evidence, EvidenceLevel, Fact, Note, NumberRange,
    QuarantineNote, QuarantineReason, Record, RequestNote, RequestOutcome,
};
pub use hash::{
    CollectionId, EventHash, FactHash, Fingerprint, HashKey, Identified, Ids, KeyHash, KeyHasher,
    NameHash, ObjectHash, ObjectId, ScopeHash, TenantHash,
};
pub use key::{KeyError, MAX_NAME_BYTES, ObjectKey};
pub use policy::{
    Authority, Claim, CollectionPolicy, EqualVersionDelete, Generations, Lifecycle, OnConflict,
    Permit, Rule, VersionSpace,
};
pub use position::{Cursor, Cursors, Position};
pub use record_key::{RecordKeyError, parse_record_key, record_key};
pub use tombstone::{Covers, Tombstone, TombstoneNo};
pub use version::{Generation, Version, VersionError};
