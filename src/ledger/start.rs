//! Opens a ledger: lock, identity, journal against witness, view, replay; then starts its writer.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use cenotaph_core::KeyHasher;
use tokio::sync::mpsc;

use super::committed::Committed;
use super::draft::Room;
use super::error::LedgerError;
use super::handle::{Ledger, PROPOSALS};
use super::keeping::{Keeping, decode};
use super::proposal::Proposal;
use super::replay::replay;
use super::requests::RequestsKept;
use super::rules::Rules;
use super::shared::Shared;
use super::storage::{OpenError, Opened, Options, Storage};
use super::writer::Writer;
use crate::clock::Clock;
use crate::window::Window;

/// Where a ledger is, and its limits.
#[derive(Debug, Clone)]
pub struct LedgerOptions {
    /// Its folder.
    pub dir: PathBuf,
    /// The cache of the view, in bytes.
    pub cache_bytes: u64,
    /// Objects changed before a checkpoint is made.
    pub checkpoint_objects: usize,
    /// Journal bytes that are kept whole, so that the view can be built anew from them.
    pub journal_whole_bytes: u64,
}

/// A ledger could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its files are not as they should be.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What they say does not add up.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The writer's thread could not be started.
    #[error("the ledger's thread could not be started: {0}; raise the process's limits")]
    Thread(#[from] std::io::Error),
}

/// The writer's thread.
pub type WriterThread = JoinHandle<Result<(), LedgerError>>;

/// Opens a ledger and starts its writer.
///
/// # Errors
/// [`StartError`], if its files cannot be trusted: nothing is decided then.
pub fn start(
    options: LedgerOptions,
    rules: Rules,
    clock: Clock,
    window: Arc<Window>,
) -> Result<(Ledger, WriterThread), StartError> {
    let (sender, proposals) = mpsc::channel(PROPOSALS);
    let weak = sender.downgrade();
    let wake = move || {
        if let Some(sender) = weak.upgrade() {
            // A full queue wakes the writer as well.
            let _ = sender.try_send(Proposal::Tend);
        }
    };
    let opened = Storage::open(
        &options.dir,
        Options {
            table_objects: options.checkpoint_objects,
            cache_bytes: options.cache_bytes,
            keep_bytes: options.journal_whole_bytes,
            requests_kept: RequestsKept::each_for(rules.requests_kept),
            wake: Some(Arc::new(wake)),
            ..Options::default()
        },
    )?;
    tell(&opened);
    let Opened { mut storage, tables, state, view_mark, .. } = opened;
    let mut committed = Committed::new(decode(&state)?, tables, storage.reader());
    replay(&mut storage, &mut committed, view_mark, options.checkpoint_objects)?;
    committed.after_unclean_stop = committed.books.in_use;
    // A replayed opening was another process's.
    committed.books.opened.clear();
    let identity = storage.identity();
    let hasher = KeyHasher::new(identity.key.clone());
    let shared = Shared::new(committed, identity.ledger.to_string(), hasher);
    let keeping = Keeping::new(storage, options.checkpoint_objects);
    let writer = Writer {
        keeping,
        shared: Arc::clone(&shared),
        rules,
        clock,
        window,
        room: Room::default(),
        gates_due: 0,
    };
    let thread = std::thread::Builder::new()
        .name("ledger-writer".into())
        .spawn(move || writer.run(proposals))?;
    Ok((Ledger::new(sender, shared), thread))
}

fn tell(opened: &Opened) {
    let report = &opened.report;
    if let Some(why) = &report.rebuilt_view {
        tracing::warn!(%why, "the ledger's view is built anew from its journal");
    }
    if report.cut_bytes > 0 {
        tracing::info!(
            bytes = report.cut_bytes,
            "an unfinished frame at the journal's end was cut off; nobody had been told of it"
        );
    }
}

#[cfg(test)]
mod tests;
