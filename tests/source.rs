//! The file source on real files: what it reads, and every way a log stops being the one it was.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "source/faults.rs"]
mod faults;
#[path = "source/support.rs"]
mod support;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cenotaph::source::{
    Batch, FaultKind, FileOptions, RawRecord, ReadAtError, SharedSource, Source,
};
use cenotaph_core::Position;
use support::*;

#[test]
fn complete_lines_are_records_and_an_unfinished_one_is_waited_for() {
    let log = Log::new("a\n\nccc\r\n{\"x\":1}");
    let source = log.open();
    let mut reader = from_start(&source);
    let batch = all(&mut *reader);
    assert_eq!(texts(&batch.records), expect(&[(0, "a"), (2, ""), (3, "ccc")]));
    assert_eq!((batch.cursor, batch.at_end), (at(8), true));
    for byte in b"rest\r" {
        log.append([*byte]);
        let batch = reader.read_batch(10, usize::MAX, NOW).unwrap();
        assert_eq!((batch.records.len(), batch.cursor, batch.at_end), (0, at(8), true));
    }
    log.append("\n");
    let batch = reader.read_batch(10, usize::MAX, NOW).unwrap();
    assert_eq!(texts(&batch.records), expect(&[(8, "{\"x\":1}rest")]));
}

#[test]
fn an_empty_log_has_an_end_and_a_proof() {
    let log = Log::new("");
    let source = log.open();
    let batch = all(&mut *from_start(&source));
    assert_eq!((batch.records.len(), batch.cursor, batch.at_end), (0, at(0), true));
    assert!(source.read_from(0, at(0), &batch.proof).is_ok());
    let feed = &source.partitions().unwrap()[0];
    assert_eq!((feed.partition, feed.epoch), (0, 0));
    assert!(feed.feed.starts_with("file:"), "{}", feed.feed);
}

#[test]
fn batches_are_bounded_and_every_proof_leads_on() {
    let log = Log::new("1\n22\n333\n4444\n55555\n");
    let source = log.open();
    let mut reader = from_start(&source);
    let batch = reader.read_batch(2, usize::MAX, SOON).unwrap();
    assert_eq!(texts(&batch.records), expect(&[(0, "1"), (2, "22")]));
    assert!(!batch.at_end);
    let batch = reader.read_batch(10, 7, SOON).unwrap();
    assert_eq!(texts(&batch.records), expect(&[(5, "333"), (9, "4444")]));
    let mut other = source.read_from(0, batch.cursor, &batch.proof).unwrap();
    let batch = other.read_batch(10, 0, SOON).unwrap();
    assert_eq!(texts(&batch.records), expect(&[(14, "55555")]));
    let mut other = source.read_from(0, batch.cursor, &batch.proof).unwrap();
    assert!(other.read_batch(0, 0, NOW).unwrap().at_end);
}

#[test]
fn lines_are_found_whatever_the_blocks_cut() {
    let content = "a\nbb\r\n\nccccccccccccc\n\r\ndddd\neeeeeeeeeeeeeeeeeeeeeeeeeeeeee\nf\n";
    let log = Log::new(content);
    let whole = texts(&all(&mut *from_start(&log.open())).records);
    assert_eq!(whole.len(), 8);
    for block_bytes in 0..=content.len() + 1 {
        let source = proved(FileOptions { block_bytes, ..log.options() });
        assert_eq!(texts(&all(&mut *from_start(&source)).records), whole, "{block_bytes}");
        // One record at a time, a new reader for each.
        let (mut cursor, mut proof, mut records) = (at(0), Vec::new(), Vec::new());
        loop {
            let mut reader = source.read_from(0, cursor, &proof).unwrap();
            let batch = reader.read_batch(1, usize::MAX, NOW).unwrap();
            if batch.records.is_empty() {
                break;
            }
            records.extend(batch.records);
            (cursor, proof) = (batch.cursor, batch.proof);
        }
        assert_eq!(texts(&records), whole, "{block_bytes}");
    }
}

