//! Laws that hold for whatever comes in whatever order, tried on random sequences.
//!
//! `reference` is the verdict table written a second time, naively and straight from the model.
//! `ledger` does with a decision what the writer does. `destination` reads a log again to catch up.

mod destination;
mod events;
mod laws_of_accept;
mod laws_of_looks;
mod ledger;
mod reference;
