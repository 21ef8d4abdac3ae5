//! Whether a destination is still the copy that we left there.

use crate::Control;

/// What the ledger expects of a destination's control record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected<'a> {
    /// This ledger's id, in hexadecimal.
    pub ledger: &'a str,
    /// The destination's name.
    pub destination: &'a str,
    /// Epoch and number of the last commit that was noted; none before the first.
    pub noted: Option<(u64, u64)>,
    /// The highest epoch that this ledger has opened it under.
    pub opened: u64,
    /// Whether this ledger's chain has a fact of the found record's number with its hash. Only
    /// looked at where a record was found.
    pub knows_fact: bool,
}

/// What a found control record means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlState {
    /// There is none, and none was ever noted: a new destination.
    Fresh,
    /// It is the last one noted.
    Current,
    /// It is ours and above the last one noted: we were stopped between the destination's commit
    /// and our note of it. Going on from the lower of both cursors is harmless.
    Ahead {
        /// Its epoch and commit.
        found: (u64, u64),
    },
    /// It is ours and below the last one noted: the copy went back in time.
    Older {
        /// Its epoch and commit.
        found: (u64, u64),
    },
    /// There is none although commits were noted: the copy was emptied, or is another one.
    Missing,
    /// It belongs to another ledger, or to another destination of this one.
    Foreign,
    /// It was written after a fact, an epoch or a commit that our journal lacks: the ledger itself
    /// went back in time.
    LedgerWentBack,
}

/// Judges the control record that a destination answered.
#[must_use]
pub fn judge_control(found: Option<&Control>, expected: &Expected<'_>) -> ControlState {
    let Some(found) = found else {
        return match expected.noted {
            None => ControlState::Fresh,
            Some(_) => ControlState::Missing,
        };
    };
    if found.ledger != expected.ledger || found.destination != expected.destination {
        return ControlState::Foreign;
    }
    // Before its age: facts are kept for ever, so even an old record of ours names one we know.
    let stamp = found.stamp();
    if !expected.knows_fact || lacks(expected, stamp) {
        return ControlState::LedgerWentBack;
    }
    match expected.noted {
        Some(noted) if stamp == noted => ControlState::Current,
        Some(noted) if stamp < noted => ControlState::Older { found: stamp },
        _ => ControlState::Ahead { found: stamp },
    }
}

/// Whether a record tells of an epoch or a commit that this ledger must have noted and has not. An
/// epoch is noted before it is written anywhere, and each commit before the next one is written: only
/// one commit can be there that is not noted.
fn lacks(expected: &Expected<'_>, (epoch, commit): (u64, u64)) -> bool {
    let next = match expected.noted {
        Some((noted, last)) if noted == epoch => last + 1,
        // The first commit of an epoch; one below the last that was noted is older, whatever it says.
        Some((noted, _)) if noted > epoch => return false,
        _ => 0,
    };
    epoch > expected.opened || commit > next
}
