//! A connector that breaks a promise on purpose.

use std::collections::HashMap;

use cenotaph_connector::{
    Capabilities, Commit, Connector, Fault, Finding, Look, Outcome, Page, Purge, Removal, Upsert,
    async_trait,
};
use cenotaph_core::{Control, Covers, EvidenceLevel, ObjectKey};

/// The promise that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Acknowledges every removal and keeps the object.
    KeepsWhatItRemoves,
    /// Answers that all it was ever asked to remove is gone, without a look.
    EchoesRemovals,
    /// Answers that everything is gone when it could not look.
    TakesErrorsForAbsence,
    /// What is committed becomes visible with the commit after it.
    CommitsLate,
    /// What was removed is back after this many looks that found it gone.
    FlapsBack(u32),
    /// Removes what is newer than the removal covers.
    RemovesNewer,
    /// Removes the other generations of the object as well.
    RemovesGenerations,
    /// Keeps one of many removed at once.
    KeepsTheLastOfMany,
    /// Answers fewer outcomes than there were records.
    AnswersShort,
    /// Takes the good records of a batch only if none is bad.
    AllOrNothing,
    /// Takes what it cannot hold.
    TakesBadRecords,
    /// Commits over any control record.
    IgnoresExpected,
    /// Answers the control record it remembers instead of the one that stands there.
    RemembersControl,
    /// Says that the bytes are gone while they are there.
    ClaimsPurge,
    /// Leaves out the last object of each page of a scan.
    ScansShort,
    /// Lists the version of an object as one less.
    ScansOldVersions,
}

/// A connector that breaks one promise and keeps the others.
pub struct Liar {
    inner: Box<dyn Connector>,
    lie: Lie,
    /// The version last applied, and the last removal of each object.
    applied: HashMap<ObjectKey, Upsert>,
    removed: HashMap<ObjectKey, Covers>,
    looks: HashMap<ObjectKey, u32>,
    control: Option<Control>,
    /// What is applied with the commit after the next.
    late: Vec<Late>,
    later: Vec<Late>,
}

enum Late {
    Apply(Vec<Upsert>),
    Remove(Vec<Removal>),
}

impl Liar {
    /// Wraps a connector that keeps its promises.
    #[must_use]
    pub fn new(inner: Box<dyn Connector>, lie: Lie) -> Liar {
        Liar {
            inner,
            lie,
            applied: HashMap::new(),
            removed: HashMap::new(),
            looks: HashMap::new(),
            control: None,
            late: Vec::new(),
            later: Vec::new(),
        }
    }

    /// What really reaches the store when these are to be removed.
    fn removals(&self, removals: &[Removal]) -> Vec<Removal> {
        let mut real = removals.to_vec();
        match self.lie {
            Lie::KeepsWhatItRemoves => real.clear(),
            Lie::RemovesNewer => real.iter_mut().for_each(|it| it.covers = Covers::EVERYTHING),
            Lie::KeepsTheLastOfMany if real.len() > 1 => drop(real.pop()),
            Lie::RemovesGenerations => {
                let same = |key: &ObjectKey| {
                    real.iter().any(|it| {
                        (&it.key.tenant, &it.key.collection, &it.key.object)
                            == (&key.tenant, &key.collection, &key.object)
                    })
                };
                let others: Vec<Removal> = self
                    .applied
                    .keys()
                    .filter(|key| same(key))
                    .map(|key| Removal { key: key.clone(), covers: Covers::EVERYTHING })
                    .collect();
                real.extend(others);
            }
            _ => {}
        }
        real
    }

    /// Brings back what was looked for often enough.
    async fn flap(&mut self, removals: &[Removal], after: u32) {
        for removal in removals.iter().filter(|it| self.removed.contains_key(&it.key)) {
            let looks = self.looks.entry(removal.key.clone()).or_default();
            *looks += 1;
            let back = self.applied.get(&removal.key).filter(|_| *looks == after + 1).cloned();
            if let (Some(back), Some(control)) = (back, self.control.clone()) {
                drop(self.inner.apply(&[back]).await);
                drop(self.inner.commit(&control, Some(&control)).await);
            }
        }
    }

    /// What was held back by the commit before this one.
    async fn land_late(&mut self) {
        for step in std::mem::take(&mut self.late) {
            match step {
                Late::Apply(upserts) => drop(self.inner.apply(&upserts).await),
                Late::Remove(removals) => drop(self.inner.remove(&removals).await),
            }
        }
        self.late = std::mem::take(&mut self.later);
    }
}

