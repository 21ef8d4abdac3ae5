//! The suite that every connector passes, deletes first.
//!
//! A connector's `tests/conformance.rs` makes a [`Harness`] and calls [`check`] once:
//!
//! ```ignore
//! #[test]
//! fn keeps_its_promises() {
//!     cenotaph_conformance::check(&Harness);
//! }
//! ```
//!
//! Each case is named after the promise it proves; a failure names the promise and what was seen.
//! Beside the suite: [`Faulty`], a connector that fails to a script, and [`Liar`], one that breaks
//! a promise on purpose. The suite is tested by the liars it catches; the product's end-to-end tests
//! use both.

mod bench;
mod cases;
mod faulty;
mod harness;
mod keys;
mod liar;
mod random;
mod report;

pub use faulty::{Call, Faults, Faulty, FaultyFactory, Mode};
pub use harness::Harness;
pub use keys::awkward_keys;
pub use liar::{Liar, Lie};
pub use report::{Broken, Report};

/// Runs every case.
///
/// # Panics
/// If a promise is broken: the text names each one and what was seen.
#[allow(clippy::panic)] // It is the assertion of a test.
pub fn check(harness: &dyn Harness) {
    let report = run(harness);
    if !report.broken.is_empty() {
        panic!("{report}");
    }
}

/// Runs every case and tells what became of each.
#[must_use]
pub fn run(harness: &dyn Harness) -> Report {
    let mut report = Report::default();
    for case in cases::all() {
        report.add(case.promise, bench::run(harness, case.run));
    }
    report
}
