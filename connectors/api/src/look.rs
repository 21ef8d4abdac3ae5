//! What a look at the destination saw.

use cenotaph_core::{Control, EvidenceLevel, Version};

/// What was found of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// No piece of it, in any copy that was looked at.
    Gone,
    /// Pieces of it are there.
    Present {
        /// The lowest version among them; none if one of them has no version of ours, which is
        /// below everything.
        oldest: Option<Version>,
    },
    /// The look gave no answer about this object: a missing index, a refused login, a partial
    /// result, a time-out. Never an absence.
    Unknown {
        /// Why, without content.
        why: String,
    },
}

/// One look, for a list of removals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// One finding a removal, same length and order.
    pub findings: Vec<Finding>,
    /// How strong an absence in it is.
    pub level: EvidenceLevel,
    /// Which copies were looked at, by name.
    pub copies: Vec<String>,
    /// How it was looked for, in a few words.
    pub method: String,
    /// The control record that stood in what was looked at.
    pub control: Option<Control>,
}
