//! `cenotaph ledger …`: looks at the ledger's files, worker stopped.

use std::path::Path;
use std::process::ExitCode;

use super::args::LedgerCommand;
use super::exit::Exit;
use super::output::Output;
use crate::ledger;

/// `ledger verify`: exit code 1 where something does not add up.
#[must_use]
pub fn run(command: LedgerCommand, config: Option<&Path>, output: Output) -> ExitCode {
    let LedgerCommand::Verify { dir } = command;
    let dir = match dir.map_or_else(|| super::load(config).map(|it| it.ledger.dir), Ok) {
        Ok(dir) => dir,
        Err(code) => return code,
    };
    let report = match ledger::verify(&dir) {
        Ok(report) => report,
        Err(error) => return Exit::Failed.say(&error.to_string()),
    };
    if let Err(error) = output.print(&report, ToString::to_string) {
        return Exit::Failed.say(&format!("cannot print: {error}"));
    }
    if report.is_sound() { Exit::Done.into() } else { Exit::Failed.into() }
}
