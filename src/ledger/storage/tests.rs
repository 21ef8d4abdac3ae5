use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use cenotaph_core::{
    AcceptedNote, ConfirmedFact, Covers, DestinationNo, Entry, EntryFlags, EventHash, Evidence,
    EvidenceLevel, Fact, Fingerprint, Generation, KeyHash, NameHash, Note, NumberRange, ObjectId,
    Position, RequestNote, RequestOutcome, State, Tombstone, TombstoneNo, Version,
};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::ledger::segment;

/// What was appended, and what it adds up to.
#[derive(Default)]
pub(super) struct Model {
    objects: BTreeMap<(ObjectId, Generation), (Entry, u32)>,
    tombstones: BTreeMap<u64, String>,
    pub(super) looks: u64,
}

/// A ledger folder with the model of what is in it.
pub(super) struct Bench {
    pub(super) dir: TempDir,
    pub(super) model: Model,
    pub(super) options: Options,
}

pub(super) struct Open {
    pub(super) storage: Storage,
    pub(super) tables: Tables,
    state: Vec<(String, Vec<u8>)>,
    pub(super) report: OpenReport,
}

impl Bench {
    pub(super) fn new() -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            table_objects: 100,
            cache_bytes: 1 << 20,
            keep_bytes: u64::MAX,
            ..Options::default()
        };
        Bench { dir, model: Model::default(), options }
    }

    pub(super) fn open(&self) -> Result<Open, OpenError> {
        let opened = Storage::open(self.dir.path(), self.options.clone())?;
        let Opened { storage, mut tables, state, view_mark, report } = opened;
        let reader = storage.reader();
        storage.replay(view_mark, |replayed| {
            for record in &replayed.records {
                tables.apply(record, &reader).unwrap();
            }
            Ok::<(), JournalError>(())
        })?;
        Ok(Open { storage, tables, state, report })
    }

    pub(super) fn append(&mut self, open: &mut Open, records: Vec<Record>) {
        open.storage.append(&records).unwrap();
        let reader = open.storage.reader();
        for record in &records {
            open.tables.apply(record, &reader).unwrap();
            self.model.apply(record);
        }
    }

    pub(super) fn check(&self, open: &Open) {
        let reader = open.storage.reader();
        for ((object, generation), (entry, floor)) in &self.model.objects {
            let rows = reader.object(object, &open.tables).unwrap().expect("the object is there");
            assert_eq!(rows.record.entry(*generation), Some(entry));
            assert_eq!(rows.record.floor, *floor);
            assert_eq!(rows.name, name(object));
        }
        for (number, name) in &self.model.tombstones {
            let kept = reader.tombstone(TombstoneNo(*number), &open.tables).unwrap().unwrap();
            assert_eq!(kept.object.as_ref(), Some(name), "tombstone {number}");
        }
        if self.model.looks > 0 {
            let looks = 1..=self.model.looks;
            let found = reader.confirmations(DestinationNo(1), looks, &open.tables).unwrap();
            assert_eq!(found.len() as u64, self.model.looks);
        }
        let absent = ObjectId([0xee; 32]);
        assert_eq!(reader.object(&absent, &open.tables).unwrap(), None);
    }

    pub(super) fn segments(&self) -> Vec<PathBuf> {
        segment::list(&self.dir.path().join("journal")).unwrap()
    }
}

impl Model {
    fn apply(&mut self, record: &Record) {
        match record {
            Record::Note(Note::Accepted(note)) => {
                let key = (note.key.object, note.key.generation);
                self.objects.insert(key, (note.entry.clone(), note.floor));
                for ((object, _), (_, floor)) in &mut self.objects {
                    if *object == note.key.object {
                        *floor = note.floor;
                    }
                }
            }
            Record::Note(Note::TombstoneNamed { number, object, .. }) => {
                self.tombstones.insert(number.0, object.clone());
            }
            Record::Fact(Fact::Confirmed(confirmed)) => self.looks = confirmed.look,
            _ => {}
        }
    }
}

