//! From tantivy's errors to faults.

use std::io;

use cenotaph_connector::{Class, Fault, Owner};
use tantivy::TantivyError;
use tantivy::directory::error::LockError;

/// What went wrong while doing this. The caller knows what may have happened.
pub(crate) fn fault(class: Class, doing: &str, error: &TantivyError) -> Fault {
    let (owner, advice) = match error {
        TantivyError::LockFailure(LockError::LockBusy, _) => (
            Owner::Operator,
            "another process has the index open for writing: stop it, or give this destination a \
             folder of its own",
        ),
        TantivyError::IoError(_)
        | TantivyError::LockFailure(..)
        | TantivyError::OpenDirectoryError(_)
        | TantivyError::OpenReadError(_)
        | TantivyError::OpenWriteError(_) => {
            (Owner::Operator, "check the destination's folder: is it there, space, rights")
        }
        TantivyError::DataCorruption(_) | TantivyError::IncompatibleIndex(_) => {
            (Owner::Operator, "the index is damaged: remove its folder, and it is filled again")
        }
        TantivyError::ErrorInThread(_) | TantivyError::SystemError(_) => {
            (Owner::Operator, "look for a full disk or too little memory; cenotaph tries again")
        }
        _ => (Owner::Cenotaph, "report it with this text"),
    };
    Fault { class, owner, what: format!("{doing}: {error}"), advice: advice.into() }
}

/// What went wrong with a file.
pub(crate) fn io_fault(class: Class, doing: &str, error: io::Error) -> Fault {
    fault(class, doing, &TantivyError::from(error))
}