#[async_trait]
impl Connector for Liar {
    async fn open(&mut self) -> Result<Option<Control>, Fault> {
        let found = self.inner.open().await?;
        self.control.clone_from(&found);
        Ok(found)
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn apply(&mut self, upserts: &[Upsert]) -> Vec<Outcome> {
        self.applied.extend(upserts.iter().map(|it| (it.key.clone(), it.clone())));
        match self.lie {
            Lie::CommitsLate => {
                self.later.push(Late::Apply(upserts.to_vec()));
                upserts.iter().map(|_| Ok(())).collect()
            }
            Lie::AnswersShort => {
                let mut outcomes = self.inner.apply(upserts).await;
                outcomes.truncate(upserts.len().max(2) - 1);
                outcomes
            }
            Lie::AllOrNothing => {
                let mut outcomes = Vec::new();
                for upsert in upserts.iter().take(1) {
                    outcomes = self.inner.apply(std::slice::from_ref(upsert)).await;
                }
                let rest = upserts.get(1..).unwrap_or_default();
                let bad = self.inner.apply(rest).await.into_iter().find_map(Result::err);
                outcomes.extend(rest.iter().map(|_| bad.clone().map_or(Ok(()), Err)));
                outcomes
            }
            Lie::TakesBadRecords => {
                drop(self.inner.apply(upserts).await);
                upserts.iter().map(|_| Ok(())).collect()
            }
            _ => self.inner.apply(upserts).await,
        }
    }

    async fn remove(&mut self, removals: &[Removal]) -> Vec<Outcome> {
        self.removed.extend(removals.iter().map(|it| (it.key.clone(), it.covers)));
        let real = self.removals(removals);
        if self.lie == Lie::CommitsLate {
            self.later.push(Late::Remove(real));
        } else {
            drop(self.inner.remove(&real).await);
        }
        removals.iter().map(|_| Ok(())).collect()
    }

    async fn commit(
        &mut self,
        control: &Control,
        expected: Option<&Control>,
    ) -> Result<Commit, Fault> {
        self.land_late().await;
        let mut answer = self.inner.commit(control, expected).await;
        if let (Lie::IgnoresExpected, Ok(Commit::Found(found))) = (self.lie, &answer) {
            answer = self.inner.commit(control, found.clone().as_ref()).await;
        }
        if matches!(answer, Ok(Commit::Done)) {
            self.control = Some(control.clone());
        }
        answer
    }

    fn backlog(&mut self, behind: bool) {
        self.inner.backlog(behind);
    }

    async fn verify(&mut self, removals: &[Removal], level: EvidenceLevel) -> Result<Look, Fault> {
        if let Lie::FlapsBack(after) = self.lie {
            self.flap(removals, after).await;
        }
        let mut look = match self.inner.verify(removals, level).await {
            Err(_) if self.lie == Lie::TakesErrorsForAbsence => Look {
                findings: vec![Finding::Gone; removals.len()],
                level,
                copies: vec!["all".into()],
                method: "none".into(),
                control: self.control.clone(),
            },
            other => other?,
        };
        if self.lie == Lie::EchoesRemovals {
            for (removal, finding) in removals.iter().zip(&mut look.findings) {
                if self.removed.contains_key(&removal.key) {
                    *finding = Finding::Gone;
                }
            }
        }
        if self.lie == Lie::RemembersControl {
            look.control = self.control.clone().map(|it| Control { commit: it.commit + 1, ..it });
        }
        Ok(look)
    }

    async fn purge(&mut self, removals: &[Removal]) -> Vec<Result<Purge, Fault>> {
        match self.lie {
            Lie::ClaimsPurge => removals.iter().map(|_| Ok(Purge::Purged)).collect(),
            _ => self.inner.purge(removals).await,
        }
    }

    async fn scan(&mut self, after: Option<&str>, limit: usize) -> Result<Page, Fault> {
        let mut page = self.inner.scan(after, limit).await?;
        if self.lie == Lie::ScansShort && page.held.len() > 1 {
            page.held.pop();
        }
        if self.lie == Lie::ScansOldVersions {
            for held in &mut page.held {
                let older = held.oldest.and_then(|it| (it.get() - 1).try_into().ok());
                held.oldest = older;
            }
        }
        Ok(page)
    }

    async fn close(&mut self) -> Result<(), Fault> {
        self.inner.close().await
    }
}
