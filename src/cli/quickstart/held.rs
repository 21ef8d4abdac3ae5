//! A destination that is held back for a moment, so that a closed gate can be seen.

use cenotaph_connector::{
    Capabilities, Commit, Connector, Fault, Look, Outcome, Page, Purge, Removal, Upsert,
    async_trait,
};
use cenotaph_core::{Control, EvidenceLevel};
use tokio::sync::watch;

/// A connector whose removals wait until they are let go.
pub(super) struct Held {
    /// The connector.
    pub(super) inner: Box<dyn Connector>,
    /// True once removals may go.
    pub(super) free: watch::Receiver<bool>,
}

#[async_trait]
impl Connector for Held {
    async fn open(&mut self) -> Result<Option<Control>, Fault> {
        self.inner.open().await
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn apply(&mut self, upserts: &[Upsert]) -> Vec<Outcome> {
        self.inner.apply(upserts).await
    }

    async fn remove(&mut self, removals: &[Removal]) -> Vec<Outcome> {
        // A sender that is gone lets go as well.
        let _ = self.free.wait_for(|free| *free).await;
        self.inner.remove(removals).await
    }

    async fn commit(
        &mut self,
        control: &Control,
        expected: Option<&Control>,
    ) -> Result<Commit, Fault> {
        self.inner.commit(control, expected).await
    }

    async fn verify(&mut self, removals: &[Removal], level: EvidenceLevel) -> Result<Look, Fault> {
        self.inner.verify(removals, level).await
    }

    async fn purge(&mut self, removals: &[Removal]) -> Vec<Result<Purge, Fault>> {
        self.inner.purge(removals).await
    }

    async fn scan(&mut self, after: Option<&str>, limit: usize) -> Result<Page, Fault> {
        self.inner.scan(after, limit).await
    }

    fn backlog(&mut self, behind: bool) {
        self.inner.backlog(behind);
    }

    async fn close(&mut self) -> Result<(), Fault> {
        self.inner.close().await
    }
}
