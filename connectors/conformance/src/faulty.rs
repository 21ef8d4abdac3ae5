//! A connector that fails to a script.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cenotaph_connector::{
    Capabilities, Commit, Connector, Destination, Factory, Fault, Look, Outcome, Page, Purge,
    Removal, SettingsError, Upsert, async_trait,
};
use cenotaph_core::{Control, EvidenceLevel};
use tokio::sync::watch;

/// A method of the connector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    /// `open`
    Open,
    /// `apply`
    Apply,
    /// `remove`
    Remove,
    /// `commit`
    Commit,
    /// `verify`
    Verify,
    /// `purge`
    Purge,
    /// `scan`
    Scan,
    /// `close`
    Close,
}

/// What happens to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// It goes through.
    Pass,
    /// It fails and has no effect.
    Fail(Fault),
    /// It has its effect, and fails.
    FailAfter(Fault),
    /// Only the records at these places fail, without effect; the others go through.
    FailRecords(Vec<usize>, Fault),
    /// It does not return until [`Faults::release`], and goes through then.
    Hang,
    /// It has its effect, and does not return until [`Faults::release`].
    HangAfter,
}

/// The script of a [`Faulty`] connector, shared with whoever writes it.
#[derive(Debug, Clone)]
pub struct Faults(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    script: Mutex<Script>,
    /// How often the hanging calls were released.
    released: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Script {
    once: HashMap<Call, VecDeque<Mode>>,
    always: HashMap<Call, Mode>,
    calls: HashMap<Call, u64>,
    hanging: usize,
}

impl Default for Faults {
    fn default() -> Faults {
        let (released, _) = watch::channel(0);
        Faults(Arc::new(Shared { script: Mutex::default(), released }))
    }
}

impl Faults {
    /// What happens to the next call of this method that nothing was said about yet.
    pub fn next(&self, call: Call, mode: Mode) {
        self.script().once.entry(call).or_default().push_back(mode);
    }

    /// What happens to every call of this method when its script is at its end.
    pub fn always(&self, call: Call, mode: Mode) {
        self.script().always.insert(call, mode);
    }

    /// Forgets the script: all goes through. What hangs is released.
    pub fn clear(&self) {
        let mut script = self.script();
        script.once.clear();
        script.always.clear();
        drop(script);
        self.release();
    }

    /// Lets every hanging call return.
    pub fn release(&self) {
        self.0.released.send_modify(|times| *times += 1);
    }

    /// How many calls hang now.
    #[must_use]
    pub fn hanging(&self) -> usize {
        self.script().hanging
    }

    /// How often this method was called.
    #[must_use]
    pub fn calls(&self, call: Call) -> u64 {
        self.script().calls.get(&call).copied().unwrap_or(0)
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.0.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, call: Call) -> Mode {
        let mut script = self.script();
        *script.calls.entry(call).or_default() += 1;
        let once = script.once.get_mut(&call).and_then(VecDeque::pop_front);
        once.or_else(|| script.always.get(&call).cloned()).unwrap_or(Mode::Pass)
    }

    async fn hang(&self) {
        let mut released = self.0.released.subscribe();
        released.mark_unchanged();
        self.script().hanging += 1;
        // The sender lives as long as this handle: only a release ends the wait.
        let _ = released.changed().await;
        self.script().hanging -= 1;
    }

    /// Begins a call: what the script says of it; it has hung already if it was to hang first.
    async fn begin(&self, call: Call) -> Turn {
        let mut mode = self.take(call);
        if mode == Mode::Hang {
            self.hang().await;
            mode = Mode::Pass;
        }
        Turn { mode, faults: self.clone() }
    }
}

/// One call under the script.
struct Turn {
    mode: Mode,
    faults: Faults,
}

impl Turn {
    /// The fault that keeps the call from being made.
    fn refused(&self) -> Result<(), Fault> {
        match &self.mode {
            Mode::Fail(fault) => Err(fault.clone()),
            _ => Ok(()),
        }
    }

    /// The records that the call is made with.
    fn passed<R: Clone>(&self, records: &[R]) -> Vec<R> {
        match &self.mode {
            Mode::Fail(_) => Vec::new(),
            Mode::FailRecords(places, _) => {
                let passes = |(place, _): &(usize, &R)| !places.contains(place);
                records.iter().enumerate().filter(passes).map(|(_, it)| it.clone()).collect()
            }
            _ => records.to_vec(),
        }
    }

    /// What the caller gets for the call's answer.
    async fn end<T>(self, answer: Result<T, Fault>) -> Result<T, Fault> {
        match self.mode {
            Mode::FailAfter(fault) => answer.and(Err(fault)),
            Mode::HangAfter => {
                self.faults.hang().await;
                answer
            }
            _ => answer,
        }
    }

    /// What the caller of `asked` records gets for the answers to those that passed.
    async fn end_each<T>(
        self,
        asked: usize,
        answers: Vec<Result<T, Fault>>,
    ) -> Vec<Result<T, Fault>> {
        match &self.mode {
            Mode::Fail(fault) | Mode::FailAfter(fault) => {
                (0..asked).map(|_| Err(fault.clone())).collect()
            }
            Mode::FailRecords(places, fault) => {
                let mut answers = answers.into_iter();
                let answer = |place| match places.contains(&place) {
                    true => Err(fault.clone()),
                    false => answers.next().unwrap_or_else(|| Err(fault.clone())),
                };
                (0..asked).map(answer).collect()
            }
            Mode::HangAfter => {
                self.faults.hang().await;
                answers
            }
            Mode::Pass | Mode::Hang => answers,
        }
    }
}

/// A connector that fails to a script, and passes on what the script lets through.
pub struct Faulty {
    inner: Box<dyn Connector>,
    faults: Faults,
}

impl Faulty {
    /// Wraps a connector.
    #[must_use]
    pub fn new(inner: Box<dyn Connector>, faults: Faults) -> Faulty {
        Faulty { inner, faults }
    }
}

#[async_trait]
impl Connector for Faulty {
    async fn open(&mut self) -> Result<Option<Control>, Fault> {
        let turn = self.faults.begin(Call::Open).await;
        turn.refused()?;
        let answer = self.inner.open().await;
        turn.end(answer).await
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn apply(&mut self, upserts: &[Upsert]) -> Vec<Outcome> {
        let turn = self.faults.begin(Call::Apply).await;
        let answers = self.inner.apply(&turn.passed(upserts)).await;
        turn.end_each(upserts.len(), answers).await
    }

    async fn remove(&mut self, removals: &[Removal]) -> Vec<Outcome> {
        let turn = self.faults.begin(Call::Remove).await;
        let answers = self.inner.remove(&turn.passed(removals)).await;
        turn.end_each(removals.len(), answers).await
    }

    async fn commit(
        &mut self,
        control: &Control,
        expected: Option<&Control>,
    ) -> Result<Commit, Fault> {
        let turn = self.faults.begin(Call::Commit).await;
        turn.refused()?;
        let answer = self.inner.commit(control, expected).await;
        turn.end(answer).await
    }

    fn backlog(&mut self, behind: bool) {
        self.inner.backlog(behind);
    }

    async fn verify(&mut self, removals: &[Removal], level: EvidenceLevel) -> Result<Look, Fault> {
        let turn = self.faults.begin(Call::Verify).await;
        turn.refused()?;
        let answer = self.inner.verify(removals, level).await;
        turn.end(answer).await
    }

    async fn purge(&mut self, removals: &[Removal]) -> Vec<Result<Purge, Fault>> {
        let turn = self.faults.begin(Call::Purge).await;
        let answers = self.inner.purge(&turn.passed(removals)).await;
        turn.end_each(removals.len(), answers).await
    }

    async fn scan(&mut self, after: Option<&str>, limit: usize) -> Result<Page, Fault> {
        let turn = self.faults.begin(Call::Scan).await;
        turn.refused()?;
        let answer = self.inner.scan(after, limit).await;
        turn.end(answer).await
    }

    async fn close(&mut self) -> Result<(), Fault> {
        let turn = self.faults.begin(Call::Close).await;
        turn.refused()?;
        let answer = self.inner.close().await;
        turn.end(answer).await
    }
}

/// Makes connectors of another factory, all of them failing to the same script.
pub struct FaultyFactory {
    inner: Box<dyn Factory>,
    faults: Faults,
}

impl FaultyFactory {
    /// Wraps a factory.
    #[must_use]
    pub fn new(inner: Box<dyn Factory>, faults: Faults) -> FaultyFactory {
        FaultyFactory { inner, faults }
    }
}

impl Factory for FaultyFactory {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn settings_schema(&self) -> schemars::Schema {
        self.inner.settings_schema()
    }

    fn build(
        &self,
        destination: Destination,
        settings: serde_json::Value,
    ) -> Result<Box<dyn Connector>, SettingsError> {
        let inner = self.inner.build(destination, settings)?;
        Ok(Box::new(Faulty::new(inner, self.faults.clone())))
    }
}
