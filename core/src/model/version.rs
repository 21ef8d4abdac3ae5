//! Versions and generations.

use serde::{Deserialize, Serialize};

/// A version was outside the range that every destination can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("version {0} is outside 1 to {max}", max = Version::MAX.get())]
pub struct VersionError(pub u64);

/// A number that grows per object key within one version space: 1 to 2^53-1, so that it survives
/// JSON, Lua and every destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Version(u64);

impl Version {
    /// The lowest version.
    pub const MIN: Version = Version(1);
    /// The highest version.
    pub const MAX: Version = Version((1 << 53) - 1);

    /// A version, if `number` is one.
    ///
    /// # Errors
    /// [`VersionError`] if `number` is 0 or above 2^53-1.
    pub fn new(number: u64) -> Result<Version, VersionError> {
        if (Self::MIN.0..=Self::MAX.0).contains(&number) {
            Ok(Version(number))
        } else {
            Err(VersionError(number))
        }
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for Version {
    type Error = VersionError;
    fn try_from(number: u64) -> Result<Self, Self::Error> {
        Version::new(number)
    }
}

impl From<Version> for u64 {
    fn from(version: Version) -> u64 {
        version.0
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// One existence of a re-usable external identifier: 1 and up. 0 is no generation: the ledger keeps
/// an object's floor under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Generation(pub u32);

impl Generation {
    /// The generation of a change that names none.
    pub const FIRST: Generation = Generation(1);
}

impl Default for Generation {
    fn default() -> Self {
        Generation::FIRST
    }
}

impl std::fmt::Display for Generation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_fits_in_the_integers_that_json_and_lua_keep() {
        assert_eq!(Version::new(0), Err(VersionError(0)));
        assert_eq!(Version::new(1).map(Version::get), Ok(1));
        assert_eq!(Version::new((1 << 53) - 1), Ok(Version::MAX));
        assert!(Version::new(1 << 53).is_err());
        assert_eq!(Version::MAX.get() as f64 as u64, Version::MAX.get());
    }
}