#[test]
fn a_line_that_is_too_long_is_passed_over_and_reported() {
    let long = "x".repeat(100);
    let content = format!("a\n{}\n{long}\nb\n{}\r\n{long}", "y".repeat(10), "z".repeat(10));
    let log = Log::new(&content);
    for block_bytes in (1..40).chain([99, 100, 101, 102, 110, 1000]) {
        let options = FileOptions { block_bytes, max_record_bytes: 10, ..log.options() };
        let source = proved(options);
        let mut reader = from_start(&source);
        let (mut records, mut last) = (Vec::new(), Batch::default());
        while !last.at_end {
            last = reader.read_batch(1, usize::MAX, NOW).unwrap();
            records.append(&mut last.records);
            // Whether or not it has moved, it can be gone on from.
            assert!(source.read_from(0, last.cursor, &last.proof).is_ok());
        }
        let expected =
            [(0, "a"), (2, "yyyyyyyyyy"), (13, "<100>"), (114, "b"), (116, "zzzzzzzzzz")];
        assert_eq!(texts(&records), expect(&expected), "{block_bytes}");
        assert_eq!(last.cursor, at(128));
        let position = Position { partition: 0, epoch: 0, offset: 13 };
        assert_eq!(source.read_at(position).unwrap().too_large, Some(100));
        assert_eq!(source.marks(0).unwrap().end, at(128));
    }
}

#[test]
fn a_line_that_is_too_long_is_recognised_before_its_end_and_checked_after_it() {
    let log = Log::new("a\n");
    let options = FileOptions { block_bytes: 8, max_record_bytes: 10, ..log.options() };
    let source = proved(options.clone());
    let mut reader = from_start(&source);
    for part in ["xxxxxxx", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "xxxxxxxxxx"] {
        log.append(part);
        for _ in 0..10 {
            assert!(reader.read_batch(10, usize::MAX, NOW).unwrap().cursor <= at(2));
        }
    }
    // The writer takes back what it had not finished, and writes something else.
    log.cut(2);
    assert!(reader.read_batch(10, usize::MAX, NOW).unwrap().records.is_empty());
    log.append(format!("{}\nb\n", "y".repeat(200_000)));
    let batch = reader.read_batch(10, usize::MAX, SOON).unwrap();
    assert_eq!(texts(&batch.records), expect(&[(2, "<200000>"), (200_003, "b")]));
    log.cut(200_003);
    let source = proved(options);
    let mut reader = source.reader(0, at(2), at(200_003)).unwrap();
    let batch = reader.read_batch(1, usize::MAX, SOON).unwrap();
    assert!(source.read_from(0, batch.cursor, &batch.proof).is_ok());
    log.cut(200_001);
    log.append("z\n");
    let fault = fault(source.read_from(0, batch.cursor, &batch.proof));
    assert_eq!(fault.kind, FaultKind::Rewritten);
}

#[test]
fn a_line_longer_than_a_block_is_read_whole() {
    let line = "x".repeat(300_000);
    let log = Log::new(format!("a\n{line}\nb\n"));
    let batch = all(&mut *from_start(&log.open()));
    assert_eq!(batch.records[1].bytes, line.as_bytes());
    assert_eq!(batch.records.len(), 3);
    let source = log.open();
    let mut reader = source.read_from(0, batch.cursor, &batch.proof).unwrap();
    assert!(reader.read_batch(1, 1, NOW).unwrap().at_end);
}

#[test]
fn catching_up_ends_where_it_was_told_to() {
    let log = Log::new("a\nbb\nccc\ndddd\n");
    for block_bytes in [1, 3, 7, 1000] {
        let source = proved(FileOptions { block_bytes, ..log.options() });
        for (from, until, expected) in [
            (0, 9, &[(0, "a"), (2, "bb"), (5, "ccc")][..]),
            (2, 5, &[(2, "bb")]),
            (5, 5, &[]),
            (9, 14, &[(9, "dddd")]),
            (9, 2, &[]),
        ] {
            let mut reader = source.reader(0, at(from), at(until)).unwrap();
            let started = Instant::now();
            let mut records = Vec::new();
            loop {
                let batch = reader.read_batch(2, usize::MAX, SOON).unwrap();
                assert!(batch.cursor.offset <= until.max(from));
                records.extend(batch.records);
                if batch.at_end {
                    break;
                }
            }
            assert_eq!(texts(&records), expect(expected));
            assert!(started.elapsed() < SOON, "it waited at its end");
            assert!(reader.read_batch(1, 1, SOON).unwrap().at_end);
        }
    }
    let source = log.open();
    assert_eq!(fault(source.reader(0, at(3), at(5))).kind, FaultKind::Rewritten);
    assert_eq!(fault(source.reader(0, at(0), at(100))).kind, FaultKind::Truncated);
    let mut reader = source.reader(0, at(0), at(4)).unwrap();
    let cut_off = loop {
        match reader.read_batch(1, usize::MAX, NOW) {
            Ok(batch) => assert!(!batch.at_end),
            Err(fault) => break fault,
        }
    };
    assert_eq!(cut_off.kind, FaultKind::Rewritten);
}

