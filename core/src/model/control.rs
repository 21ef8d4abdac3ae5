//! The control record that a destination keeps for us.

use serde::{Deserialize, Serialize};

use super::{Cursors, FactHash};

/// A small record of ours inside a destination, written with each commit and only over the one
/// expected there. It tells whose copy this is and how far it got, so that a copy restored from a
/// backup, emptied or pointed elsewhere is noticed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// The ledger that owns this destination, in hexadecimal.
    pub ledger: String,
    /// The destination's name in that ledger.
    pub destination: String,
    /// Raised each time the ledger opens the destination.
    pub epoch: u64,
    /// Counts the commits of an epoch; the opening itself is commit 0.
    pub commit: u64,
    /// How far each partition's changes had got.
    pub cursors: Cursors,
    /// The number of the last fact in the ledger's chain at that time.
    pub fact: u64,
    /// That fact's hash, in hexadecimal.
    pub fact_hash: String,
}

/// A destination held something else where our control record should be.
#[derive(Debug, thiserror::Error)]
#[error("the control record is not readable: {0}")]
pub struct ControlError(String);

impl Control {
    /// As text: one line of JSON.
    #[must_use]
    pub fn to_text(&self) -> String {
        // A struct of strings and numbers always has a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// From [`Control::to_text`].
    ///
    /// # Errors
    /// [`ControlError`] if the text is not a control record.
    pub fn from_text(text: &str) -> Result<Control, ControlError> {
        serde_json::from_str(text).map_err(|error| ControlError(error.to_string()))
    }

    /// Epoch and commit, the order in which control records follow each other.
    #[must_use]
    pub fn stamp(&self) -> (u64, u64) {
        (self.epoch, self.commit)
    }

    /// The fact hash as bytes, if it is one.
    #[must_use]
    pub fn fact_hash_is(&self, hash: &FactHash) -> bool {
        self.fact_hash == hash.to_string()
    }
}
