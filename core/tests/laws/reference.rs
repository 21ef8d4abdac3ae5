//! The verdict table, written down a second time: slowly, row by row, in plain numbers.

use std::collections::BTreeMap;

use cenotaph_core::{Lifecycle, Op};

use crate::events::{Event, Rules};

/// Stands for "every version".
pub const EVERYTHING: u64 = u64::MAX;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct World {
    pub entries: BTreeMap<u32, Known>,
    pub floor: u32,
    /// Events of tombstones and recorded requests: generation, event, meaning.
    remembered: Vec<(u32, u8, (Op, u8))>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub live: bool,
    /// 0 where there never was one.
    pub version: u64,
    pub event: u8,
    pub meaning: (Op, u8),
    /// The source whose numbers the versions are; 0 for the shared ones.
    pub space: u8,
    pub parent: Option<u8>,
    pub erased_through: u64,
    pub partition: u32,
    pub with_content: bool,
    pub suspended: bool,
    pub requested: bool,
    pub closed_for_good: bool,
}

#[derive(PartialEq, Eq)]
enum Then {
    Nothing,
    Opens,
    Removes,
    /// Recorded under its event id.
    Records,
    /// Recorded, and the version rises.
    RecordsAndRises,
}

impl World {
    /// The verdict; the world is afterwards as that says.
    pub fn take(&mut self, event: &Event, rules: &Rules) -> &'static str {
        let (verdict, then) = self.verdict(event, rules);
        if verdict.starts_with("conflict") && rules.suspends {
            let entry = self.entries.get_mut(&event.generation);
            entry.into_iter().for_each(|entry| entry.suspended = true);
        }
        match then {
            Then::Nothing => {}
            Then::Opens => self.open(event, rules),
            Then::Removes => self.remove(event, rules),
            Then::Records | Then::RecordsAndRises => self.note(event, rules, then),
        }
        verdict
    }

    fn verdict(&self, e: &Event, rules: &Rules) -> (&'static str, Then) {
        // 1. Authority.
        if !rules.trusted && (e.op == Op::Restore || e.op == Op::Create) {
            return ("refused unauthorised", Then::Nothing);
        }
        // 2. Event ids.
        let entry = self.entries.get(&e.generation);
        let mut seen: Vec<(Op, u8)> =
            entry.iter().filter(|k| k.event == e.event).map(|k| k.meaning).collect();
        for (generation, event, meaning) in &self.remembered {
            if (*generation, *event) == (e.generation, e.event) {
                seen.push(*meaning);
            }
        }
        match seen.first() {
            Some(meaning) if *meaning == e.meaning() => return ("repeated", Then::Nothing),
            Some(_) => return ("conflict event-means-other", Then::Nothing),
            None => {}
        }
        // 3. The floor.
        if e.op != Op::Delete && e.generation < self.floor {
            return ("refused generation-closed", Then::Nothing);
        }
        // 5. The table.
        match entry {
            None => self.row_none(e, rules),
            Some(known) if known.live => row_live(known, e, rules),
            Some(known) => {
                let (verdict, then) = row_removed(known, e, rules);
                let would_open = e.op == Op::Upsert || e.op == Op::Restore;
                if known.suspended && would_open && !verdict.starts_with("refused") {
                    ("suspended", Then::Nothing)
                } else {
                    (verdict, then)
                }
            }
        }
    }

    fn row_none(&self, e: &Event, rules: &Rules) -> (&'static str, Then) {
        let lower_live = self.entries.iter().any(|(g, known)| *g < e.generation && known.live);
        match (e.op, e.version) {
            (Op::Upsert, _) if e.generation > 1 && !rules.open_generations => {
                ("refused generation-not-opened", Then::Nothing)
            }
            (Op::Create, _) if lower_live => ("refused generation-still-open", Then::Nothing),
            (Op::Upsert | Op::Create, None) => ("conflict version-missing", Then::Nothing),
            (Op::Upsert | Op::Create, Some(_)) => ("accepted", Then::Opens),
            (Op::Delete, None) if rules.lifecycle != Lifecycle::Terminal => {
                ("conflict version-missing", Then::Nothing)
            }
            (Op::Delete, _) => ("accepted", Then::Removes),
            (Op::Restore, _) => ("refused nothing-to-restore", Then::Nothing),
        }
    }

    fn open(&mut self, e: &Event, rules: &Rules) {
        let before = self.entries.get(&e.generation);
        let parent = match e.payload || e.op == Op::Upsert {
            true => e.parent,
            false => e.parent.or(before.and_then(|known| known.parent)),
        };
        let known = Known {
            live: true,
            version: e.version.unwrap_or(0),
            event: e.event,
            meaning: e.meaning(),
            space: if rules.shared { 0 } else { e.source },
            parent,
            erased_through: before.map_or(0, |known| known.erased_through),
            partition: e.partition,
            with_content: e.payload,
            suspended: false,
            requested: before.is_some_and(|known| known.requested),
            closed_for_good: false,
        };
        self.entries.insert(e.generation, known);
        if e.op == Op::Create {
            self.floor = self.floor.max(e.generation);
        }
    }

    fn remove(&mut self, e: &Event, rules: &Rules) {
        let before = self.entries.get(&e.generation).cloned();
        let version = e.version.unwrap_or(0).max(before.as_ref().map_or(0, |known| known.version));
        let terminal = rules.lifecycle == Lifecycle::Terminal;
        let covers = if terminal { EVERYTHING } else { version };
        let own_space = if rules.shared { 0 } else { e.source };
        let known = Known {
            live: false,
            version,
            event: e.event,
            meaning: e.meaning(),
            space: match &before {
                Some(known) if e.version.is_none() => known.space,
                _ => own_space,
            },
            parent: e.parent.or(before.as_ref().and_then(|known| known.parent)),
            erased_through: covers.max(before.as_ref().map_or(0, |known| known.erased_through)),
            partition: e.partition,
            with_content: false,
            suspended: before.as_ref().is_some_and(|known| known.suspended),
            requested: before.as_ref().is_some_and(|known| known.requested),
            closed_for_good: terminal || before.is_some_and(|known| known.closed_for_good),
        };
        self.entries.insert(e.generation, known);
        self.remembered.push((e.generation, e.event, e.meaning()));
    }

    fn note(&mut self, e: &Event, rules: &Rules, then: Then) {
        self.remembered.push((e.generation, e.event, e.meaning()));
        let Some(known) = self.entries.get_mut(&e.generation) else { return };
        known.requested = true;
        if then == Then::RecordsAndRises {
            known.version = e.version.unwrap_or(0);
            known.space = if rules.shared { 0 } else { e.source };
        }
    }
}

