//! Whether a look proves that a removal is done.

use crate::{Covers, EvidenceLevel, Version};

/// What was learnt about one removal at one destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// A look by identity found no piece.
    Gone,
    /// A look found pieces.
    Present {
        /// The lowest version among them; none if one has no version of ours.
        oldest: Option<Version>,
    },
    /// There was no look, because the destination can't be read back; it accepted the removal.
    Acknowledged,
    /// The answer was not about the record: a time-out, a refused login, a missing collection.
    Unknown,
}

/// The circumstances of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookContext {
    /// Whether the removal is still owed at this destination.
    pub pending: bool,
    /// The destination's epoch now.
    pub current_epoch: u64,
    /// The destination's epoch when the look began.
    pub look_epoch: u64,
    /// The stamp of this process's commit that made the removal durable; none if there was none.
    pub removed_at: Option<(u64, u64)>,
    /// The stamp of the control record that the look saw; none if it saw none.
    pub seen: Option<(u64, u64)>,
    /// Whether the destination can keep a control record.
    pub keeps_control: bool,
    /// The level that the destination's configuration asks for.
    pub required: EvidenceLevel,
    /// The level that this look gives.
    pub reached: EvidenceLevel,
    /// Whether a request of ours may still be under way that could write the key.
    pub late_write_possible: bool,
    /// What the removal covers.
    pub covers: Covers,
    /// Whether the key was re-opened after this removal: then something newer may be there.
    pub reopened: bool,
}

/// What a look proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// The removal is done here.
    Confirmed,
    /// It is not: remove again.
    StillPresent,
    /// Nothing, yet.
    Waits(WaitReason),
}

/// Why a look proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitReason {
    /// The removal is not owed here, or not any more.
    NotOwed,
    /// The destination was opened anew since, or by somebody else.
    OtherEpoch,
    /// No commit of this process has made the removal durable.
    NotYetDurable,
    /// The look saw a copy as it was before the removal, or one that has lost our record.
    ControlOlder,
    /// A request of ours could still write the key.
    LateWritePossible,
    /// The destination is configured to need more.
    WeakerThanRequired,
    /// The answer was not about the record.
    Unknown,
}

impl WaitReason {
    /// The reason's word in logs and answers.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            WaitReason::NotOwed => "not-owed",
            WaitReason::OtherEpoch => "other-epoch",
            WaitReason::NotYetDurable => "not-yet-durable",
            WaitReason::ControlOlder => "control-older",
            WaitReason::LateWritePossible => "late-write-possible",
            WaitReason::WeakerThanRequired => "weaker-than-required",
            WaitReason::Unknown => "unknown",
        }
    }
}

/// Judges a look. What makes the look itself worthless is asked first, then what it found, then
/// whether that is enough.
#[must_use]
pub fn confirm(finding: &Finding, look: &LookContext) -> Judgement {
    if let Some(reason) = worthless(finding, look) {
        return Judgement::Waits(reason);
    }
    if let Finding::Present { oldest } = finding
        && !only_newer(*oldest, look)
    {
        return Judgement::StillPresent;
    }
    if look.late_write_possible {
        return Judgement::Waits(WaitReason::LateWritePossible);
    }
    // An acknowledgement is one, whatever level the caller believes to have reached.
    let reached = match finding {
        Finding::Acknowledged => EvidenceLevel::Acknowledged,
        _ => look.reached,
    };
    if reached < look.required {
        return Judgement::Waits(WaitReason::WeakerThanRequired);
    }
    Judgement::Confirmed
}

fn worthless(finding: &Finding, look: &LookContext) -> Option<WaitReason> {
    if !look.pending {
        return Some(WaitReason::NotOwed);
    }
    if look.look_epoch != look.current_epoch {
        return Some(WaitReason::OtherEpoch);
    }
    if *finding == Finding::Unknown {
        return Some(WaitReason::Unknown);
    }
    let Some(removed_at) = look.removed_at else {
        return Some(WaitReason::NotYetDurable);
    };
    if !look.keeps_control {
        return None;
    }
    match look.seen {
        None => Some(WaitReason::ControlOlder),
        Some(seen) if seen < removed_at => Some(WaitReason::ControlOlder),
        // Somebody opened the destination above us: what we removed may not be what is there.
        Some((epoch, _)) if epoch > look.current_epoch => Some(WaitReason::OtherEpoch),
        Some(_) => None,
    }
}

/// Whether every piece found belongs to an existence that the removal does not cover.
fn only_newer(oldest: Option<Version>, look: &LookContext) -> bool {
    look.reopened && !look.covers.includes_piece(oldest)
}
