//! End to end: the real binary over real folders, asked from outside as its users ask it; and, where
//! a connector has to fail on purpose, the same worker inside this process.
//!
//! Every test has a folder of its own and a worker of its own on a free port. Nothing waits on a
//! clock: everything waits on a condition, and gives up at a deadline.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::too_many_lines
)]

mod api;
mod barriers;
mod copies;
mod crash;
mod feed;
mod held;
mod http;
mod inside;
mod isolation;
mod lines;
mod model;
mod odd;
mod old_ledger;
mod owed;
mod s1;
mod shutdown;
mod site;
mod stream;
mod worker;
