//! Making bytes go: rewriting the segments that still hold them.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use cenotaph_connector::{Class, Fault, Purge, Removal};
use tantivy::FutureResult;
use tantivy::index::{SegmentId, SegmentMeta};

use crate::faults::fault;
use crate::merges::pack;
use crate::store::Store;
use crate::view::View;

/// How long one call waits for its rewrites. They go on without it, and so do removals.
const WAIT: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(5);

/// Segments being rewritten.
pub(crate) struct Rewrite {
    segments: Vec<SegmentId>,
    done: Pin<Box<FutureResult<Option<SegmentMeta>>>>,
}

impl Store {
    /// Rewrites every segment that holds bytes of these objects, once for all of them.
    pub(crate) fn purge(&mut self, removals: &[Removal]) -> Result<Vec<Purge>, Fault> {
        // Merges that began before a removal carry its bytes along; no new ones until the next
        // write, so that the old ones come to an end.
        self.merges.pause(true);
        let ids: Vec<String> = removals.iter().map(Removal::id).collect();
        let began = Instant::now();
        loop {
            let answers = self.purge_step(removals, &ids)?;
            if began.elapsed() >= WAIT || !answers.contains(&Purge::Pending) {
                return Ok(answers);
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn purge_step(&mut self, removals: &[Removal], ids: &[String]) -> Result<Vec<Purge>, Fault> {
        self.reap()?;
        self.sweep()?;
        let view = View::open(&self.dir)?;
        let clean = view.loose_files()?.is_empty();
        let mut answers = Vec::with_capacity(ids.len());
        let mut holding: Vec<(SegmentId, u32)> = Vec::new();
        for (removal, id) in removals.iter().zip(ids) {
            let traces = view.traces(id)?;
            let gone = traces.dead_in.is_empty() && !traces.alive_below(removal.covers);
            answers.push(if gone && clean { Purge::Purged } else { Purge::Pending });
            holding.extend(traces.dead_in.iter().map(|&it| (it, view.docs_in(it))));
        }
        drop(view);
        holding.sort_unstable();
        holding.dedup();
        holding.retain(|(segment, _)| !self.is_rewritten(*segment));
        self.rewrite(holding)?;
        Ok(answers)
    }

    fn is_rewritten(&self, segment: SegmentId) -> bool {
        self.rewrites.iter().any(|it| it.segments.contains(&segment))
    }

    fn rewrite(&mut self, segments: Vec<(SegmentId, u32)>) -> Result<(), Fault> {
        for group in pack(segments, self.settings.max_segment_docs) {
            let done = Box::pin(self.writer()?.merge(&group));
            self.rewrites.push(Rewrite { segments: group, done });
        }
        Ok(())
    }

    /// Lets go of the rewrites that are done.
    fn reap(&mut self) -> Result<(), Fault> {
        let mut context = Context::from_waker(Waker::noop());
        let mut failed = None;
        self.rewrites.retain_mut(|rewrite| match rewrite.done.as_mut().poll(&mut context) {
            Poll::Pending => true,
            Poll::Ready(Ok(_)) => false,
            Poll::Ready(Err(error)) => {
                failed = Some(error);
                false
            }
        });
        match failed {
            // A merge of tantivy's own had the segment first; the next step sees what it made.
            None | Some(tantivy::TantivyError::InvalidArgument(_)) => Ok(()),
            Some(error) => Err(fault(Class::Retriable, "a segment could not be rewritten", &error)),
        }
    }
}
