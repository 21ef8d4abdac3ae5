//! What the source and the envelope cost beside the least that a reader of JSON lines must do.
//!
//! `cargo run --release --example parse_bench [-- lines [rounds]]` makes a log of 1,000,000 lines of
//! about 350 bytes, and prints microseconds of CPU a line: one thread, page cache warm, the stages
//! taken in turn; lowest, median and highest of the rounds.

#![allow(clippy::print_stdout, reason = "a program that prints its figures")]

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cenotaph::envelope::Decoder;
use cenotaph::source::{FileOptions, FileSource, Source};
use cenotaph_core::{Cursor, HashKey, Incoming, KeyHasher, Position};
use serde::Deserialize;
use serde_json::value::RawValue;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Reads a log through, and answers how many lines it saw.
type Stage = fn(&Path) -> Outcome<usize>;
type Outcome<T> = Result<T, Box<dyn Error>>;

/// The same fields, as a program would read them that trusts its input.
#[derive(Deserialize)]
struct Plain<'a, T> {
    event_id: T,
    op: T,
    tenant: T,
    collection: T,
    object: T,
    version: Option<u64>,
    source: T,
    r#type: T,
    schema: T,
    occurred_at: T,
    published_at: T,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

/// Text that may hold escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fn main() -> Outcome<()> {
    let argument = |at| std::env::args().nth(at).map(|text| text.parse::<usize>()).transpose();
    let lines = argument(1)?.unwrap_or(1_000_000);
    let rounds = argument(2)?.unwrap_or(5);
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("changes.jsonl");
    let bytes = generate(&path, lines)?;
    println!("{lines} lines of {} bytes, {rounds} rounds", bytes / lines.max(1));
    let stages: [(&str, Stage); 6] = [
        ("floor: BufReader lines", read_floor),
        ("floor: lines, from_str, &str", parse_floor::<false>),
        ("floor: lines, from_str, Cow<str>", parse_floor::<true>),
        ("source: read_batch", read_source),
        ("source + envelope", decode_source),
        ("source + envelope + identify", identify_source),
    ];
    let clock = Instant::now();
    let mut times = vec![Vec::new(); stages.len()];
    for _ in 0..rounds.max(1) {
        for ((_, stage), times) in stages.iter().zip(&mut times) {
            let started = cpu(clock);
            let seen = stage(&path)?;
            times.push(cpu(clock).saturating_sub(started));
            if seen != lines {
                return Err(format!("{seen} lines instead of {lines}").into());
            }
        }
    }
    for ((name, _), times) in stages.iter().zip(&mut times) {
        times.sort_unstable();
        let each = |time: Duration| time.as_secs_f64() * 1e6 / lines as f64;
        let (low, median, high) = (times[0], times[times.len() / 2], times[times.len() - 1]);
        println!("{name:34} {:.3} / {:.3} / {:.3} µs", each(low), each(median), each(high));
    }
    Ok(())
}

/// The CPU time of this thread, so that others on the machine do not count; where the system does not
/// tell it, the time of day.
fn cpu(clock: Instant) -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let told = told.and_then(|text| text.split(' ').next()?.parse().ok());
    told.map_or_else(|| clock.elapsed(), Duration::from_nanos)
}

fn generate(path: &Path, lines: usize) -> Outcome<usize> {
    let mut text = String::new();
    for line in 0..lines {
        let (object, version) = (line % 100_000, 1 + line / 100_000);
        let op = if line % 20 == 19 { "delete" } else { "upsert" };
        write!(
            text,
            r#"{{"event_id":"evt-{line:08}","op":"{op}","tenant":"tenant-{}","collection":"docs","object":"document/{object:08}","version":{version},"source":"crm","type":"document.changed","schema":"document/3","occurred_at":"2026-11-30T10:00:00Z","published_at":"2026-11-30T10:00:01Z""#,
            line % 7,
        )?;
        if op == "upsert" {
            write!(
                text,
                r#","payload":{{"title":"Document {object}","body":"words and more words, \"quoted\" once","n":{line},"tags":["a","b"]}}"#
            )?;
        }
        text.push_str("}\n");
    }
    std::fs::write(path, &text)?;
    Ok(text.len())
}

fn each_line(path: &Path, mut on_line: impl FnMut(&[u8]) -> Outcome<()>) -> Outcome<usize> {
    let mut reader = BufReader::with_capacity(256 * 1024, File::open(path)?);
    let (mut line, mut seen) = (Vec::new(), 0);
    while reader.read_until(b'\n', &mut line)? > 0 {
        on_line(&line)?;
        line.clear();
        seen += 1;
    }
    Ok(seen)
}

fn read_floor(path: &Path) -> Outcome<usize> {
    each_line(path, |line| {
        black_box(line);
        Ok(())
    })
}

fn parse_floor<const ESCAPES: bool>(path: &Path) -> Outcome<usize> {
    each_line(path, |line| {
        let line = std::str::from_utf8(line)?;
        if ESCAPES {
            look_at(&serde_json::from_str::<Plain<'_, Text<'_>>>(line)?);
        } else {
            look_at(&serde_json::from_str::<Plain<'_, &str>>(line)?);
        }
        Ok(())
    })
}

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

fn look_at<T: AsRef<str>>(plain: &Plain<'_, T>) {
    let Plain { event_id, op, tenant, collection, object, .. } = plain;
    let Plain { source, r#type, schema, occurred_at, published_at, .. } = plain;
    for text in [event_id, op, tenant, collection, object, source, r#type, schema] {
        black_box(text.as_ref());
    }
    black_box((occurred_at.as_ref(), published_at.as_ref(), plain.version, plain.payload));
}

fn each_record(
    path: &Path,
    mut on_record: impl FnMut(Position, Bytes) -> Outcome<()>,
) -> Outcome<usize> {
    let source = FileSource::open(FileOptions::new(path))?;
    let mut reader = source.read_from(0, Cursor::default(), &[])?;
    let mut seen = 0;
    loop {
        let batch = reader.read_batch(1000, 1 << 20, Duration::ZERO)?;
        black_box((&batch.cursor, &batch.proof));
        seen += batch.records.len();
        for record in batch.records {
            on_record(record.position, record.bytes)?;
        }
        if batch.at_end {
            return Ok(seen);
        }
    }
}

fn read_source(path: &Path) -> Outcome<usize> {
    each_record(path, |position, bytes| {
        black_box((position, bytes));
        Ok(())
    })
}

fn decode_source(path: &Path) -> Outcome<usize> {
    let decoder = Decoder::default();
    each_record(path, |position, bytes| {
        let record = cenotaph::source::RawRecord { position, bytes, too_large: None };
        black_box(decoder.decode(record)?);
        Ok(())
    })
}

fn identify_source(path: &Path) -> Outcome<usize> {
    let decoder = Decoder::default();
    let mut hasher = KeyHasher::new(HashKey([7; 32]));
    each_record(path, |position, bytes| {
        let record = cenotaph::source::RawRecord { position, bytes, too_large: None };
        if let Incoming::Change(change) = decoder.decode(record)? {
            black_box(hasher.identify(change));
        }
        Ok(())
    })
}
