//! What the ledger knows of one destination.

use std::collections::{BTreeMap, BTreeSet};

use cenotaph_core::{Control, Cursors, DestinationNo, NumberRange, Position};
use roaring::RoaringTreemap;
use serde::{Deserialize, Serialize};

/// One destination: what it is attached to, how far it is, and what it still owes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DestinationBook {
    /// The ledger's number for it.
    pub number: DestinationNo,
    /// Its name in the configuration.
    pub name: String,
    /// The collections it is attached to.
    pub collections: BTreeSet<String>,
    /// Raised each time it is opened.
    pub epoch: u64,
    /// The control record of the last commit that was noted.
    pub control: Option<Control>,
    /// Everything before these is durable there, superseded, or owed.
    pub cursors: Cursors,
    /// Positions below the cursors that are held back or parked.
    pub owed: BTreeSet<Position>,
    /// The removal cursor: every tombstone that is not in here and concerns it is confirmed.
    pub pending: RoaringTreemap,
    /// How many looks have confirmed something.
    pub looks: u64,
    /// Tombstones that it only ever acknowledged.
    pub unproven: RoaringTreemap,
}

impl DestinationBook {
    /// A destination that was never met before.
    #[must_use]
    pub fn new(number: DestinationNo, name: &str) -> DestinationBook {
        DestinationBook {
            number,
            name: name.to_owned(),
            collections: BTreeSet::new(),
            epoch: 0,
            control: None,
            cursors: BTreeMap::new(),
            owed: BTreeSet::new(),
            pending: RoaringTreemap::new(),
            looks: 0,
            unproven: RoaringTreemap::new(),
        }
    }

    /// The lowest owed position of a partition.
    #[must_use]
    pub fn lowest_owed(&self, partition: u32) -> Option<Position> {
        self.owed.iter().find(|position| position.partition == partition).copied()
    }
}

/// The numbers from `first` on, ascending.
pub fn numbers_from(numbers: &RoaringTreemap, first: u64) -> impl Iterator<Item = u64> + '_ {
    let mut from = numbers.iter();
    from.advance_to(first);
    from
}

/// Numbers as the ranges they form.
#[must_use]
pub fn to_ranges(numbers: &RoaringTreemap) -> Vec<NumberRange> {
    let mut ranges: Vec<NumberRange> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some(range) if range.last + 1 == number => range.last = number,
            _ => ranges.push(NumberRange { first: number, last: number }),
        }
    }
    ranges
}

/// Ranges as the numbers they hold.
#[must_use]
pub fn from_ranges(ranges: &[NumberRange]) -> RoaringTreemap {
    let mut numbers = RoaringTreemap::new();
    for range in ranges {
        numbers.insert_range(range.first..=range.last);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_numbers_are_the_same_thing() {
        let numbers: RoaringTreemap = [1, 2, 3, 7, 9, 10].into_iter().collect();
        let ranges = to_ranges(&numbers);
        assert_eq!(ranges.len(), 3);
        assert_eq!(from_ranges(&ranges), numbers);
        assert!(to_ranges(&RoaringTreemap::new()).is_empty());
    }
}
