//! One count for every record of the stream (I9).

use cenotaph_core::Op;
use cenotaph_core::decide::Verdict;

/// Records of the stream by what became of them, for one batch or one run of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Read, as whoever read them counted them; the classes below must add up to it.
    pub read: u64,
    /// Changed an entry.
    pub accepted: u64,
    /// Came before.
    pub repeated: u64,
    /// Deletions of what is removed already.
    pub satisfied: u64,
    /// Older than a live entry.
    pub stale: u64,
    /// Not allowed.
    pub refused: u64,
    /// Contradict what is known.
    pub conflicting: u64,
    /// Wait behind a conflict of their key.
    pub suspended: u64,
    /// Not readable, or of an unknown schema or collection.
    pub undecodable: u64,
    /// Nothing to do by the format's rules, or of a collection that is ignored.
    pub ignored: u64,
    /// Named barriers.
    pub barriers: u64,
    /// Among the refused: would have brought a removed object back.
    pub resurrections_refused: u64,
    /// Among the undecodable: deletions.
    pub undecodable_deletions: u64,
}

impl Counts {
    /// Counts one decided change.
    pub fn count(&mut self, op: Op, verdict: Verdict) {
        let class = match verdict {
            Verdict::Accepted => &mut self.accepted,
            Verdict::Repeated => &mut self.repeated,
            Verdict::Satisfied => &mut self.satisfied,
            Verdict::Stale => &mut self.stale,
            Verdict::Refused(_) => &mut self.refused,
            Verdict::Conflicting(_) => &mut self.conflicting,
            Verdict::Suspended => &mut self.suspended,
            Verdict::Quarantined(_) => &mut self.undecodable,
        };
        *class += 1;
        self.resurrections_refused += u64::from(verdict.prevents_resurrection(op));
        let unread_deletion = op == Op::Delete && matches!(verdict, Verdict::Quarantined(_));
        self.undecodable_deletions += u64::from(unread_deletion);
    }

    /// Every class that I9 adds up, with its word.
    #[must_use]
    pub fn classes(&self) -> [(&'static str, u64); 10] {
        [
            ("accepted", self.accepted),
            ("repeated", self.repeated),
            ("satisfied", self.satisfied),
            ("stale", self.stale),
            ("refused", self.refused),
            ("conflicting", self.conflicting),
            ("suspended", self.suspended),
            ("undecodable", self.undecodable),
            ("ignored", self.ignored),
            ("barriers", self.barriers),
        ]
    }

    /// How many records of the stream were counted by what became of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.classes().iter().map(|(_, count)| count).sum()
    }

    /// Whether every record that was read is counted once (I9).
    #[must_use]
    pub fn add_up(&self) -> bool {
        self.read == self.total()
    }

    /// Adds another batch's.
    pub fn add(&mut self, other: &Counts) {
        self.read += other.read;
        self.accepted += other.accepted;
        self.repeated += other.repeated;
        self.satisfied += other.satisfied;
        self.stale += other.stale;
        self.refused += other.refused;
        self.conflicting += other.conflicting;
        self.suspended += other.suspended;
        self.undecodable += other.undecodable;
        self.ignored += other.ignored;
        self.barriers += other.barriers;
        self.resurrections_refused += other.resurrections_refused;
        self.undecodable_deletions += other.undecodable_deletions;
    }
}
