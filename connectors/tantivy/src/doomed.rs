//! The deletion of many documents by exact id, each through a version.

use std::sync::Arc;

use cenotaph_core::{Covers, Version};
use tantivy::columnar::Column;
use tantivy::index::SegmentReader;
use tantivy::query::{
    BitSetDocSet, ConstScorer, EnableScoring, Explanation, Query, Scorer, Weight,
};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::termdict::TermDictionary;
use tantivy::{BitSet, DocId, DocSet, Score, TERMINATED, TantivyError};

use crate::layout::VERSION;

/// All documents with these ids whose version is covered, or that have none. One query for a whole
/// batch: each segment is opened once for it. (`delete_term` would swallow every error.)
#[derive(Debug, Clone)]
pub(crate) struct Doomed {
    id: Field,
    targets: Arc<[(String, Covers)]>,
}

impl Doomed {
    pub(crate) fn new(id: Field, mut targets: Vec<(String, Covers)>) -> Doomed {
        // In the order of the dictionaries, so that neighbours share what was read.
        targets.sort_unstable();
        Doomed { id, targets: targets.into() }
    }

    /// The targets that may be in this dictionary: ids that grow with time are in few segments, and
    /// the others need not be asked for each of them.
    fn targets_within(&self, ids: &TermDictionary) -> std::io::Result<&[(String, Covers)]> {
        let Some(last) = ids.num_terms().checked_sub(1) else { return Ok(&[]) };
        let (mut lowest, mut highest) = (Vec::new(), Vec::new());
        let known =
            ids.ord_to_term(0, &mut lowest)? && ids.ord_to_term(last as u64, &mut highest)?;
        if !known {
            return Ok(&self.targets);
        }
        let from = self.targets.partition_point(|(id, _)| id.as_bytes() < &*lowest);
        let to = self.targets.partition_point(|(id, _)| id.as_bytes() <= &*highest);
        Ok(self.targets.get(from..to).unwrap_or_default())
    }

    /// In the order of the ids, not of the documents.
    fn docs(&self, segment: &SegmentReader) -> tantivy::Result<Vec<DocId>> {
        let index = segment.inverted_index(self.id)?;
        let mut versions = None;
        let mut docs = Vec::new();
        for (id, covers) in self.targets_within(index.terms())? {
            let Some(term) = index.terms().get(id)? else { continue };
            let mut found = index.read_postings_from_terminfo(&term, IndexRecordOption::Basic)?;
            while found.doc() != TERMINATED {
                if covers.is_everything() {
                    docs.push(found.doc());
                } else {
                    let column = match &mut versions {
                        Some(column) => column,
                        none => none.insert(version_column(segment)?),
                    };
                    if covers.includes_piece(version_in(column.as_ref(), found.doc())) {
                        docs.push(found.doc());
                    }
                }
                found.advance();
            }
        }
        Ok(docs)
    }
}

/// The column of versions; none if no document of the segment has one.
pub(crate) fn version_column(segment: &SegmentReader) -> tantivy::Result<Option<Column<u64>>> {
    Ok(segment.fast_fields().u64_lenient(VERSION)?.map(|(column, _)| column))
}

/// The document's version; none if it has none of ours.
pub(crate) fn version_in(column: Option<&Column<u64>>, doc: DocId) -> Option<Version> {
    Version::new(column?.first(doc)?).ok()
}

impl Query for Doomed {
    fn weight(&self, _: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(self.clone()))
    }
}

impl Weight for Doomed {
    fn scorer(&self, segment: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let mut docs = BitSet::with_max_value(segment.max_doc());
        for doc in self.docs(segment)? {
            docs.insert(doc);
        }
        Ok(Box::new(ConstScorer::new(BitSetDocSet::from(docs), boost)))
    }

    fn for_each_no_score(
        &self,
        segment: &SegmentReader,
        each: &mut dyn FnMut(&[DocId]),
    ) -> tantivy::Result<()> {
        each(&self.docs(segment)?);
        Ok(())
    }

    fn explain(&self, _: &SegmentReader, _: DocId) -> tantivy::Result<Explanation> {
        Err(TantivyError::InvalidArgument("a deletion has no score".into()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tantivy::schema::{STRING, Schema};
    use tantivy::{Index, IndexWriter, doc};

    use super::*;

    #[test]
    fn the_first_and_the_last_id_of_a_segment_are_found_and_nothing_outside_is_asked_for() {
        let mut schema = Schema::builder();
        let id = schema.add_text_field("id", STRING);
        let index = Index::create_in_ram(schema.build());
        let mut writer: IndexWriter = index.writer_with_num_threads(1, 15_000_000).unwrap();
        for name in ["b", "c", "d"] {
            writer.add_document(doc!(id => name)).unwrap();
        }
        writer.commit().unwrap();
        let searcher = index.reader().unwrap().searcher();
        let segment = searcher.segment_reader(0);
        let targets = ["e", "d", "c", "bb", "b", "a"];
        let targets = targets.map(|name| (name.to_owned(), Covers::EVERYTHING)).to_vec();
        let doomed = Doomed::new(id, targets);
        let ids = segment.inverted_index(id).unwrap();
        let within = doomed.targets_within(ids.terms()).unwrap();
        let within: Vec<_> = within.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(within, ["b", "bb", "c", "d"]);
        assert_eq!(doomed.docs(segment).unwrap(), [0, 1, 2]);
    }
}
