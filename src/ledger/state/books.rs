//! Everything the ledger knows but for entries and tombstones: small, in memory, and the sum of the
//! records applied to it. Applying a record twice changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use cenotaph_core::{
    CollectionId, ConfirmedFact, Cursor, DestinationNo, EvidenceLevel, Fact, FactHash, Note,
    NumberRange, Position, QuarantineNote, Record, Tombstone, TombstoneNo,
};
use roaring::RoaringTreemap;
use serde::{Deserialize, Serialize};

use super::barrier::BarrierBook;
use super::destination::{DestinationBook, from_ranges};
use super::positions::{AcceptedPositions, MAX_ACCEPTED_POSITIONS};

/// How far ingest is in one partition.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FeedBook {
    /// The feed's identity in the source's words.
    pub feed: String,
    /// Its epoch.
    pub epoch: u32,
    /// The cursor of ingest.
    pub cursor: Cursor,
    /// What the source needs to see that it is still the same log.
    pub proof: Vec<u8>,
}

/// The readable names of a tenant's collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionName {
    /// The tenant.
    pub tenant: String,
    /// The collection.
    pub collection: String,
}

/// The small part of the committed state.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Books {
    /// The last fact's number and hash.
    pub last_fact: (u64, FactHash),
    /// The last frame.
    pub last_frame: u64,
    /// The last tombstone.
    pub last_tombstone: TombstoneNo,
    /// How far ingest is, a partition each.
    pub feeds: BTreeMap<u32, FeedBook>,
    /// The destinations.
    pub destinations: BTreeMap<DestinationNo, DestinationBook>,
    /// Tombstones whose gate is closed.
    pub closed_gates: RoaringTreemap,
    /// The named barriers.
    pub barriers: BTreeMap<String, BarrierBook>,
    /// What waits for somebody.
    pub quarantine: BTreeMap<Position, QuarantineNote>,
    /// Positions accepted since the slowest cursor.
    pub accepted: AcceptedPositions,
    /// The collections' readable names.
    pub collections: BTreeMap<CollectionId, CollectionName>,
    /// The policy in force.
    pub policy: Option<[u8; 16]>,
    /// A destination was opened and no clean stop has followed: requests of ours may be under way.
    pub in_use: bool,
    /// The destinations that were opened since the worker started: of no other is it known that it
    /// still holds what it held. Not kept.
    #[serde(skip)]
    pub opened: BTreeSet<DestinationNo>,
}

impl Books {
    /// The destination of that name.
    #[must_use]
    pub fn destination(&self, name: &str) -> Option<&DestinationBook> {
        self.destinations.values().find(|book| book.name == name)
    }

    /// The name of a collection, where it was ever met.
    #[must_use]
    pub fn collection_name(&self, id: &CollectionId) -> Option<&CollectionName> {
        self.collections.get(id)
    }

    /// Whether a destination is attached to a collection of that name.
    fn is_attached(book: &DestinationBook, name: Option<&CollectionName>) -> bool {
        name.is_some_and(|name| book.collections.contains(&name.collection))
    }

    /// The destinations that owe a tombstone of this collection.
    pub fn attached_to(&self, id: CollectionId) -> impl Iterator<Item = &DestinationBook> {
        let name = self.collections.get(&id);
        self.destinations.values().filter(move |book| Self::is_attached(book, name))
    }

    /// The chain stands here after a frame.
    pub fn chained(&mut self, frame: u64, last_fact: (u64, FactHash)) {
        self.last_frame = frame;
        self.last_fact = last_fact;
    }

