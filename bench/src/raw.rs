//! What a program of one's own would do: the other side of each ratio.

use std::fs::File;
use std::hint::black_box;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::value::RawValue;
use tantivy::schema::{FAST, Field, INDEXED, STORED, STRING, Schema, TEXT};
use tantivy::{Index, IndexWriter, TantivyDocument, Term};

const BLOCK_BYTES: usize = 256 * 1024;

/// The fields that cenotaph reads, borrowed from the line.
#[derive(Deserialize)]
struct Line<'a, P> {
    event_id: &'a str,
    op: &'a str,
    tenant: &'a str,
    collection: &'a str,
    object: &'a str,
    version: Option<u64>,
    source: Option<&'a str>,
    #[serde(rename = "type")]
    kind: Option<&'a str>,
    occurred_at: Option<&'a str>,
    payload: Option<P>,
}

/// Reads and parses a log, on one thread: the floor under everything. The payload is found and left
/// as it is.
pub fn read_and_parse(path: &Path) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let mut sum = 0;
    each_line(path, |line| {
        let line: Line<'_, &RawValue> = serde_json::from_str(line)?;
        sum += line.version.unwrap_or(0) + line.payload.map_or(0, |it| it.get().len() as u64);
        black_box((line.event_id, line.op, line.tenant, line.collection, line.object));
        black_box((line.source, line.kind, line.occurred_at));
        Ok(())
    })?;
    black_box(sum);
    Ok(began.elapsed())
}

/// Calls `look` with each line of a file. Checks the encoding of a block at a time, which is faster
/// than a line at a time.
fn each_line(path: &Path, mut look: impl FnMut(&str) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut file = File::open(path)?;
    let mut block = vec![0; BLOCK_BYTES];
    let mut held = 0;
    loop {
        let read = file.read(&mut block[held..])?;
        if read == 0 {
            anyhow::ensure!(held == 0, "the last line has no end");
            return Ok(());
        }
        held += read;
        let Some(last) = memchr::memrchr(b'\n', &block[..held]) else {
            anyhow::ensure!(held < block.len(), "a line of more than {BLOCK_BYTES} bytes");
            continue;
        };
        let mut rest = std::str::from_utf8(&block[..=last])?;
        while let Some(end) = memchr::memchr(b'\n', rest.as_bytes()) {
            look(&rest[..end])?;
            rest = &rest[end + 1..];
        }
        block.copy_within(last + 1..held, 0);
        held -= last + 1;
    }
}

/// How the raw program is set.
#[derive(Debug, Clone, Copy)]
pub struct RawSettings {
    pub threads: usize,
    /// Of all threads together.
    pub heap_bytes: usize,
    /// Documents in a commit.
    pub commit_docs: u64,
}

/// What it took.
#[derive(Debug, Clone, Copy)]
pub struct RawRun {
    /// Until the last document is committed.
    pub running: Duration,
    /// Until the merges have ended too.
    pub settled: Duration,
}

#[derive(Deserialize)]
struct Payload<'a> {
    title: &'a str,
    body: &'a str,
    year: i64,
}

/// Reads a log, parses it and puts it into an index of the same schema as the connector's.
pub fn index(path: &Path, dir: &Path, settings: RawSettings) -> anyhow::Result<RawRun> {
    std::fs::create_dir_all(dir)?;
    let began = Instant::now();
    let (schema, fields) = schema();
    let index = Index::create_in_dir(dir, schema)?;
    let mut writer: IndexWriter =
        index.writer_with_num_threads(settings.threads, settings.heap_bytes)?;
    let mut waiting = 0;
    each_line(path, |line| {
        let line: Line<'_, Payload<'_>> = serde_json::from_str(line)?;
        let id = format!("{}/{}/{}", line.tenant, line.collection, line.object);
        writer.delete_term(Term::from_field_text(fields.id, &id));
        if line.op != "delete" {
            let payload = line.payload.as_ref().context("an upsert without a payload")?;
            writer.add_document(fields.document(&line, payload, &id))?;
        }
        waiting += 1;
        if waiting == settings.commit_docs {
            writer.commit()?;
            waiting = 0;
        }
        Ok(())
    })?;
    writer.commit()?;
    let running = began.elapsed();
    writer.wait_merging_threads()?;
    Ok(RawRun { running, settled: began.elapsed() })
}

/// The fields of the connector's schema, with `title`, `body` and `year` of the payload.
struct Fields {
    id: Field,
    version: Field,
    tenant: Field,
    collection: Field,
    title: Field,
    body: Field,
    year: Field,
}

fn schema() -> (Schema, Fields) {
    let mut schema = Schema::builder();
    let fields = Fields {
        id: schema.add_text_field("_id", STRING | STORED),
        version: schema.add_u64_field("_version", FAST),
        tenant: schema.add_text_field("_tenant", STRING),
        collection: schema.add_text_field("_collection", STRING),
        title: schema.add_text_field("title", TEXT | STORED),
        body: schema.add_text_field("body", TEXT | STORED),
        year: schema.add_i64_field("year", INDEXED | FAST | STORED),
    };
    (schema.build(), fields)
}

impl Fields {
    fn document(
        &self,
        line: &Line<'_, Payload<'_>>,
        payload: &Payload<'_>,
        id: &str,
    ) -> TantivyDocument {
        let mut document = TantivyDocument::new();
        document.add_text(self.id, id);
        document.add_u64(self.version, line.version.unwrap_or(0));
        document.add_text(self.tenant, line.tenant);
        document.add_text(self.collection, line.collection);
        document.add_text(self.title, payload.title);
        document.add_text(self.body, payload.body);
        document.add_i64(self.year, payload.year);
        document
    }
}