pub(super) fn checkpoint(open: &mut Open) -> Result<(), CheckpointError> {
    let state = vec![("books".to_owned(), vec![9; 100_000])];
    open.storage.begin_checkpoint(&mut open.tables, state)?;
    while !matches!(open.storage.poll_checkpoint(&mut open.tables)?, Checkpointing::Finished(_)) {
        std::thread::yield_now();
    }
    Ok(())
}

pub(super) fn id(number: u32) -> ObjectId {
    ObjectId(*blake3::hash(&number.to_le_bytes()).as_bytes())
}

fn name(object: &ObjectId) -> String {
    format!("object {object}")
}

pub(super) fn accepted(number: u32, generation: u32, version: u64, floor: u32) -> Record {
    let object = id(number);
    let entry = Entry {
        state: if version.is_multiple_of(3) { State::Removed } else { State::Live },
        version: Version::new(version).ok(),
        event: EventHash([version as u8; 16]),
        fingerprint: Fingerprint([1; 16]),
        space: NameHash([2; 8]),
        parent: None,
        erased_through: Covers::NOTHING,
        partition: 0,
        tombstone: None,
        flags: EntryFlags::default(),
    };
    Record::Note(Note::Accepted(AcceptedNote {
        key: KeyHash { object, generation: Generation(generation) },
        entry,
        floor,
        object: name(&object).into(),
        position: Some(Position { partition: 0, epoch: 0, offset: version }),
    }))
}

fn removed(number: u64) -> [Record; 2] {
    let tombstone = Tombstone {
        number: TombstoneNo(number),
        key: KeyHash { object: id(number as u32), generation: Generation(1) },
        covers: Covers::EVERYTHING,
        version: None,
        event: EventHash([3; 16]),
        fingerprint: Fingerprint([4; 16]),
        source: NameHash([5; 8]),
        parent: None,
        position: Position { partition: 0, epoch: 0, offset: number },
        occurred_at_ms: None,
        accepted_at_ms: 1,
        previous: None,
        retention_revision: 0,
    };
    let named = Note::TombstoneNamed {
        number: TombstoneNo(number),
        object: format!("removed {number}"),
        parent: None,
    };
    [Record::Fact(Fact::Removed(tombstone)), Record::Note(named)]
}

fn confirmed(look: u64) -> Record {
    Record::Fact(Fact::Confirmed(ConfirmedFact {
        destination: DestinationNo(1),
        look,
        tombstones: vec![NumberRange { first: look, last: look }],
        evidence: Evidence {
            level: EvidenceLevel::Absent,
            method: "look".into(),
            copies: vec![],
            looked_at_ms: 1,
            attempts: 1,
            control: Some((1, look)),
        },
    }))
}

/// A few hundred records of every kind, in frames of several.
pub(super) fn fill(bench: &mut Bench, open: &mut Open, from: u32) {
    for frame in 0..20_u32 {
        let base = from + frame * 10;
        let mut records: Vec<Record> =
            (base..base + 10).map(|n| accepted(n, 1 + n % 3, u64::from(n) + 1, n % 2)).collect();
        let number = u64::from(from / 10 + frame) + 1;
        records.extend(removed(number));
        records.push(confirmed(number));
        bench.append(open, records);
    }
}

#[test]
fn what_was_synced_is_there_after_a_restart_with_and_without_checkpoints() {
    let mut bench = Bench::new();
    let mut open = bench.open().unwrap();
    for round in 0..4 {
        fill(&mut bench, &mut open, round * 200);
        if round % 2 == 1 {
            checkpoint(&mut open).unwrap();
        }
        bench.check(&open);
        drop(open);
        open = bench.open().unwrap();
        assert_eq!(open.report, OpenReport::default());
        bench.check(&open);
    }
    assert_eq!(open.state, [("books".to_owned(), vec![9; 100_000])]);
}

