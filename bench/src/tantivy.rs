//! A search index through cenotaph, against a program that reads the same log and does nothing but
//! fill the same index.

use std::path::Path;
use std::time::Duration;

use crate::data::{Keys, Log, Shape, write_log};
use crate::machine::{self, ThreadSeconds};
use crate::raw::{RawRun, RawSettings, index};
use crate::report::{Figure, Spread, Target, Value, median_seconds};
use crate::world::{self, TantivyWay, World};
use crate::{Plan, say};

/// Words in an upsert, so that a line is about 1 KB.
const TEXT_BYTES: usize = 800;
const NAME: &str = "search";

/// What the raw program is fastest with on two cores, found with `--tune`.
pub const RAW_BEST: RawSettings =
    RawSettings { threads: 2, heap_bytes: 64 << 20, commit_docs: u64::MAX };

/// A way to run the destination.
#[derive(Debug, Clone, Copy)]
struct Way {
    name: &'static str,
    settings: TantivyWay,
    target: Option<f64>,
}

const WAYS: [Way; 2] = [
    Way {
        name: "as shipped",
        settings: TantivyWay { indexing: None, max_commit: None },
        target: None,
    },
    Way {
        name: "threads and heap of the raw program",
        settings: TantivyWay {
            indexing: Some((RAW_BEST.threads, RAW_BEST.heap_bytes)),
            max_commit: None,
        },
        target: Some(0.85),
    },
];

/// What one run through cenotaph took.
#[derive(Debug, Clone, Default)]
struct Run {
    running: Duration,
    settled: Duration,
    peak_mib: u64,
    threads: ThreadSeconds,
    commits: u64,
}

/// One way's runs, each with the raw program's run beside it.
#[derive(Debug, Default)]
struct Pairs {
    runs: Vec<Run>,
    raws: Vec<RawRun>,
}

/// Measures every way against the raw program, and against ingest alone.
pub async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let log = write_log(&folder.path().join("docs.jsonl"), &shape(plan))?;
    let mut alone = Vec::new();
    let mut pairs: [Pairs; WAYS.len()] = Default::default();
    for pair in 0..plan.pairs {
        say(&format!("tantivy: pair {} of {}", pair + 1, plan.pairs));
        alone.push(ingest_alone(&log, folder.path()).await?);
        for (way, pairs) in WAYS.iter().zip(&mut pairs) {
            let settings = way.settings.or_commits_of(plan.max_commit_ms);
            if pair % 2 == 0 {
                pairs.raws.push(raw(&log, folder.path())?);
            }
            pairs.runs.push(through(settings, &log, folder.path()).await?);
            if pair % 2 == 1 {
                pairs.raws.push(raw(&log, folder.path())?);
            }
        }
    }
    Ok(WAYS.iter().zip(&pairs).map(|(way, pairs)| figure(way, pairs, &alone, &log)).collect())
}

/// Tries the raw program with some settings, and tells what each takes.
pub fn tune(plan: &Plan) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let log = write_log(&folder.path().join("docs.jsonl"), &shape(plan))?;
    for threads in [1, 2, 3] {
        for heap_mib in [64, 128, 256, 512] {
            for commit_docs in [10_000, 50_000, u64::MAX] {
                let dir = tempfile::tempdir_in(folder.path())?;
                let settings = RawSettings { threads, heap_bytes: heap_mib << 20, commit_docs };
                let run = index(&log.path, &dir.path().join("index"), settings)?;
                let rate = |time: Duration| log.lines as f64 / time.as_secs_f64();
                say(&format!(
                    "{threads} threads, {heap_mib} MiB, a commit every {commit_docs}: {:.0} docs/s, \
                     {:.0} with merges",
                    rate(run.running),
                    rate(run.settled)
                ));
            }
        }
    }
    Ok(())
}

fn shape(plan: &Plan) -> Shape {
    Shape {
        changes: (plan.changes / 5).max(1_000),
        keys: Keys::New,
        text_bytes: TEXT_BYTES,
        deletes_percent: plan.deletes,
        seed: plan.seed ^ 3,
    }
}

fn raw(log: &Log, folder: &Path) -> anyhow::Result<RawRun> {
    let dir = tempfile::tempdir_in(folder)?;
    index(&log.path, &dir.path().join("index"), RAW_BEST)
}

async fn ingest_alone(log: &Log, folder: &Path) -> anyhow::Result<Duration> {
    let dir = tempfile::tempdir_in(folder)?;
    let world = World::start(world::plan(&log.path, dir.path(), &[])?).await?;
    let took = world.ingested(log.bytes).await?;
    world.stop().await?;
    Ok(took)
}

async fn through(settings: TantivyWay, log: &Log, folder: &Path) -> anyhow::Result<Run> {
    let dir = tempfile::tempdir_in(folder)?;
    machine::forget_peak();
    let before = ThreadSeconds::now();
    let destination = world::tantivy(NAME, settings)?;
    let world = World::start(world::plan(&log.path, dir.path(), &[destination])?).await?;
    let arrived = world.arrived(&[NAME], log.bytes).await?;
    let running = arrived.get(NAME).copied().unwrap_or_default();
    let threads = ThreadSeconds::now().since(&before);
    let commits = commits(&world);
    let settled = running + world.stop().await?;
    Ok(Run { running, settled, peak_mib: machine::peak_mib(), threads, commits })
}

fn commits(world: &World) -> u64 {
    let running = world.running();
    let committed = running.ledger.read();
    let book = committed.books.destination(NAME);
    book.and_then(|book| book.control.as_ref()).map_or(0, |control| control.commit)
}

fn figure(way: &Way, pairs: &Pairs, alone: &[Duration], log: &Log) -> Figure {
    let Pairs { runs, raws } = pairs;
    let slower = raws.iter().zip(alone).map(|(raw, alone)| raw.running.max(*alone));
    let ratios =
        slower.zip(runs).map(|(slower, run)| slower.as_secs_f64() / run.running.as_secs_f64());
    let rate = |seconds: f64| log.lines as f64 / seconds;
    let times = |time: fn(&Run) -> Duration| {
        rate(median_seconds(&runs.iter().map(time).collect::<Vec<_>>()))
    };
    let raw = |time: fn(&RawRun) -> Duration| {
        rate(median_seconds(&raws.iter().map(time).collect::<Vec<_>>()))
    };
    let last = runs.last().cloned().unwrap_or_default();
    let value = Value::Ratio(Spread::of(ratios.collect()));
    let mut figure =
        Figure::new(format!("tantivy/{}", way.name), value, way.target.map(Target::at_least))
            .with("line bytes", log.bytes as f64 / log.lines as f64)
            .with("docs/s", times(|run| run.running))
            .with("docs/s settled", times(|run| run.settled))
            .with("raw docs/s", raw(|raw| raw.running))
            .with("raw docs/s settled", raw(|raw| raw.settled))
            .with("ingest alone docs/s", rate(median_seconds(alone)))
            .with("docs/commit", log.lines as f64 / last.commits.max(1) as f64)
            .with("peak MiB", last.peak_mib as f64);
    for (thread, us) in last.threads.each(log.lines) {
        figure = figure.with(format!("cpu {thread} us/doc"), us);
    }
    figure
}
