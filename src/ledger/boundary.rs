//! The durable boundaries of the ledger: where a kill leaves one thing written and the next one not.
//! Tests look at what stands on the disk there. Outside of them nothing of this does anything.

use std::path::Path;

use cenotaph_core::Record;

/// A boundary, named after what was done last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Boundary {
    /// The journal of a new ledger is made, its identity is not.
    JournalMade,
    /// The identity is made, the view is not.
    IdentityMade,
    /// The view is opened, nothing is replayed.
    ViewOpened,
    /// A frame is written and not synced.
    FrameWritten,
    /// A frame is synced and not shown.
    FrameSynced,
    /// A checkpoint has begun a new segment.
    SegmentBegun,
    /// The table is frozen, nothing of it is written.
    Frozen,
    /// The buckets are written.
    BucketsWritten,
    /// Everything but the meta record is written and synced.
    RestSynced,
    /// The meta record is written and not synced.
    MetaWritten,
    /// The meta record is synced: the checkpoint stands.
    MetaSynced,
    /// The small state of the checkpoint before is gone.
    StateDropped,
    /// A segment's rewritten form is written beside it.
    SegmentWritten,
    /// It has taken the segment's place.
    SegmentReplaced,
}

/// A boundary is reached in a ledger's folder, or in one below it.
#[cfg(not(test))]
pub(super) fn at(_: Boundary, _: &Path) {}

/// The same, with the records of a frame.
#[cfg(not(test))]
pub(super) fn at_frame(_: Boundary, _: &Path, _: &[Record]) {}

#[cfg(test)]
pub(super) fn at(boundary: Boundary, path: &Path) {
    at_frame(boundary, path, &[]);
}

#[cfg(test)]
pub(super) fn at_frame(boundary: Boundary, path: &Path, records: &[Record]) {
    if let Some(hook) = hooks::of(path) {
        hook(boundary, records);
    }
}

#[cfg(test)]
pub(crate) mod hooks {
    //! Who looks, by the ledger's folder: tests run side by side.

    use std::path::PathBuf;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::{Boundary, Path, Record};

    pub(crate) type Hook = Arc<dyn Fn(Boundary, &[Record]) + Send + Sync>;

    static HOOKS: Mutex<Vec<(PathBuf, Hook)>> = Mutex::new(Vec::new());

    pub(crate) fn set(ledger: PathBuf, hook: Hook) {
        HOOKS.lock().push((ledger, hook));
    }

    pub(crate) fn remove(ledger: &Path) {
        HOOKS.lock().retain(|(known, _)| known != ledger);
    }

    pub(super) fn of(path: &Path) -> Option<Hook> {
        let hooks = HOOKS.lock();
        let its = hooks.iter().find(|(ledger, _)| path.starts_with(ledger));
        its.map(|(_, hook)| Arc::clone(hook))
    }
}
