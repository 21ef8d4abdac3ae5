//! From a raw record to what the stream says: one file a format; refuses, never guesses.
//!
//! What can't be read goes to quarantine by its position: [`Undecodable`] says where the fault is and
//! what was expected, and never repeats what stands there.

pub mod cenotaph;

use bytestring::ByteString;
use cenotaph_core::{Incoming, QuarantineReason};

use crate::source::RawRecord;

/// What configuration gives to the changes of a source that do not say it themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Defaults {
    /// The tenant.
    pub tenant: Option<ByteString>,
    /// The collection.
    pub collection: Option<ByteString>,
    /// The producing system.
    pub source: Option<ByteString>,
}

/// A record that is not what its format says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Undecodable {
    /// Why it goes to quarantine.
    pub reason: QuarantineReason,
    /// The field at fault and what was expected there; never content.
    pub detail: String,
    /// The op could be read and was a deletion: somebody believes that this object will be removed.
    pub deletion: bool,
}

/// The format of a source's records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// The native one: a JSON object a record.
    #[default]
    Cenotaph,
}

/// Reads the records of one source.
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    /// How they are written.
    pub format: Format,
    /// What they may leave out.
    pub defaults: Defaults,
}

impl Decoder {
    /// What a record says. Its names and its payload share the record's bytes.
    ///
    /// # Errors
    /// [`Undecodable`] if it is too large or is not what its format says.
    pub fn decode(&self, record: RawRecord) -> Result<Incoming, Undecodable> {
        if let Some(length) = record.too_large {
            return Err(Undecodable {
                reason: QuarantineReason::TooLarge,
                detail: format!("the record is {length} bytes long"),
                deletion: false,
            });
        }
        match self.format {
            Format::Cenotaph => cenotaph::decode(record.bytes, record.position, &self.defaults),
        }
    }
}
