//! Answers of the worker, for people.

use super::output::{or_dash, plain, table};
use crate::api::types::{
    BarrierView, BlockerView, DestinationView, Page, QuarantineView, StatusView, TombstoneView,
};

/// The worker at one glance.
#[must_use]
pub fn status(view: &StatusView) -> String {
    let mut lines = vec![plain(&view.summary), String::new()];
    lines.push(destinations(&view.destinations));
    for partition in &view.partitions {
        let end = partition.end.map(|end| end.offset);
        lines.push(format!(
            "partition {}: {}, read to {} of {}{}",
            partition.partition,
            partition.state,
            partition.cursor.offset,
            or_dash(end),
            partition
                .error
                .as_ref()
                .map_or_else(String::new, |error| format!("\n  {}", plain(error))),
        ));
    }
    let records: Vec<_> =
        view.records.iter().map(|(word, count)| format!("{word} {count}")).collect();
    lines.push(format!("records since the start: {}", records.join(", ")));
    lines.push(format!(
        "gates closed: {}; barriers held: {}; in quarantine: {}; ledger {} at frame {}, fact {}",
        view.closed_gates,
        view.held_barriers,
        view.quarantined,
        view.ledger.id,
        view.ledger.last_frame,
        view.ledger.last_fact,
    ));
    lines.join("\n")
}

/// One object's deletion.
#[must_use]
pub fn tombstone(view: &TombstoneView) -> String {
    let covers = view.covers.as_ref().map(|covers| match covers.as_str() {
        Some(word) => word.to_owned(),
        None => format!("through {covers}"),
    });
    let generation =
        if view.generation == 1 { String::new() } else { format!("~{}", view.generation) };
    let mut lines = vec![format!(
        "{}/{}/{}{generation}: {}, version {}",
        plain(&view.tenant),
        plain(&view.collection),
        plain(&view.object),
        view.state,
        or_dash(view.version),
    )];
    lines.push(match view.tombstone {
        None => "gate: none; no deletion".to_owned(),
        Some(number) => format!(
            "gate: {}; tombstone {number} covers {}, accepted {}",
            view.gate.to_uppercase(),
            or_dash(covers),
            or_dash(view.accepted_at.as_ref()),
        ),
    });
    if !view.unproven.is_empty() {
        lines.push(format!("unproven: {}", view.unproven.join(", ")));
    }
    if !view.destinations.is_empty() {
        let rows = view.destinations.iter().map(|at| {
            let evidence = at.evidence.as_ref().map(|it| format!("{}: {}", it.level, it.method));
            let note = evidence.or_else(|| at.last_error.clone());
            let when = at.evidence.as_ref().map(|it| it.looked_at.clone());
            vec![
                at.name.clone(),
                at.state.clone(),
                or_dash(when),
                at.attempts.to_string(),
                or_dash(note),
            ]
        });
        let head = ["destination", "state", "looked at", "attempts", "evidence or last error"];
        lines.push(table(&head, rows.collect()));
    }
    lines.extend(blockers(&view.blockers));
    lines.join("\n")
}

fn blockers(blockers: &[BlockerView]) -> Option<String> {
    if blockers.is_empty() {
        return None;
    }
    let rows = blockers.iter().map(|it| {
        vec![
            or_dash(it.destination.as_ref()),
            it.reason.clone(),
            or_dash(it.owner.as_ref()),
            format!("{:.0} s", it.age_seconds),
            or_dash(it.last_error.as_ref()),
        ]
    });
    Some(table(&["blocked by", "because", "owner", "age", "last error"], rows.collect()))
}

