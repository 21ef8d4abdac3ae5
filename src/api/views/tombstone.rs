//! A deletion: what the ledger knows of the object, and where each destination stands.

use cenotaph_core::{
    EventHash, Generation, KeyError, KeyHash, ObjectKey, RequestOutcome, State, TombstoneNo,
    Version,
};

use super::{position, seconds, time, unassigned};
use crate::api::types::{
    BlockerView, ControlView, DestinationTombstoneView, EvidenceView, Page, TombstoneView,
};
use crate::clock::Clock;
use crate::ledger::state::{DestinationBook, numbers_from};
use crate::ledger::{Committed, LedgerError, NamedTombstone};
use crate::pipeline::standing::RemovalState;
use crate::supervisor::Running;

/// What is asked about an object.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The object.
    pub key: ObjectKey,
    /// Its hashes.
    pub hash: KeyHash,
    /// The deletion that is asked for, by its event id.
    pub event: Option<EventHash>,
    /// The deletion that is asked for, by the version that must be covered.
    pub min_version: Option<Version>,
}

impl Asked {
    /// The last deletion of the first generation of an object.
    ///
    /// # Errors
    /// [`KeyError`] if a part is empty or too long.
    pub fn of(
        running: &Running,
        tenant: &str,
        collection: &str,
        object: &str,
    ) -> Result<Asked, KeyError> {
        let key = ObjectKey::new(tenant, collection, object, Generation::FIRST)?;
        let object = running.ledger.hasher().object(tenant, collection, object);
        let hash = KeyHash { object, generation: Generation::FIRST };
        Ok(Asked { key, hash, event: None, min_version: None })
    }
}