/// `<`, `=`, `>` or `none`; `?` where the versions belong to different spaces.
fn compared(known: &Known, e: &Event, rules: &Rules) -> &'static str {
    match e.version {
        None => "none",
        Some(_) if known.version == 0 => ">",
        Some(_) if !rules.shared && known.space != e.source => "?",
        Some(version) if version < known.version => "<",
        Some(version) if version == known.version => "=",
        Some(_) => ">",
    }
}

fn row_live(known: &Known, e: &Event, rules: &Rules) -> (&'static str, Then) {
    if e.op == Op::Upsert && known.suspended {
        return ("suspended", Then::Nothing);
    }
    let terminal = rules.lifecycle == Lifecycle::Terminal;
    match (e.op, compared(known, e, rules)) {
        (Op::Create | Op::Restore, _) => ("refused already-open", Then::Nothing),
        (_, "?") => ("conflict other-version-space", Then::Nothing),
        (Op::Upsert, "none") => ("conflict version-missing", Then::Nothing),
        (Op::Upsert, "<") => ("stale", Then::Nothing),
        (Op::Upsert, "=") if known.meaning == e.meaning() => ("repeated", Then::Nothing),
        (Op::Upsert, "=") => ("conflict version-means-other", Then::Nothing),
        (Op::Upsert, _) => ("accepted", Then::Opens),
        (Op::Delete, ">") => ("accepted", Then::Removes),
        (Op::Delete, _) if terminal => ("accepted", Then::Removes),
        (Op::Delete, "<") => ("stale", Then::Records),
        (Op::Delete, "=") if rules.equal_deletes => ("accepted", Then::Removes),
        (Op::Delete, "=") => ("conflict version-means-other", Then::Nothing),
        (Op::Delete, _) => ("conflict version-missing", Then::Nothing),
    }
}

fn row_removed(known: &Known, e: &Event, rules: &Rules) -> (&'static str, Then) {
    let lifecycle = rules.lifecycle;
    let for_good = known.closed_for_good;
    match (e.op, compared(known, e, rules)) {
        (Op::Create, _) => ("refused generation-closed", Then::Nothing),
        (_, "?") => ("conflict other-version-space", Then::Nothing),
        (Op::Upsert | Op::Restore, "none") => ("conflict version-missing", Then::Nothing),
        (Op::Upsert | Op::Restore, "<" | "=") => ("refused stale", Then::Nothing),
        (Op::Upsert, _) if lifecycle == Lifecycle::Versioned && !for_good => {
            ("accepted", Then::Opens)
        }
        (Op::Upsert, _) => ("refused removed", Then::Nothing),
        (Op::Restore, _) if lifecycle == Lifecycle::Restorable && !for_good => {
            ("accepted", Then::Opens)
        }
        (Op::Restore, _) => ("refused not-restorable", Then::Nothing),
        (Op::Delete, "<" | "none") => ("satisfied", Then::Records),
        (Op::Delete, "=") => ("conflict version-means-other", Then::Nothing),
        (Op::Delete, _) if for_good => ("satisfied", Then::RecordsAndRises),
        (Op::Delete, _) => ("accepted", Then::Removes),
    }
}
