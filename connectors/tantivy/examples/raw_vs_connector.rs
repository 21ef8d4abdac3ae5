//! What the connector costs: the same documents into the same schema, by tantivy alone and through
//! the connector; and how long a commit takes by its size.
//!
//! ```text
//! cargo run --release -p cenotaph-tantivy --example raw_vs_connector -- [documents] [pairs] [threads]
//! ```
//! With 0 pairs, `ONLY=raw` or `ONLY=connector` runs one of them once, for a profiler to look at.
#![allow(clippy::expect_used, clippy::print_stdout)]

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cenotaph_connector::{Commit, Connector, Destination, Factory, Removal, Upsert};
use cenotaph_core::{Control, Covers, Cursors, EvidenceLevel, Generation, ObjectKey, Version};
use cenotaph_tantivy::Tantivy;
use serde::Deserialize;
use tantivy::schema::{FAST, INDEXED, STORED, STRING, Schema, TEXT};
use tantivy::{Index, IndexWriter, TantivyDocument, Term};

const HEAP_BYTES: usize = 128 << 20;
/// Documents in one commit of the throughput runs.
const COMMIT: usize = 10_000;
/// Documents in one call of `apply`.
const BATCH: usize = 1_000;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|it| it.parse::<usize>().expect("a number"));
    let documents = arguments.next().unwrap_or(100_000);
    let pairs = arguments.next().unwrap_or(3);
    let threads = arguments.next().unwrap_or(1);
    let first = upserts(documents, 1);
    let second = upserts(documents, 2);
    let bytes: usize = first.iter().map(|it| it.payload.len()).sum();
    println!("{documents} documents of {} bytes, {threads} threads", bytes / documents);
    if let (0, Ok(only)) = (pairs, std::env::var("ONLY")) {
        let run = if only == "raw" { raw } else { connector };
        run(threads, &first, &second);
        return;
    }
    let mut ratios = Vec::new();
    for pair in 0..pairs {
        // Which one goes first changes, so that neither always finds the warmer machine.
        let (raw, ours) = if pair % 2 == 0 {
            let raw = raw(threads, &first, &second);
            (raw, connector(threads, &first, &second))
        } else {
            let ours = connector(threads, &first, &second);
            (raw(threads, &first, &second), ours)
        };
        for (pass, raw, ours) in [("new", raw[0], ours[0]), ("again", raw[1], ours[1])] {
            let rate = |took: Duration| documents as f64 / took.as_secs_f64();
            let ratio = |raw: Duration, ours: Duration| raw.as_secs_f64() / ours.as_secs_f64();
            println!(
                "pair {pair}, {pass}: raw {:.0}/s, connector {:.0}/s, ratio {:.3}; \
                 of processor time raw {:.1?}, connector {:.1?}, ratio {:.3}",
                rate(raw.wall),
                rate(ours.wall),
                ratio(raw.wall, ours.wall),
                raw.processor,
                ours.processor,
                ratio(raw.processor, ours.processor),
            );
            ratios.push((ratio(raw.wall, ours.wall), ratio(raw.processor, ours.processor)));
        }
    }
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wall = ratios[ratios.len() / 2].0;
    ratios.sort_by(|a, b| a.1.total_cmp(&b.1));
    println!("median ratio {wall:.3}; of processor time {:.3}", ratios[ratios.len() / 2].1);
    commits(threads, &first);
}

fn settings(threads: usize) -> serde_json::Value {
    serde_json::json!({
        "threads": threads,
        "heap_bytes": HEAP_BYTES,
        "fields": { "title": {"type": "text"}, "body": {"type": "text"}, "year": {"type": "integer"} },
    })
}

/// What a pass took.
#[derive(Clone, Copy)]
struct Took {
    wall: Duration,
    /// Of all threads: on a busy machine the steadier figure.
    processor: Duration,
}

fn timed(run: impl FnOnce()) -> Took {
    let (began, before) = (Instant::now(), processor());
    run();
    Took { wall: began.elapsed(), processor: processor() - before }
}

/// The processor time of this process so far; Linux counts it in hundredths of a second.
fn processor() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|it| it.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow)]
    title: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    body: std::borrow::Cow<'a, str>,
    year: i64,
}

