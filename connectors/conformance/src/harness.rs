//! What the suite has to know about a connector.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use cenotaph_connector::Connector;
use cenotaph_core::{ObjectKey, Version};

/// How the suite makes a connector and looks behind its back. Only [`Harness::connector`] is
/// needed; each other answer lets it prove more. A case that lacks one is reported as skipped.
pub trait Harness: Sync {
    /// A connector for the destination whose content lives in this folder, not opened yet. The
    /// folder is fresh for each case; a second call with it means a restart. A store that lives
    /// elsewhere derives a name of its own (collection, key prefix) from the folder's path.
    fn connector(&self, folder: &Path) -> Box<dyn Connector>;

    /// The payload of an upsert: a JSON object in which `marker` stands as text.
    fn payload(&self, marker: &str) -> String {
        format!(r#"{{"title":"Of {marker}","body":"{marker} was written here","year":1969}}"#)
    }

    /// Payloads beside the usual ones (not an object, not JSON) that the connector must refuse.
    /// Each holds the text `s3cret`, which no fault may repeat.
    fn refused_payloads(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether what was applied stays invisible until `commit`. False for stores that show each
    /// write at once.
    fn transactional(&self) -> bool {
        true
    }

    /// Whether the folder is the whole store: the suite then copies it, puts an older copy back and
    /// takes it away.
    fn folder_is_the_store(&self) -> bool {
        true
    }

    /// All that a reader sees, id and version, by other means than the connector's.
    fn readable(&self, _folder: &Path) -> Option<BTreeMap<String, Option<u64>>> {
        None
    }

    /// Puts a copy of the object there behind the connector's back, while it is open; with a
    /// version or without. False if that cannot be done.
    fn plant(&self, _folder: &Path, _key: &ObjectKey, _version: Option<Version>) -> bool {
        false
    }

    /// Takes the store away underneath an open connector. False if that cannot be done.
    fn take_away(&self, folder: &Path) -> bool {
        self.folder_is_the_store() && std::fs::rename(folder, folder.with_extension("gone")).is_ok()
    }

    /// Whether these bytes stand in a file of the store. None if nobody can tell.
    fn bytes_on_disk(&self, folder: &Path, needle: &[u8]) -> Option<bool> {
        self.folder_is_the_store().then(|| crate::bench::folder_holds(folder, needle))
    }

    /// How long the store may take to make bytes go.
    fn purge_patience(&self) -> Duration {
        Duration::from_secs(30)
    }

    /// How many random sequences are run, and from which seed on.
    fn random_sequences(&self) -> std::ops::Range<u64> {
        0..24
    }
}
