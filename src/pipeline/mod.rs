//! One pipeline a destination: two lanes over one connector, on a thread of its own, so that a
//! destination that is slow, failing or hung delays only itself (I8).
//!
//! [`turn`] is the loop. [`removals`] removes and looks, [`changes`] plans and applies, [`feed`]
//! tells where the changes come from, [`session`] stands for the opened destination.

pub mod backoff;
pub mod changes;
pub mod feed;
pub mod late_writes;
pub mod removals;
pub mod session;
pub mod settings;
pub mod standing;
pub mod turn;

pub use settings::PipelineSettings;
pub use standing::Standing;
pub use turn::{Pipeline, Wiring};

use cenotaph_connector::{Fault, Outcome, Owner};

/// One outcome a record: a connector that answers fewer has told nothing about the rest.
fn same_length(mut outcomes: Vec<Outcome>, expected: usize) -> Vec<Outcome> {
    if outcomes.len() != expected {
        let what = format!("the connector answered {} outcomes for {expected}", outcomes.len());
        let advice = "report this to the authors of the connector";
        let fault = Fault::uncertain(Owner::Cenotaph, what, advice);
        outcomes = vec![Err(fault); expected];
    }
    outcomes
}
