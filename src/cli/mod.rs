//! The commands. Those that ask talk to a running worker over HTTP; only `ledger …` opens files,
//! worker stopped.

pub mod args;
mod ask;
mod check;
mod client;
pub mod exit;
mod ledger;
pub mod output;
mod quickstart;
mod render;
mod run;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::CommandFactory as _;

use args::{Cli, Command};
use ask::{Asker, Refused};
use exit::Exit;

use crate::config::Config;

/// Does what the command line says.
#[must_use]
pub fn dispatch(cli: Cli) -> ExitCode {
    match cli.command {
        Command::Quickstart => quickstart::run(cli.output),
        Command::Run => match load(cli.config.as_deref()) {
            Ok(config) => run::run(config),
            Err(code) => code,
        },
        Command::Check => check::check(&config_path(cli.config.as_deref()), cli.output),
        Command::Ledger(command) => ledger::run(command, cli.config.as_deref(), cli.output),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "cenotaph", &mut script);
            match std::io::Write::write_all(&mut std::io::stdout().lock(), &script) {
                Ok(()) => Exit::Done.into(),
                Err(error) => Exit::Failed.say(&format!("cannot print: {error}")),
            }
        }
        command => ask(command, &cli.server, cli.output),
    }
}

fn ask(command: Command, server: &str, output: output::Output) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return Exit::Failed.say(&format!("the runtime could not be started: {error}"));
        }
    };
    let answered = runtime.block_on(async {
        let asker = Asker::new(server, output)?;
        match command {
            Command::Tombstone(command) => asker.tombstone(command).await,
            Command::Barrier(command) => asker.barrier(command).await,
            Command::Destination(command) => asker.destination(command).await,
            Command::Quarantine(command) => asker.quarantine(command).await,
            // Every other command was taken before.
            _ => asker.status().await,
        }
    });
    answered.unwrap_or_else(|refused: Refused| refused.say())
}

/// The configuration that is meant.
fn config_path(named: Option<&Path>) -> PathBuf {
    if let Some(path) = named {
        return path.to_owned();
    }
    let usual = Path::new("config/cenotaph.toml");
    if usual.exists() { usual.to_owned() } else { PathBuf::from("cenotaph.toml") }
}

fn load(named: Option<&Path>) -> Result<Config, ExitCode> {
    Config::load(&config_path(named)).map_err(|errors| Exit::Usage.say(&errors.to_string()))
}
