//! What cenotaph costs: its rates and times beside programs that do only the work underneath, both
//! measured in this run, by turns. README.md says what each figure is.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod data;
mod ingest;
mod isolation;
mod latency;
mod machine;
mod raw;
mod report;
mod tantivy;
mod world;

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use machine::Machine;
use report::{Figure, Report};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures cenotaph against raw programs, side by side. Compare ratios, never absolute figures of
/// different runs.
#[derive(Debug, Clone, Parser)]
pub struct Plan {
    /// Changes in the logs of `ingest` and `behind`; the others take a share of it.
    #[arg(long, default_value_t = 1_000_000)]
    changes: u64,
    /// How often each side is measured, by turns.
    #[arg(long, default_value_t = 3)]
    pairs: usize,
    /// Deletions whose time is taken.
    #[arg(long, default_value_t = 300)]
    deletions: u64,
    /// Deletions in a hundred changes of `tantivy`'s log.
    #[arg(long, default_value_t = 0)]
    deletes: u64,
    /// `batch.max_commit` of the tantivy destinations in `tantivy`, `idle` and `behind`, in place of
    /// what it is by default.
    #[arg(long)]
    max_commit_ms: Option<u64>,
    /// Lets the allocator give memory back, and warms nothing up: what a worker pays that has just
    /// begun, the host's part included.
    #[arg(long)]
    cold: bool,
    /// Measures only these.
    #[arg(long, value_enum)]
    only: Vec<Name>,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// The same seed makes the same logs.
    #[arg(long, default_value_t = 3_141_592_653)]
    seed: u64,
    /// Only looks for the best settings of the raw tantivy program.
    #[arg(long)]
    tune: bool,
}

/// A part of the measuring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Ingest without a destination.
    Ingest,
    /// A search index through cenotaph.
    Tantivy,
    /// A deletion's time, nothing else to do.
    Idle,
    /// A deletion's time, the index far behind.
    Behind,
    /// Two destinations beside a third that hangs or fails.
    Isolation,
}

/// How the result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For reading.
    Table,
    /// For programs.
    Json,
}

fn main() -> anyhow::Result<()> {
    let plan = Plan::parse();
    keep_memory(&plan)?;
    if plan.tune {
        return tantivy::tune(&plan);
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut machine = Machine::read();
    // The product counts as well; without a recorder its counters would cost nothing.
    let _recorder = cenotaph::metrics::install()?;
    let began = Instant::now();
    let figures = runtime.block_on(measure(&plan))?;
    let seconds = began.elapsed().as_secs_f64();
    let peak_mib = machine::highest_mib();
    machine.stolen_seconds = machine::stolen_seconds() - machine.stolen_seconds;
    let report = Report { machine, changes: plan.changes, seconds, peak_mib, figures };
    match plan.output {
        Output::Table => print!("{}", report.table()),
        Output::Json => println!("{}", serde_json::to_string_pretty(&report)?),
    }
    Ok(())
}

/// Starts this program once more with an allocator that gives no memory back. Where a host lends a
/// virtual machine its memory page by page, the first touch of a GiB takes seconds: the warm-up pays
/// for it, and what is measured is a worker that has run for a while. `--cold` measures both.
fn keep_memory(plan: &Plan) -> anyhow::Result<()> {
    const PURGE_DELAY: &str = "MIMALLOC_PURGE_DELAY";
    if plan.cold || std::env::var_os(PURGE_DELAY).is_some() {
        return Ok(());
    }
    let mut again = Command::new(std::env::current_exe()?);
    again.args(std::env::args_os().skip(1)).env(PURGE_DELAY, "-1");
    Err(again.exec().into())
}

/// Everything that is asked for.
async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for name in Name::value_variants() {
        if !plan.only.is_empty() && !plan.only.contains(name) {
            continue;
        }
        figures.extend(match name {
            Name::Ingest => ingest::measure(plan).await?,
            Name::Tantivy => tantivy::measure(plan).await?,
            Name::Idle => latency::idle(plan).await?,
            Name::Behind => latency::behind(plan).await?,
            Name::Isolation => isolation::measure(plan).await?,
        });
    }
    Ok(figures)
}

/// Tells how it goes on, beside the result.
pub fn say(what: &str) {
    eprintln!("{what}");
}