/// What a program of one's own would do.
fn raw(threads: usize, first: &[Upsert], second: &[Upsert]) -> [Took; 2] {
    let folder = tempfile::tempdir().expect("a folder");
    let mut schema = Schema::builder();
    let id = schema.add_text_field("id", STRING | STORED);
    let version = schema.add_u64_field("version", FAST);
    let tenant = schema.add_text_field("tenant", STRING);
    let collection = schema.add_text_field("collection", STRING);
    let title = schema.add_text_field("title", TEXT | STORED);
    let body = schema.add_text_field("body", TEXT | STORED);
    let year = schema.add_i64_field("year", INDEXED | FAST | STORED);
    let index = Index::create_in_dir(folder.path(), schema.build()).expect("an index");
    let mut writer: IndexWriter =
        index.writer_with_num_threads(threads, HEAP_BYTES).expect("a writer");
    let pass = |writer: &mut IndexWriter, upserts: &[Upsert]| {
        for part in upserts.chunks(COMMIT) {
            for upsert in part {
                let payload: Payload =
                    serde_json::from_slice(&upsert.payload).expect("a right payload");
                let key = upsert.id();
                let mut document = TantivyDocument::new();
                document.add_text(id, &key);
                document.add_u64(version, upsert.version.get());
                document.add_text(tenant, &*upsert.key.tenant);
                document.add_text(collection, &*upsert.key.collection);
                document.add_text(title, &payload.title);
                document.add_text(body, &payload.body);
                document.add_i64(year, payload.year);
                writer.delete_term(Term::from_field_text(id, &key));
                writer.add_document(document).expect("it is added");
            }
            writer.commit().expect("a commit");
        }
    };
    let took = timed(|| pass(&mut writer, first));
    // Merges that are still under way belong to what was written.
    let again = timed(|| {
        pass(&mut writer, second);
        writer.wait_merging_threads().expect("it ends");
    });
    [took, again]
}

/// The same through the connector.
fn connector(threads: usize, first: &[Upsert], second: &[Upsert]) -> [Took; 2] {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bench = Bench::open(folder.path(), threads);
    let pass = |bench: &mut Bench, upserts: &[Upsert]| {
        for part in upserts.chunks(COMMIT) {
            part.chunks(BATCH).for_each(|batch| bench.apply(batch));
            bench.commit();
        }
    };
    let took = timed(|| pass(&mut bench, first));
    let again = timed(|| {
        pass(&mut bench, second);
        bench.close();
    });
    [took, again]
}

/// How long commits take by their size, and what a deletion costs from end to end.
fn commits(threads: usize, upserts: &[Upsert]) {
    println!("commit of N upserts: apply and commit p50 / p95 / worst; the commit alone p50 / p95");
    for size in [1, 100, 500, 1_000, 1_500, 2_000, 3_000, 4_000] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut bench = Bench::open(folder.path(), threads);
        let (mut whole, mut alone) = (Vec::new(), Vec::new());
        for part in upserts.chunks(size).take((60_000 / size).clamp(12, 60)) {
            let began = Instant::now();
            part.chunks(BATCH).for_each(|batch| bench.apply(batch));
            let applied = Instant::now();
            bench.commit();
            whole.push(began.elapsed());
            alone.push(applied.elapsed());
        }
        let (whole, alone) = (sorted(whole), sorted(alone));
        println!(
            "{size:>6}: {:.1?} / {:.1?} / {:.1?}; {:.1?} / {:.1?}",
            at(&whole, 50),
            at(&whole, 95),
            at(&whole, 100),
            at(&alone, 50),
            at(&alone, 95),
        );
        bench.close();
    }
    deletions(threads, upserts);
}

