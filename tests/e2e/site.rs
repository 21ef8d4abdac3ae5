//! A configuration folder as a user would write it, with its log and its data beside it.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::worker::{Cli, Worker};

const WORKER: &str = r#"
[source]
kind = "file"
path = "changes.jsonl"

[api]
listen = "127.0.0.1:0"
"#;

/// Fast enough that a test does not wait for a back-off.
const DESTINATION: &str = r#"
owner = "OWNER"
[batch]
max_wait = "10ms"
[retry]
initial = "20ms"
max = "200ms"
"#;

/// A folder with everything a worker needs; it goes away with this.
pub struct Site {
    dir: TempDir,
}

impl Site {
    /// A site with an empty log and these tables beside the usual ones.
    pub fn new(tables: &str) -> Site {
        Site::with_worker(&format!("{WORKER}{tables}"))
    }

    /// A site with this text as `cenotaph.toml`.
    pub fn with_worker(text: &str) -> Site {
        let dir = tempfile::Builder::new().prefix("cenotaph-e2e-").tempdir().unwrap();
        fs::create_dir(dir.path().join("destinations")).unwrap();
        fs::write(dir.path().join("cenotaph.toml"), text).unwrap();
        fs::write(dir.path().join("changes.jsonl"), "").unwrap();
        Site { dir }
    }

    /// The usual two: `search` is a tantivy index, `cache` is memory with a snapshot.
    pub fn with_both(tables: &str, collections: &[&str]) -> Site {
        let site = Site::new(tables);
        site.tantivy("search", collections);
        site.memory("cache", collections);
        site
    }

    pub fn tantivy(&self, name: &str, collections: &[&str]) {
        self.destination(name, "tantivy", collections, "");
    }

    pub fn memory(&self, name: &str, collections: &[&str]) {
        self.destination(name, "memory", collections, "[settings]\nsnapshot = true\n");
    }

    /// A destination owned by `NAME-team@example.org`.
    pub fn destination(&self, name: &str, connector: &str, collections: &[&str], tables: &str) {
        let usual = DESTINATION.replace("OWNER", &format!("{name}-team@example.org"));
        let text =
            format!("connector = \"{connector}\"\ncollections = {collections:?}\n{usual}{tables}");
        fs::write(self.path().join("destinations").join(format!("{name}.toml")), text).unwrap();
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn config(&self) -> PathBuf {
        self.path().join("cenotaph.toml")
    }

    pub fn log(&self) -> PathBuf {
        self.path().join("changes.jsonl")
    }

    pub fn ledger_dir(&self) -> PathBuf {
        self.path().join("data").join("ledger")
    }

    pub fn destination_dir(&self, name: &str) -> PathBuf {
        self.path().join("data").join("destinations").join(name)
    }

    /// Appends bytes to the log, whole lines or not.
    pub fn append(&self, text: impl AsRef<[u8]>) {
        let mut log = OpenOptions::new().append(true).open(self.log()).unwrap();
        log.write_all(text.as_ref()).unwrap();
    }

    /// Appends one record.
    pub fn record(&self, record: &Value) {
        self.append(format!("{record}\n"));
    }

    /// Starts a worker and waits until it and all its destinations are ready.
    pub fn start(&self) -> Worker {
        let worker = self.start_unready();
        worker.until("it to be ready", || (worker.get("/readyz").status == 200).then_some(()));
        worker
    }

    /// Starts a worker and waits only until it can be asked.
    pub fn start_unready(&self) -> Worker {
        Worker::start(&self.config())
    }

    /// Runs a command that needs no worker, or that is `run` itself and does not get far.
    pub fn command(&self, args: &[&str]) -> Cli {
        Cli::run(args)
    }
}

/// Copies a folder with everything in it.
pub fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// Puts the copy in the folder's place.
pub fn restore_dir(copy: &Path, folder: &Path) {
    fs::remove_dir_all(folder).unwrap();
    copy_dir(copy, folder);
}

/// Every file below a folder.
pub fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}
