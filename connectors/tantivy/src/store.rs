//! The index as we write it.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use cenotaph_connector::{Class, Commit, Fault, Owner};
use cenotaph_core::{Control, Covers};
use tantivy::directory::{Directory, MmapDirectory};
use tantivy::indexer::IndexWriterOptions;
use tantivy::{Index, IndexWriter, TantivyDocument, TantivyError};

use crate::config::Settings;
use crate::doomed::Doomed;
use crate::faults::{fault, io_fault};
use crate::layout::Layout;
use crate::merges::Bounded;
use crate::purge::Rewrite;
use crate::queue::{Queue, Queued};
use crate::view::{control_in, loose_files};

/// Merges run beside the indexing thread; more than one at a time would only take its processor.
const MERGE_THREADS: usize = 1;

/// An open index.
pub(crate) struct Store {
    pub dir: PathBuf,
    pub index: Index,
    pub layout: Layout,
    pub settings: Settings,
    pub merges: Bounded,
    queue: Queue,
    /// Rewrites that a purge began.
    pub rewrites: Vec<Rewrite>,
    /// None after an error that killed it; the next call makes a new one.
    writer: Option<IndexWriter<Queued>>,
    /// Whether anything waits for its commit.
    dirty: bool,
    /// Whether something that waited for its commit died with a writer. The next commit says so:
    /// it must not pretend that it holds what it lost.
    lost: bool,
}

/// A document to be put, with what it took.
pub(crate) struct Fresh {
    pub id: String,
    pub document: TantivyDocument,
    pub payload_bytes: usize,
}

impl Store {
    pub(crate) fn open(dir: &Path, layout: Layout, settings: Settings) -> Result<Store, Fault> {
        let class = Class::Retriable;
        fs::create_dir_all(dir)
            .map_err(|error| io_fault(class, "the index's folder could not be made", error))?;
        let failed = |error: TantivyError| fault(class, "the index could not be opened", &error);
        let directory = MmapDirectory::open(dir).map_err(|error| failed(error.into()))?;
        let exists = Index::exists(&directory).map_err(|error| failed(error.into()))?;
        let index = if exists {
            Index::open(directory).map_err(failed)?
        } else {
            Index::create(directory, layout.schema.clone(), Default::default()).map_err(failed)?
        };
        if index.schema() != layout.schema {
            return Err(Fault::terminal(
                Owner::Operator,
                "the index was made with other [settings.fields]",
                "put the former fields back, or remove the index's folder: it is filled again",
            ));
        }
        if exists {
            undamaged(&index)?;
        }
        let merges = Bounded::new(settings.max_segment_docs);
        let mut store = Store {
            dir: dir.into(),
            index,
            layout,
            settings,
            merges,
            queue: Queue::default(),
            rewrites: Vec::new(),
            writer: None,
            dirty: false,
            lost: false,
        };
        store.writer()?;
        // A kill leaves half-written segments behind, some of them in no list of tantivy's.
        store.sweep()?;
        Ok(store)
    }

    /// The writer; a new one if the last one died.
    pub(crate) fn writer(&mut self) -> Result<&mut IndexWriter<Queued>, Fault> {
        if self.writer.is_none() {
            let options = IndexWriterOptions::builder()
                .num_worker_threads(self.settings.threads)
                .memory_budget_per_thread(self.settings.heap_bytes / self.settings.threads)
                .num_merge_threads(MERGE_THREADS)
                .build();
            let writer = self.index.writer_with_options(options).map_err(|error| {
                fault(Class::Retriable, "the index could not be opened for writing", &error)
            })?;
            writer.set_merge_policy(Box::new(self.merges.clone()));
            self.writer = Some(writer);
        }
        // It has just been made where there was none.
        self.writer.as_mut().ok_or_else(|| {
            Fault::retriable(Owner::Cenotaph, "the index has no writer", "report it")
        })
    }

    /// What stands in the last commit on disk.
    pub(crate) fn control(&self) -> Result<Option<Control>, Fault> {
        let meta = self.index.load_metas().map_err(|error| {
            fault(Class::Retriable, "the index's last commit could not be read", &error)
        })?;
        control_in(&meta)
    }

    /// Puts documents in place of those with the same ids.
    pub(crate) fn put(&mut self, documents: Vec<Fresh>) -> Result<(), Fault> {
        self.merges.pause(false);
        let id = self.layout.id;
        let mut targets = Vec::with_capacity(documents.len());
        let mut fresh = Vec::with_capacity(documents.len());
        for Fresh { id, document, payload_bytes } in documents {
            targets.push((id, Covers::EVERYTHING));
            fresh.push((document, payload_bytes));
        }
        let queue = self.queue.clone();
        self.write("documents could not be written", |writer| {
            writer.delete_query(Box::new(Doomed::new(id, targets)))?;
            queue.send(fresh, |group| writer.run(group).map(|_| ()))
        })
    }

