//! What the ledger makes of a change. The rules are tried in order; the first that fits decides.

use super::table::Case;
use super::verdict::{Decided, Refusal, Verdict};
use crate::{
    Authority, Change, Claim, CollectionPolicy, Entry, EventHash, Fingerprint, Identified, Ids,
    ObjectRecord, Op, Permit, QuarantineReason,
};

/// An event of a key's past: of a tombstone, or of a recorded deletion request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastEvent {
    /// The event id.
    pub event: EventHash,
    /// What it meant.
    pub fingerprint: Fingerprint,
}

/// What the ledger knows when it decides.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// Every generation of the object.
    pub record: &'a ObjectRecord,
    /// The events of the key's tombstones and of its recorded deletion requests. Only to be looked
    /// up where the entry says that there are some.
    pub past: &'a [PastEvent],
    /// Whether a scope of the change or of the entry is closed.
    pub scope_closed: bool,
}

/// Decides a change. Never alters the entry on a conflict, other than to suspend it.
///
/// Borrows everything; a plain upsert allocates nothing.
pub fn accept(
    known: &Known<'_>,
    change: &Identified,
    policy: &CollectionPolicy,
    authority: &Authority,
) -> Decided {
    match permit(&change.change, policy, authority) {
        Permit::Granted => {}
        Permit::Unauthorised => return Decided::refused(Refusal::Unauthorised),
        Permit::UnknownSchema => {
            return Decided::only(Verdict::Quarantined(QuarantineReason::UnknownSchema));
        }
    }
    let Identified { change, ids } = change;
    let case = Case { record: known.record, change, ids, policy };
    let entry = known.record.entry(ids.key.generation);
    match remembered(entry, known.past, ids) {
        Some(Memory::SameMeaning) => return Decided::only(Verdict::Repeated),
        Some(Memory::OtherMeaning) => {
            return case.conflict(entry, QuarantineReason::EventMeansOther);
        }
        None => {}
    }
    // Deletions pass: nothing that is closed stands in the way of a removal.
    if change.op != Op::Delete {
        if ids.key.generation.0 < known.record.floor {
            return Decided::refused(Refusal::GenerationClosed);
        }
        if known.scope_closed {
            return Decided::refused(Refusal::ScopeRemoved);
        }
    }
    case.decide(entry)
}

/// Whether a change may be made at all: its source's authority first, then its schema.
///
/// A change that has no payload and names no schema has nothing that a schema could describe, so
/// that a bare deletion passes where schemas are listed.
#[must_use]
pub fn permit(change: &Change, policy: &CollectionPolicy, authority: &Authority) -> Permit {
    let claim = Claim {
        source: &change.source,
        op: change.op,
        tenant: &change.key.tenant,
        collection: &change.key.collection,
        kind: &change.kind,
    };
    if !authority.grants(claim) {
        return Permit::Unauthorised;
    }
    let nothing_to_describe = change.payload.is_none() && change.schema.is_empty();
    let schema: &str = &change.schema;
    if policy.schemas.is_empty()
        || nothing_to_describe
        || policy.schemas.iter().any(|known| known == schema)
    {
        Permit::Granted
    } else {
        Permit::UnknownSchema
    }
}

enum Memory {
    SameMeaning,
    OtherMeaning,
}

/// Whether the event id was seen with this key before, as far as the ledger remembers.
fn remembered(entry: Option<&Entry>, past: &[PastEvent], ids: &Ids) -> Option<Memory> {
    let last = entry.map(|entry| (entry.event, entry.fingerprint));
    let earlier = past.iter().map(|past| (past.event, past.fingerprint));
    let (_, meaning) = last.into_iter().chain(earlier).find(|(event, _)| *event == ids.event)?;
    Some(if meaning == ids.fingerprint { Memory::SameMeaning } else { Memory::OtherMeaning })
}
