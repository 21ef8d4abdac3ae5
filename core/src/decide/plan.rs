//! What a destination does with a change that it holds.

use crate::{Entry, Ids, KeyHash, Version};

/// What is known of a change's position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceptance {
    /// Whether it is among the accepted ones.
    Known(bool),
    /// The accepted positions are gone (attached later), or this is a replay: only the current
    /// change counts.
    Gone,
}

/// A change on its way into a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// Its hashes.
    pub ids: &'a Ids,
    /// Its version.
    pub version: Option<Version>,
    /// The partition it was read from.
    pub partition: u32,
    /// What is known of its position.
    pub acceptance: Acceptance,
    /// Whether a removal of any generation of its object is still pending at this destination.
    pub removal_pending: bool,
    /// Whether it carries a payload.
    pub has_payload: bool,
}

/// What a destination does with a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// Writes it.
    Apply,
    /// Nothing: a removal covers it, a later change took its place, or it carries no content.
    Superseded,
    /// Keeps it as an owed position until the pending removal has been confirmed.
    Hold,
    /// Nothing: no entry or position says that it was ever accepted.
    NotAccepted,
}

/// Plans one change, given the entry of its key as the writer's committed state has it.
#[must_use]
pub fn plan(entry: Option<&Entry>, candidate: &Candidate<'_>) -> Plan {
    let (Some(entry), Some(version)) = (entry, candidate.version) else {
        return Plan::NotAccepted;
    };
    if entry.erased_through.includes(version) {
        return Plan::Superseded;
    }
    if !is_current(entry, candidate) {
        match candidate.acceptance {
            Acceptance::Known(false) | Acceptance::Gone => return Plan::NotAccepted,
            // Nothing orders one partition against another, so the older change could come last.
            Acceptance::Known(true) if entry.partition != candidate.partition => {
                return Plan::Superseded;
            }
            Acceptance::Known(true) => {}
        }
    }
    if !candidate.has_payload {
        return Plan::Superseded;
    }
    // Written now, it could be taken for the piece that is to be removed, or be removed with it.
    if candidate.removal_pending { Plan::Hold } else { Plan::Apply }
}

/// Whether the entry is what this very change made it.
fn is_current(entry: &Entry, candidate: &Candidate<'_>) -> bool {
    entry.version == candidate.version
        && entry.event == candidate.ids.event
        && entry.fingerprint == candidate.ids.fingerprint
}

/// Which changes of a batch are left when only the highest version of each key is applied; of equal
/// versions the last one. Answers ascending indices into `batch`.
#[must_use]
pub fn highest_only(batch: &[(KeyHash, Version)]) -> Vec<usize> {
    let mut ranked: Vec<_> =
        batch.iter().enumerate().map(|(at, (key, version))| (*key, *version, at)).collect();
    ranked.sort_unstable();
    let mut highest: Vec<usize> = ranked
        .chunk_by(|a, b| a.0 == b.0)
        .filter_map(|of_one_key| of_one_key.last().map(|(_, _, at)| *at))
        .collect();
    highest.sort_unstable();
    highest
}
