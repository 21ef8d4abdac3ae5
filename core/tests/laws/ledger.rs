//! A ledger of one object in memory: does with a decision what the writer does.

use cenotaph_core::decide::{Decided, Known, PastEvent, Verdict, accept};
use cenotaph_core::{Entry, Generation, KeyError, ObjectRecord, TombstoneNo};

use crate::events::{Event, Rules};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    pub record: ObjectRecord,
    past: Vec<(Generation, PastEvent)>,
    tombstones: u64,
}

impl Ledger {
    pub fn entry(&self, generation: u32) -> Option<&Entry> {
        self.record.entry(Generation(generation))
    }

    /// Decides, and performs what is decided.
    pub fn take(&mut self, event: &Event, rules: &Rules) -> Result<Decided, KeyError> {
        let change = event.identified()?;
        let generation = Generation(event.generation);
        let of_key = self.past.iter().filter(|(of, _)| *of == generation);
        let past: Vec<PastEvent> = of_key.map(|(_, past)| *past).collect();
        let known = Known { record: &self.record, past: &past, scope_closed: false };
        let decided = accept(&known, &change, &rules.policy(), &rules.authority());
        let mut entry = decided.entry.clone();
        if decided.removal.is_some() {
            self.tombstones += 1;
            let number = Some(TombstoneNo(self.tombstones));
            entry = entry.map(|entry| Entry { tombstone: number, ..entry });
        }
        if decided.removal.is_some() || decided.request.is_some() {
            let ids = change.ids;
            let past = PastEvent { event: ids.event, fingerprint: ids.fingerprint };
            self.past.push((generation, past));
        }
        if let Some(entry) = entry {
            self.record.set(generation, entry);
        }
        self.record.floor = decided.floor.unwrap_or(self.record.floor);
        Ok(decided)
    }

    pub fn take_all(&mut self, events: &[Event], rules: &Rules) -> Result<Vec<Verdict>, KeyError> {
        events.iter().map(|event| Ok(self.take(event, rules)?.verdict)).collect()
    }
}
