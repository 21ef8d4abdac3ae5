//! Every bucket of the view, in memory, by the lowest object that it may hold.

use cenotaph_core::ObjectId;
use sled::IVec;

use super::bucket::Bucket;

/// A bucket's lower bound, or an object, as numbers that compare as its bytes do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ordinal(u128, u128);

impl Ordinal {
    /// Of the first 32 bytes.
    pub(super) fn of(bytes: &[u8]) -> Ordinal {
        let half = |at| u128::from_be_bytes(super::files::bytes_at(bytes, at));
        Ordinal(half(0), half(16))
    }

    /// Of a collection and an object's own hash.
    pub(super) fn new(collection: u128, object_hash: u128) -> Ordinal {
        Ordinal(collection, object_hash)
    }

    /// The collection.
    pub(super) fn collection(self) -> u128 {
        self.0
    }

    /// The object's own hash.
    pub(super) fn object_hash(self) -> u128 {
        self.1
    }

    pub(super) fn object(self) -> ObjectId {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.0.to_be_bytes());
        bytes[16..].copy_from_slice(&self.1.to_be_bytes());
        ObjectId(bytes)
    }
}

/// The buckets, ascending. Their bytes are shared with sled's own pages.
#[derive(Debug, Default)]
pub(super) struct Directory {
    bounds: Vec<Ordinal>,
    buckets: Vec<IVec>,
}

impl Directory {
    /// Adds the bucket after the last one.
    pub(super) fn push(&mut self, bound: &ObjectId, bucket: IVec) {
        self.bounds.push(Ordinal::of(&bound.0));
        self.buckets.push(bucket);
    }

    /// The place of the bucket that an object belongs to. The very first bucket begins below
    /// everything, so there is one unless there is none at all.
    pub(super) fn place_of(&self, object: Ordinal) -> Option<usize> {
        self.bounds.partition_point(|bound| *bound <= object).checked_sub(1)
    }

    /// The same for many, in step: see [`super::lookup`].
    pub(super) fn places_of(&self, objects: &[Ordinal]) -> Vec<Option<usize>> {
        let mut firsts = vec![0; objects.len()];
        let mut length = self.bounds.len();
        while length > 1 {
            let half = length / 2;
            for (first, object) in firsts.iter_mut().zip(objects) {
                let at_or_above = self.bounds[*first + half] <= *object;
                *first += usize::from(at_or_above) * half;
            }
            length -= half;
        }
        let is_in = |(first, object): (usize, &Ordinal)| {
            self.bounds.get(first).is_some_and(|bound| bound <= object).then_some(first)
        };
        firsts.into_iter().zip(objects).map(is_in).collect()
    }

    /// The bound of the bucket at a place.
    pub(super) fn bound(&self, place: usize) -> Option<Ordinal> {
        self.bounds.get(place).copied()
    }

    /// The bytes of the bucket at a place.
    pub(super) fn bytes(&self, place: usize) -> Option<&IVec> {
        self.buckets.get(place)
    }

    /// The bucket that an object belongs to.
    pub(super) fn bucket_of(&self, object: &ObjectId) -> Option<Bucket<'_>> {
        let place = self.place_of(Ordinal::of(&object.0))?;
        self.buckets.get(place).map(|bytes| Bucket::trusted(bytes))
    }

    /// Every bucket, ascending.
    pub(super) fn buckets(&self) -> impl Iterator<Item = Bucket<'_>> {
        self.buckets.iter().map(|bytes| Bucket::trusted(bytes))
    }

    /// The same with these buckets, ascending, added or in place of those with the same bound.
    pub(super) fn with(&self, changed: Vec<(Ordinal, IVec)>) -> Directory {
        let room = self.bounds.len() + changed.len();
        let mut after =
            Directory { bounds: Vec::with_capacity(room), buckets: Vec::with_capacity(room) };
        let mut kept = self.bounds.iter().zip(&self.buckets).peekable();
        for (bound, bucket) in changed {
            while let Some((known, bytes)) = kept.next_if(|(known, _)| **known < bound) {
                after.bounds.push(*known);
                after.buckets.push(bytes.clone());
            }
            kept.next_if(|(known, _)| **known == bound);
            after.bounds.push(bound);
            after.buckets.push(bucket);
        }
        for (known, bytes) in kept {
            after.bounds.push(*known);
            after.buckets.push(bytes.clone());
        }
        after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(first: u8, last: u8) -> ObjectId {
        let mut bytes = [0; 32];
        (bytes[0], bytes[31]) = (first, last);
        ObjectId(bytes)
    }

    fn directory(bounds: &[ObjectId]) -> Directory {
        let mut directory = Directory::default();
        for (at, bound) in bounds.iter().enumerate() {
            directory.push(bound, IVec::from(&[at as u8][..]));
        }
        directory
    }

    #[test]
    fn an_ordinal_compares_as_the_bytes_do_and_comes_back() {
        let ids = [id(0, 0), id(0, 1), id(0, 255), id(1, 0), id(255, 3)];
        for pair in ids.windows(2) {
            assert!(Ordinal::of(&pair[0].0) < Ordinal::of(&pair[1].0));
        }
        for id in ids {
            assert_eq!(Ordinal::of(&id.0).object(), id);
        }
    }

    #[test]
    fn an_object_belongs_to_the_last_bucket_that_begins_at_or_below_it() {
        let directory = directory(&[id(0, 0), id(3, 0), id(3, 9)]);
        let place = |object: ObjectId| directory.place_of(Ordinal::of(&object.0));
        assert_eq!(place(id(0, 0)), Some(0));
        assert_eq!(place(id(2, 255)), Some(0));
        assert_eq!(place(id(3, 0)), Some(1));
        assert_eq!(place(id(3, 8)), Some(1));
        assert_eq!(place(id(9, 0)), Some(2));
        assert_eq!(Directory::default().place_of(Ordinal::of(&[0; 32])), None);
        let all: Vec<Ordinal> = [id(0, 0), id(2, 255), id(3, 0), id(3, 8), id(9, 0)]
            .map(|object| Ordinal::of(&object.0))
            .to_vec();
        let one_by_one: Vec<_> = all.iter().map(|object| directory.place_of(*object)).collect();
        assert_eq!(directory.places_of(&all), one_by_one);
        assert_eq!(Directory::default().places_of(&all), vec![None; 5]);
    }

    #[test]
    fn changed_buckets_take_the_place_of_those_before_and_new_ones_come_between() {
        let directory = directory(&[id(0, 0), id(3, 0), id(5, 0)]);
        let changed = [id(3, 0), id(4, 0), id(9, 0)];
        let changed = changed.map(|id| (Ordinal::of(&id.0), IVec::from(&[7][..]))).to_vec();
        let after = directory.with(changed);
        let all = after.bounds.iter().zip(&after.buckets);
        let all: Vec<_> = all.map(|(bound, bytes)| (bound.object(), bytes[0])).collect();
        let expected = [(id(0, 0), 0), (id(3, 0), 7), (id(4, 0), 7), (id(5, 0), 2), (id(9, 0), 7)];
        assert_eq!(all, expected);
    }
}
