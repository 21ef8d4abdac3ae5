//! What a destination promises.
//!
//! A *connector* drives one derived copy: a search index, a cache, a vector store. cenotaph calls it
//! from one task of its own, one call at a time, in this order:
//!
//! ```text
//! build -> open -> ( apply | remove | commit | verify | purge | scan )* -> close
//! ```
//!
//! The contract stands on [`Connector`]; `connectors/README.md` shows how to add one, and the crate
//! `cenotaph-conformance` proves that it keeps its promises.

mod capabilities;
mod connector;
mod factory;
mod fault;
mod look;
mod record;

pub use async_trait::async_trait;
pub use capabilities::{Capabilities, Fence};
pub use connector::{Commit, Connector, Held, Outcome, Page, Purge};
pub use factory::{Destination, Factory, SettingsError, TypedFactory};
pub use fault::{Class, Fault, Owner};
pub use look::{Finding, Look};
pub use record::{Removal, Upsert};
