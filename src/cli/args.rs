//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use super::exit::HELP;
use super::output::Output;

/// Proves deletions in derived indexes before it opens their gates.
#[derive(Debug, Parser)]
#[command(name = "cenotaph", version, about, after_help = HELP, propagate_version = true)]
pub struct Cli {
    /// The configuration [default: ./config/cenotaph.toml, then ./cenotaph.toml].
    #[arg(long, short, global = true, env = "CENOTAPH_CONFIG")]
    pub config: Option<PathBuf>,
    /// The running worker.
    #[arg(long, global = true, env = "CENOTAPH_SERVER", default_value = "http://127.0.0.1:8083")]
    pub server: String,
    /// What is printed.
    #[arg(long, short, global = true, value_enum, default_value_t)]
    pub output: Output,
    /// Log more; twice for even more.
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Log errors only.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the whole idea in a few seconds, with nothing left behind.
    Quickstart,
    /// Run the worker until it is told to stop.
    Run,
    /// Check the configuration, offline.
    Check,
    /// Show the running worker at one glance.
    Status,
    /// Deletions.
    #[command(subcommand)]
    Tombstone(TombstoneCommand),
    /// Named gates in the stream.
    #[command(subcommand)]
    Barrier(BarrierCommand),
    /// The derived copies.
    #[command(subcommand)]
    Destination(DestinationCommand),
    /// Records that wait for somebody.
    #[command(subcommand)]
    Quarantine(QuarantineCommand),
    /// The ledger's files, worker stopped.
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Print a shell's completions.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// Which deletion.
#[derive(Debug, Args)]
pub struct ObjectArgs {
    /// tenant/collection/object, each part percent-encoded where it holds `/`, `%` or `~`; `~N` for
    /// a generation.
    pub key: String,
    /// The generation.
    #[arg(long)]
    pub generation: Option<u32>,
    /// The deletion's event id.
    #[arg(long)]
    pub event: Option<String>,
    /// The version that must be covered.
    #[arg(long)]
    pub min_version: Option<u64>,
}

/// Deletions.
#[derive(Debug, Subcommand)]
pub enum TombstoneCommand {
    /// Show one object's deletion, with each destination's evidence.
    Show(ObjectArgs),
    /// List the deletions that wait.
    List {
        /// Only those that this destination owes.
        #[arg(long)]
        destination: Option<String>,
        /// Only those that this owner's destinations owe.
        #[arg(long)]
        owner: Option<String>,
        /// Only this tenant's.
        #[arg(long)]
        tenant: Option<String>,
        /// The most to list.
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
    /// Wait until a deletion is proved everywhere.
    Wait {
        /// Which deletion.
        #[command(flatten)]
        object: ObjectArgs,
        /// The longest to wait.
        #[arg(long, default_value = "1m", value_parser = humantime::parse_duration)]
        timeout: Duration,
    },
}

/// Named gates.
#[derive(Debug, Subcommand)]
pub enum BarrierCommand {
    /// Make one at the present end of the stream.
    Create {
        /// Its name.
        name: String,
        /// Only this tenant.
        #[arg(long)]
        tenant: Option<String>,
        /// Only this collection of the tenant.
        #[arg(long, requires = "tenant")]
        collection: Option<String>,
        /// Only this parent in the collection.
        #[arg(long, requires = "collection")]
        parent: Option<String>,
    },
    /// Show one.
    Show {
        /// Its name.
        name: String,
    },
    /// List them.
    List,
    /// Wait until one is released.
    Wait {
        /// Its name.
        name: String,
        /// The longest to wait.
        #[arg(long, default_value = "10m", value_parser = humantime::parse_duration)]
        timeout: Duration,
    },
}

/// The derived copies.
#[derive(Debug, Subcommand)]
pub enum DestinationCommand {
    /// List them.
    List,
    /// Show one.
    Show {
        /// Its name.
        name: String,
    },
}

/// Records that wait for somebody.
#[derive(Debug, Subcommand)]
pub enum QuarantineCommand {
    /// List them, by position.
    List,
}

/// The ledger's files.
#[derive(Debug, Subcommand)]
pub enum LedgerCommand {
    /// Check every chain, checksum and count.
    Verify {
        /// The ledger's folder; that of the configuration where none is named.
        dir: Option<PathBuf>,
    },
}
