//! What the writer shows and everybody may read.

use std::sync::Arc;

use cenotaph_core::KeyHasher;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use tokio::sync::watch;

use super::committed::{Chain, Committed, apply};
use super::counts::Counts;
use super::error::LedgerError;

/// The committed state and the signals about it.
pub(super) struct Shared {
    committed: RwLock<Committed>,
    revision: watch::Sender<u64>,
    counts: Mutex<Counts>,
    failure: Mutex<Option<LedgerError>>,
    ledger_id: String,
    hasher: KeyHasher,
}

impl Shared {
    pub(super) fn new(committed: Committed, ledger_id: String, hasher: KeyHasher) -> Arc<Shared> {
        Arc::new(Shared {
            committed: RwLock::new(committed),
            revision: watch::Sender::new(0),
            counts: Mutex::default(),
            failure: Mutex::default(),
            ledger_id,
            hasher,
        })
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Committed> {
        self.committed.read()
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Committed) -> T) -> T {
        change(&mut self.committed.write())
    }

    /// Shows what a synced frame says.
    pub(super) fn show(
        &self,
        records: &[cenotaph_core::Record],
        chain: Chain,
    ) -> Result<(), LedgerError> {
        self.change(|committed| apply(committed, records, chain))
    }

    pub(super) fn wake(&self) {
        self.revision.send_modify(|revision| *revision += 1);
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    pub(super) fn count(&self, counts: &Counts) {
        if !counts.add_up() {
            // I9: a record that is not accounted for may be a deletion.
            let (read, counted) = (counts.read, counts.total());
            tracing::error!(read, counted, "not every record that was read was counted once");
        }
        self.counts.lock().add(counts);
        crate::metrics::ingested(counts);
    }

    pub(super) fn counts(&self) -> Counts {
        *self.counts.lock()
    }

    pub(super) fn fail(&self, error: &LedgerError) {
        self.failure.lock().get_or_insert_with(|| error.clone());
        self.wake();
    }

    pub(super) fn failure(&self) -> Option<LedgerError> {
        self.failure.lock().clone()
    }

    pub(super) fn ledger_id(&self) -> &str {
        &self.ledger_id
    }

    pub(super) fn hasher(&self) -> KeyHasher {
        self.hasher.clone()
    }
}
