//! A batch of the stream, decided: what the next frame will say. Nothing here is shown to anybody
//! before that frame is synced.

use std::borrow::Cow;

use bytestring::ByteString;
use cenotaph_core::decide::{Decided, Known, PastEvent, Verdict, accept};
use cenotaph_core::{
    AcceptedNote, BarrierRequest, Change, Cursor, Cursors, Entry, EventHash, Fact, Identified, Ids,
    KeyHash, Note, ObjectId, ObjectRecord, OnConflict, Op, Position, QuarantineNote,
    QuarantineReason, Record, RequestNote, ScopeHash, State, Tombstone, TombstoneNo,
};
use hashbrown::{HashMap, HashSet};

use super::committed::Committed;
use super::counts::Counts;
use super::error::LedgerError;
use super::lookup::Found;
use super::proposal::{IngestBatch, IngestStop, Item, Stopped};
use super::rules::{Rules, Ruling};
use super::table::IdState;

/// How many tombstones of one key are looked through for an event id. A repeat of one older than
/// these is decided by its version, which refuses it all the same.
const MAX_PAST_TOMBSTONES: usize = 64;

/// An object that a batch changes.
pub(super) struct Changed {
    /// Its generations, as they are after the batch.
    pub(super) record: ObjectRecord,
    /// Its row in the active table, if it has one.
    pub(super) row: Option<usize>,
    /// Its name.
    pub(super) name: ByteString,
}

/// The objects that a batch changes.
pub(super) type ChangedObjects = HashMap<ObjectId, Changed, IdState>;

/// What one batch leaves to the next: room that is filled already costs less than fresh room.
#[derive(Default)]
pub(super) struct Room {
    records: Vec<Record>,
    objects: ChangedObjects,
}

impl Room {
    /// The room of a batch that was taken in.
    pub(super) fn of(mut records: Vec<Record>, mut objects: ChangedObjects) -> Room {
        records.clear();
        objects.clear();
        Room { records, objects }
    }
}

/// A batch under decision.
pub(super) struct Draft<'a> {
    committed: &'a Committed,
    rules: &'a Rules,
    now_ms: i64,
    records: Vec<Record>,
    accepted: Vec<Identified>,
    counts: Counts,
    objects: ChangedObjects,
    tombstones: HashMap<TombstoneNo, Tombstone>,
    requests: HashMap<KeyHash, Vec<PastEvent>>,
    barriers: HashMap<String, Option<EventHash>>,
    named: HashSet<[u8; 16]>,
    last_tombstone: TombstoneNo,
    quarantined: usize,
}

/// A batch, decided.
pub(super) enum Drafted {
    /// All of it.
    Whole {
        /// What the frame says.
        records: Vec<Record>,
        /// The accepted changes that carry content, for the window.
        accepted: Vec<Identified>,
        /// One count a record of the stream.
        counts: Counts,
        /// The objects that it changes, as they are after it: what the records say, added up.
        objects: ChangedObjects,
    },
    /// Nothing of it: a record stands in the way.
    Stopped(Stopped),
}

