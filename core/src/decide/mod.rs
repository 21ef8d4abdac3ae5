//! Decisions: pure functions from what is known to what follows.
//!
//! | function | question |
//! | --- | --- |
//! | [`accept`](fn@accept) | What does the ledger make of a change? |
//! | [`plan`](fn@plan) | What does a destination do with a change that it holds? |
//! | [`judge_control`] | Is the destination still the copy that we left there? |
//! | [`confirm`](fn@confirm) | Does a look prove that a removal is done? |
//! | [`deletion_gate`], [`barrier_gate`] | May whoever waits go on? |
//!
//! Each has tables of examples in `core/testdata`, written for people who do not program: correct a
//! line there, and the tests say which decisions differ.

pub mod accept;
pub mod confirm;
pub mod control;
pub mod gate;
pub mod plan;
mod table;
mod verdict;

pub use accept::{Known, PastEvent, accept, permit};
pub use confirm::{Finding, Judgement, LookContext, WaitReason, confirm};
pub use control::{ControlState, Expected, judge_control};
pub use gate::{BarrierView, Blocker, Gate, Obligation, Standing, barrier_gate, deletion_gate};
pub use plan::{Acceptance, Candidate, Plan, highest_only, plan};
pub use verdict::{Decided, Refusal, Verdict};