#[test]
fn a_checkpoint_that_ends_anywhere_loses_nothing() {
    for step in [Step::Buckets, Step::Rest, Step::Meta] {
        let mut bench = Bench::new();
        let mut open = bench.open().unwrap();
        fill(&mut bench, &mut open, 0);
        checkpoint(&mut open).unwrap();
        fill(&mut bench, &mut open, 200);
        // Twice in a row, with changes between: the second finds what the first left.
        for _ in 0..2 {
            open.storage.options.stop_checkpoint_after = Some(step);
            assert!(matches!(checkpoint(&mut open), Err(CheckpointError::Stopped)));
            drop(open);
            open = bench.open().unwrap();
            bench.check(&open);
            fill(&mut bench, &mut open, 400);
        }
        open.storage.options.stop_checkpoint_after = None;
        checkpoint(&mut open).unwrap();
        bench.check(&open);
        drop(open);
        bench.check(&bench.open().unwrap());
    }
}

#[test]
fn a_torn_last_frame_is_cut_and_everything_before_it_stays() {
    let mut bench = Bench::new();
    let mut open = bench.open().unwrap();
    fill(&mut bench, &mut open, 0);
    drop(open);
    let path = bench.segments().pop().unwrap();
    let whole = fs::read(&path).unwrap();
    let mut open = bench.open().unwrap();
    open.storage.append(&[confirmed(21)]).unwrap();
    drop(open);
    let longer = fs::read(&path).unwrap();
    let witness = bench.dir.path().join("journal/witness");
    for length in whole.len()..longer.len() {
        fs::write(&path, &longer[..length]).unwrap();
        // The frame was never acknowledged: the witness has not seen it.
        crate::ledger::witness::create(&witness).unwrap();
        let open = bench.open().unwrap();
        assert_eq!(open.report.cut_bytes, (length - whole.len()) as u64);
        bench.check(&open);
    }
}

#[test]
fn an_end_that_the_witness_saw_is_not_cut() {
    let mut bench = Bench::new();
    let mut open = bench.open().unwrap();
    fill(&mut bench, &mut open, 0);
    drop(open);
    let path = bench.segments().pop().unwrap();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let error = bench.open().err().unwrap();
    assert!(matches!(error, OpenError::Journal(JournalError::Lost { .. })), "{error}");
}

#[test]
fn a_flipped_byte_anywhere_in_the_journal_is_noticed() {
    let mut bench = Bench::new();
    let mut open = bench.open().unwrap();
    fill(&mut bench, &mut open, 0);
    drop(open);
    let path = bench.segments().pop().unwrap();
    let whole = fs::read(&path).unwrap();
    for at in (0..whole.len()).step_by(97) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(&path, &damaged).unwrap();
        assert!(bench.open().is_err(), "byte {at} of {}", whole.len());
    }
    fs::write(&path, &whole).unwrap();
    bench.check(&bench.open().unwrap());
}

#[test]
fn a_missing_witness_or_identity_or_segment_is_noticed() {
    let mut bench = Bench::new();
    let mut open = bench.open().unwrap();
    fill(&mut bench, &mut open, 0);
    checkpoint(&mut open).unwrap();
    fill(&mut bench, &mut open, 200);
    drop(open);
    let first = bench.segments().remove(0);
    for path in [bench.dir.path().join("journal/witness"), bench.dir.path().join("identity"), first]
    {
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(bench.open().is_err(), "{}", path.display());
        fs::write(&path, bytes).unwrap();
    }
    bench.check(&bench.open().unwrap());
}