fn deletions(threads: usize, upserts: &[Upsert]) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bench = Bench::open(folder.path(), threads);
    for part in upserts.chunks(2_000) {
        part.chunks(BATCH).for_each(|batch| bench.apply(batch));
        bench.commit();
    }
    let mut removals = upserts
        .iter()
        .map(|it| Removal { key: it.key.clone(), covers: Covers::through(it.version) })
        .step_by(7);
    println!("removal of N, commit, look: p50 / p95; the look alone p50");
    for (size, times) in [(1, 40), (100, 20), (1_000, 5)] {
        let (mut whole, mut look) = (Vec::new(), Vec::new());
        for _ in 0..times {
            let some: Vec<Removal> = removals.by_ref().take(size).collect();
            let began = Instant::now();
            bench.remove(&some);
            bench.commit();
            let removed = Instant::now();
            bench.verify(&some);
            whole.push(began.elapsed());
            look.push(removed.elapsed());
        }
        let (whole, look) = (sorted(whole), sorted(look));
        println!(
            "{size:>6}: {:.1?} / {:.1?}; {:.1?}",
            at(&whole, 50),
            at(&whole, 95),
            at(&look, 50)
        );
    }
    let some: Vec<Removal> = removals.by_ref().take(50).collect();
    bench.remove(&some);
    bench.commit();
    let began = Instant::now();
    let calls = bench.purge(&some);
    println!("purge of 50 removals, spread over all: {:.2?} in {calls} calls", began.elapsed());
    bench.close();
}

fn sorted(mut times: Vec<Duration>) -> Vec<Duration> {
    times.sort();
    times
}

fn at(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() - 1) * percent / 100]
}

struct Bench {
    runtime: tokio::runtime::Runtime,
    connector: Box<dyn Connector>,
    control: Option<Control>,
}

impl Bench {
    fn open(folder: &Path, threads: usize) -> Bench {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let destination = Destination { name: "bench".into(), data_dir: folder.join("index") };
        let mut connector = Tantivy.build(destination, settings(threads)).expect("right settings");
        runtime.block_on(connector.open()).expect("it opens");
        Bench { runtime, connector, control: None }
    }

    fn apply(&mut self, batch: &[Upsert]) {
        let outcomes = self.runtime.block_on(self.connector.apply(batch));
        assert!(outcomes.iter().all(Result::is_ok));
    }

    fn remove(&mut self, batch: &[Removal]) {
        let outcomes = self.runtime.block_on(self.connector.remove(batch));
        assert!(outcomes.iter().all(Result::is_ok));
    }

    fn commit(&mut self) {
        let next = Control {
            ledger: "bench".into(),
            destination: "bench".into(),
            epoch: 1,
            commit: self.control.as_ref().map_or(0, |it| it.commit + 1),
            cursors: Cursors::new(),
            fact: 0,
            fact_hash: String::new(),
        };
        let done = self.runtime.block_on(self.connector.commit(&next, self.control.as_ref()));
        assert_eq!(done, Ok(Commit::Done));
        self.control = Some(next);
    }

    fn verify(&mut self, removals: &[Removal]) {
        let look = self.runtime.block_on(self.connector.verify(removals, EvidenceLevel::Absent));
        let gone = cenotaph_connector::Finding::Gone;
        assert!(look.expect("a look").findings.iter().all(|it| *it == gone));
    }

    fn purge(&mut self, removals: &[Removal]) -> u32 {
        for calls in 1.. {
            let answers = self.runtime.block_on(self.connector.purge(removals));
            if answers.iter().all(|it| *it == Ok(cenotaph_connector::Purge::Purged)) {
                return calls;
            }
        }
        0
    }

    fn close(mut self) {
        self.runtime.block_on(self.connector.close()).expect("it closes");
    }
}

/// Documents of about 1 KB in a language of 5,000 words, the first ones the most frequent.
fn upserts(count: usize, version: u64) -> Vec<Upsert> {
    let mut state = version;
    let mut random = move |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut words = |count: u64| {
        let words: Vec<String> = (0..count)
            .map(|_| {
                let (a, b) = (random(5_000), random(5_000));
                format!("w{:x}", (a * b / 5_000).wrapping_mul(2_654_435_761) % 0xff_ffff)
            })
            .collect();
        words.join(" ")
    };
    (0..count)
        .map(|number| Upsert {
            key: ObjectKey::new("T1", "docs", format!("document-{number:08}"), Generation::FIRST)
                .expect("a key"),
            version: Version::new(version).expect("a version"),
            parent: None,
            payload: Bytes::from(format!(
                r#"{{"title":"{}","body":"{}","year":{}}}"#,
                words(6),
                words(125),
                1900 + number % 120,
            )),
        })
        .collect()
}
