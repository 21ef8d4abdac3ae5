//! Every way a log stops being the one that was read.

use std::fs;
use std::thread;

use cenotaph::source::{FaultKind, FeedFault, FileOptions, FileSource, ReadAtError, Source};
use cenotaph_core::{Cursor, Position};
use tempfile::TempDir;

use super::support::*;

/// The fault of a reader that has read `a\nbb\n` of a log and then finds it changed.
fn fault_after(change: impl FnOnce(&Log)) -> (FeedFault, FeedFault) {
    let log = Log::new("a\nbb\n");
    let source = log.open();
    let mut reader = from_start(&source);
    let read = all(&mut *reader);
    assert_eq!(read.cursor, at(5));
    change(&log);
    let running = fault(reader.read_batch(10, usize::MAX, NOW));
    // And so does a worker that was stopped meanwhile and starts again.
    let again = FileSource::open(log.options());
    let restarted = fault(again.and_then(|source| source.read_from(0, read.cursor, &read.proof)));
    (running, restarted)
}

#[test]
fn a_truncated_log_is_told() {
    let (running, restarted) = fault_after(|log| log.cut(3));
    assert_eq!((running.kind, restarted.kind), (FaultKind::Truncated, FaultKind::Truncated));
    assert_eq!(running.offset, Some(5));
    let text = running.to_string();
    assert!(text.contains("changes.jsonl") && text.contains("offset 5"), "{text}");
    assert!(text.contains("cenotaph source accept-new-epoch"), "{text}");
    let (running, restarted) = fault_after(|log| log.cut(0));
    assert_eq!((running.kind, restarted.kind), (FaultKind::Truncated, FaultKind::Truncated));
}

#[test]
fn a_rewritten_log_is_told() {
    // Copied and truncated, and grown past the cursor again before anybody looked.
    let (running, restarted) = fault_after(|log| log.overwrite("other\nlines\nstand here\n"));
    assert_eq!((running.kind, restarted.kind), (FaultKind::Rewritten, FaultKind::Rewritten));
    // One byte of the last record, and more appended.
    let (running, restarted) = fault_after(|log| log.overwrite("a\nbc\nd\n"));
    assert_eq!((running.kind, restarted.kind), (FaultKind::Rewritten, FaultKind::Rewritten));
    assert_eq!(restarted.offset, Some(5));
    assert!(!restarted.to_string().contains("bb"), "{restarted}");
}

#[test]
fn a_rewritten_log_of_the_same_length_is_told_at_the_next_start_and_when_it_grows() {
    let log = Log::new("a\nbb\n");
    let source = log.open();
    let mut reader = from_start(&source);
    let read = all(&mut *reader);
    log.overwrite("a\nbc\n");
    assert!(reader.read_batch(1, 1, NOW).is_ok());
    let restarted = fault(source.read_from(0, read.cursor, &read.proof));
    assert_eq!(restarted.kind, FaultKind::Rewritten);
    log.append("d\n");
    assert_eq!(fault(reader.read_batch(1, 1, NOW)).kind, FaultKind::Rewritten);
}

fn put_in_its_place(log: &Log, content: &str) {
    fs::rename(log.path(), log.dir.path().join("changes.1")).unwrap();
    fs::write(log.path(), content).unwrap();
}

/// A copy that was put back, with the ledger or without it.
#[test]
fn a_log_in_the_place_of_another_is_the_same_log_if_it_holds_what_was_read() {
    for content in ["a\nbb\n", "a\nbb\nc\n"] {
        let log = Log::new("a\nbb\n");
        let source = log.open();
        let mut reader = from_start(&source);
        let read = all(&mut *reader);
        put_in_its_place(&log, content);
        let running = fault(reader.read_batch(10, usize::MAX, NOW));
        assert_eq!(running.kind, FaultKind::Rotated, "somebody may still write the other one");
        let again = FileSource::open(log.options()).unwrap();
        let mut reader = again.read_from(0, read.cursor, &read.proof).unwrap();
        let rest = all(&mut *reader);
        assert_eq!(rest.records.len(), content.lines().count() - 2);
    }
}

#[test]
fn a_log_in_the_place_of_another_is_told() {
    for content in ["", "x\n", "a\nbc\n", "a\nb\nb\n"] {
        let (running, restarted) = fault_after(|log| put_in_its_place(log, content));
        assert_eq!((running.kind, restarted.kind), (FaultKind::Rotated, FaultKind::Rotated));
        assert!(running.detail.contains("file:"), "{running}");
    }
}

#[test]
fn a_log_put_back_in_its_place_is_read_on() {
    let log = Log::new("a\nbb\n");
    let read = all(&mut *from_start(&log.open()));
    let aside = log.dir.path().join("changes.1");
    fs::rename(log.path(), &aside).unwrap();
    fs::write(log.path(), "another\n").unwrap();
    fs::rename(&aside, log.path()).unwrap();
    log.append("c\n");
    let mut reader = log.open().read_from(0, read.cursor, &read.proof).unwrap();
    assert_eq!(texts(&all(&mut *reader).records), expect(&[(5, "c")]));
}