#[test]
fn a_lost_or_older_view_is_built_anew_or_refused_and_never_believed() {
    for rewritten in [false, true] {
        let mut bench = Bench::new();
        bench.options.keep_bytes = if rewritten { 0 } else { u64::MAX };
        let mut open = bench.open().unwrap();
        fill(&mut bench, &mut open, 0);
        checkpoint(&mut open).unwrap();
        let older = open.storage.view.tree.export();
        let bound = ObjectId::default();
        let old_bucket = open.tables.directory.bytes(0).cloned().unwrap();
        fill(&mut bench, &mut open, 200);
        checkpoint(&mut open).unwrap();
        drop(older);
        let key = super::super::view::bucket_key(&bound);
        open.storage.view.tree.insert(key, &old_bucket[..]).unwrap();
        open.storage.view.sync().unwrap();
        drop(open);
        match bench.open() {
            Ok(open) => {
                assert!(!rewritten);
                assert!(open.report.rebuilt_view.is_some());
                bench.check(&open);
            }
            Err(error) => {
                assert!(rewritten, "{error}");
                assert!(matches!(error, OpenError::ViewDamaged { .. }), "{error}");
            }
        }
        fs::remove_dir_all(bench.dir.path().join("view")).unwrap();
        match bench.open() {
            Ok(open) => {
                assert!(!rewritten);
                bench.check(&open);
            }
            Err(error) => assert!(rewritten, "{error}"),
        }
    }
}

#[test]
fn rewritten_segments_keep_their_facts_and_the_chain() {
    let mut bench = Bench::new();
    bench.options.keep_bytes = 0;
    let mut open = bench.open().unwrap();
    let mut chain = vec![];
    for round in 0..3 {
        fill(&mut bench, &mut open, round * 200);
        chain.push((open.storage.mark().fact, open.storage.mark().fact_hash));
        checkpoint(&mut open).unwrap();
    }
    let size_of = |path: &PathBuf| fs::metadata(path).unwrap().len();
    let headers: Vec<_> =
        bench.segments().iter().map(|path| segment::read_header(path).unwrap()).collect();
    assert!(headers.iter().filter(|header| header.end.is_some()).count() >= 2);
    assert!(bench.segments().iter().map(size_of).sum::<u64>() < 100_000);
    drop(open);
    let open = bench.open().unwrap();
    bench.check(&open);
    for (number, hash) in chain {
        assert!(open.storage.knows_fact(number, &hash).unwrap());
        assert!(!open.storage.knows_fact(number, &FactHash([1; 32])).unwrap());
        assert!(!open.storage.knows_fact(number - 1, &hash).unwrap());
    }
}

/// Oldest first, in memory as on disk.
#[test]
fn deletion_requests_of_a_key_are_bounded_between_checkpoints_too() {
    let mut bench = Bench::new();
    let mut open = bench.open().unwrap();
    let key = KeyHash { object: id(1), generation: Generation(1) };
    let requested = |number: u16| {
        let mut event = [0; 16];
        event[..2].copy_from_slice(&number.to_le_bytes());
        Record::Note(Note::Requested(RequestNote {
            key,
            event: EventHash(event),
            fingerprint: Fingerprint([1; 16]),
            outcome: RequestOutcome::Satisfied,
            tombstone: None,
            at_ms: i64::from(number),
        }))
    };
    let last = |open: &Open, count: usize, last: i64| {
        let found = open.storage.reader().requests(&key, &open.tables, 0).unwrap();
        assert_eq!(found.len(), count);
        assert!(found.is_sorted_by_key(|request| request.at_ms), "oldest first");
        assert_eq!(found.last().map(|request| request.at_ms), Some(last));
    };
    bench.append(&mut open, (0..400).map(requested).collect());
    assert_eq!(open.tables.active.requests[&key].len(), 256);
    last(&open, 256, 399);
    checkpoint(&mut open).unwrap();
    last(&open, 256, 399);
    bench.append(&mut open, (400..500).map(requested).collect());
    last(&open, 256, 499);
    drop(open);
    bench.options.requests_kept = RequestsKept::each_for(Duration::from_millis(9));
    let mut open = bench.open().unwrap();
    last(&open, 10, 499);
    checkpoint(&mut open).unwrap();
    drop(open);
    bench.options.requests_kept = RequestsKept::default();
    last(&bench.open().unwrap(), 10, 499);
}

