//! cenotaph: a sink for derived indexes that proves deletions before it opens their gates.
//!
//! # The walk
//! ```text
//! source -> envelope -> ingest -> ledger (decide, journal, sync, show) -> window -> pipeline, one a
//! destination: changes lane -> connector; removals lane -> connector -> look -> ledger (confirm) ->
//! gates open -> api
//! ```
//!
//! # The map
//! | module | job |
//! | --- | --- |
//! | [`source`] | where changes come from: an append-only log |
//! | [`envelope`] | from a raw record to a change; refuses, never guesses |
//! | [`reading`] | both, for one thread, with the ledger's hashes |
//! | [`ingest`] | reads a partition ahead of everybody |
//! | [`ledger`] | the one writer, its journal, and what it shows |
//! | [`window`] | the newest accepted changes, in memory |
//! | [`pipeline`] | two lanes over one connector |
//! | [`registry`] | which connectors there are |
//! | [`config`] | TOML, typed |
//! | [`supervisor`] | starts, watches and stops all of it |
//! | [`janitor`] | what only time brings |
//! | [`api`] | HTTP |
//! | [`metrics`] | every metric name |
//! | [`cli`] | the commands |
//!
//! # The invariants
//! Numbered here, named where they are asserted and tested.
//!
//! - **I1** After a destination confirmed a tombstone, no piece of the object at or below what it
//!   covers is readable there.
//! - **I2** A gate never opens while an attached destination is unconfirmed.
//! - **I3** A source offset is never committed past the lowest durable cursor.
//! - **I4** A crash at any instruction loses no tombstone or confirmation that was ever shown, and
//!   invents none.
//! - **I5** Whatever the order, repetition or delay of deliveries, live destinations converge to the
//!   ledger's state.
//! - **I6** No change of one tenant alters or reveals anything of another.
//! - **I7** No marker, log line, metric, error or quarantine record holds document content.
//! - **I8** A slow or failing destination delays only itself.
//! - **I9** Every change read is accounted for, per run of the process.
//! - **I10** A removed identity is never forgotten silently.

pub mod api;
pub mod cli;
pub mod clock;
pub mod config;
pub mod envelope;
pub mod ingest;
pub mod janitor;
pub mod ledger;
pub mod metrics;
pub mod pipeline;
pub mod reading;
pub mod registry;
pub mod source;
pub mod stop;
pub mod supervisor;
pub mod window;
pub mod wire;
