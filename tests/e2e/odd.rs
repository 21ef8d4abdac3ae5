//! A connector with one odd thing about it.

use std::sync::Arc;

use cenotaph_connector::{
    Capabilities, Commit, Connector, Fault, Look, Outcome, Page, Purge, Removal, Upsert,
    async_trait,
};
use cenotaph_core::{Control, EvidenceLevel};

/// Done before each `apply`.
type Before = Arc<dyn Fn(&[Upsert]) + Send + Sync>;

/// A connector that says other things of itself, does something before it
/// applies, or finds another control record than it holds.
pub struct Odd {
    pub inner: Box<dyn Connector>,
    pub says: fn(Capabilities) -> Capabilities,
    pub before_apply: Before,
    pub finds: fn(Option<Control>) -> Option<Control>,
}

impl Odd {
    pub fn new(inner: Box<dyn Connector>) -> Odd {
        Odd { inner, says: |usual| usual, before_apply: Arc::new(|_| ()), finds: |there| there }
    }
}

#[async_trait]
impl Connector for Odd {
    async fn open(&mut self) -> Result<Option<Control>, Fault> {
        self.inner.open().await.map(self.finds)
    }

    fn capabilities(&self) -> Capabilities {
        (self.says)(self.inner.capabilities())
    }

    async fn apply(&mut self, upserts: &[Upsert]) -> Vec<Outcome> {
        (self.before_apply)(upserts);
        self.inner.apply(upserts).await
    }

    async fn remove(&mut self, removals: &[Removal]) -> Vec<Outcome> {
        self.inner.remove(removals).await
    }

    async fn commit(
        &mut self,
        control: &Control,
        expected: Option<&Control>,
    ) -> Result<Commit, Fault> {
        self.inner.commit(control, expected).await
    }

    fn backlog(&mut self, behind: bool) {
        self.inner.backlog(behind);
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

    async fn close(&mut self) -> Result<(), Fault> {
        self.inner.close().await
    }
}
