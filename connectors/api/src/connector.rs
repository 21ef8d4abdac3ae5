//! The contract.

use async_trait::async_trait;
use cenotaph_core::{Control, EvidenceLevel, Version};

use crate::{Capabilities, Fault, Look, Removal, Upsert};

/// What became of one record of a call.
pub type Outcome = Result<(), Fault>;

/// What became of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Commit {
    /// All that came before is durable and visible, and the control record stands with it.
    Done,
    /// Nothing was committed: another control record than the expected one was found.
    Found(Option<Control>),
}

/// What became of one purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purge {
    /// The bytes are gone from every file of the destination.
    Purged,
    /// Not yet; ask again.
    Pending,
    /// This destination cannot do it.
    Unsupported,
}

/// One object that a destination holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Its id, as [`Removal::id`] makes it, or whatever stands there if it is not ours.
    pub id: String,
    /// The lowest version among its pieces; none if one has no version of ours.
    pub oldest: Option<Version>,
}

/// A page of what a destination holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// What is there.
    pub held: Vec<Held>,
    /// Where the next page begins; none after the last.
    pub next: Option<String>,
}

/// One derived copy.
///
/// # Calls
/// One at a time, from a thread that belongs to this destination: a call may block, and one that
/// never returns delays only this destination. After any fault the next call may be any but `open`
/// again; after `close` there is none.
///
/// # What must hold
/// 1. **Durable means durable**: what `commit` answered survives a kill of the process.
/// 2. **Applying twice changes nothing**, and neither does removing twice. What is absent already is
///    removed.
/// 3. **A removal removes every piece** at or below what it covers, and nothing above.
/// 4. **`verify` looks**: at the store as a reader sees it, never at what this process remembers or
///    at an echo of a request. Only what is about the object counts; anything else is
///    [`Finding::Unknown`](crate::Finding::Unknown).
/// 5. **No content** in any fault, method or name.
#[async_trait]
pub trait Connector: Send {
    /// Connects, checks access and schema, creates what it owns, and answers the control record it
    /// finds. Idempotent.
    ///
    /// # Errors
    /// Whatever keeps the destination from working; nothing has been written then.
    async fn open(&mut self) -> Result<Option<Control>, Fault>;

    /// What this connector can do.
    fn capabilities(&self) -> Capabilities;

    /// Makes each object be exactly the pieces of its version. At most one upsert a key in a call.
    /// Where the store has a fence, a stored version above ours wins; where it has none, the
    /// caller's order suffices and no look-up is needed. One outcome a record, same length and
    /// order. Visible only after `commit`.
    async fn apply(&mut self, upserts: &[Upsert]) -> Vec<Outcome>;

    /// Removes every piece of each object at or below what the removal covers. One outcome a
    /// record, same length and order. An outcome is an acknowledgement, not a confirmation.
    async fn remove(&mut self, removals: &[Removal]) -> Vec<Outcome>;

    /// Makes all that was applied and removed before durable and visible to readers, and stores
    /// `control` with it, if the record there now is `expected`.
    ///
    /// After any other answer than `Done` the caller applies and removes again whatever it had done
    /// since the last commit; the connector has dropped it, so that no later commit holds a part
    /// of it. (A store that shows each write at once cannot: there, doing it again is harmless.)
    ///
    /// # Errors
    /// A retriable fault if nothing of it happened, an uncertain one if it may have.
    async fn commit(
        &mut self,
        control: &Control,
        expected: Option<&Control>,
    ) -> Result<Commit, Fault>;

    /// Tells whether a backlog of changes is being written: as many as a commit holds are sent, and
    /// more are ready. Told when it changes, before the next commit; there always is one. Only a
    /// hint: what costs time and makes nothing visible (merging, compacting) may be put off
    /// meanwhile, within a bound of the connector's own. No promise here depends on it, and after
    /// `open` there is no backlog.
    fn backlog(&mut self, _behind: bool) {}

    /// Looks for each removal's object, by identity, in every copy it can enumerate. Called after
    /// `commit`; answers what is durable and visible. At `Purged` it also looks for bytes: an object
    /// that cannot be read, and whose bytes are still there, is `Unknown`; if nobody can tell whose
    /// bytes they are, the whole look's level stays below `Purged`. Then `purge`, and look again.
    ///
    /// # Errors
    /// Whatever kept it from looking at all.
    async fn verify(&mut self, removals: &[Removal], level: EvidenceLevel) -> Result<Look, Fault>;

    /// Makes the bytes of what was removed, and committed, go. One answer a record, same length and
    /// order. `Pending` means that it goes on by itself: ask again, and do other work meanwhile.
    async fn purge(&mut self, removals: &[Removal]) -> Vec<Result<Purge, Fault>>;

    /// Lists what the destination holds, in pages of at most `limit` (at least 1), in an order of
    /// its own that a write between two pages does not disturb. `after` is the last page's `next`;
    /// the last page may be empty.
    ///
    /// # Errors
    /// Whatever kept it from listing.
    async fn scan(&mut self, after: Option<&str>, limit: usize) -> Result<Page, Fault>;

    /// Releases everything. What was not committed may be lost.
    ///
    /// # Errors
    /// Whatever could not be released.
    async fn close(&mut self) -> Result<(), Fault>;
}
