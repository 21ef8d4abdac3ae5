//! What the writer decides about destinations: attaching, opening, commits and looks.

use std::collections::BTreeSet;

use cenotaph_core::decide::{
    ControlState, Expected, Judgement, LookContext, confirm, judge_control,
};
use cenotaph_core::{
    ConfirmedFact, Control, Cursors, DestinationNo, Evidence, EvidenceLevel, Fact, Note, Record,
    State, TombstoneNo,
};
use roaring::RoaringTreemap;

use super::committed::Committed;
use super::error::LedgerError;
use super::proposal::{Judged, LookProposal, LookedAt, OpenedDestination};
use super::state::{DestinationBook, to_ranges};

/// Attaches a destination to collections that it is not attached to yet. Their earlier tombstones
/// become its backlog: a copy filled before must not keep what was deleted before. One that has read
/// the log for other collections reads it again from its beginning: it passed what it did not take.
pub(super) fn attach(
    committed: &Committed,
    name: &str,
    collections: &[String],
) -> Result<(DestinationNo, Vec<Record>), LedgerError> {
    let book = committed.books.destination(name);
    let highest = committed.books.destinations.keys().map(|number| number.0).max();
    let number =
        book.map_or_else(|| DestinationNo(highest.map_or(1, |last| last + 1)), |book| book.number);
    let already = book.map(|book| book.collections.clone()).unwrap_or_default();
    let added: BTreeSet<&String> =
        collections.iter().filter(|collection| !already.contains(*collection)).collect();
    let mut records: Vec<Record> = added
        .iter()
        .map(|collection| {
            Record::Fact(Fact::Attached {
                destination: number,
                name: name.to_owned(),
                collection: (*collection).clone(),
            })
        })
        .collect();
    if !added.is_empty() {
        let backlog = earlier_tombstones(committed, &added)?;
        if !backlog.is_empty() {
            let tombstones = to_ranges(&backlog);
            records.push(Record::Note(Note::Backlog { destination: number, tombstones }));
        }
        records.extend(book.and_then(from_the_beginning));
    }
    Ok((number, records))
}

fn from_the_beginning(book: &DestinationBook) -> Option<Record> {
    let control = book.control.clone()?;
    let owed = book.owed.iter().copied().collect();
    let (destination, cursors) = (book.number, Cursors::new());
    Some(Record::Note(Note::Committed { destination, control, cursors, owed }))
}

fn earlier_tombstones(
    committed: &Committed,
    collections: &BTreeSet<&String>,
) -> Result<RoaringTreemap, LedgerError> {
    let concerned: BTreeSet<_> = committed
        .books
        .collections
        .iter()
        .filter(|(_, name)| collections.contains(&name.collection))
        .map(|(id, _)| *id)
        .collect();
    let mut numbers = RoaringTreemap::new();
    if concerned.is_empty() {
        return Ok(numbers);
    }
    for number in 1..=committed.books.last_tombstone.0 {
        let named = committed.tombstone(TombstoneNo(number))?;
        if concerned.contains(&named.tombstone.key.object.collection()) {
            numbers.insert(number);
        }
    }
    Ok(numbers)
}

/// Judges the control record found in a destination, and opens a new epoch over it.
pub(super) fn open(
    committed: &Committed,
    destination: DestinationNo,
    found: Option<&Control>,
    knows_fact: bool,
    ledger_id: &str,
    now_ms: i64,
) -> Result<(OpenedDestination, Vec<Record>), LedgerError> {
    let book = book(committed, destination)?;
    let expected = Expected {
        ledger: ledger_id,
        destination: &book.name,
        noted: book.control.as_ref().map(Control::stamp),
        opened: book.epoch,
        knows_fact,
    };
    let (cursors, owed, reopened) = match judge_control(found, &expected) {
        ControlState::Fresh | ControlState::Current => {
            (book.cursors.clone(), book.owed.clone(), RoaringTreemap::new())
        }
        // Durable there before it was noted here: our own cursors are the lower ones.
        ControlState::Ahead { .. } => {
            (book.cursors.clone(), book.owed.clone(), RoaringTreemap::new())
        }
        ControlState::Older { found: stamp } => {
            let theirs = found.map(|control| control.cursors.clone()).unwrap_or_default();
            let cursors = lower_of(&book.cursors, &theirs);
            (cursors, book.owed.clone(), committed.confirmed_since(book, Some(stamp))?)
        }
        ControlState::Missing => {
            (Cursors::new(), BTreeSet::new(), committed.confirmed_since(book, None)?)
        }
        ControlState::Foreign => return Err(foreign(found, ledger_id)),
        ControlState::LedgerWentBack => return Err(went_back(&book.name, found)),
    };
    let epoch = book.epoch.max(found.map_or(0, |control| control.epoch)) + 1;
    let (fact, fact_hash) = committed.books.last_fact;
    let control = Control {
        ledger: ledger_id.to_owned(),
        destination: book.name.clone(),
        epoch,
        commit: 0,
        cursors: cursors.clone(),
        fact,
        fact_hash: fact_hash.to_string(),
    };
    let stamp = found.map(Control::stamp);
    let mut records =
        vec![Record::Fact(Fact::DestinationOpened { destination, epoch, found: stamp })];
    if !reopened.is_empty() {
        records.push(Record::Fact(Fact::Revoked {
            destination,
            tombstones: to_ranges(&reopened),
            reason: "the copy is older than these confirmations".to_owned(),
            at_ms: now_ms,
        }));
    }
    let revoked = reopened.len();
    let after_unclean_stop = committed.after_unclean_stop;
    Ok((OpenedDestination { control, cursors, owed, revoked, after_unclean_stop }, records))
}