impl<'a> Draft<'a> {
    pub(super) fn new(
        committed: &'a Committed,
        rules: &'a Rules,
        now_ms: i64,
        room: Room,
    ) -> Draft<'a> {
        Draft {
            committed,
            rules,
            now_ms,
            records: room.records,
            accepted: Vec::new(),
            counts: Counts::default(),
            objects: room.objects,
            tombstones: HashMap::new(),
            requests: HashMap::new(),
            barriers: HashMap::new(),
            named: HashSet::new(),
            last_tombstone: committed.books.last_tombstone,
            quarantined: committed.books.quarantine.len(),
        }
    }

    /// Decides a batch: all of it, or nothing if one of its records must stop the partition.
    pub(super) fn decide(mut self, batch: IngestBatch) -> Result<Drafted, LedgerError> {
        self.records.reserve(batch.items.len() + 1);
        self.objects.reserve(batch.items.len());
        self.accepted.reserve(batch.items.len());
        let objects: Vec<ObjectId> = batch.items.iter().filter_map(object_of).collect();
        let mut known = self.committed.objects(&objects).into_iter();
        for (index, item) in batch.items.into_iter().enumerate() {
            if let Some(reason) = self.item(item, &mut known)? {
                return Ok(Drafted::Stopped(Stopped { index, reason }));
            }
        }
        let IngestBatch { partition, cursor, proof, .. } = batch;
        self.note(Note::Ingested { partition, cursor, proof });
        let Draft { records, accepted, counts, objects, .. } = self;
        Ok(Drafted::Whole { records, accepted, counts, objects })
    }

    fn item(
        &mut self,
        item: Item,
        known: &mut impl Iterator<Item = Found<'a>>,
    ) -> Result<Option<IngestStop>, LedgerError> {
        match item {
            Item::Change(identified) => self.change(identified, known.next().unwrap_or_default()),
            Item::Barrier { request, event, scope } => Ok(self.barrier(request, event, scope)),
            Item::Ignored => {
                self.counts.ignored += 1;
                Ok(None)
            }
            Item::Undecodable { position, reason, detail, deletion } => {
                let stop = self.quarantine(position, reason, detail, None);
                if stop.is_none() {
                    self.counts.undecodable += 1;
                    self.counts.undecodable_deletions += u64::from(deletion);
                }
                Ok(stop)
            }
        }
    }

    fn change(
        &mut self,
        identified: Identified,
        committed: Found<'a>,
    ) -> Result<Option<IngestStop>, LedgerError> {
        let rules = self.rules;
        let policy = match rules.collection(&identified.change.key.collection) {
            Ruling::Policy(policy) => policy,
            Ruling::Ignore => {
                self.counts.ignored += 1;
                return Ok(None);
            }
            Ruling::Quarantine => {
                return Ok(self.set_aside(
                    &identified,
                    Verdict::Quarantined(QuarantineReason::UnknownCollection),
                ));
            }
        };
        let found = match self.objects.get(&identified.ids.key.object) {
            Some(changed) => Found { record: Cow::Owned(changed.record.clone()), row: changed.row },
            None => committed,
        };
        let past = self.past_events(&found.record, &identified.ids.key)?;
        let known = Known { record: &found.record, past: &past, scope_closed: false };
        let decided = accept(&known, &identified, policy, &rules.authority);
        if decided.verdict.quarantine().is_some() {
            if matches!(decided.verdict, Verdict::Conflicting(_))
                && policy.on_conflict == OnConflict::Stop
            {
                return Ok(Some(conflict_stop(&identified.change, decided.verdict)));
            }
            let stop = self.set_aside(&identified, decided.verdict);
            if stop.is_none() {
                self.resulting_entry(found, &identified, &decided);
            }
            return Ok(stop);
        }
        self.counts.count(identified.change.op, decided.verdict);
        self.perform(found, identified, decided);
        Ok(None)
    }

    /// Turns a verdict into facts and notes.
    fn perform(&mut self, found: Found<'_>, identified: Identified, mut decided: Decided) {
        let Identified { change, ids } = &identified;
        self.facts_of_opening(change, ids, &decided);
        if let (Some(covers), Some(entry)) = (decided.removal, decided.entry.as_mut()) {
            let previous = entry.tombstone;
            let number = TombstoneNo(self.last_tombstone.0 + 1);
            self.last_tombstone = number;
            entry.tombstone = Some(number);
            entry.flags.older_tombstones = previous.is_some();
            self.name_collection(change, ids);
            let tombstone = Tombstone {
                number,
                key: ids.key,
                covers,
                version: change.version,
                event: ids.event,
                fingerprint: ids.fingerprint,
                source: ids.source,
                parent: ids.parent,
                position: change.position,
                occurred_at_ms: change.occurred_at_ms,
                accepted_at_ms: self.now_ms,
                previous,
                retention_revision: 0,
            };
            self.tombstones.insert(number, tombstone.clone());
            self.fact(Fact::Removed(tombstone));
            self.note(Note::TombstoneNamed {
                number,
                object: change.key.object.to_string(),
                parent: change.parent.as_ref().map(ToString::to_string),
            });
        }
        if let Some(outcome) = decided.request {
            self.requests
                .entry(ids.key)
                .or_default()
                .push(PastEvent { event: ids.event, fingerprint: ids.fingerprint });
            self.note(Note::Requested(RequestNote {
                key: ids.key,
                event: ids.event,
                fingerprint: ids.fingerprint,
                outcome,
                tombstone: found.record.entry(ids.key.generation).and_then(|entry| entry.tombstone),
                at_ms: self.now_ms,
            }));
        }
        self.resulting_entry(found, &identified, &decided);
        if decided.verdict == Verdict::Accepted
            && identified.change.op != Op::Delete
            && identified.change.payload.is_some()
        {
            self.accepted.push(identified);
        }
    }

    fn facts_of_opening(&mut self, change: &Change, ids: &Ids, decided: &Decided) {
        let (event, source) = (ids.event, ids.source);
        if decided.opened {
            let Ids { key, .. } = *ids;
            self.name_collection(change, ids);
            self.fact(Fact::GenerationOpened {
                object: key.object,
                generation: key.generation,
                event,
                source,
            });
        }
        if let (true, Some(version)) = (decided.reopened, change.version) {
            self.fact(Fact::Reopened { key: ids.key, version, event, source });
        }
    }

    /// Notes the entry that a change results in, if it changes.
    fn resulting_entry(&mut self, found: Found<'_>, identified: &Identified, decided: &Decided) {
        let Identified { change, ids } = identified;
        let Some(entry) = decided.entry.clone() else { return };
        let mut record = found.record.into_owned();
        record.floor = decided.floor.unwrap_or(record.floor);
        let position = (decided.verdict == Verdict::Accepted).then_some(change.position);
        self.note(Note::Accepted(AcceptedNote {
            key: ids.key,
            entry: entry.clone(),
            floor: record.floor,
            object: change.key.object.clone(),
            position,
        }));
        record.set(ids.key.generation, entry);
        let name = change.key.object.clone();
        self.objects.insert(ids.key.object, Changed { record, row: found.row, name });
    }

    /// The events that a key remembers beside its entry's own: looked up only where there are some.
    fn past_events(
        &self,
        record: &ObjectRecord,
        key: &KeyHash,
    ) -> Result<Vec<PastEvent>, LedgerError> {
        let Some(entry) = record.entry(key.generation) else { return Ok(Vec::new()) };
        let mut past = Vec::new();
        self.tombstone_events(entry, &mut past)?;
        if entry.flags.has_requests {
            let requests = self.committed.requests(key, self.now_ms)?;
            past.extend(requests.iter().map(|request| PastEvent {
                event: request.event,
                fingerprint: request.fingerprint,
            }));
            past.extend(self.requests.get(key).into_iter().flatten().copied());
        }
        Ok(past)
    }

    fn tombstone_events(
        &self,
        entry: &Entry,
        past: &mut Vec<PastEvent>,
    ) -> Result<(), LedgerError> {
        // The last accepted change of a removed entry is its deletion: the entry remembers that
        // event itself.
        if entry.state == State::Removed && !entry.flags.older_tombstones {
            return Ok(());
        }
        let mut next = entry.tombstone;
        while let (Some(number), true) = (next, past.len() < MAX_PAST_TOMBSTONES) {
            let tombstone = match self.tombstones.get(&number) {
                Some(tombstone) => tombstone.clone(),
                None => self.committed.marker(number)?,
            };
            past.push(PastEvent { event: tombstone.event, fingerprint: tombstone.fingerprint });
            next = tombstone.previous;
        }
        Ok(())
    }

    fn set_aside(&mut self, identified: &Identified, verdict: Verdict) -> Option<IngestStop> {
        let Identified { change, ids } = identified;
        let reason = verdict.quarantine()?;
        self.name_collection(change, ids);
        let stop = self.quarantine(change.position, reason, String::new(), Some(ids.key));
        if stop.is_none() {
            self.counts.count(change.op, verdict);
        }
        stop
    }

    fn quarantine(
        &mut self,
        position: Position,
        reason: QuarantineReason,
        detail: String,
        key: Option<KeyHash>,
    ) -> Option<IngestStop> {
        if self.quarantined >= self.rules.quarantine_max {
            return Some(IngestStop::QuarantineFull { position });
        }
        self.quarantined += 1;
        let at_ms = self.now_ms;
        self.note(Note::Quarantined(QuarantineNote { position, reason, detail, key, at_ms }));
        None
    }

    fn barrier(
        &mut self,
        request: BarrierRequest,
        event: EventHash,
        scope: Option<ScopeHash>,
    ) -> Option<IngestStop> {
        let name = request.name.to_string();
        let position = request.position;
        let there = match self.barriers.get(&name) {
            Some(event) => Some(*event),
            None => self.committed.books.barriers.get(&name).map(|book| book.event),
        };
        match there {
            Some(known) if known == Some(event) => self.counts.barriers += 1,
            Some(_) => {
                let reason = QuarantineReason::BarrierNameTaken;
                let stop = self.quarantine(position, reason, String::new(), None);
                self.counts.conflicting += u64::from(stop.is_none());
                return stop;
            }
            None => {
                self.counts.barriers += 1;
                self.barriers.insert(name.clone(), Some(event));
                // Every reader that has got past the record stands above its offset.
                let after = Cursor { epoch: position.epoch, offset: position.offset + 1 };
                let mut cursors = Cursors::new();
                cursors.insert(position.partition, after);
                let through = Some(self.last_tombstone);
                let at_ms = self.now_ms;
                self.fact(Fact::BarrierMade {
                    name: name.clone(),
                    event: Some(event),
                    scope,
                    cursors,
                    through,
                    at_ms,
                });
                if let Some(scope) = request.scope {
                    self.note(Note::BarrierScope { name, scope });
                }
            }
        }
        None
    }

    /// A collection's readable name comes before the first record that needs it.
    fn name_collection(&mut self, change: &Change, ids: &Ids) {
        let collection = ids.key.object.collection();
        let known = self.committed.books.collections.contains_key(&collection);
        if !known && self.named.insert(collection.0) {
            self.note(Note::CollectionNamed {
                collection,
                tenant: change.key.tenant.to_string(),
                name: change.key.collection.to_string(),
            });
        }
    }

    fn fact(&mut self, fact: Fact) {
        self.records.push(Record::Fact(fact));
    }

    fn note(&mut self, note: Note) {
        self.records.push(Record::Note(note));
    }
}

fn object_of(item: &Item) -> Option<ObjectId> {
    match item {
        Item::Change(identified) => Some(identified.ids.key.object),
        _ => None,
    }
}

fn conflict_stop(change: &Change, verdict: Verdict) -> IngestStop {
    let reason = verdict.quarantine().unwrap_or(QuarantineReason::VersionMeansOther);
    IngestStop::Conflict { position: change.position, reason }
}
