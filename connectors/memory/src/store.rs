//! What a memory destination holds, and its snapshot on disk.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use cenotaph_core::{Control, Covers, Version};
use serde::{Deserialize, Serialize};

/// One object as it stands in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its version; none if somebody else put it there.
    pub version: Option<Version>,
    /// The parent it named.
    pub parent: Option<String>,
    /// Its payload, as received.
    pub payload: Bytes,
}

/// What is committed: the objects by id, and the control record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Store {
    pub(crate) objects: BTreeMap<String, Object>,
    pub(crate) control: Option<Control>,
}

/// A step that waits for its commit.
#[derive(Debug)]
pub(crate) enum Step {
    Put(String, Object),
    Remove(String, Covers),
}

impl Store {
    pub(crate) fn run(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Put(id, object) => {
                    self.objects.insert(id, object);
                }
                Step::Remove(id, covers) => {
                    if self.objects.get(&id).is_some_and(|it| covers.includes_piece(it.version)) {
                        self.objects.remove(&id);
                    }
                }
            }
        }
    }
}

/// The stores of this process by folder: they outlive the connector, as a server would.
static STORES: LazyLock<Mutex<HashMap<PathBuf, Handle>>> = LazyLock::new(Mutex::default);

/// A store as others see it: what is committed there, and nothing else.
#[derive(Debug, Clone, Default)]
pub struct Handle(Arc<Mutex<Option<Store>>>);

/// The store of the destination whose folder this is.
#[must_use]
pub fn handle(data_dir: &Path) -> Handle {
    locked(&STORES).entry(data_dir.to_path_buf()).or_default().clone()
}

impl Handle {
    /// The object with this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Object> {
        self.lock().as_ref()?.objects.get(id).cloned()
    }

    /// The ids of all objects, in order.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        self.lock().as_ref().map(|it| it.objects.keys().cloned().collect()).unwrap_or_default()
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().as_ref().map_or(0, |it| it.objects.len())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts an object there behind cenotaph's back, as a careless program would.
    pub fn put(&self, id: impl Into<String>, object: Object) {
        self.lock().get_or_insert_default().objects.insert(id.into(), object);
    }

    /// Loses everything, control record included, as a server does whose disk is gone.
    pub fn lose(&self) {
        *self.lock() = None;
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Store>> {
        locked(&self.0)
    }
}

/// A panic elsewhere leaves a whole store behind: every change of it is one assignment.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One line of a snapshot: the control record first, then the objects.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Control(Option<Control>),
    Object { id: String, version: Option<Version>, parent: Option<String>, payload: String },
}

/// Where the snapshot lies.
pub(crate) fn snapshot_path(data_dir: &Path) -> PathBuf {
    data_dir.join("snapshot.jsonl")
}

/// Replaces the snapshot: after this returned, a kill or a power cut finds the new one whole.
pub(crate) fn write_snapshot(data_dir: &Path, store: &Store) -> io::Result<()> {
    let fresh = data_dir.join("snapshot.tmp");
    write_file(&fresh, store).inspect_err(|_| clear_leftovers(data_dir))?;
    fs::rename(&fresh, snapshot_path(data_dir))?;
    File::open(data_dir)?.sync_all()
}

/// Removes what a write that was cut short left behind: it holds content.
pub(crate) fn clear_leftovers(data_dir: &Path) {
    // Nothing to remove is the usual case, and the next write replaces the file anyway.
    let _ = fs::remove_file(data_dir.join("snapshot.tmp"));
}

fn write_file(fresh: &Path, store: &Store) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(fresh)?);
    write_line(&mut file, &Line::Control(store.control.clone()))?;
    for (id, object) in &store.objects {
        write_line(
            &mut file,
            &Line::Object {
                id: id.clone(),
                version: object.version,
                parent: object.parent.clone(),
                payload: String::from_utf8_lossy(&object.payload).into_owned(),
            },
        )?;
    }
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

fn write_line(file: &mut impl Write, line: &Line) -> io::Result<()> {
    serde_json::to_writer(&mut *file, line)?;
    file.write_all(b"\n")
}

/// What the snapshot holds; nothing if there is none.
pub(crate) fn read_snapshot(data_dir: &Path) -> io::Result<Option<Store>> {
    let file = match File::open(snapshot_path(data_dir)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut store = Store::default();
    for line in BufReader::new(file).lines() {
        match serde_json::from_str(&line?)? {
            Line::Control(control) => store.control = control,
            Line::Object { id, version, parent, payload } => {
                let object = Object { version, parent, payload: Bytes::from(payload) };
                store.objects.insert(id, object);
            }
        }
    }
    Ok(Some(store))
}
