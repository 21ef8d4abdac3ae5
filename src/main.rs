//! Parse, tell the log where to go, do what was asked.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use cenotaph::cli::args::{Cli, Command};
use clap::Parser as _;
use tracing_subscriber::EnvFilter;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    log(&cli);
    cenotaph::cli::dispatch(cli)
}

/// Lines for people on a terminal, JSON elsewhere; always on standard error.
fn log(cli: &Cli) {
    let usual = if matches!(cli.command, Command::Run) { 1 } else { 0 };
    let level = match (cli.quiet, usual + cli.verbose) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "info",
        (false, 2) => "debug",
        (false, _) => "trace",
    };
    let filter = EnvFilter::new(format!("warn,cenotaph={level}"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        builder.with_ansi(std::env::var_os("NO_COLOR").is_none()).init();
    } else {
        builder.json().init();
    }
}
