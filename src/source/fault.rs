//! What can be wrong with a feed.

use cenotaph_core::Position;

/// What an operator can do until a new epoch can be accepted.
const PUT_IT_BACK: &str = "put the original log back where it was; \
     `cenotaph source accept-new-epoch`, which goes on with another log, comes with a later release";

/// What is wrong with a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// It is not there.
    Missing,
    /// It is there and can't be read: its kind, its permissions, the device.
    Unreadable,
    /// It is shorter than what was read of it.
    Truncated,
    /// Another one has taken its place.
    Rotated,
    /// What was read of it reads otherwise now.
    Rewritten,
    /// The cursor or its proof does not belong to this feed and epoch.
    CursorForeign,
    /// Nobody has shown yet that it is the one that was read.
    Unproved,
    /// It has no such partition.
    NoSuchPartition,
}

impl FaultKind {
    /// The kind's word in states, logs and metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            FaultKind::Missing => "missing",
            FaultKind::Unreadable => "unreadable",
            FaultKind::Truncated => "truncated",
            FaultKind::Rotated => "rotated",
            FaultKind::Rewritten => "rewritten",
            FaultKind::CursorForeign => "cursor-foreign",
            FaultKind::Unproved => "unproved",
            FaultKind::NoSuchPartition => "no-such-partition",
        }
    }

    /// What its owner can do.
    fn advice(self) -> &'static str {
        match self {
            FaultKind::Missing => "put the log there, or correct the path in `[source]`",
            FaultKind::Unreadable => "make it a file that this user may read",
            FaultKind::Unproved => "it is read again by itself as soon as the partition is read on",
            FaultKind::NoSuchPartition => "correct the feed in `[source]`",
            FaultKind::Truncated
            | FaultKind::Rotated
            | FaultKind::Rewritten
            | FaultKind::CursorForeign => PUT_IT_BACK,
        }
    }
}

impl std::fmt::Display for FaultKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

/// A partition can't be read on: the feed is not there, or not the one that was read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{feed}: {kind}{}: {detail}; {advice}", at(*.offset))]
pub struct FeedFault {
    /// What is wrong.
    pub kind: FaultKind,
    /// Where: the log's path.
    pub feed: String,
    /// The partition.
    pub partition: u32,
    /// The offset up to which it had been read, where that matters.
    pub offset: Option<u64>,
    /// What was expected and what was found; never content.
    pub detail: String,
    /// What to do about it.
    pub advice: String,
}

impl FeedFault {
    /// A fault of a kind, with the advice that belongs to it.
    #[must_use]
    pub fn new(
        kind: FaultKind,
        feed: impl Into<String>,
        partition: u32,
        offset: Option<u64>,
        detail: impl Into<String>,
    ) -> FeedFault {
        let advice = kind.advice().to_owned();
        FeedFault { kind, feed: feed.into(), partition, offset, detail: detail.into(), advice }
    }
}

fn at(offset: Option<u64>) -> String {
    offset.map(|offset| format!(" at offset {offset}")).unwrap_or_default()
}

/// A record could not be read again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadAtError {
    /// The feed does not hold it any more.
    #[error("the record at offset {} of epoch {} can't be read any more: {why}", .position.offset, .position.epoch)]
    Gone {
        /// Where it stood.
        position: Position,
        /// What is there instead; never content.
        why: String,
    },
    /// The feed itself is at fault.
    #[error(transparent)]
    Fault(#[from] FeedFault),
}
