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

    /// The fact's hash as bytes; none if the text is no hash.
    #[must_use]
    pub fn fact_hash(&self) -> Option<FactHash> {
        let digits = self.fact_hash.as_bytes();
        let mut hash = [0; 32];
        if digits.len() != 2 * hash.len() {
            return None;
        }
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).ok()?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        let hash = FactHash(hash);
        (hash.to_string() == self.fact_hash).then_some(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cursor;

    fn control() -> Control {
        let cursor = |epoch, offset| Cursor { epoch, offset };
        Control {
            ledger: "00ff".into(),
            destination: "qdrant \"main\"".into(),
            epoch: 3,
            commit: u64::MAX,
            cursors: [(0, cursor(0, 12)), (7, cursor(1, 0))].into(),
            fact: 71,
            fact_hash: FactHash([0xab; 32]).to_string(),
        }
    }

    /// Destinations hold this text for years: what is written today must be readable then.
    const TEXT: &str = r#"{"ledger":"00ff","destination":"qdrant \"main\"","epoch":3,"commit":18446744073709551615,"cursors":{"0":{"epoch":0,"offset":12},"7":{"epoch":1,"offset":0}},"fact":71,"fact_hash":"abababababababababababababababababababababababababababababababab"}"#;

    #[test]
    fn the_text_is_one_line_that_stays_as_it_is() -> Result<(), ControlError> {
        assert_eq!(control().to_text(), TEXT);
        assert_eq!(Control::from_text(TEXT)?, control());
        Ok(())
    }

    #[test]
    fn what_is_no_control_record_is_an_error_and_not_an_absent_one() {
        let cut_off = &TEXT[..TEXT.len() - 1];
        for text in ["", "{}", "null", "[]", "{\"ledger\":\"00ff\"}", cut_off] {
            assert!(Control::from_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn records_follow_each_other_by_epoch_and_then_commit() {
        let at = |epoch, commit| Control { epoch, commit, ..control() }.stamp();
        assert!(at(3, 900) < at(4, 0));
        assert!(at(4, 0) < at(4, 1));
    }

    #[test]
    fn a_fact_hash_is_compared_whole() {
        assert_eq!(control().fact_hash(), Some(FactHash([0xab; 32])));
        let mut other = [0xab; 32];
        other[31] = 0;
        assert_ne!(control().fact_hash(), Some(FactHash(other)));
        let short = Control { fact_hash: "abab".into(), ..control() };
        assert_eq!(short.fact_hash(), None);
    }
}
