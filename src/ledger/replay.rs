//! Replays the journal behind the view, at start, in bounded memory: a table that is full is written
//! into the view before the rest is replayed. A view that is built anew goes the same way, so that a
//! kill on the way costs no more than the last table.

use std::time::Duration;

use super::checkpoint::Checkpointing;
use super::committed::{Chain, Committed, apply};
use super::error::LedgerError;
use super::frame::Mark;
use super::journal::JournalError;
use super::keeping::small_state;
use super::storage::Storage;

/// Why it does not go on to the end.
enum Pause {
    /// The table is full; everything up to here is in it.
    Full(Mark),
    /// It cannot.
    Error(LedgerError),
}

impl From<JournalError> for Pause {
    fn from(error: JournalError) -> Pause {
        Pause::Error(error.into())
    }
}

impl From<LedgerError> for Pause {
    fn from(error: LedgerError) -> Pause {
        Pause::Error(error)
    }
}

/// Replays everything after `from`.
pub(super) fn replay(
    storage: &mut Storage,
    committed: &mut Committed,
    mut from: Mark,
    most_objects: usize,
) -> Result<(), LedgerError> {
    loop {
        let replayed = storage.replay(from, |replayed| {
            let mark = replayed.mark;
            let chain = Chain { frame: mark.frame, last_fact: (mark.fact, mark.fact_hash) };
            apply(committed, &replayed.records, chain)?;
            let full = committed.tables().active.is_full(most_objects);
            if full { Err(Pause::Full(mark)) } else { Ok(()) }
        });
        match replayed {
            Ok(()) => return Ok(()),
            Err(Pause::Full(mark)) => {
                write(storage, committed, mark)?;
                from = mark;
            }
            Err(Pause::Error(error)) => return Err(error),
        }
    }
}

fn write(
    storage: &mut Storage,
    committed: &mut Committed,
    through: Mark,
) -> Result<(), LedgerError> {
    let state = small_state(&committed.books)?;
    storage.checkpoint_through(committed.tables_mut(), state, through)?;
    // Nobody asks yet: there is nothing else to do meanwhile.
    while matches!(storage.poll_checkpoint(committed.tables_mut())?, Checkpointing::Writing(_)) {
        std::thread::sleep(Duration::from_millis(1));
    }
    tracing::info!(frame = through.frame, "replayed and written so far");
    Ok(())
}
