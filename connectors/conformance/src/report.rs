//! What became of each promise.

use std::fmt;

/// Why a case ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The promise was broken; what was seen.
    Broken(String),
    /// The connector or its harness cannot do what the case needs.
    Skipped(&'static str),
}

/// The outcome of a case.
pub(crate) type Verdict = Result<(), Stop>;

/// Ends the case: this was seen, and it breaks the promise.
pub(crate) fn broken<T>(saw: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Broken(saw.into()))
}

/// Goes on only if `kept`.
pub(crate) fn ensure(kept: bool, saw: impl FnOnce() -> String) -> Verdict {
    if kept { Ok(()) } else { Err(Stop::Broken(saw())) }
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The promise.
    pub promise: &'static str,
    /// What was seen.
    pub saw: String,
}

/// What became of every promise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Kept.
    pub kept: Vec<&'static str>,
    /// Broken.
    pub broken: Vec<Broken>,
    /// Not looked at, and why.
    pub skipped: Vec<(&'static str, &'static str)>,
}

impl Report {
    pub(crate) fn add(&mut self, promise: &'static str, verdict: Verdict) {
        match verdict {
            Ok(()) => self.kept.push(promise),
            Err(Stop::Broken(saw)) => self.broken.push(Broken { promise, saw }),
            Err(Stop::Skipped(why)) => self.skipped.push((promise, why)),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Broken { promise, saw } in &self.broken {
            writeln!(f, "BROKEN   {promise}\n         saw: {saw}")?;
        }
        for (promise, why) in &self.skipped {
            writeln!(f, "skipped  {promise} ({why})")?;
        }
        for promise in &self.kept {
            writeln!(f, "kept     {promise}")?;
        }
        Ok(())
    }
}
