//! What the ledger can make of a change.

use crate::{Covers, Entry, Op, QuarantineReason, RequestOutcome};

/// Why a change is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// The source may not do this.
    Unauthorised,
    /// A later generation was opened, or this one was removed and is to be created again.
    GenerationClosed,
    /// Only an authorised `create` opens a generation above the first.
    GenerationNotOpened,
    /// A lower generation is live.
    GenerationStillOpen,
    /// A scope that the object belongs to is closed.
    ScopeRemoved,
    /// A restore of what was never removed.
    NothingToRestore,
    /// A restore or create of what is live.
    AlreadyOpen,
    /// Not newer than the removal.
    Stale,
    /// Newer than the removal, but a higher version alone does not re-open the object.
    Removed,
    /// The collection's policy, or the one under which the object was removed, restores nothing.
    NotRestorable,
}

impl Refusal {
    /// Every refusal.
    pub const ALL: [Refusal; 10] = [
        Refusal::Unauthorised,
        Refusal::GenerationClosed,
        Refusal::GenerationNotOpened,
        Refusal::GenerationStillOpen,
        Refusal::ScopeRemoved,
        Refusal::NothingToRestore,
        Refusal::AlreadyOpen,
        Refusal::Stale,
        Refusal::Removed,
        Refusal::NotRestorable,
    ];

    /// The refusal's word in logs, answers and metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Refusal::Unauthorised => "unauthorised",
            Refusal::GenerationClosed => "generation-closed",
            Refusal::GenerationNotOpened => "generation-not-opened",
            Refusal::GenerationStillOpen => "generation-still-open",
            Refusal::ScopeRemoved => "scope-removed",
            Refusal::NothingToRestore => "nothing-to-restore",
            Refusal::AlreadyOpen => "already-open",
            Refusal::Stale => "stale",
            Refusal::Removed => "removed",
            Refusal::NotRestorable => "not-restorable",
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

/// What the ledger decides for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It changes the entry.
    Accepted,
    /// The same event, or the same content at the same version, came before.
    Repeated,
    /// A deletion of what is removed already.
    Satisfied,
    /// Older than a live entry.
    Stale,
    /// Not allowed.
    Refused(Refusal),
    /// It contradicts what is known, or lacks the version to tell; somebody has to look.
    Conflicting(QuarantineReason),
    /// Its key is suspended after a conflict; it waits in the same line.
    Suspended,
    /// It is not understood.
    Quarantined(QuarantineReason),
}

impl Verdict {
    /// The class under which the change is accounted for (invariant I9).
    #[must_use]
    pub fn counter(&self) -> &'static str {
        match self {
            Verdict::Accepted => "accepted",
            Verdict::Repeated => "repeated",
            Verdict::Satisfied => "satisfied",
            Verdict::Stale => "stale",
            Verdict::Refused(_) => "refused",
            Verdict::Conflicting(_) => "conflicting",
            Verdict::Suspended => "suspended",
            Verdict::Quarantined(_) => "undecodable",
        }
    }

    /// Whether an `op` with this verdict would have brought a removed object back.
    #[must_use]
    pub fn prevents_resurrection(&self, op: Op) -> bool {
        op == Op::Upsert && matches!(self, Verdict::Refused(Refusal::Stale | Refusal::Removed))
    }

    /// Why the change waits in quarantine, if it does.
    #[must_use]
    pub fn quarantine(&self) -> Option<QuarantineReason> {
        match *self {
            Verdict::Conflicting(reason) | Verdict::Quarantined(reason) => Some(reason),
            Verdict::Suspended => Some(QuarantineReason::Suspended),
            _ => None,
        }
    }
}

/// A verdict and all that follows from it. What is `None` or `false` stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Decided {
    /// The verdict.
    pub verdict: Verdict,
    /// The entry from now on, if it changes.
    pub entry: Option<Entry>,
    /// The object's floor from now on, if it rises.
    pub floor: Option<u32>,
    /// An accepted removal: a tombstone that covers this is to be made, and its number put into
    /// the entry.
    pub removal: Option<Covers>,
    /// A removed object is live again.
    pub reopened: bool,
    /// An authorised `create` opened a generation.
    pub opened: bool,
    /// A deletion that made no tombstone is to be recorded under its event id.
    pub request: Option<RequestOutcome>,
}

impl Decided {
    /// A verdict from which nothing follows.
    pub(super) fn only(verdict: Verdict) -> Decided {
        Decided {
            verdict,
            entry: None,
            floor: None,
            removal: None,
            reopened: false,
            opened: false,
            request: None,
        }
    }

    pub(super) fn refused(refusal: Refusal) -> Decided {
        Decided::only(Verdict::Refused(refusal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_a_kebab_case_word_of_its_own() {
        let words: std::collections::BTreeSet<_> = Refusal::ALL.iter().map(|r| r.word()).collect();
        assert_eq!(words.len(), Refusal::ALL.len());
        assert!(words.iter().all(|w| w.chars().all(|c| c.is_ascii_lowercase() || c == '-')));
    }

    #[test]
    fn each_verdict_counts_in_one_class() {
        let missing = QuarantineReason::VersionMissing;
        let classes = [
            (Verdict::Accepted, "accepted"),
            (Verdict::Repeated, "repeated"),
            (Verdict::Satisfied, "satisfied"),
            (Verdict::Stale, "stale"),
            (Verdict::Refused(Refusal::Stale), "refused"),
            (Verdict::Conflicting(missing), "conflicting"),
            (Verdict::Suspended, "suspended"),
            (Verdict::Quarantined(QuarantineReason::UnknownSchema), "undecodable"),
        ];
        for (verdict, class) in classes {
            assert_eq!(verdict.counter(), class);
        }
    }

    #[test]
    fn only_a_refused_upsert_prevents_a_resurrection() {
        for refusal in Refusal::ALL {
            let verdict = Verdict::Refused(refusal);
            let expected = matches!(refusal, Refusal::Stale | Refusal::Removed);
            assert_eq!(verdict.prevents_resurrection(Op::Upsert), expected, "{refusal}");
            assert!(!verdict.prevents_resurrection(Op::Restore), "{refusal}");
        }
        assert!(!Verdict::Stale.prevents_resurrection(Op::Upsert));
    }

    #[test]
    fn what_waits_in_quarantine_says_why() {
        let missing = QuarantineReason::VersionMissing;
        assert_eq!(Verdict::Conflicting(missing).quarantine(), Some(missing));
        assert_eq!(Verdict::Quarantined(missing).quarantine(), Some(missing));
        assert_eq!(Verdict::Suspended.quarantine(), Some(QuarantineReason::Suspended));
        assert_eq!(Verdict::Refused(Refusal::Stale).quarantine(), None);
    }
}