#[test]
fn a_log_that_is_gone_is_told() {
    let (running, restarted) = fault_after(|log| fs::remove_file(log.path()).unwrap());
    assert_eq!((running.kind, restarted.kind), (FaultKind::Missing, FaultKind::Missing));
    let nowhere = fault(FileSource::open(FileOptions::new("/nonexistent/log.jsonl")));
    assert_eq!(nowhere.kind, FaultKind::Missing);
    assert!(nowhere.to_string().contains("does not exist"), "{nowhere}");
}

#[test]
fn only_a_plain_file_is_a_log() {
    let dir = TempDir::new().unwrap();
    let directory = fault(FileSource::open(FileOptions::new(dir.path())));
    assert_eq!(directory.kind, FaultKind::Unreadable);
    assert!(directory.detail.contains("directory"), "{directory}");
    let pipe = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    assert_eq!(fault(FileSource::open(FileOptions::new(&pipe))).kind, FaultKind::Unreadable);
    assert_eq!(fault(FileSource::open(FileOptions::new("/dev/null"))).kind, FaultKind::Unreadable);
    // A link to a file is a name like any other.
    let log = Log::new("a\n");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(log.path(), &link).unwrap();
    assert!(FileSource::open(FileOptions::new(link)).is_ok());
}

#[test]
fn a_cursor_that_is_not_of_this_log_is_refused() {
    let log = Log::new("a\nbb\nccc\n");
    let source = log.open();
    let read = from_start(&source).read_batch(1, usize::MAX, NOW).unwrap();
    let kind =
        |partition, cursor, proof: &[u8]| fault(source.read_from(partition, cursor, proof)).kind;
    assert_eq!(kind(1, at(0), &[]), FaultKind::NoSuchPartition);
    assert_eq!(kind(0, Cursor { epoch: 1, offset: 0 }, &[]), FaultKind::CursorForeign);
    assert_eq!(kind(0, at(5), &[]), FaultKind::CursorForeign);
    assert_eq!(kind(0, at(5), &read.proof), FaultKind::CursorForeign);
    assert_eq!(kind(0, at(0), &read.proof), FaultKind::CursorForeign);
    assert_eq!(kind(0, at(2), b"nonsense"), FaultKind::CursorForeign);
    assert_eq!(kind(0, at(2), &read.proof[..read.proof.len() - 1]), FaultKind::CursorForeign);
    assert!(source.read_from(0, at(2), &read.proof).is_ok());
}

#[test]
fn what_was_read_before_a_fault_is_answered_before_it() {
    let log = Log::new("a\nbb\nccc\ndddd\n");
    let source = FileSource::open(FileOptions { block_bytes: 9, ..log.options() }).unwrap();
    let mut reader = from_start(&source);
    reader.read_batch(1, usize::MAX, NOW).unwrap();
    log.overwrite("other\nlines\nstand here now\n");
    let batch = reader.read_batch(10, usize::MAX, NOW).unwrap();
    assert_eq!(texts(&batch.records), expect(&[(2, "bb"), (5, "ccc")]));
    for _ in 0..2 {
        let fault = fault(reader.read_batch(10, usize::MAX, NOW));
        assert_eq!((fault.kind, fault.offset), (FaultKind::Rewritten, Some(9)));
    }
}

#[test]
fn nobody_reads_again_what_has_not_been_proved() {
    let log = Log::new("a\nbb\n");
    let read = all(&mut *from_start(&log.open()));
    let again = |source: &FileSource| {
        let reader = source.reader(0, at(0), at(5));
        let position = Position { partition: 0, epoch: 0, offset: 2 };
        match (reader, source.read_at(position)) {
            (Ok(_), Ok(_)) => None,
            (Err(reader), Err(ReadAtError::Fault(record))) => {
                assert_eq!(reader, record);
                Some(reader.kind)
            }
            (reader, record) => panic!("{:?} {record:?}", reader.map(|_| ())),
        }
    };
    // A log of the same shape in its place: lines begin and end where they did.
    fs::rename(log.path(), log.dir.path().join("changes.1")).unwrap();
    fs::write(log.path(), "x\nyy\nz\n").unwrap();
    let source = FileSource::open(log.options()).unwrap();
    assert_eq!(again(&source), Some(FaultKind::Unproved));
    assert_eq!(fault(source.read_from(0, read.cursor, &read.proof)).kind, FaultKind::Rotated);
    assert_eq!(again(&source), Some(FaultKind::Rotated));
    fs::rename(log.dir.path().join("changes.1"), log.path()).unwrap();
    let source = FileSource::open(log.options()).unwrap();
    let waiting = source.clone();
    let early = thread::spawn(move || waiting.reader(0, at(0), at(5)).map(|_| ()));
    let mut reader = source.read_from(0, read.cursor, &read.proof).unwrap();
    assert_eq!(early.join().unwrap(), Ok(()));
    assert_eq!(again(&source), None);
    // The reader with the proof finds a fault: it holds for those who catch up as well.
    let mut catching_up = source.reader(0, at(0), at(5)).unwrap();
    log.overwrite("x\nyy\nz\n");
    assert_eq!(fault(reader.read_batch(1, 1, NOW)).kind, FaultKind::Rewritten);
    assert_eq!(again(&source), Some(FaultKind::Rewritten));
    assert_eq!(fault(catching_up.read_batch(1, 1, NOW)).kind, FaultKind::Rewritten);
    log.overwrite("a\nbb\nz\n");
    assert!(source.read_from(0, read.cursor, &read.proof).is_ok());
    assert_eq!(again(&source), None);
}
