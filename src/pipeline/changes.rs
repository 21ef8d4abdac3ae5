//! The changes lane: plans a batch against what the ledger knows now, applies what is left of it,
//! and says what became of each record.

use cenotaph_connector::{Class, Fault, Outcome, Upsert};
use cenotaph_core::decide::{Candidate, Plan, highest_only, plan};
use cenotaph_core::{KeyHash, ObjectId, Position, Version};

use super::feed::{Batch, Held};
use super::late_writes::LateWrites;
use super::session::Session;
use super::settings::PipelineSettings;
use super::standing::{Parked, Standing};
use crate::ledger::{Ledger, ObjectView};

/// What became of a batch.
#[derive(Debug)]
pub enum Applied {
    /// All of it is applied, superseded, held back or parked.
    All {
        /// How many upserts were sent.
        sent: usize,
    },
    /// Some of it has to be tried again.
    Again(Fault),
    /// There is no place for another owed position.
    Full,
}

/// What applying a batch needs.
pub struct Lane<'a> {
    /// The settings of the destination.
    pub settings: &'a PipelineSettings,
    /// The ledger.
    pub ledger: &'a Ledger,
    /// How the destination stands.
    pub standing: &'a Standing,
}

/// A batch with each change's plan.
struct Planned {
    upserts: Vec<Upsert>,
    /// Where each upsert was read, and of which object it is.
    places: Vec<(Position, ObjectId)>,
    hold: Vec<Position>,
}

impl Lane<'_> {
    /// Works on one batch. What it wrote is durable only after the session's next commit.
    pub async fn apply(
        &self,
        session: &mut Session,
        late: &mut LateWrites,
        batch: &Batch,
    ) -> Applied {
        let planned = self.plan(session, late, &batch.changes);
        if session.owed.len() + planned.hold.len() > self.settings.owed_max {
            return Applied::Full;
        }
        let Planned { upserts, places, hold } = planned;
        let outcomes = self.send(session, &upserts).await;
        let mut again = None;
        let mut parked = Vec::new();
        for ((position, object), outcome) in places.into_iter().zip(outcomes) {
            match outcome {
                Ok(()) => self.took(session, position),
                Err(fault) if fault.class == Class::Terminal => {
                    parked.push((position, object, fault));
                }
                Err(fault) => {
                    if fault.class == Class::Uncertain {
                        late.unknown_outcome(object);
                    }
                    again = Some(fault);
                }
            }
        }
        if !upserts.is_empty() {
            let bytes = upserts.iter().map(|upsert| upsert.payload.len()).sum();
            session.wrote(upserts.len(), bytes);
        }
        if session.owed.len() + parked.len() > self.settings.owed_max {
            return Applied::Full;
        }
        for (position, object, fault) in parked {
            self.park(session, position, object, &fault);
        }
        if let Some(fault) = again {
            return Applied::Again(fault);
        }
        session.owed.extend(hold);
        Applied::All { sent: upserts.len() }
    }

    async fn send(&self, session: &mut Session, upserts: &[Upsert]) -> Vec<Outcome> {
        if upserts.is_empty() {
            return Vec::new();
        }
        self.standing.begin_call("apply");
        let outcomes = session.connector.apply(upserts).await;
        self.standing.end_call();
        super::same_length(outcomes, upserts.len())
    }

    fn plan(&self, session: &Session, late: &LateWrites, changes: &[Held]) -> Planned {
        let objects: Vec<_> = changes.iter().map(|held| held.identified.ids.key.object).collect();
        let views = self.ledger.object_views(&objects, session.number());
        let mut hold = Vec::new();
        let mut apply: Vec<(&Held, Version)> = Vec::new();
        for (held, view) in changes.iter().zip(&views) {
            match self.plan_one(late, held, view) {
                (Plan::Apply, Some(version)) => apply.push((held, version)),
                (Plan::Hold, _) => hold.push(held.identified.change.position),
                _ => {}
            }
        }
        let keys: Vec<(KeyHash, Version)> =
            apply.iter().map(|(held, version)| (held.identified.ids.key, *version)).collect();
        let place = |held: &Held| (held.identified.change.position, held.identified.ids.key.object);
        let (places, upserts) = highest_only(&keys)
            .into_iter()
            .filter_map(|index| apply.get(index))
            .filter_map(|(held, version)| Some((place(held), to_upsert(held, *version)?)))
            .unzip();
        Planned { upserts, places, hold }
    }

    fn plan_one(
        &self,
        late: &LateWrites,
        held: &Held,
        view: &ObjectView,
    ) -> (Plan, Option<Version>) {
        let identified = &held.identified;
        let collection = &*identified.change.key.collection;
        if !self.settings.collections.iter().any(|known| known == collection) {
            return (Plan::NotAccepted, None);
        }
        let candidate = Candidate {
            ids: &identified.ids,
            version: identified.change.version,
            partition: identified.change.position.partition,
            acceptance: held.acceptance,
            // A key with a request of unknown outcome is not written before it has settled.
            removal_pending: view.removal_pending
                || late.possible_until(&identified.ids.key.object).is_some(),
            has_payload: identified.change.payload.is_some(),
        };
        let entry = view.record.entry(identified.ids.key.generation);
        (plan(entry, &candidate), identified.change.version)
    }

    fn took(&self, session: &mut Session, position: Position) {
        if session.owed.remove(&position) {
            self.standing.unpark(position);
        }
    }

    fn park(&self, session: &mut Session, position: Position, object: ObjectId, fault: &Fault) {
        session.owed.insert(position);
        self.standing.park(Parked {
            position,
            object,
            reason: fault.to_string(),
            owner: fault.owner.word(),
        });
    }
}

fn to_upsert(held: &Held, version: Version) -> Option<Upsert> {
    let change = &held.identified.change;
    Some(Upsert {
        key: change.key.clone(),
        version,
        parent: change.parent.as_ref().map(ToString::to_string),
        payload: change.payload.clone()?,
    })
}
