//! Whether the log has been proved to be the one that was read, for those who read it again and have
//! no proof of their own.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::source::FeedFault;

/// How long to wait for the reader that has the proof: at a start, all begin at once.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
enum State {
    /// Nobody has come with a proof yet.
    #[default]
    Unasked,
    Proved,
    Failed(FeedFault),
}

/// How the log stands.
#[derive(Debug, Default)]
pub(super) struct Standing {
    state: Mutex<State>,
    changed: Condvar,
}

impl Standing {
    /// Notes what came of the latest proof.
    pub(super) fn note<T>(&self, proved: &Result<T, FeedFault>) {
        *self.state.lock() = match proved {
            Ok(_) => State::Proved,
            Err(fault) => State::Failed(fault.clone()),
        };
        self.changed.notify_all();
    }

    /// Whether the log may be read without a proof.
    ///
    /// # Errors
    /// The fault that was found; none where nobody has come with a proof.
    pub(super) fn proved(&self) -> Result<(), Option<FeedFault>> {
        let mut state = self.state.lock();
        if matches!(*state, State::Unasked) {
            self.changed.wait_for(&mut state, PATIENCE);
        }
        match &*state {
            State::Proved => Ok(()),
            State::Failed(fault) => Err(Some(fault.clone())),
            State::Unasked => Err(None),
        }
    }
}
