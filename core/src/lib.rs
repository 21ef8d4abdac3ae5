//! The model of cenotaph and its decisions.
//!
//! This crate is pure: no I/O, no clock, no randomness, no runtime. Time comes in as an argument.
//! [`model`] holds the words of the project as types; [`decide`] holds its decisions as functions
//! from what is known to what follows. Everything else in the project performs what is decided here.

pub mod decide;
pub mod model;

pub use model::*;
