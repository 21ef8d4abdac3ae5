//! Which segments are merged, and when.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tantivy::index::{SegmentId, SegmentMeta};
use tantivy::merge_policy::{LogMergePolicy, MergeCandidate, MergePolicy};

/// Segments below this size count as equally small.
const SMALL_DOCS: u32 = 1_000;
/// A segment in which more than one document in this many is deleted is rewritten.
const DELETED_ONE_IN: u32 = 2;

/// So many segments may wait to be merged while merges are put off. Each makes every write and
/// every look a little slower.
const PUT_OFF_SEGMENTS: usize = 32;

/// tantivy's own policy, with a bound on the size of what a merge makes: a purge rewrites whole
/// segments. It can be paused: a purge waits for merges, and new ones would not let it end. And it
/// can be put off, within a bound: while a backlog is written, merging would take the processors
/// from it, and merge the same documents several times over.
#[derive(Debug, Clone)]
pub(crate) struct Bounded {
    max_docs: u32,
    paused: Arc<AtomicBool>,
    put_off: Arc<AtomicBool>,
}

impl Bounded {
    pub(crate) fn new(max_docs: u32) -> Bounded {
        Bounded { max_docs, paused: Arc::default(), put_off: Arc::default() }
    }

    pub(crate) fn put_off(&self, put_off: bool) {
        self.put_off.store(put_off, Ordering::Relaxed);
    }

    fn waits(&self, segments: usize) -> bool {
        let put_off = self.put_off.load(Ordering::Relaxed) && segments < PUT_OFF_SEGMENTS;
        put_off || self.paused.load(Ordering::Relaxed)
    }

    pub(crate) fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::Relaxed);
    }
}

impl MergePolicy for Bounded {
    fn compute_merge_candidates(&self, segments: &[SegmentMeta]) -> Vec<MergeCandidate> {
        let small = segments.iter().filter(|it| it.num_docs() <= self.max_docs / 2);
        if self.waits(small.count()) {
            return Vec::new();
        }
        let mut levels = LogMergePolicy::default();
        levels.set_min_layer_size(SMALL_DOCS);
        levels.set_max_docs_before_merge(usize::try_from(self.max_docs / 2).unwrap_or(usize::MAX));
        let mut candidates: Vec<MergeCandidate> = levels
            .compute_merge_candidates(segments)
            .into_iter()
            .map(|level| {
                let level = segments.iter().filter(|it| level.0.contains(&it.id()));
                let level: Vec<_> = level.map(|it| (it.id(), it.num_docs())).collect();
                MergeCandidate(pack(level, self.max_docs).swap_remove(0))
            })
            .filter(|group| group.0.len() > 1)
            .collect();
        let wasteful = segments.iter().filter(|it| {
            it.num_deleted_docs() > it.max_doc() / DELETED_ONE_IN
                && !candidates.iter().any(|group| group.0.contains(&it.id()))
        });
        let wasteful: Vec<_> = wasteful.map(|it| MergeCandidate(vec![it.id()])).collect();
        candidates.extend(wasteful);
        candidates
    }
}

/// Groups segments, smallest first, so that each group holds at most `max_docs` documents; a larger
/// segment is a group of its own. Never empty for at least one segment.
pub(crate) fn pack(mut segments: Vec<(SegmentId, u32)>, max_docs: u32) -> Vec<Vec<SegmentId>> {
    segments.sort_by_key(|&(_, docs)| docs);
    let mut groups: Vec<Vec<SegmentId>> = Vec::new();
    let mut room = 0;
    for (id, docs) in segments {
        match groups.last_mut() {
            Some(group) if docs <= room => {
                group.push(id);
                room -= docs;
            }
            _ => {
                groups.push(vec![id]);
                room = max_docs.saturating_sub(docs);
            }
        }
    }
    groups
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tantivy::Index;
    use tantivy::schema::Schema;

    use super::*;

    fn segments(docs: &[u32]) -> Vec<SegmentMeta> {
        let index = Index::create_in_ram(Schema::builder().build());
        let meta = |&docs: &u32| index.new_segment_meta(SegmentId::generate_random(), docs);
        docs.iter().map(meta).collect()
    }

    fn docs_of(candidates: Vec<MergeCandidate>, segments: &[SegmentMeta]) -> Vec<Vec<u32>> {
        let docs = |id: &SegmentId| segments.iter().find(|it| it.id() == *id).unwrap().num_docs();
        candidates.into_iter().map(|group| group.0.iter().map(docs).collect()).collect()
    }

    #[test]
    fn no_merge_makes_a_segment_above_the_bound() {
        let policy = Bounded::new(10_000);
        let segments = segments(&[2_000, 1_900, 1_800, 2_000, 2_000, 1_700, 2_000, 2_000, 9_000]);
        let groups = docs_of(policy.compute_merge_candidates(&segments), &segments);
        assert_eq!(groups, [[1_700, 1_800, 1_900, 2_000, 2_000]]);
    }

    #[test]
    fn a_paused_policy_merges_nothing() {
        let policy = Bounded::new(10_000);
        let segments = segments(&[10; 20]);
        policy.clone().pause(true);
        assert!(policy.compute_merge_candidates(&segments).is_empty());
        policy.pause(false);
        assert_eq!(policy.compute_merge_candidates(&segments).len(), 1);
    }

    #[test]
    fn put_off_merges_wait_for_a_bounded_number_of_segments_that_can_be_merged() {
        let policy = Bounded::new(10_000);
        policy.clone().put_off(true);
        let mut sizes = vec![9_000; 50];
        sizes.extend([10; PUT_OFF_SEGMENTS - 1]);
        assert!(policy.compute_merge_candidates(&segments(&sizes)).is_empty());
        sizes.push(10);
        assert_eq!(policy.compute_merge_candidates(&segments(&sizes)).len(), 1);
        policy.put_off(false);
        assert_eq!(policy.compute_merge_candidates(&segments(&[10; 8])).len(), 1);
    }

    #[test]
    fn a_segment_that_is_half_deleted_is_rewritten() {
        let policy = Bounded::new(10_000);
        let deleted = [4_000, 5_000];
        let segments = segments(&[9_000, 9_000]).into_iter().zip(deleted);
        let segments: Vec<_> =
            segments.map(|(it, deleted)| it.with_delete_meta(deleted, 1)).collect();
        let groups = docs_of(policy.compute_merge_candidates(&segments), &segments);
        assert_eq!(groups, [[4_000]]);
    }

    #[test]
    fn a_segment_above_the_bound_is_a_group_of_its_own() {
        let ids: Vec<SegmentId> = (0..4).map(|_| SegmentId::generate_random()).collect();
        let sizes = [500, 20_000, 600, 9_000];
        let groups = pack(ids.iter().copied().zip(sizes).collect(), 10_000);
        assert_eq!(groups, [vec![ids[0], ids[2]], vec![ids[3]], vec![ids[1]]]);
        assert!(pack(Vec::new(), 10_000).is_empty());
    }
}