fn foreign(found: Option<&Control>, ours: &str) -> LedgerError {
    let found = found.map_or_else(String::new, |control| {
        format!("{} (as destination {:?})", control.ledger, control.destination)
    });
    LedgerError::Foreign { found, ours: ours.to_owned() }
}

/// A record that can't be read for its fact tells nothing about the ledger: one damaged destination
/// must not stop the others (I8).
fn went_back(destination: &str, found: Option<&Control>) -> LedgerError {
    let destination = destination.to_owned();
    match found.filter(|control| control.fact_hash().is_some()) {
        Some(Control { epoch, commit, fact, .. }) => {
            LedgerError::WentBack { destination, epoch: *epoch, commit: *commit, fact: *fact }
        }
        None => LedgerError::ControlDamaged(destination),
    }
}

fn lower_of(ours: &Cursors, theirs: &Cursors) -> Cursors {
    ours.iter()
        .map(|(partition, cursor)| {
            let other = theirs.get(partition).copied().unwrap_or_default();
            (*partition, (*cursor).min(other))
        })
        .collect()
}

/// Notes a destination's commit.
pub(super) fn committed_note(
    committed: &Committed,
    destination: DestinationNo,
    control: Control,
    owed: &BTreeSet<cenotaph_core::Position>,
) -> Result<Vec<Record>, LedgerError> {
    book(committed, destination)?;
    let cursors = control.cursors.clone();
    let owed = owed.iter().copied().collect();
    Ok(vec![Record::Note(Note::Committed { destination, control, cursors, owed })])
}

/// Judges a look (I1, I2): what it confirms becomes one fact.
pub(super) fn looked(
    committed: &Committed,
    look: &LookProposal,
) -> Result<(Judged, Vec<Record>), LedgerError> {
    let book = book(committed, look.destination)?;
    let mut judged = Vec::with_capacity(look.findings.len());
    let mut confirmed = RoaringTreemap::new();
    let mut weakest = EvidenceLevel::Purged;
    for finding in &look.findings {
        let judgement = judge(committed, book, look, finding)?;
        if judgement == Judgement::Confirmed {
            confirmed.insert(finding.number.0);
            weakest = weakest.min(finding.reached);
        }
        judged.push((finding.number, judgement));
    }
    if confirmed.is_empty() {
        return Ok((judged, Vec::new()));
    }
    // I2: only what is owed can be confirmed.
    debug_assert!(confirmed.is_subset(&book.pending));
    let evidence = Evidence { level: weakest.min(look.evidence.level), ..look.evidence.clone() };
    let fact = Fact::Confirmed(ConfirmedFact {
        destination: look.destination,
        look: book.looks + 1,
        tombstones: to_ranges(&confirmed),
        evidence,
    });
    Ok((judged, vec![Record::Fact(fact)]))
}

fn judge(
    committed: &Committed,
    book: &DestinationBook,
    look: &LookProposal,
    finding: &LookedAt,
) -> Result<Judgement, LedgerError> {
    let named = committed.tombstone(finding.number)?;
    let key = named.tombstone.key;
    let record = committed.object(&key.object)?.unwrap_or_default();
    let live = record.entry(key.generation).is_some_and(|entry| entry.state == State::Live);
    let context = LookContext {
        pending: book.pending.contains(finding.number.0),
        current_epoch: book.epoch,
        look_epoch: look.epoch,
        removed_at: Some(look.removed_at),
        seen: look.evidence.control,
        keeps_control: look.keeps_control,
        required: look.required,
        reached: finding.reached,
        late_write_possible: finding.late_write_possible,
        covers: named.tombstone.covers,
        reopened: live,
    };
    Ok(confirm(&finding.finding, &context))
}

fn book(
    committed: &Committed,
    destination: DestinationNo,
) -> Result<&DestinationBook, LedgerError> {
    committed
        .books
        .destinations
        .get(&destination)
        .ok_or(LedgerError::UnknownDestination(destination))
}
