//! The committed state: what the journal's records add up to.

mod barrier;
mod books;
mod destination;
mod positions;

pub use barrier::BarrierBook;
pub use books::{Books, CollectionName, FeedBook};
pub use destination::{DestinationBook, from_ranges, numbers_from, to_ranges};
pub use positions::{AcceptedPositions, MAX_ACCEPTED_POSITIONS};