#[test]
fn what_sled_never_finished_is_removed_before_it_is_opened() {
    let mut bench = Bench::new();
    let mut open = bench.open().unwrap();
    fill(&mut bench, &mut open, 0);
    checkpoint(&mut open).unwrap();
    drop(open);
    let leftover = bench.dir.path().join("view/snap.00000000000FFFFF.generating");
    fs::write(&leftover, b"half").unwrap();
    bench.check(&bench.open().unwrap());
    assert!(!leftover.exists());
}

#[test]
fn a_second_worker_is_refused() {
    let bench = Bench::new();
    let _open = bench.open().unwrap();
    assert!(matches!(bench.open(), Err(OpenError::Lock(LockError::Held(_)))));
}

#[derive(Debug, Clone)]
enum Act {
    Append(Vec<(u32, u32, u64, u32)>),
    Checkpoint,
    StoppedCheckpoint(u8),
    Reopen,
}

fn act() -> impl Strategy<Value = Act> {
    let change = (0..300_u32, 1..4_u32, 1..1_000_u64, 0..3_u32);
    prop_oneof![
        6 => prop::collection::vec(change, 1..60).prop_map(Act::Append),
        2 => Just(Act::Checkpoint),
        1 => (0..3_u8).prop_map(Act::StoppedCheckpoint),
        2 => Just(Act::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn any_history_reads_as_the_model_says(acts in prop::collection::vec(act(), 1..30)) {
        let mut bench = Bench::new();
        let mut open = bench.open().unwrap();
        for act in acts {
            match act {
                Act::Append(changes) => {
                    let records = changes
                        .into_iter()
                        .map(|(number, generation, version, floor)| {
                            accepted(number, generation, version, floor)
                        })
                        .collect();
                    bench.append(&mut open, records);
                }
                Act::Checkpoint => checkpoint(&mut open).unwrap(),
                Act::StoppedCheckpoint(step) => {
                    let step = [Step::Buckets, Step::Rest, Step::Meta][usize::from(step)];
                    open.storage.options.stop_checkpoint_after = Some(step);
                    let _ = checkpoint(&mut open);
                    drop(open);
                    open = bench.open().unwrap();
                }
                Act::Reopen => {
                    drop(open);
                    open = bench.open().unwrap();
                }
            }
            bench.check(&open);
        }
    }
}

#[test]
fn verify_finds_what_is_wrong_and_changes_nothing() {
    let mut bench = Bench::new();
    bench.options.keep_bytes = 0;
    let mut open = bench.open().unwrap();
    fill(&mut bench, &mut open, 0);
    checkpoint(&mut open).unwrap();
    fill(&mut bench, &mut open, 200);
    checkpoint(&mut open).unwrap();
    fill(&mut bench, &mut open, 400);
    let dir = bench.dir.path().to_owned();
    assert!(crate::ledger::verify(&dir).is_err(), "a worker has it");
    drop(open);
    let report = crate::ledger::verify(&dir).unwrap();
    assert!(report.is_sound(), "{report}");
    assert_eq!((report.tombstones, report.confirmations), (60, 60));
    assert_eq!((report.segments, report.rewritten_segments), (3, 2));
    assert_eq!(report.objects, 400, "the last 200 are in the journal only");
    let last = bench.segments().pop().unwrap();
    let whole = fs::read(&last).unwrap();
    for (what, bytes) in [
        ("a lost end", whole[..whole.len() - 3].to_vec()),
        (
            "a flipped byte",
            whole.iter().enumerate().map(|(at, it)| it ^ u8::from(at == 500)).collect(),
        ),
    ] {
        fs::write(&last, &bytes).unwrap();
        let report = crate::ledger::verify(&dir).unwrap();
        assert!(!report.is_sound(), "{what}: {report}");
        assert_eq!(fs::read(&last).unwrap(), bytes, "{what}: it was changed");
    }
    fs::write(&last, &whole).unwrap();
    fs::remove_file(dir.join("view/db")).unwrap();
    assert!(!crate::ledger::verify(&dir).unwrap().is_sound(), "an empty view lacks tombstones");
}
