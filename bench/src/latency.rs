//! How long a deletion takes from the log to its open gate: with nothing else to do, and with the
//! index far behind.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;
use cenotaph::supervisor::Running;
use cenotaph_core::TombstoneNo;

use crate::data::{Keys, Log, Random, Shape, deletion, write_log};
use crate::machine;
use crate::report::{Figure, Latency, Target, Value};
use crate::world::{self, TantivyWay, World, cursor};
use crate::{Plan, say};

const INDEX: &str = "search";
const CACHE: &str = "cache";
/// The longest that one deletion may take before something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);
/// Words in an upsert of the backlog: small changes.
const SMALL_TEXT_BYTES: usize = 85;
const TEXT_BYTES: usize = 800;
/// The longest pause before a deletion while the index is behind.
const PAUSE_MS: u64 = 300;
/// The index counts as behind while at least this share of the log is left to apply.
const STILL_BEHIND: f64 = 0.05;

/// An idle worker over a filled index: one deletion at a time.
pub async fn idle(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let shape = Shape {
        changes: (plan.changes / 25).max(2 * plan.deletions),
        keys: Keys::New,
        text_bytes: TEXT_BYTES,
        deletes_percent: 0,
        seed: plan.seed ^ 4,
    };
    let log = write_log(&folder.path().join("changes.jsonl"), &shape)?;
    say(&format!("idle: {} deletions over {} documents", plan.deletions, log.objects));
    let world = start(plan, &log, folder.path()).await?;
    world.arrived(&[INDEX, CACHE], log.bytes).await?;
    let mut deletions = Deletions::new(&world, &log, plan.seed)?;
    let mut times = Vec::new();
    for number in 0..plan.deletions {
        // At any moment of the source's poll.
        tokio::time::sleep(Duration::from_micros(5_000 + deletions.random.below(20_000))).await;
        times.push(deletions.delete(number * log.objects / plan.deletions).await?);
    }
    world.stop().await?;
    let target =
        Target { p50_below_ms: Some(50.0), p99_below_ms: Some(250.0), ..Target::default() };
    Ok(vec![
        Figure::new("deletion/idle", Value::Ms(Latency::of(times)), Some(target))
            .with("documents", log.objects as f64),
    ])
}

/// A worker started over a full log: while its index catches up, deletions of objects that it has
/// indexed and of objects that it will not reach for long, by turns.
pub async fn behind(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let shape = Shape {
        changes: plan.changes,
        keys: Keys::New,
        text_bytes: SMALL_TEXT_BYTES,
        deletes_percent: 0,
        seed: plan.seed ^ 5,
    };
    let log = write_log(&folder.path().join("changes.jsonl"), &shape)?;
    say(&format!("behind: an index {} changes behind", log.lines));
    machine::forget_peak();
    let world = start(plan, &log, folder.path()).await?;
    let ingested = world.ingested(log.bytes).await?;
    let mut deletions = Deletions::new(&world, &log, plan.seed)?;
    let running = world.running();
    let left_of = |at: u64| 1.0 - at as f64 / log.bytes as f64;
    let first_left = left_of(cursor(&running, INDEX));
    let (mut indexed, mut ahead) = (Vec::new(), Vec::new());
    for number in 0..plan.deletions {
        let left = left_of(cursor(&running, INDEX));
        if left < STILL_BEHIND {
            break;
        }
        // Deletions without a pause would keep the commits short that they may have to wait for.
        tokio::time::sleep(Duration::from_millis(deletions.random.below(PAUSE_MS))).await;
        let done = ((1.0 - left) * log.objects as f64) as u64;
        if number % 2 == 0 {
            let object = deletions.pick(0, done);
            indexed.push(deletions.delete(object).await?);
        } else {
            let from = log.objects - (left * 0.7 * log.objects as f64) as u64;
            let object = deletions.pick(from, log.objects);
            ahead.push(deletions.delete(object).await?);
        }
    }
    let last_left = left_of(cursor(&running, INDEX));
    let peak = machine::peak_mib();
    world.stop().await?;
    let target = Target { p99_below_ms: Some(1_000.0), ..Target::default() };
    let figure = |name: &str, times: Vec<Duration>| {
        Figure::new(format!("deletion/{name}"), Value::Ms(Latency::of(times)), Some(target))
            .with("behind at first, changes", first_left * log.lines as f64)
            .with("behind at last, changes", last_left * log.lines as f64)
            .with("ingest s", ingested.as_secs_f64())
            .with("peak MiB", peak as f64)
    };
    Ok(vec![figure("behind, indexed object", indexed), figure("behind, object far ahead", ahead)])
}

async fn start(plan: &Plan, log: &Log, folder: &Path) -> anyhow::Result<World> {
    let way = TantivyWay::default().or_commits_of(plan.max_commit_ms);
    let destinations = [world::tantivy(INDEX, way)?, world::memory(CACHE)];
    World::start(world::plan(&log.path, folder, &destinations)?).await
}

/// Deletes objects, each once, and waits for each gate.
struct Deletions {
    running: Running,
    log: File,
    event: u64,
    next: TombstoneNo,
    deleted: HashSet<u64>,
    random: Random,
}

impl Deletions {
    fn new(world: &World, log: &Log, seed: u64) -> anyhow::Result<Deletions> {
        let running = world.running();
        let next = TombstoneNo(running.ledger.read().books.last_tombstone.0 + 1);
        Ok(Deletions {
            running,
            log: OpenOptions::new().append(true).open(&log.path)?,
            event: log.lines,
            next,
            deleted: HashSet::new(),
            random: Random::new(seed ^ 6),
        })
    }

    /// An object in this range that was not deleted yet; the next one above, if chance finds none.
    fn pick(&mut self, from: u64, to: u64) -> u64 {
        for _ in 0..100 {
            let object = from + self.random.below((to - from).max(1));
            if !self.deleted.contains(&object) {
                return object;
            }
        }
        (from..).find(|object| !self.deleted.contains(object)).unwrap_or(from)
    }

    /// Appends a deletion to the log and waits until its gate is open.
    async fn delete(&mut self, object: u64) -> anyhow::Result<Duration> {
        self.deleted.insert(object);
        let line = deletion(self.event, object, 2)?;
        self.event += 1;
        let number = self.next;
        let mut revision = self.running.ledger.subscribe();
        let began = Instant::now();
        self.log.write_all(&line)?;
        loop {
            revision.borrow_and_update();
            if self.is_open(number)? {
                break;
            }
            if tokio::time::timeout(PATIENCE, revision.changed()).await.is_err()
                || began.elapsed() > PATIENCE
            {
                bail!("the gate of tombstone {number} did not open within {PATIENCE:?}");
            }
        }
        let took = began.elapsed();
        self.next = TombstoneNo(number.0 + 1);
        Ok(took)
    }

    fn is_open(&self, number: TombstoneNo) -> anyhow::Result<bool> {
        if let Some(error) = self.running.ledger.failure() {
            bail!(error);
        }
        let committed = self.running.ledger.read();
        let books = &committed.books;
        Ok(books.last_tombstone >= number && !books.closed_gates.contains(number.0))
    }
}
