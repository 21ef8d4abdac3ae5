//! Whatever is lost, older than it should be or not what was written: noticed or harmless, never
//! believed.

use std::fs;
use std::path::Path;

use cenotaph_core::{
    CollectionId, DestinationNo, EventHash, Fingerprint, Generation, KeyHash, Note, NumberRange,
    Record, RequestNote, RequestOutcome,
};

use super::tests::{Bench, accepted, checkpoint, fill, id};
use super::*;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for path in files::list(from).unwrap() {
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn put_back(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    copy(from, to);
}

fn requested(number: u32, event: u8) -> Record {
    Record::Note(Note::Requested(RequestNote {
        key: KeyHash { object: id(number), generation: Generation(1) },
        event: EventHash([event; 16]),
        fingerprint: Fingerprint([1; 16]),
        outcome: RequestOutcome::Satisfied,
        tombstone: None,
        at_ms: 1,
    }))
}

#[test]
fn a_journal_that_is_gone_is_not_begun_anew() {
    for with_checkpoint in [false, true] {
        let mut bench = Bench::new();
        let mut open = bench.open().unwrap();
        fill(&mut bench, &mut open, 0);
        if with_checkpoint {
            checkpoint(&mut open).unwrap();
        }
        drop(open);
        let journal = bench.dir.path().join("journal");
        let saved = tempfile::tempdir().unwrap();
        copy(&journal, saved.path());
        for segment in bench.segments() {
            fs::remove_file(segment).unwrap();
        }
        assert!(bench.open().is_err(), "segments gone, checkpoint {with_checkpoint}");
        fs::remove_dir_all(&journal).unwrap();
        assert!(bench.open().is_err(), "all of it gone, checkpoint {with_checkpoint}");
        put_back(saved.path(), &journal);
        bench.check(&bench.open().unwrap());
    }
}

#[test]
fn a_journal_older_than_the_view_went_back_and_is_not_built_upon() {
    let mut bench = Bench::new();
    let mut open = bench.open().unwrap();
    fill(&mut bench, &mut open, 0);
    drop(open);
    let journal = bench.dir.path().join("journal");
    let (older, newer) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    copy(&journal, older.path());
    let mut open = bench.open().unwrap();
    fill(&mut bench, &mut open, 200);
    checkpoint(&mut open).unwrap();
    drop(open);
    copy(&journal, newer.path());
    put_back(older.path(), &journal);
    let error = bench.open().err().unwrap();
    assert!(matches!(error, OpenError::Journal(JournalError::Lost { .. })), "{error}");
    put_back(newer.path(), &journal);
    bench.check(&bench.open().unwrap());
}

#[test]
fn a_view_older_than_what_the_journal_still_holds_is_refused() {
    let mut bench = Bench::new();
    bench.options.keep_bytes = 0;
    let mut open = bench.open().unwrap();
    fill(&mut bench, &mut open, 0);
    checkpoint(&mut open).unwrap();
    drop(open);
    let view = bench.dir.path().join("view");
    let older = tempfile::tempdir().unwrap();
    copy(&view, older.path());
    let mut open = bench.open().unwrap();
    fill(&mut bench, &mut open, 200);
    checkpoint(&mut open).unwrap();
    drop(open);
    put_back(older.path(), &view);
    let error = bench.open().err().unwrap();
    assert!(matches!(error, OpenError::ViewDamaged { .. }), "{error}");
}

#[test]
fn a_view_of_another_past_of_the_journal_is_not_believed() {
    let mut bench = Bench::new();
    let mut open = bench.open().unwrap();
    fill(&mut bench, &mut open, 0);
    drop(open);
    let (journal, view) = (bench.dir.path().join("journal"), bench.dir.path().join("view"));
    let (before, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    copy(&journal, before.path());
    let mut open = bench.open().unwrap();
    open.storage.append(&[accepted(7, 1, 900, 0)]).unwrap();
    checkpoint(&mut open).unwrap();
    drop(open);
    copy(&view, other.path());
    put_back(before.path(), &journal);
    fs::remove_dir_all(&view).unwrap();
    let mut open = bench.open().unwrap();
    fill(&mut bench, &mut open, 200);
    drop(open);
    put_back(other.path(), &view);
    assert!(bench.open().is_err());
}

#[test]
fn what_sled_puts_into_files_of_their_own_is_synced_before_it_counts() {
    let mut bench = Bench::new();
    let mut open = bench.open().unwrap();
    let mut met = 0;
    // New objects between the old ones: pages grow full before sled splits them.
    for round in 0..6_u32 {
        let records = (0..400)
            .map(|n| accepted(round * 400 + n, 1, u64::from(n) + 1, 0))
            .chain((0..400).map(|n| accepted(n * round, 2, u64::from(n) + 1, 0)));
        bench.append(&mut open, records.collect());
        checkpoint(&mut open).unwrap();
        let synced = open.storage.view.synced_blobs.lock();
        for blob in files::list(&bench.dir.path().join("view/blobs")).unwrap() {
            met += 1;
            assert!(synced.contains(&blob), "round {round}: {}", blob.display());
        }
    }
    assert!(met > 0, "sled needed none");
    bench.check(&open);
}

#[test]
fn a_missing_or_older_value_of_any_kind_is_noticed() {
    let mut bench = Bench::new();
    bench.options.keep_bytes = 0;
    let mut open = bench.open().unwrap();
    fill(&mut bench, &mut open, 0);
    bench.append(&mut open, vec![requested(3, 1)]);
    checkpoint(&mut open).unwrap();
    let older: Vec<_> = open.storage.view.tree.iter().map(Result::unwrap).collect();
    fill(&mut bench, &mut open, 200);
    bench.append(&mut open, vec![requested(3, 2)]);
    checkpoint(&mut open).unwrap();
    drop(open);
    let view = bench.dir.path().join("view");
    let whole = tempfile::tempdir().unwrap();
    copy(&view, whole.path());
    for kind in *b"etcrsm" {
        for missing in [true, false] {
            let tree = sled::Config::new().path(&view).open().unwrap();
            let now = tree.iter().map(Result::unwrap).find(|(key, value)| {
                let before = older.iter().find(|(known, _)| known == key);
                key[0] == kind && (missing || before.is_some_and(|(_, old)| old != value))
            });
            let Some((key, _)) = now else {
                assert!(b"cs".contains(&kind), "{} never changes", char::from(kind));
                put_back(whole.path(), &view);
                continue;
            };
            match older.iter().find(|(known, _)| *known == key) {
                Some((_, old)) if !missing => drop(tree.insert(key, old).unwrap()),
                _ => drop(tree.remove(key).unwrap()),
            }
            tree.flush().unwrap();
            drop(tree);
            let error = bench.open().err();
            assert!(
                matches!(error, Some(OpenError::ViewDamaged { .. })),
                "{} missing {missing}: {:?}",
                char::from(kind),
                error.map(|error| error.to_string())
            );
            put_back(whole.path(), &view);
        }
    }
    bench.check(&bench.open().unwrap());
}

#[test]
fn a_flipped_byte_of_the_view_is_noticed_or_harmless() {
    let mut bench = Bench::new();
    let mut open = bench.open().unwrap();
    fill(&mut bench, &mut open, 0);
    checkpoint(&mut open).unwrap();
    fill(&mut bench, &mut open, 200);
    checkpoint(&mut open).unwrap();
    drop(open);
    let view = bench.dir.path().join("view");
    let whole = tempfile::tempdir().unwrap();
    copy(&view, whole.path());
    for name in ["db", "conf"] {
        let length = fs::metadata(whole.path().join(name)).unwrap().len() as usize;
        for at in (0..length.min(120_000)).step_by(if name == "db" { 2_003 } else { 11 }) {
            put_back(whole.path(), &view);
            let mut bytes = fs::read(view.join(name)).unwrap();
            bytes[at] ^= 0x20;
            fs::write(view.join(name), bytes).unwrap();
            match bench.open() {
                Ok(open) => bench.check(&open),
                Err(error) => assert!(
                    matches!(error, OpenError::ViewDamaged { .. }),
                    "{name} byte {at}: {error}"
                ),
            }
        }
    }
}

/// I10, and who owes what: whatever else goes with its segment, this stays.
#[test]
fn what_belongs_to_facts_stays_when_segments_are_rewritten() {
    let mut bench = Bench::new();
    bench.options.keep_bytes = 0;
    let mut open = bench.open().unwrap();
    fill(&mut bench, &mut open, 0);
    let tombstones = vec![NumberRange { first: 1, last: 3 }];
    let owed = Note::Backlog { destination: DestinationNo(1), tombstones };
    let named = Note::CollectionNamed {
        collection: CollectionId([7; 16]),
        tenant: "T1".into(),
        name: "docs".into(),
    };
    let both = vec![Record::Note(owed.clone()), Record::Note(named.clone())];
    bench.append(&mut open, both);
    checkpoint(&mut open).unwrap();
    let mut kept = Vec::new();
    open.storage
        .replay(Mark::beginning(open.storage.identity.ledger), |replayed| {
            kept.extend(replayed.records);
            Ok::<(), JournalError>(())
        })
        .unwrap();
    let notes: Vec<&Note> = kept
        .iter()
        .filter_map(|record| match record {
            Record::Note(note) => Some(note),
            Record::Fact(_) => None,
        })
        .collect();
    assert!(notes.contains(&&owed) && notes.contains(&&named));
    let names = notes.iter().filter(|note| matches!(note, Note::TombstoneNamed { .. })).count();
    assert_eq!(names, 20, "a name each tombstone");
    assert!(notes.iter().all(|note| !matches!(note, Note::Accepted(_))), "the rest is gone");
}

#[test]
fn a_newer_format_is_no_damage() {
    let mut bench = Bench::new();
    let mut open = bench.open().unwrap();
    fill(&mut bench, &mut open, 0);
    checkpoint(&mut open).unwrap();
    let newer = crate::ledger::view::sealed(&postcard::to_stdvec(&(FORMAT + 1, "more")).unwrap());
    open.storage.view.tree.insert(crate::ledger::view::META, newer).unwrap();
    open.storage.view.sync().unwrap();
    drop(open);
    let error = bench.open().err().unwrap();
    assert!(matches!(error, OpenError::Newer { found } if found == FORMAT + 1), "{error}");
}

/// sled's threads may outlive their database for a moment.
#[test]
fn a_view_that_is_still_held_is_waited_for_and_not_thrown_away() {
    let mut bench = Bench::new();
    let mut open = bench.open().unwrap();
    fill(&mut bench, &mut open, 0);
    checkpoint(&mut open).unwrap();
    let held = open.storage.view.tree.clone();
    drop(open);
    let later = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        drop(held);
    });
    let open = bench.open().unwrap();
    assert_eq!(open.report, OpenReport::default(), "it is not built anew");
    bench.check(&open);
    later.join().unwrap();
}
