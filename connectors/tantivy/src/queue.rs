//! What waits for the indexing threads, bounded in bytes: a commit has to index all of it first, and
//! tantivy itself bounds only how many documents wait, however large they are.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tantivy::TantivyDocument;
use tantivy::indexer::UserOperation;
use tantivy::schema::Document;

/// The most bytes that wait, unless a single group has more: some 50 ms of work for two threads.
const MAX_BYTES: usize = 2 << 20;
/// Documents go to one indexing thread in groups of about this: fewer threads are woken, and each
/// still gets its share.
const GROUP_BYTES: usize = 64 << 10;
/// What a document costs beside its payload.
const OVERHEAD_BYTES: usize = 512;
/// How long a full queue is waited for at a time. Then one more group is let through, so that a
/// queue that nobody empties any more is found out by whoever writes to it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The queue's bound. The documents themselves are in tantivy's queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    waiting_bytes: Mutex<usize>,
    room: Condvar,
}

/// A document on its way, which gives its room back when an indexing thread takes it.
pub(crate) struct Queued {
    document: TantivyDocument,
    _place: Option<Place>,
}

/// The room of one group, given back with its last document.
#[derive(Debug)]
struct Place {
    queue: Arc<Inner>,
    bytes: usize,
}

impl Inner {
    fn waiting(&self) -> MutexGuard<'_, usize> {
        self.waiting_bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Waits for room and takes it.
    fn enter(&self, bytes: usize) -> Place {
        let full = |waiting: &mut usize| *waiting > 0 && *waiting + bytes > MAX_BYTES;
        let waited = self.inner.room.wait_timeout_while(self.inner.waiting(), PATIENCE, full);
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *waiting += bytes;
        Place { queue: Arc::clone(&self.inner), bytes }
    }

    /// Hands documents over in groups, each with the bytes of its payload.
    pub(crate) fn send<E>(
        &self,
        documents: impl IntoIterator<Item = (TantivyDocument, usize)>,
        mut send: impl FnMut(Vec<UserOperation<Queued>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut group = Vec::new();
        let mut bytes = 0;
        for (document, payload_bytes) in documents {
            group.push(Queued { document, _place: None });
            bytes += payload_bytes + OVERHEAD_BYTES;
            if bytes >= GROUP_BYTES {
                send(self.enter_all(std::mem::take(&mut group), bytes))?;
                bytes = 0;
            }
        }
        if group.is_empty() { Ok(()) } else { send(self.enter_all(group, bytes)) }
    }

    fn enter_all(&self, mut group: Vec<Queued>, bytes: usize) -> Vec<UserOperation<Queued>> {
        if let Some(last) = group.last_mut() {
            last._place = Some(self.enter(bytes));
        }
        group.into_iter().map(UserOperation::Add).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *self.queue.waiting() -= self.bytes;
        self.queue.room.notify_one();
    }
}

impl Document for Queued {
    type Value<'a> = <TantivyDocument as Document>::Value<'a>;
    type FieldsValuesIter<'a> = <TantivyDocument as Document>::FieldsValuesIter<'a>;

    fn iter_fields_and_values(&self) -> Self::FieldsValuesIter<'_> {
        self.document.iter_fields_and_values()
    }

    fn into_tantivy_document(self) -> TantivyDocument {
        self.document
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn waiting(queue: &Queue) -> usize {
        *queue.inner.waiting()
    }

    #[test]
    fn documents_go_in_groups_and_give_their_room_back_when_they_are_taken() {
        let queue = Queue::default();
        let documents = (0..10).map(|_| (TantivyDocument::new(), GROUP_BYTES / 4));
        let mut groups = Vec::new();
        let sent = queue.send(documents, |group| {
            groups.push(group);
            Ok::<(), ()>(())
        });
        sent.unwrap();
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 2]);
        assert_eq!(waiting(&queue), 10 * (GROUP_BYTES / 4 + OVERHEAD_BYTES));
        groups.pop();
        assert_eq!(waiting(&queue), 8 * (GROUP_BYTES / 4 + OVERHEAD_BYTES));
        groups.clear();
        assert_eq!(waiting(&queue), 0);
    }

    #[test]
    fn a_full_queue_lets_nothing_in_until_something_is_taken() {
        let queue = Queue::default();
        let first = queue.enter(MAX_BYTES);
        let second = {
            let queue = queue.clone();
            std::thread::spawn(move || queue.enter(1))
        };
        assert_eq!(waiting(&queue), MAX_BYTES);
        drop(first);
        drop(second.join().unwrap());
        assert_eq!(waiting(&queue), 0);
    }

    #[test]
    fn what_is_larger_than_the_whole_queue_goes_alone() {
        let queue = Queue::default();
        drop(queue.enter(10 * MAX_BYTES));
        assert_eq!(waiting(&queue), 0);
    }
}