/// What became of the deletion that was asked for.
enum Meant {
    /// This tombstone stands for it.
    Tombstone(TombstoneNo, &'static str),
    /// It changed nothing, and nothing is removed on its account.
    Nothing(&'static str),
}

/// An object, and the deletion that was asked for. `read_to_end` says whether everything that the
/// log held when the question came has been read: what has not may still be the deletion.
///
/// # Errors
/// [`LedgerError`] if the view does not hold what it should.
pub fn object(
    running: &Running,
    asked: &Asked,
    read_to_end: bool,
) -> Result<TombstoneView, LedgerError> {
    let committed = running.ledger.read();
    let record = committed.object(&asked.hash.object)?.unwrap_or_default();
    let entry = record.entry(asked.hash.generation);
    let mut view = blank(&asked.key);
    if let Some(entry) = entry {
        view.state = if entry.state == State::Live { "live" } else { "removed" }.to_owned();
        view.version = entry.version.map(Version::get);
    }
    let live = entry.is_none_or(|entry| entry.state == State::Live);
    let newest = entry.and_then(|entry| entry.tombstone);
    let explicit = asked.event.is_some() || asked.min_version.is_some();
    let meant = if explicit { find(&committed, asked, newest)? } else { last_one(newest, live) };
    match meant {
        Meant::Tombstone(number, request) => {
            fill(running, &committed, number, &mut view)?;
            view.request = Some(request.to_owned());
            view.blocked = view.gate != "open" || (!explicit && (live || !read_to_end));
        }
        Meant::Nothing(request) => {
            let unread = !read_to_end && request != "stale";
            view.request = Some(if unread { "unread" } else { request }.to_owned());
            view.blocked = true;
        }
    }
    if view.blocked && view.blockers.is_empty() {
        view.blockers.push(nothing_to_wait_for(&view));
    }
    Ok(view)
}

fn last_one(newest: Option<TombstoneNo>, live: bool) -> Meant {
    match newest {
        Some(number) if !live => Meant::Tombstone(number, "tombstone"),
        _ => Meant::Nothing("not-deleted"),
    }
}

/// The tombstone that an event id or a version means.
fn find(
    committed: &Committed,
    asked: &Asked,
    newest: Option<TombstoneNo>,
) -> Result<Meant, LedgerError> {
    let mut next = newest;
    let mut by_version = None;
    while let Some(number) = next {
        let tombstone = committed.tombstone(number)?.tombstone;
        if asked.event == Some(tombstone.event) {
            return Ok(Meant::Tombstone(number, "tombstone"));
        }
        if asked.event.is_none()
            && asked.min_version.is_some_and(|version| tombstone.covers.includes(version))
        {
            by_version = Some(number);
        }
        next = tombstone.previous;
    }
    if let Some(number) = by_version {
        return Ok(Meant::Tombstone(number, "tombstone"));
    }
    let requests = committed.requests(&asked.hash, Clock.now_ms())?;
    let recorded = requests.iter().find(|request| Some(request.event) == asked.event);
    Ok(match recorded.map(|request| (request.outcome, request.tombstone)) {
        Some((RequestOutcome::Satisfied, Some(number))) => Meant::Tombstone(number, "satisfied"),
        Some((RequestOutcome::Stale, _)) => Meant::Nothing("stale"),
        _ => Meant::Nothing("not-read"),
    })
}

fn nothing_to_wait_for(view: &TombstoneView) -> BlockerView {
    let reason = match view.request.as_deref() {
        Some("unread") => "the log has not been read to its end yet".to_owned(),
        Some("stale") => "the object is newer than this deletion: it removed nothing".to_owned(),
        Some("not-read") => "no such deletion has been accepted".to_owned(),
        _ => format!("the object is {}: no deletion of it stands", view.state),
    };
    BlockerView {
        destination: None,
        reason,
        owner: None,
        since: None,
        age_seconds: 0.0,
        attempts: 0,
        last_error: None,
    }
}

fn blank(key: &ObjectKey) -> TombstoneView {
    TombstoneView {
        tenant: key.tenant.to_string(),
        collection: key.collection.to_string(),
        object: key.object.to_string(),
        generation: key.generation.0,
        state: "unknown".to_owned(),
        version: None,
        covers: None,
        tombstone: None,
        position: None,
        accepted_at: None,
        occurred_at: None,
        gate: "none".to_owned(),
        unproven: Vec::new(),
        destinations: Vec::new(),
        blockers: Vec::new(),
        request: None,
        blocked: false,
    }
}

fn fill(
    running: &Running,
    committed: &Committed,
    number: TombstoneNo,
    view: &mut TombstoneView,
) -> Result<(), LedgerError> {
    let named = committed.tombstone(number)?;
    let tombstone = &named.tombstone;
    view.covers = Some(match tombstone.covers.version() {
        Some(version) => version.get().into(),
        None => tombstone.covers.to_string().into(),
    });
    view.tombstone = Some(number.0);
    view.position = Some(position(tombstone.position));
    view.accepted_at = Some(time(tombstone.accepted_at_ms));
    view.occurred_at = tombstone.occurred_at_ms.map(time);
    let closed = committed.books.closed_gates.contains(number.0);
    view.gate = if closed { "closed" } else { "open" }.to_owned();
    for book in committed.books.attached_to(tombstone.key.object.collection()) {
        if book.unproven.contains(number.0) {
            view.unproven.push(book.name.clone());
        }
        if book.pending.contains(number.0) {
            view.blockers.push(blocker(running, book, &named));
        }
        view.destinations.push(at_destination(running, committed, book, number)?);
    }
    Ok(())
}

fn at_destination(
    running: &Running,
    committed: &Committed,
    book: &DestinationBook,
    number: TombstoneNo,
) -> Result<DestinationTombstoneView, LedgerError> {
    let known = running.destinations.get(&book.name);
    let owner = known.map(|known| known.settings.owner.clone());
    let name = book.name.clone();
    if !book.pending.contains(number.0) {
        let evidence = committed.confirmation(book, number)?.map(|confirmed| {
            let evidence = confirmed.evidence;
            EvidenceView {
                level: evidence.level.word().to_owned(),
                method: evidence.method,
                copies: evidence.copies,
                looked_at: time(evidence.looked_at_ms),
                attempts: evidence.attempts,
                control: evidence.control.map(|(epoch, commit)| ControlView { epoch, commit }),
            }
        });
        let attempts = evidence.as_ref().map_or(0, |evidence| evidence.attempts);
        let state = "CONFIRMED".to_owned();
        return Ok(DestinationTombstoneView {
            name,
            state,
            owner,
            attempts,
            last_error: None,
            evidence,
        });
    }
    let attempt = known.and_then(|known| known.standing.attempt(number.0));
    let state = attempt.as_ref().map_or(RemovalState::Pending, |attempt| attempt.state);
    Ok(DestinationTombstoneView {
        name,
        state: state.word().to_owned(),
        owner,
        attempts: attempt.as_ref().map_or(0, |attempt| attempt.attempts),
        last_error: attempt.and_then(|attempt| attempt.last_error),
        evidence: None,
    })
}

fn blocker(running: &Running, book: &DestinationBook, named: &NamedTombstone) -> BlockerView {
    let since = named.tombstone.accepted_at_ms;
    let known = running.destinations.get(&book.name);
    let attempt = known.and_then(|known| known.standing.attempt(named.tombstone.number.0));
    let snapshot = known.map(|known| known.standing.snapshot());
    let state = snapshot.as_ref().map(|snapshot| snapshot.state);
    let reason = unassigned(state).map_or_else(
        || {
            format!(
                "unconfirmed; the destination is {}",
                state.map_or("UNASSIGNED", |it| it.word())
            )
        },
        str::to_owned,
    );
    let own_error = attempt.as_ref().and_then(|attempt| attempt.last_error.clone());
    let last_error = own_error
        .or_else(|| snapshot.and_then(|snapshot| snapshot.last_error.map(|error| error.message)));
    BlockerView {
        destination: Some(book.name.clone()),
        reason,
        owner: known.map(|known| known.settings.owner.clone()),
        since: Some(time(since)),
        age_seconds: seconds(Clock.now_ms() - since),
        attempts: attempt.map_or(0, |attempt| attempt.attempts),
        last_error,
    }
}

/// Which deletions are asked for.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only those that this destination owes.
    pub destination: Option<String>,
    /// Only those that a destination of this owner owes.
    pub owner: Option<String>,
    /// Only those of this tenant.
    pub tenant: Option<String>,
    /// Only those above this number.
    pub after: u64,
    /// The most on the page.
    pub limit: usize,
}

/// The deletions whose gate is closed or that a destination owes, oldest first.
///
/// # Errors
/// [`LedgerError`] if the view does not hold what it should.
pub fn pending(running: &Running, filter: &Filter) -> Result<Page<TombstoneView>, LedgerError> {
    let committed = running.ledger.read();
    let mut numbers = committed.books.closed_gates.clone();
    for book in committed.books.destinations.values() {
        numbers |= &book.pending;
    }
    let wanted = |name: &str| {
        let owner = running.destinations.get(name).map(|known| known.settings.owner.as_str());
        filter.destination.as_deref().is_none_or(|wanted| wanted == name)
            && filter.owner.as_deref().is_none_or(|wanted| Some(wanted) == owner)
    };
    let mut items = Vec::new();
    for number in numbers_from(&numbers, filter.after.saturating_add(1)) {
        if items.len() == filter.limit {
            let next = items.last().and_then(|view: &TombstoneView| view.tombstone);
            return Ok(Page { items, next: next.map(|number| number.to_string()) });
        }
        let named = committed.tombstone(TombstoneNo(number))?;
        let mut owed =
            committed.books.destinations.values().filter(|it| it.pending.contains(number));
        let by_destination = filter.destination.is_none() && filter.owner.is_none();
        if filter.tenant.as_deref().is_none_or(|wanted| wanted == &*named.key.tenant)
            && (by_destination || owed.any(|book| wanted(&book.name)))
        {
            let mut view = blank(&named.key);
            view.state = "removed".to_owned();
            view.version = named.tombstone.version.map(Version::get);
            fill(running, &committed, TombstoneNo(number), &mut view)?;
            view.blocked = view.gate != "open";
            items.push(view);
        }
    }
    Ok(Page { items, next: None })
}
