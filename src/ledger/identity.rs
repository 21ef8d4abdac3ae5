//! Who this ledger is: its id, and the key that its hashes are made with. Made once.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cenotaph_core::HashKey;
use xxhash_rust::xxh3::xxh3_64;

use super::files::{FileError, failed, write_whole};

const TITLE: &str = "cenotaph identity 1";

/// The ledger's id: 16 random bytes, shown in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LedgerId(pub [u8; 16]);

impl std::fmt::Display for LedgerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl std::fmt::Debug for LedgerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LedgerId({self})")
    }
}

/// The ledger's id and hash key. Lost, every hash of the ledger is lost with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The id.
    pub ledger: LedgerId,
    /// The hash key; it never leaves the ledger.
    pub key: HashKey,
}

/// The identity could not be read or made.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// It does not say what was written.
    #[error(
        "{} is damaged: every hash of the ledger is made with the key in it, so put a copy of that \
         file back, from a backup of this ledger; cenotaph does not make another one", .0.display()
    )]
    Damaged(PathBuf),
    /// It is not there, and the rest of the ledger is.
    #[error(
        "{} is missing, and there is a journal beside it: put a copy of that file back, from a \
         backup of this ledger; cenotaph does not make another one", .0.display()
    )]
    Missing(PathBuf),
    /// There is none.
    #[error("there is no ledger in {}: name the folder of one", .0.display())]
    NoLedger(PathBuf),
    /// The system gives no randomness.
    #[error("the system gives no random bytes: {0}")]
    Random(String),
    /// The file is out of reach.
    #[error(transparent)]
    File(#[from] FileError),
}

impl Identity {
    /// A new one, of the system's randomness.
    ///
    /// # Errors
    /// [`IdentityError::Random`] if the system gives none.
    pub fn random() -> Result<Identity, IdentityError> {
        let (mut ledger, mut key) = ([0; 16], [0; 32]);
        for bytes in [&mut ledger[..], &mut key[..]] {
            getrandom::fill(bytes).map_err(|error| IdentityError::Random(error.to_string()))?;
        }
        Ok(Identity { ledger: LedgerId(ledger), key: HashKey(key) })
    }

    /// Reads it; none where there is none.
    ///
    /// # Errors
    /// [`IdentityError`] if it is damaged or out of reach.
    pub fn read(path: &Path) -> Result<Option<Identity>, IdentityError> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", path)(error).into()),
        };
        let read = std::str::from_utf8(&bytes).ok().and_then(Identity::from_text);
        read.map(Some).ok_or_else(|| IdentityError::Damaged(path.to_owned()))
    }

    /// Writes it, durably; only its owner may read it.
    ///
    /// # Errors
    /// [`IdentityError::File`] if it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), IdentityError> {
        Ok(write_whole(path, self.to_text().as_bytes())?)
    }

    fn to_text(&self) -> String {
        let ledger = to_hex(&self.ledger.0);
        let body = format!("{TITLE}\nledger {ledger}\nkey {}\n", to_hex(&self.key.0));
        format!("{body}check {:016x}\n", xxh3_64(body.as_bytes()))
    }

    /// Only what [`Identity::to_text`] makes is an identity.
    fn from_text(text: &str) -> Option<Identity> {
        let mut lines = text.lines().skip(1);
        let ledger = lines.next()?.strip_prefix("ledger ")?;
        let key = lines.next()?.strip_prefix("key ")?;
        let read = Identity { ledger: LedgerId(from_hex(ledger)?), key: HashKey(from_hex(key)?) };
        (read.to_text() == text).then_some(read)
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Outcome = Result<(), Box<dyn std::error::Error>>;

    #[test]
    fn it_comes_back_and_only_its_owner_may_read_it() -> Outcome {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("identity");
        assert!(Identity::read(&path)?.is_none());
        let identity = Identity::random()?;
        identity.write(&path)?;
        assert_eq!(Identity::read(&path)?, Some(identity));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
        }
        Ok(())
    }

    #[test]
    fn any_byte_that_changed_or_went_is_noticed() -> Outcome {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("identity");
        Identity::random()?.write(&path)?;
        let whole = fs::read(&path)?;
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, damaged)?;
            assert!(matches!(Identity::read(&path), Err(IdentityError::Damaged(_))), "{at}");
            fs::write(&path, &whole[..at])?;
            assert!(matches!(Identity::read(&path), Err(IdentityError::Damaged(_))), "{at}");
        }
        Ok(())
    }
}