/// The deletions that wait.
#[must_use]
pub fn tombstones(page: &Page<TombstoneView>) -> String {
    if page.items.is_empty() {
        return "no deletion waits".to_owned();
    }
    let rows = page.items.iter().map(|view| {
        let waits: Vec<_> = view.blockers.iter().filter_map(|it| it.destination.clone()).collect();
        let age = view.blockers.iter().map(|it| it.age_seconds).fold(0.0, f64::max);
        let key = format!("{}/{}/{}", view.tenant, view.collection, view.object);
        vec![
            or_dash(view.tombstone),
            key,
            view.gate.clone(),
            waits.join(", "),
            format!("{age:.0} s"),
        ]
    });
    let shown = table(&["tombstone", "object", "gate", "waits for", "age"], rows.collect());
    match &page.next {
        Some(_) => format!("{shown}\nthere are more; raise --limit"),
        None => shown,
    }
}

/// One barrier.
#[must_use]
pub fn barrier(view: &BarrierView) -> String {
    let mut lines = vec![format!("{}: {}", plain(&view.name), view.state)];
    lines.push(format!("made {}, opened {}", view.made_at, or_dash(view.opened_at.as_ref())));
    if !view.unproven.is_empty() {
        lines.push(format!("unproven: {}", view.unproven.join(", ")));
    }
    lines.extend(blockers(&view.blockers));
    lines.join("\n")
}

/// The barriers.
#[must_use]
pub fn barriers(page: &Page<BarrierView>) -> String {
    if page.items.is_empty() {
        return "there is no barrier".to_owned();
    }
    let rows = page.items.iter().map(|view| {
        let waits: Vec<_> = view.blockers.iter().map(|it| it.reason.clone()).collect();
        vec![view.name.clone(), view.state.clone(), view.made_at.clone(), waits.join("; ")]
    });
    table(&["barrier", "state", "made", "waits because"], rows.collect())
}

/// The destinations.
#[must_use]
pub fn destinations(views: &[DestinationView]) -> String {
    let rows = views.iter().map(|view| {
        vec![
            view.name.clone(),
            view.state.clone(),
            view.pending_removals.to_string(),
            view.oldest_pending_age_seconds.map_or_else(|| "-".into(), |age| format!("{age:.0} s")),
            view.lag.to_string(),
            or_dash(view.owner.as_ref()),
            or_dash(view.last_error.as_ref().map(|error| error.message.clone())),
        ]
    });
    let head = ["destination", "state", "pending", "oldest", "lag", "owner", "last error"];
    table(&head, rows.collect())
}

/// One destination.
#[must_use]
pub fn destination(view: &DestinationView) -> String {
    let mut lines = vec![destinations(std::slice::from_ref(view))];
    lines.push(format!(
        "connector {}; collections {}; confirms {}; can prove {}; owed positions {}",
        or_dash(view.connector.as_ref()),
        view.collections.join(", "),
        or_dash(view.confirm.as_ref()),
        or_dash(view.can_prove.as_ref()),
        view.owed,
    ));
    if let Some(call) = &view.in_call {
        lines.push(format!("in a call: {call}"));
    }
    for failing in &view.failing {
        lines.push(format!(
            "failing: {}, {} times in a row, last at {}: {} ({} can mend it)",
            failing.lane,
            failing.attempts,
            failing.error.at,
            plain(&failing.error.message),
            failing.error.owner,
        ));
    }
    for parked in &view.parked {
        lines.push(format!(
            "parked: partition {} offset {}: {} ({} can mend it)",
            parked.position.partition,
            parked.position.offset,
            plain(&parked.reason),
            parked.owner,
        ));
    }
    lines.join("\n")
}

/// What waits for somebody.
#[must_use]
pub fn quarantine(page: &Page<QuarantineView>) -> String {
    if page.items.is_empty() {
        return "nothing is in quarantine".to_owned();
    }
    let rows = page.items.iter().map(|view| {
        let at = view.position;
        let place = format!("{}/{}", at.partition, at.offset);
        vec![place, view.reason.clone(), view.detail.clone(), view.since.clone()]
    });
    table(&["partition/offset", "reason", "detail", "since"], rows.collect())
}
