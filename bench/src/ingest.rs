//! Ingest without a destination: reading, parsing, hashing, deciding, journalling and syncing a log,
//! against only reading and parsing it.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::data::{Keys, Log, Shape, write_log};
use crate::machine::{self, ThreadSeconds};
use crate::raw::read_and_parse;
use crate::report::{Figure, Spread, Target, Value, median_seconds};
use crate::world::{self, World};
use crate::{Plan, say};

/// Distinct objects of the hot log.
const HOT_OBJECTS: u64 = 100_000;
/// Words in an upsert, so that a line is about 350 bytes.
const TEXT_BYTES: usize = 85;

/// What one run of the worker took.
#[derive(Debug, Clone, Default)]
struct Run {
    running: Duration,
    stopping: Duration,
    opening: Duration,
    peak_mib: u64,
    written: u64,
    ledger_bytes: u64,
    threads: ThreadSeconds,
}

/// All pairs of one kind of log.
#[derive(Debug, Default)]
struct Pairs {
    floor: Vec<Duration>,
    runs: Vec<Run>,
}

/// Measures all three logs.
pub async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let shape = |keys, seed| Shape {
        changes: plan.changes,
        keys,
        text_bytes: TEXT_BYTES,
        deletes_percent: 5,
        seed: plan.seed ^ seed,
    };
    let new = write_log(&folder.path().join("new.jsonl"), &shape(Keys::New, 1))?;
    let hot_objects = HOT_OBJECTS.min(plan.changes);
    let hot = write_log(&folder.path().join("hot.jsonl"), &shape(Keys::Hot(hot_objects), 2))?;
    let (mut fresh, mut replayed, mut hots) = <(Pairs, Pairs, Pairs)>::default();
    // What a first run pays for once (pages of memory, the disk's free space) is nobody's.
    if !plan.cold {
        let mut unmeasured = <(Pairs, Pairs)>::default();
        say("ingest: warming up");
        one_pair(&new, &mut unmeasured.0, Some(&mut unmeasured.1), true).await?;
    }
    for pair in 0..plan.pairs {
        say(&format!("ingest: pair {} of {}", pair + 1, plan.pairs));
        let floor_first = pair % 2 == 0;
        one_pair(&new, &mut fresh, Some(&mut replayed), floor_first).await?;
        one_pair(&hot, &mut hots, None, floor_first).await?;
    }
    let mut figures = figures("ingest/new keys", &new, &fresh, 0.25, 0.45);
    figures.extend(self::figures("ingest/hot keys", &hot, &hots, 0.25, 0.45));
    figures.extend(self::figures("ingest/replay", &new, &replayed, 0.25, 0.45));
    Ok(figures)
}

/// The floor and the worker over the same log, and the worker over the same log once more.
async fn one_pair(
    log: &Log,
    pairs: &mut Pairs,
    replayed: Option<&mut Pairs>,
    floor_first: bool,
) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(log.path.parent().unwrap_or(Path::new("/tmp")))?;
    if floor_first {
        pairs.floor.push(read_and_parse(&log.path)?);
    }
    pairs.runs.push(run(&log.path, folder.path(), log.bytes).await?);
    if !floor_first {
        pairs.floor.push(read_and_parse(&log.path)?);
    }
    let Some(replayed) = replayed else { return Ok(()) };
    if floor_first {
        replayed.floor.push(read_and_parse(&log.path)?);
    }
    append_itself(log)?;
    replayed.runs.push(run(&log.path, folder.path(), 2 * log.bytes).await?);
    OpenOptions::new().write(true).open(&log.path)?.set_len(log.bytes)?;
    if !floor_first {
        replayed.floor.push(read_and_parse(&log.path)?);
    }
    Ok(())
}

/// The log once more, behind its end.
fn append_itself(log: &Log) -> anyhow::Result<()> {
    let mut from = io::Read::take(std::fs::File::open(&log.path)?, log.bytes);
    let mut to = OpenOptions::new().append(true).open(&log.path)?;
    io::copy(&mut from, &mut to)?;
    to.sync_all()?;
    Ok(())
}

async fn run(log: &Path, folder: &Path, end: u64) -> anyhow::Result<Run> {
    machine::forget_peak();
    let written = machine::written_bytes();
    let before = ThreadSeconds::now();
    let plan = world::plan(log, folder, &[])?;
    let ledger = plan.ledger.dir.clone();
    let world = World::start(plan).await?;
    let opening = world.opening;
    let running = world.ingested(end).await?;
    let threads = ThreadSeconds::now().since(&before);
    let stopping = world.stop().await?;
    Ok(Run {
        running,
        stopping,
        opening,
        peak_mib: machine::peak_mib(),
        written: machine::written_bytes() - written,
        ledger_bytes: machine::folder_bytes(&ledger),
        threads,
    })
}

fn figures(name: &str, log: &Log, pairs: &Pairs, at_least: f64, aim: f64) -> Vec<Figure> {
    let ratios = |time: fn(&Run) -> Duration| {
        let both = pairs.floor.iter().zip(&pairs.runs);
        Spread::of(both.map(|(floor, run)| floor.as_secs_f64() / time(run).as_secs_f64()).collect())
    };
    let target = Target { at_least: Some(at_least), aim: Some(aim), ..Target::default() };
    let each = |seconds: f64| seconds * 1e6 / log.lines as f64;
    let middle = |time: fn(&Run) -> Duration| {
        median_seconds(&pairs.runs.iter().map(time).collect::<Vec<_>>())
    };
    let last = pairs.runs.last().cloned().unwrap_or_default();
    let settled = |run: &Run| run.running + run.stopping;
    let running = ratios(|run| run.running);
    let mut figure = Figure::new(format!("{name}, running"), Value::Ratio(running), Some(target))
        .with("line bytes", log.bytes as f64 / log.lines as f64)
        .with("parse us/change", each(median_seconds(&pairs.floor)))
        .with("us/change", each(middle(|run| run.running)))
        .with("changes/s", log.lines as f64 / middle(|run| run.running))
        .with("opening ms", middle(|run| run.opening) * 1e3)
        .with("peak MiB", last.peak_mib as f64)
        .with("written B/change", last.written as f64 / log.lines as f64);
    for (thread, us) in last.threads.each(log.lines) {
        figure = figure.with(format!("cpu {thread} us/change"), us);
    }
    let settled_figure =
        Figure::new(format!("{name}, settled"), Value::Ratio(ratios(settled)), Some(target))
            .with("us/change", each(middle(settled)))
            .with("ledger B/change", last.ledger_bytes as f64 / log.lines as f64);
    vec![figure, settled_figure]
}
