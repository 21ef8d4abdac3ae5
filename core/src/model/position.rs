//! Where in the stream something stands.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Where one record was read. Order is only meaningful within one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// The partition of the feed.
    pub partition: u32,
    /// The feed's epoch: raised when the feed is recreated.
    pub epoch: u32,
    /// The record's offset: the byte at which its line begins, or its Kafka offset.
    pub offset: u64,
}

impl Position {
    /// The cursor that stands before this record.
    #[must_use]
    pub fn cursor(self) -> Cursor {
        Cursor { epoch: self.epoch, offset: self.offset }
    }
}

/// How far a partition has been read: everything before `offset` counts as read.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Cursor {
    /// The feed's epoch.
    pub epoch: u32,
    /// The offset of the next record to read.
    pub offset: u64,
}

/// A cursor for each partition; one that is missing stands at the beginning.
pub type Cursors = BTreeMap<u32, Cursor>;
