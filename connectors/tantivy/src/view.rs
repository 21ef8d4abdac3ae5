//! What stands on disk, opened anew for each look: nothing of it comes from the writer's memory.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cenotaph_connector::{Class, Fault, Held, Owner, Page};
use cenotaph_core::{Control, Covers, Version};
use tantivy::columnar::Column;
use tantivy::directory::MmapDirectory;
use tantivy::index::{IndexMeta, InvertedIndexReader, SegmentId, SegmentReader};
use tantivy::postings::TermInfo;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet, Index, ReloadPolicy, Searcher, TERMINATED};

use crate::doomed::{version_column, version_in};
use crate::faults::{fault, io_fault};
use crate::layout::ID;

/// Files of an index that hold no document.
const NOT_SEGMENTS: [&str; 4] =
    ["meta.json", ".managed.json", ".tantivy-writer.lock", ".tantivy-meta.lock"];

/// The committed index as a reader sees it.
pub(crate) struct View {
    dir: PathBuf,
    searcher: Searcher,
    meta: IndexMeta,
    parts: Vec<Part>,
}

/// One segment.
struct Part {
    segment: SegmentReader,
    ids: Arc<InvertedIndexReader>,
    versions: Option<Column<u64>>,
}

/// What an id left in the index.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Traces {
    /// The versions of the documents that can be read.
    pub alive: Vec<Option<Version>>,
    /// The segments with documents that cannot be read any more, and whose bytes are still there.
    pub dead_in: Vec<SegmentId>,
}

impl Traces {
    /// The lowest version that can be read; none in it is below everything.
    pub(crate) fn oldest(&self) -> Option<Option<Version>> {
        self.alive.iter().min().copied()
    }

    /// Whether something that the removal covers can be read.
    pub(crate) fn alive_below(&self, covers: Covers) -> bool {
        self.alive.iter().any(|version| covers.includes_piece(*version))
    }
}

impl View {
    pub(crate) fn open(dir: &Path) -> Result<View, Fault> {
        let failed = |error| fault(Class::Uncertain, "the index could not be read", &error);
        let directory = MmapDirectory::open(dir).map_err(|error| failed(error.into()))?;
        let index = Index::open(directory).map_err(failed)?;
        let Ok(id) = index.schema().get_field(ID) else { return Err(foreign()) };
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into();
        let searcher = reader.map_err(failed)?.searcher();
        let meta = index.load_metas().map_err(failed)?;
        let part = |segment: &SegmentReader| {
            let (ids, versions) = (segment.inverted_index(id)?, version_column(segment)?);
            Ok(Part { segment: segment.clone(), ids, versions })
        };
        let parts: tantivy::Result<Vec<Part>> =
            searcher.segment_readers().iter().map(part).collect();
        Ok(View { dir: dir.into(), meta, parts: parts.map_err(failed)?, searcher })
    }

    pub(crate) fn control(&self) -> Result<Option<Control>, Fault> {
        control_in(&self.meta)
    }

    /// How many segments and which commit: the name of what was looked at.
    pub(crate) fn name(&self) -> String {
        format!("commit {} in {} segments", self.meta.opstamp, self.parts.len())
    }

    pub(crate) fn docs_in(&self, segment: SegmentId) -> u32 {
        let part = self.parts.iter().find(|it| it.segment.segment_id() == segment);
        part.map_or(0, |it| it.segment.num_docs())
    }

    pub(crate) fn traces(&self, id: &str) -> Result<Traces, Fault> {
        let mut traces = Traces::default();
        let mut look = || -> tantivy::Result<()> {
            for part in &self.parts {
                if let Some(term) = part.ids.terms().get(id)? {
                    part.trace(&term, &mut traces)?;
                }
            }
            Ok(())
        };
        look().map_err(|error| fault(Class::Uncertain, "an id could not be looked up", &error))?;
        Ok(traces)
    }

    /// Files that are part of no committed segment: segments in the making, merged away, or left
    /// behind. Whatever they hold, no search shows it.
    pub(crate) fn loose_files(&self) -> Result<Vec<PathBuf>, Fault> {
        let living = self.meta.list_segment_files();
        loose_files(&self.dir, &living)
    }

    /// The ids after this one in order, with what can be read of them.
    pub(crate) fn page(&self, after: Option<&str>, limit: usize) -> Result<Page, Fault> {
        self.read_page(after, limit)
            .map_err(|error| fault(Class::Retriable, "the index could not be listed", &error))
    }

    fn read_page(&self, after: Option<&str>, limit: usize) -> tantivy::Result<Page> {
        let mut streams = Vec::new();
        for part in &self.parts {
            let range = part.ids.terms().range();
            let range = match after {
                Some(after) => range.gt(after),
                None => range,
            };
            let mut stream = range.into_stream()?;
            if stream.advance() {
                streams.push((part, stream));
            }
        }
        let mut page = Page::default();
        while let Some(id) = streams.iter().map(|(_, stream)| stream.key()).min() {
            let id = id.to_vec();
            let mut traces = Traces::default();
            for (part, stream) in &streams {
                if stream.key() == id {
                    part.trace(stream.value(), &mut traces)?;
                }
            }
            streams.retain_mut(|(_, stream)| stream.key() != id || stream.advance());
            if let Some(oldest) = traces.oldest() {
                let id = String::from_utf8_lossy(&id).into_owned();
                page.held.push(Held { id, oldest });
            }
            if page.held.len() == limit {
                page.next = page.held.last().map(|it| it.id.clone());
                break;
            }
        }
        Ok(page)
    }

    pub(crate) fn searcher(&self) -> &Searcher {
        &self.searcher
    }
}

impl Part {
    fn trace(&self, term: &TermInfo, traces: &mut Traces) -> tantivy::Result<()> {
        let mut found = self.ids.read_postings_from_terminfo(term, IndexRecordOption::Basic)?;
        let mut dead = false;
        while found.doc() != TERMINATED {
            if self.segment.is_deleted(found.doc()) {
                dead = true;
            } else {
                traces.alive.push(version_in(self.versions.as_ref(), found.doc()));
            }
            found.advance();
        }
        if dead {
            traces.dead_in.push(self.segment.segment_id());
        }
        Ok(())
    }
}

/// The control record in a commit.
pub(crate) fn control_in(meta: &IndexMeta) -> Result<Option<Control>, Fault> {
    match meta.payload.as_deref() {
        None => Ok(None),
        Some(text) => Control::from_text(text).map(Some).map_err(|_| foreign()),
    }
}

/// Files in the folder beside these that may hold documents. The temporary files by which
/// `meta.json` is replaced hold none.
pub(crate) fn loose_files(dir: &Path, living: &HashSet<PathBuf>) -> Result<Vec<PathBuf>, Fault> {
    let list = || -> std::io::Result<Vec<PathBuf>> {
        let mut loose = Vec::new();
        for entry in fs::read_dir(dir)? {
            let name = entry?.file_name();
            let text = name.to_string_lossy();
            let known = NOT_SEGMENTS.contains(&&*text) || text.starts_with(".tmp");
            if !known && !living.contains(Path::new(&name)) {
                loose.push(PathBuf::from(name));
            }
        }
        Ok(loose)
    };
    list()
        .map_err(|error| io_fault(Class::Uncertain, "the index's folder could not be read", error))
}

fn foreign() -> Fault {
    Fault::terminal(
        Owner::Operator,
        "the index in the destination's folder was not made by cenotaph",
        "give the destination a folder of its own",
    )
}