    /// Deletes by exact id what is covered.
    pub(crate) fn remove(&mut self, targets: Vec<(String, Covers)>) -> Result<(), Fault> {
        let doomed = Doomed::new(self.layout.id, targets);
        self.write("documents could not be removed", |writer| {
            writer.delete_query(Box::new(doomed)).map(|_| ())
        })
    }

    fn write(
        &mut self,
        doing: &str,
        run: impl FnOnce(&mut IndexWriter<Queued>) -> tantivy::Result<()>,
    ) -> Result<(), Fault> {
        match run(self.writer()?) {
            Ok(()) => {
                self.dirty = true;
                Ok(())
            }
            Err(error) => {
                self.forget();
                Err(fault(Class::Retriable, doing, &error))
            }
        }
    }

    /// Drops the writer and with it whatever waited for its commit.
    fn forget(&mut self) {
        self.writer = None;
        self.rewrites.clear();
        self.lost |= self.dirty;
        self.dirty = false;
    }

    /// After anything but `Done`, what waited for this commit is dropped: whoever called applies it
    /// again, and no later commit may hold a part of it.
    pub(crate) fn commit(
        &mut self,
        control: &Control,
        expected: Option<&Control>,
    ) -> Result<Commit, Fault> {
        let answer = self.try_commit(control, expected);
        if answer != Ok(Commit::Done) {
            self.forget();
        }
        self.dirty = false;
        self.lost = false;
        answer
    }

    fn try_commit(
        &mut self,
        control: &Control,
        expected: Option<&Control>,
    ) -> Result<Commit, Fault> {
        let found = self.control()?;
        if found.as_ref() != expected {
            return Ok(Commit::Found(found));
        }
        if self.lost {
            let what = "an earlier error lost a part of what waited for this commit";
            return Err(Fault::retriable(Owner::Operator, what, "all of it is applied again"));
        }
        self.prepare(control)?;
        // tantivy syncs the folder before it renames the new meta.json into place, not after.
        self.index.directory().sync_directory().map_err(|error| {
            io_fault(Class::Uncertain, "the index's folder could not be synced", error)
        })?;
        Ok(Commit::Done)
    }

    fn prepare(&mut self, control: &Control) -> Result<(), Fault> {
        let writer = self.writer()?;
        let mut commit = writer
            .prepare_commit()
            .map_err(|error| fault(Class::Retriable, "the commit could not be prepared", &error))?;
        commit.set_payload(&control.to_text());
        commit
            .commit()
            .map(|_| ())
            .map_err(|error| fault(Class::Uncertain, "the commit was not confirmed", &error))
    }

    /// Removes the files that no segment needs: those that tantivy knows of, and those it lost
    /// sight of.
    pub(crate) fn sweep(&mut self) -> Result<(), Fault> {
        let collected = self.writer()?.garbage_collect_files().wait();
        collected.map_err(|error| {
            fault(Class::Retriable, "old files of the index could not be removed", &error)
        })?;
        // What this process is writing or has written is in this list before it is made.
        let managed: HashSet<PathBuf> = self.index.directory().list_managed_files();
        for orphan in loose_files(&self.dir, &managed)? {
            if is_segment_file(&orphan) {
                fs::remove_file(self.dir.join(orphan)).map_err(|error| {
                    io_fault(Class::Retriable, "a left-over file could not be removed", error)
                })?;
            }
        }
        Ok(())
    }

    pub(crate) fn close(mut self) -> Result<(), Fault> {
        self.merges.pause(true);
        let Some(writer) = self.writer.take() else { return Ok(()) };
        // A merge that outlived us would write into the folder of whoever opens it next.
        writer
            .wait_merging_threads()
            .map_err(|error| fault(Class::Uncertain, "the index did not close in order", &error))
    }
}

/// A flipped bit in a dictionary would hide a document from a look and from its deletion, and show it
/// to a search: nothing is believed of an index whose files do not have the checksums that tantivy
/// gave them.
fn undamaged(index: &Index) -> Result<(), Fault> {
    let damaged = index.validate_checksum().map_err(|error| {
        fault(Class::Retriable, "the checksums of the index's files could not be read", &error)
    })?;
    let Some(first) = damaged.iter().min() else { return Ok(()) };
    Err(Fault::terminal(
        Owner::Operator,
        format!("{} files of the index are damaged, {} among them", damaged.len(), first.display()),
        "remove the index's folder: it is filled again, and every deletion proved anew",
    ))
}

/// Whether the name is one that tantivy gives to a part of a segment: 32 hexadecimal digits first.
fn is_segment_file(name: &Path) -> bool {
    let name = name.to_string_lossy();
    name.split('.')
        .next()
        .is_some_and(|stem| stem.len() == 32 && stem.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
