//! Which segments are merged, and when.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tantivy::index::{SegmentId, SegmentMeta};
use tantivy::merge_policy::{LogMergePolicy, MergeCandidate, MergePolicy};

/// Segments below this size count as equally small.
const SMALL_DOCS: u32 = 1_000;
/// A segment with more deleted documents than one in this many is rewritten.
const DELETED_ONE_IN: u32 = 4;

/// tantivy's own policy, with a bound on the size of what a merge makes: a purge rewrites whole
/// segments. And it can be paused: a purge waits for merges, and new ones would not let it end.
#[derive(Debug, Clone)]
pub(crate) struct Bounded {
    max_docs: u32,
    paused: Arc<AtomicBool>,
}

impl Bounded {
    pub(crate) fn new(max_docs: u32) -> Bounded {
        Bounded { max_docs, paused: Arc::default() }
    }

    pub(crate) fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::Relaxed);
    }
}

impl MergePolicy for Bounded {
    fn compute_merge_candidates(&self, segments: &[SegmentMeta]) -> Vec<MergeCandidate> {
        if self.paused.load(Ordering::Relaxed) {
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
