//! How a command ends.

use std::io::Write as _;
use std::process::ExitCode;

/// The exit codes, fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Failed.
    Failed = 1,
    /// Usage or configuration.
    Usage = 2,
    /// Something needed can't be reached.
    Unreachable = 3,
    /// Still blocked when the time was up.
    Blocked = 4,
}

/// The exit codes, for `--help`.
pub const HELP: &str = "Exit codes:\n  0  done\n  1  failed\n  2  usage or configuration\n  \
    3  something needed can't be reached\n  4  still blocked (a barrier, a deletion) when the time \
    was up";

impl Exit {
    /// Says why on standard error, and is the exit code.
    #[must_use]
    pub fn say(self, message: &str) -> ExitCode {
        // There is nobody left to tell if this fails.
        let _ = writeln!(std::io::stderr().lock(), "{message}");
        self.into()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
