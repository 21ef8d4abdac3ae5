//! Random changes of one object, and random policies.

use bytes::Bytes;
use cenotaph_core::{
    Authority, Change, CollectionPolicy, EqualVersionDelete, EventHash, Fingerprint, Generation,
    Generations, Identified, Ids, KeyError, KeyHash, Lifecycle, NameHash, ObjectId, ObjectKey,
    OnConflict, Op, Position, Rule, ScopeHash, Version, VersionSpace,
};
use proptest::prelude::*;

/// A change in small numbers, so that random ones often meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    pub op: Op,
    pub generation: u32,
    pub version: Option<u64>,
    pub event: u8,
    pub content: u8,
    pub source: u8,
    pub parent: Option<u8>,
    pub partition: u32,
    pub payload: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    pub lifecycle: Lifecycle,
    pub open_generations: bool,
    pub equal_deletes: bool,
    pub suspends: bool,
    pub shared: bool,
    /// Whether sources may restore and create.
    pub trusted: bool,
}

pub const TERMINAL: Rules = Rules {
    lifecycle: Lifecycle::Terminal,
    open_generations: false,
    equal_deletes: false,
    suspends: false,
    shared: false,
    trusted: true,
};

impl Event {
    /// What the fingerprint is of.
    pub fn meaning(&self) -> (Op, u8) {
        (self.op, self.content)
    }

    pub fn identified(&self) -> Result<Identified, KeyError> {
        let generation = Generation(self.generation);
        let mut fingerprint = [0; 16];
        fingerprint[0] = self.op as u8 + 1;
        fingerprint[1] = self.content;
        let ids = Ids {
            key: KeyHash { object: ObjectId::default(), generation },
            event: EventHash([self.event; 16]),
            fingerprint: Fingerprint(fingerprint),
            source: NameHash([self.source; 8]),
            parent: self.parent.map(|parent| ScopeHash([parent; 16])),
        };
        let change = Change {
            event_id: self.event.to_string().into(),
            op: self.op,
            key: ObjectKey::new("T1", "docs", "D7", generation)?,
            parent: self.parent.map(|parent| parent.to_string().into()),
            version: self.version.and_then(|version| Version::new(version).ok()),
            source: self.source.to_string().into(),
            kind: "".into(),
            schema: "".into(),
            occurred_at_ms: None,
            payload: self.payload.then(|| Bytes::from_static(b"{}")),
            position: Position { partition: self.partition, epoch: 0, offset: 0 },
        };
        Ok(Identified { change, ids })
    }
}

impl Rules {
    pub fn policy(&self) -> CollectionPolicy {
        CollectionPolicy {
            lifecycle: self.lifecycle,
            generations: match self.open_generations {
                true => Generations::Open,
                false => Generations::Authorised,
            },
            equal_version_delete: match self.equal_deletes {
                true => EqualVersionDelete::Accept,
                false => EqualVersionDelete::Conflict,
            },
            on_conflict: if self.suspends { OnConflict::Suspend } else { OnConflict::Quarantine },
            version_space: if self.shared { VersionSpace::Shared } else { VersionSpace::Source },
            schemas: Vec::new(),
        }
    }

    pub fn authority(&self) -> Authority {
        let all = Rule { ops: Op::ALL.to_vec(), ..Rule::default() };
        Authority { rules: if self.trusted { vec![all] } else { Vec::new() } }
    }
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![4 => Just(Op::Upsert), 3 => Just(Op::Delete), 1 => Just(Op::Restore), 1 => Just(Op::Create)]
}

fn version() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![9 => (1..8u64).prop_map(Some), 1 => Just(None)]
}

/// Any change: event ids come again with another meaning, sources mix.
pub fn any_event() -> impl Strategy<Value = Event> {
    let ids = (0..12u8, 1..3u8, prop_oneof![5 => Just(1u8), 1 => Just(2)]);
    let place = (prop_oneof![5 => Just(1u32), 1 => Just(2), 1 => Just(3)], 0..2u32);
    (op(), version(), ids, place, prop::option::of(1..3u8), any::<bool>()).prop_map(
        |(op, version, (event, content, source), (generation, partition), parent, carries)| Event {
            op,
            generation,
            version,
            event,
            content,
            source,
            parent,
            partition,
            payload: op == Op::Upsert || (carries && op != Op::Delete),
        },
    )
}

/// Changes that a sound source sends: each event has an id of its own.
pub fn sound_events(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(any_event(), length).prop_map(|events| {
        let numbered = events.into_iter().zip(100u8..);
        numbered.map(|(event, number)| Event { event: number, source: 1, ..event }).collect()
    })
}

pub fn any_lifecycle() -> impl Strategy<Value = Lifecycle> {
    prop::sample::select(vec![Lifecycle::Terminal, Lifecycle::Restorable, Lifecycle::Versioned])
}

pub fn any_rules() -> impl Strategy<Value = Rules> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (any_lifecycle(), flags).prop_map(
        |(lifecycle, (open_generations, equal_deletes, suspends, shared, trusted))| Rules {
            lifecycle,
            open_generations,
            equal_deletes,
            suspends,
            shared,
            trusted,
        },
    )
}
