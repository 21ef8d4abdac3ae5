//! The table of verdicts: by entry, op and version.

use std::cmp::Ordering;

use super::verdict::{Decided, Refusal, Verdict};
use crate::{
    Change, CollectionPolicy, Covers, Entry, EntryFlags, EqualVersionDelete, Generation,
    Generations, Ids, Lifecycle, NameHash, ObjectRecord, OnConflict, Op, QuarantineReason,
    RequestOutcome, ScopeHash, State, Version, VersionSpace,
};

/// One change against what is known of its object.
pub(super) struct Case<'a> {
    pub record: &'a ObjectRecord,
    pub change: &'a Change,
    pub ids: &'a Ids,
    pub policy: &'a CollectionPolicy,
}

/// A decision, or the reason why somebody else has to make it.
type Row = Result<Decided, QuarantineReason>;

impl Case<'_> {
    pub(super) fn decide(&self, entry: Option<&Entry>) -> Decided {
        let row = match entry {
            None => self.unseen(),
            Some(entry) if entry.state == State::Live => self.live(entry),
            Some(entry) => self.removed(entry),
        };
        row.unwrap_or_else(|reason| self.conflict(entry, reason))
    }

    /// A conflict never alters the entry; it suspends the object where the policy says so.
    pub(super) fn conflict(&self, entry: Option<&Entry>, reason: QuarantineReason) -> Decided {
        let suspends = self.policy.on_conflict == OnConflict::Suspend;
        let entry = entry.filter(|entry| suspends && !entry.flags.suspended).map(|entry| Entry {
            flags: EntryFlags { suspended: true, ..entry.flags },
            ..entry.clone()
        });
        Decided { entry, ..Decided::only(Verdict::Conflicting(reason)) }
    }

    fn unseen(&self) -> Row {
        let generation = self.ids.key.generation;
        match self.change.op {
            Op::Upsert => {
                let open = self.policy.generations == Generations::Open;
                if generation != Generation::FIRST && !open {
                    return Ok(Decided::refused(Refusal::GenerationNotOpened));
                }
                Ok(self.enter(None, self.needed_version()?))
            }
            Op::Create => {
                if !self.record.all_removed_below(generation) {
                    return Ok(Decided::refused(Refusal::GenerationStillOpen));
                }
                let entered = self.enter(None, self.needed_version()?);
                let floor = (generation.0 > self.record.floor).then_some(generation.0);
                Ok(Decided { floor, opened: true, ..entered })
            }
            // The marker must exist even for an object never seen: its upsert may still arrive.
            Op::Delete if self.terminal() || self.change.version.is_some() => Ok(self.remove(None)),
            Op::Delete => Err(QuarantineReason::VersionMissing),
            Op::Restore => Ok(Decided::refused(Refusal::NothingToRestore)),
        }
    }

    fn live(&self, entry: &Entry) -> Row {
        match self.change.op {
            Op::Upsert if entry.flags.suspended => Ok(Decided::only(Verdict::Suspended)),
            Op::Upsert => {
                let version = self.needed_version()?;
                match self.order(entry, version)? {
                    Ordering::Less => Ok(Decided::only(Verdict::Stale)),
                    Ordering::Equal if self.ids.fingerprint == entry.fingerprint => {
                        Ok(Decided::only(Verdict::Repeated))
                    }
                    Ordering::Equal => Err(QuarantineReason::VersionMeansOther),
                    Ordering::Greater => Ok(self.enter(Some(entry), version)),
                }
            }
            Op::Delete => self.live_delete(entry),
            Op::Create | Op::Restore => Ok(Decided::refused(Refusal::AlreadyOpen)),
        }
    }

    fn live_delete(&self, entry: &Entry) -> Row {
        let equal_removes = self.policy.equal_version_delete == EqualVersionDelete::Accept;
        match self.compared(entry)? {
            Some(Ordering::Greater) => Ok(self.remove(Some(entry))),
            // Remove wins: after a terminal deletion no upsert can have been valid.
            _ if self.terminal() => Ok(self.remove(Some(entry))),
            Some(Ordering::Less) => Ok(recorded(entry, entry.clone(), RequestOutcome::Stale)),
            Some(Ordering::Equal) if equal_removes => Ok(self.remove(Some(entry))),
            Some(Ordering::Equal) => Err(QuarantineReason::VersionMeansOther),
            None => Err(QuarantineReason::VersionMissing),
        }
    }

    fn removed(&self, entry: &Entry) -> Row {
        match self.change.op {
            Op::Upsert | Op::Restore => {
                let row = self.reopen(entry);
                // What the removal refuses needs nobody's resolution. All else waits in line.
                let refused = matches!(&row, Ok(Decided { verdict: Verdict::Refused(_), .. }));
                if entry.flags.suspended && !refused {
                    return Ok(Decided::only(Verdict::Suspended));
                }
                row
            }
            Op::Create => Ok(Decided::refused(Refusal::GenerationClosed)),
            Op::Delete => self.removed_delete(entry),
        }
    }

    fn reopen(&self, entry: &Entry) -> Row {
        let version = self.needed_version()?;
        if self.order(entry, version)? != Ordering::Greater {
            return Ok(Decided::refused(Refusal::Stale));
        }
        // What `terminal` removed stays closed under any later policy.
        let closed = entry.flags.terminal;
        let (reopens, otherwise) = if self.change.op == Op::Restore {
            (self.policy.lifecycle == Lifecycle::Restorable, Refusal::NotRestorable)
        } else {
            let any_higher = self.policy.lifecycle == Lifecycle::Versioned;
            (any_higher || entry.flags.scope_restored, Refusal::Removed)
        };
        if closed || !reopens {
            return Ok(Decided::refused(otherwise));
        }
        Ok(Decided { reopened: true, ..self.enter(Some(entry), version) })
    }

    fn removed_delete(&self, entry: &Entry) -> Row {
        match self.compared(entry)? {
            Some(Ordering::Less) | None => {
                Ok(recorded(entry, entry.clone(), RequestOutcome::Satisfied))
            }
            Some(Ordering::Equal) => Err(QuarantineReason::VersionMeansOther),
            // Its tombstone covers everything already. An entry that another lifecycle removed
            // gets a new tombstone even under `terminal`: the old one covers less than is asked.
            Some(Ordering::Greater) if entry.flags.terminal => {
                let version = self.change.version;
                let risen = Entry { version, space: self.space(), ..entry.clone() };
                Ok(recorded(entry, risen, RequestOutcome::Satisfied))
            }
            Some(Ordering::Greater) => Ok(self.remove(Some(entry))),
        }
    }

    /// Accepted, and live from now on.
    fn enter(&self, before: Option<&Entry>, version: Version) -> Decided {
        let upserts = self.change.op == Op::Upsert || self.change.payload.is_some();
        let entry = Entry {
            state: State::Live,
            version: Some(version),
            event: self.ids.event,
            fingerprint: self.ids.fingerprint,
            space: self.space(),
            parent: if upserts { self.ids.parent } else { self.parent(before) },
            erased_through: before.map_or(Covers::NOTHING, |entry| entry.erased_through),
            partition: self.change.position.partition,
            tombstone: before.and_then(|entry| entry.tombstone),
            flags: EntryFlags {
                with_content: self.change.payload.is_some(),
                terminal: false,
                scope_restored: false,
                ..before.map(|entry| entry.flags).unwrap_or_default()
            },
        };
        Decided { entry: Some(entry), ..Decided::only(Verdict::Accepted) }
    }

    /// Accepted, and removed from now on. The higher of the two versions stays.
    fn remove(&self, before: Option<&Entry>) -> Decided {
        let version = self.change.version.max(before.and_then(|entry| entry.version));
        let covers = if self.terminal() {
            Covers::EVERYTHING
        } else {
            version.map_or(Covers::NOTHING, Covers::through)
        };
        // A deletion without a version belongs to no space; the entry keeps the one it has.
        let space = match before {
            Some(entry) if self.change.version.is_none() => entry.space,
            _ => self.space(),
        };
        let flags = before.map(|entry| entry.flags).unwrap_or_default();
        let entry = Entry {
            state: State::Removed,
            version,
            event: self.ids.event,
            fingerprint: self.ids.fingerprint,
            space,
            parent: self.parent(before),
            erased_through: before.map_or(covers, |entry| covers.max(entry.erased_through)),
            partition: self.change.position.partition,
            tombstone: before.and_then(|entry| entry.tombstone),
            flags: EntryFlags {
                with_content: false,
                terminal: self.terminal() || flags.terminal,
                scope_restored: false,
                ..flags
            },
        };
        Decided { entry: Some(entry), removal: Some(covers), ..Decided::only(Verdict::Accepted) }
    }

    fn terminal(&self) -> bool {
        self.policy.lifecycle == Lifecycle::Terminal
    }

    /// The parent named by the change, or else the one the object had: a deletion that does not
    /// repeat it takes the object out of no scope.
    fn parent(&self, before: Option<&Entry>) -> Option<ScopeHash> {
        self.ids.parent.or_else(|| before.and_then(|entry| entry.parent))
    }

    fn space(&self) -> NameHash {
        match self.policy.version_space {
            VersionSpace::Shared => NameHash::default(),
            VersionSpace::Source => self.ids.source,
        }
    }

    fn needed_version(&self) -> Result<Version, QuarantineReason> {
        self.change.version.ok_or(QuarantineReason::VersionMissing)
    }

    /// The change's version, if it has one, compared with the entry's.
    fn compared(&self, entry: &Entry) -> Result<Option<Ordering>, QuarantineReason> {
        self.change.version.map(|version| self.order(entry, version)).transpose()
    }

    /// `version` compared with the entry's. An entry without one is below every version.
    fn order(&self, entry: &Entry, version: Version) -> Result<Ordering, QuarantineReason> {
        let Some(known) = entry.version else { return Ok(Ordering::Greater) };
        let shared = self.policy.version_space == VersionSpace::Shared;
        if shared || entry.space == self.ids.source {
            Ok(version.cmp(&known))
        } else {
            Err(QuarantineReason::OtherVersionSpace)
        }
    }
}

/// A deletion that removes nothing, remembered so that whoever asked learns what became of it.
/// `next` is the entry from now on, before it says that there are requests.
fn recorded(entry: &Entry, next: Entry, outcome: RequestOutcome) -> Decided {
    let verdict = match outcome {
        RequestOutcome::Satisfied => Verdict::Satisfied,
        RequestOutcome::Stale => Verdict::Stale,
    };
    let next = Entry { flags: EntryFlags { has_requests: true, ..next.flags }, ..next };
    let entry = (next != *entry).then_some(next);
    Decided { entry, request: Some(outcome), ..Decided::only(verdict) }
}
