//! Which positions of the stream were accepted, from the slowest cursor to the head.

use std::collections::BTreeMap;

use cenotaph_core::{Cursor, Position, decide::Acceptance};
use roaring::RoaringTreemap;
use serde::{Deserialize, Serialize};

/// The most positions kept over all partitions. Above it the lowest go, and a destination that far
/// behind applies only what is current: it converges all the same, without the steps between.
pub const MAX_ACCEPTED_POSITIONS: u64 = 16_000_000;

/// The accepted positions of every partition.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AcceptedPositions {
    count: u64,
    partitions: BTreeMap<u32, PartitionPositions>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct PartitionPositions {
    epoch: u32,
    /// Below this nothing is known any more.
    known_from: u64,
    offsets: RoaringTreemap,
}

impl AcceptedPositions {
    /// Adds one. A new epoch begins anew.
    pub fn insert(&mut self, position: Position) {
        let partition = self.partitions.entry(position.partition).or_default();
        if position.epoch > partition.epoch {
            self.count -= partition.offsets.len();
            *partition = PartitionPositions { epoch: position.epoch, ..Default::default() };
        }
        if position.epoch == partition.epoch && position.offset >= partition.known_from {
            self.count += u64::from(partition.offsets.insert(position.offset));
        }
    }

    /// What is known of one position.
    #[must_use]
    pub fn acceptance(&self, position: Position) -> Acceptance {
        match self.partitions.get(&position.partition) {
            Some(known) if known.epoch == position.epoch && position.offset >= known.known_from => {
                Acceptance::Known(known.offsets.contains(position.offset))
            }
            _ => Acceptance::Gone,
        }
    }

    /// Forgets what lies before `cursor`, which no destination will read again.
    pub fn forget_before(&mut self, partition: u32, cursor: Cursor) {
        // Also where none was ever added: what lies before is unknown then, and not refused.
        let known = self.partitions.entry(partition).or_default();
        if cursor.epoch > known.epoch {
            self.count -= known.offsets.len();
            *known = PartitionPositions { epoch: cursor.epoch, ..Default::default() };
        }
        if known.epoch == cursor.epoch && cursor.offset > known.known_from {
            self.count -= known.offsets.remove_range(..cursor.offset);
            known.known_from = cursor.offset;
        }
    }

    /// Forgets the lowest until at most `most` are left.
    pub fn keep_at_most(&mut self, most: u64) {
        let mut excess = self.count.saturating_sub(most);
        for known in self.partitions.values_mut() {
            if excess == 0 {
                return;
            }
            let drop = excess.min(known.offsets.len());
            if drop == 0 {
                continue;
            }
            let first_kept = known.offsets.select(drop);
            known.known_from =
                first_kept.unwrap_or_else(|| known.offsets.max().map_or(0, |last| last + 1));
            self.count -= known.offsets.remove_range(..known.known_from);
            excess -= drop;
        }
    }

    /// How many are kept.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64) -> Position {
        Position { partition: 0, epoch: 0, offset }
    }

    #[test]
    fn what_was_forgotten_is_gone_and_not_refused() {
        let mut positions = AcceptedPositions::default();
        (0..10).step_by(2).for_each(|offset| positions.insert(at(offset)));
        assert_eq!(positions.acceptance(at(4)), Acceptance::Known(true));
        assert_eq!(positions.acceptance(at(5)), Acceptance::Known(false));
        positions.forget_before(0, at(5).cursor());
        assert_eq!(positions.acceptance(at(4)), Acceptance::Gone);
        assert_eq!(positions.acceptance(at(6)), Acceptance::Known(true));
    }

    /// Positions are not added while no destination is attached: one that comes later must not take
    /// what was accepted before for refused.
    #[test]
    fn what_was_forgotten_before_it_was_added_is_gone_and_not_refused() {
        let mut positions = AcceptedPositions::default();
        positions.forget_before(0, at(6).cursor());
        positions.insert(at(6));
        assert_eq!(positions.acceptance(at(4)), Acceptance::Gone);
        assert_eq!(positions.acceptance(at(6)), Acceptance::Known(true));
        assert_eq!(positions.acceptance(at(7)), Acceptance::Known(false));
        let next_epoch = Position { epoch: 1, ..at(3) };
        positions.forget_before(0, next_epoch.cursor());
        assert_eq!((positions.len(), positions.acceptance(at(6))), (0, Acceptance::Gone));
        assert_eq!(positions.acceptance(Position { epoch: 1, ..at(2) }), Acceptance::Gone);
    }

    #[test]
    fn the_bound_drops_the_lowest() {
        let mut positions = AcceptedPositions::default();
        (0..100).for_each(|offset| positions.insert(at(offset)));
        positions.keep_at_most(10);
        assert_eq!(positions.len(), 10);
        assert_eq!(positions.acceptance(at(89)), Acceptance::Gone);
        assert_eq!(positions.acceptance(at(90)), Acceptance::Known(true));
        positions.keep_at_most(0);
        assert!(positions.is_empty());
        assert_eq!(positions.acceptance(at(99)), Acceptance::Gone);
    }
}