    /// Takes in one record.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Fact(fact) => self.apply_fact(fact),
            Record::Note(note) => self.apply_note(note),
        }
    }

    fn apply_fact(&mut self, fact: &Fact) {
        match fact {
            Fact::Removed(tombstone) => self.removed(tombstone),
            Fact::Attached { destination, name, collection } => {
                self.destination_mut(*destination, name).collections.insert(collection.clone());
            }
            Fact::Detached { destination, collection, .. } => {
                if let Some(book) = self.destinations.get_mut(destination) {
                    book.collections.remove(collection);
                }
            }
            Fact::Confirmed(confirmed) => self.confirmed(confirmed),
            Fact::Revoked { destination, tombstones, .. } => self.owe(*destination, tombstones),
            Fact::GatesOpened { tombstones, .. } => {
                self.closed_gates -= from_ranges(tombstones);
            }
            Fact::BarrierMade { name, event, scope, cursors, through, at_ms } => {
                let book = self.barriers.entry(name.clone()).or_insert_with(|| BarrierBook {
                    event: *event,
                    scope: *scope,
                    scope_name: None,
                    cursors: cursors.clone(),
                    through: *through,
                    made_at_ms: *at_ms,
                    opened_at_ms: None,
                    unproven: Vec::new(),
                });
                book.through = *through;
            }
            Fact::BarrierOpened { name, at_ms, unproven } => {
                if let Some(book) = self.barriers.get_mut(name) {
                    book.opened_at_ms = Some(*at_ms);
                    book.unproven.clone_from(unproven);
                }
            }
            Fact::DestinationOpened { destination, epoch, .. } => {
                if let Some(book) = self.destinations.get_mut(destination) {
                    book.epoch = *epoch;
                }
                self.in_use = true;
                self.opened.insert(*destination);
            }
            Fact::FeedEpoch { partition, feed, epoch } => {
                let book = self.feeds.entry(*partition).or_default();
                book.feed.clone_from(feed);
                book.epoch = *epoch;
            }
            Fact::Policy { hash } => self.policy = Some(*hash),
            Fact::CleanStop { .. } => self.in_use = false,
            Fact::Reopened { .. } | Fact::GenerationOpened { .. } => {}
        }
    }

    fn apply_note(&mut self, note: &Note) {
        match note {
            Note::Accepted(accepted) => {
                if let Some(position) = accepted.position
                    && self.is_anybody_attached()
                {
                    self.accepted.insert(position);
                }
            }
            Note::CollectionNamed { collection, tenant, name } => {
                let name = CollectionName { tenant: tenant.clone(), collection: name.clone() };
                self.collections.insert(*collection, name);
            }
            Note::Ingested { partition, cursor, proof } => {
                let feed = self.feeds.entry(*partition).or_default();
                feed.cursor = *cursor;
                feed.proof.clone_from(proof);
                self.forget_positions(*partition);
            }
            Note::Committed { destination, control, cursors, owed } => {
                if let Some(book) = self.destinations.get_mut(destination) {
                    book.control = Some(control.clone());
                    book.cursors.clone_from(cursors);
                    book.owed = owed.iter().copied().collect();
                }
                let partitions: Vec<u32> = cursors.keys().copied().collect();
                partitions.into_iter().for_each(|partition| self.forget_positions(partition));
            }
            Note::Backlog { destination, tombstones } => self.owe(*destination, tombstones),
            Note::Quarantined(note) => {
                self.quarantine.insert(note.position, note.clone());
            }
            Note::BarrierScope { name, scope } => {
                if let Some(book) = self.barriers.get_mut(name) {
                    book.scope_name = Some(scope.clone());
                }
            }
            Note::TombstoneNamed { .. } | Note::Requested(_) => {}
        }
    }

    fn removed(&mut self, tombstone: &Tombstone) {
        let number = tombstone.number.0;
        self.last_tombstone = self.last_tombstone.max(tombstone.number);
        self.closed_gates.insert(number);
        let name = self.collections.get(&tombstone.key.object.collection());
        for book in self.destinations.values_mut() {
            if Self::is_attached(book, name) {
                book.pending.insert(number);
            }
        }
    }

    fn confirmed(&mut self, confirmed: &ConfirmedFact) {
        let Some(book) = self.destinations.get_mut(&confirmed.destination) else { return };
        let numbers = from_ranges(&confirmed.tombstones);
        book.looks = book.looks.max(confirmed.look);
        if confirmed.evidence.level == EvidenceLevel::Acknowledged {
            book.unproven |= &numbers;
        } else {
            book.unproven -= &numbers;
        }
        book.pending -= numbers;
    }

    fn owe(&mut self, destination: DestinationNo, tombstones: &[NumberRange]) {
        if let Some(book) = self.destinations.get_mut(&destination) {
            let numbers = from_ranges(tombstones);
            book.unproven -= &numbers;
            book.pending |= numbers;
        }
    }

    fn destination_mut(&mut self, number: DestinationNo, name: &str) -> &mut DestinationBook {
        self.destinations.entry(number).or_insert_with(|| DestinationBook::new(number, name))
    }

    /// Without a destination no position is read again.
    fn is_anybody_attached(&self) -> bool {
        self.destinations.values().any(|book| !book.collections.is_empty())
    }

    /// Positions that no destination will read again need not be known.
    fn forget_positions(&mut self, partition: u32) {
        let ingested = self.feeds.get(&partition).map(|feed| feed.cursor).unwrap_or_default();
        let slowest = self
            .destinations
            .values()
            .filter(|book| !book.collections.is_empty())
            .map(|book| lowest_needed(book, partition))
            .min()
            .unwrap_or(ingested);
        self.accepted.forget_before(partition, slowest.min(ingested));
        self.accepted.keep_at_most(MAX_ACCEPTED_POSITIONS);
    }
}

/// The lowest position that a destination may still read.
fn lowest_needed(book: &DestinationBook, partition: u32) -> Cursor {
    let cursor = book.cursors.get(&partition).copied().unwrap_or_default();
    book.lowest_owed(partition).map_or(cursor, |owed| owed.cursor().min(cursor))
}