#[test]
fn one_record_is_read_again_or_is_gone() {
    let log = Log::new("a\nbb\r\nccc\nunfinished");
    let source = log.open();
    let position = |offset| Position { partition: 0, epoch: 0, offset };
    let record = source.read_at(position(2)).unwrap();
    assert_eq!((&record.bytes[..], record.position), (&b"bb"[..], position(2)));
    for offset in [1, 3, 10, 20, 1000] {
        match source.read_at(position(offset)) {
            Err(ReadAtError::Gone { position: gone, .. }) => assert_eq!(gone, position(offset)),
            other => panic!("{offset}: {other:?}"),
        }
    }
    log.cut(0);
    assert!(matches!(source.read_at(position(2)), Err(ReadAtError::Gone { .. })));
    fs::remove_file(log.path()).unwrap();
    assert!(matches!(source.read_at(position(2)), Err(ReadAtError::Fault(_))));
}

#[test]
fn marks_tell_the_end_of_the_last_complete_record() {
    let log = Log::new("");
    let source = log.open();
    let end = || source.marks(0).unwrap().end.offset;
    assert_eq!(end(), 0);
    log.append("unfinished");
    assert_eq!(end(), 0);
    log.append("x".repeat(200_000));
    assert_eq!(end(), 0);
    log.append("\nab\nc");
    assert_eq!(end(), 200_014);
    assert_eq!(end(), 200_014);
    assert_eq!(source.marks(0).unwrap().low, at(0));
    log.cut(200_013);
    assert_eq!(fault(source.marks(0)).kind, FaultKind::Truncated);
}

/// A writer that appends in small pieces, a reader that waits, and one that catches up beside it.
#[test]
fn what_is_appended_meanwhile_is_read_once_and_in_order() {
    const LINES: usize = 20_000;
    let log = Log::new("");
    let path = log.path();
    let writer = thread::spawn(move || append_lines(&path, LINES));
    let source: SharedSource = Arc::new(proved(FileOptions { block_bytes: 1000, ..log.options() }));
    let mut reader = source.read_from(0, at(0), &[]).unwrap();
    let (mut seen, mut cursor) = (0, at(0));
    while seen < LINES {
        let batch = reader.read_batch(700, usize::MAX, SOON).unwrap();
        assert!(!batch.records.is_empty(), "nothing came any more");
        for record in &batch.records {
            assert_eq!(number(record), seen);
            seen += 1;
        }
        cursor = batch.cursor;
    }
    writer.join().unwrap();
    let mut catching_up = source.reader(0, at(0), cursor).unwrap();
    assert_eq!(all(&mut *catching_up).records.len(), LINES);
    assert_eq!(source.marks(0).unwrap().end, cursor);
}

fn number(record: &RawRecord) -> usize {
    let text = std::str::from_utf8(&record.bytes).unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

fn append_lines(path: &Path, lines: usize) {
    let mut file: File = OpenOptions::new().append(true).open(path).unwrap();
    let mut text = String::new();
    for line in 0..lines {
        text.push_str(&format!("{line} {}\n", "x".repeat(line % 97)));
        if line % 50 == 0 || line + 1 == lines {
            let middle = text.len() / 3;
            file.write_all(&text.as_bytes()[..middle]).unwrap();
            file.write_all(&text.as_bytes()[middle..]).unwrap();
            text.clear();
        }
    }
}

#[test]
fn a_reader_that_waits_wakes_soon_and_waits_no_longer_than_it_may() {
    let log = Log::new("a\n");
    let source = log.open();
    let mut reader = from_start(&source);
    reader.read_batch(1, usize::MAX, SOON).unwrap();
    let started = Instant::now();
    let wait = Duration::from_millis(30);
    assert!(reader.read_batch(1, usize::MAX, wait).unwrap().at_end);
    assert!(started.elapsed() >= wait && started.elapsed() < SOON);
    let path = log.path();
    let writer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(30));
        append_lines(&path, 1);
    });
    let started = Instant::now();
    let batch = reader.read_batch(1, usize::MAX, Duration::MAX).unwrap();
    assert_eq!(batch.records.len(), 1);
    assert!(started.elapsed() < SOON);
    writer.join().unwrap();
}
