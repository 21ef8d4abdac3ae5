//! What shows, at a cursor, that the log is still the one that was read: which file it was, and where
//! the record before the cursor begins and how its end hashes.

use xxhash_rust::xxh3::xxh3_128;

use super::identity::Identity;

/// How much of a record's end is hashed: reading it again must stay cheap however long it was.
const TAIL_BYTES: u64 = 64 * 1024;
const FORMAT: u8 = 1;
const HEAD_LEN: usize = 1 + 8 + 8;
const LAST_LEN: usize = 8 + 8 + 16;

/// The record before a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Last {
    /// Where it begins.
    pub(super) start: u64,
    /// Where its line ends: the cursor.
    pub(super) end: u64,
    /// The hash of its tail.
    pub(super) hash: u128,
}

impl Last {
    /// Where the hashed part begins.
    pub(super) fn tail_start(&self) -> u64 {
        tail_start(self.start, self.end)
    }

    pub(super) fn tail_len(&self) -> usize {
        (self.end - self.tail_start()) as usize
    }
}

/// Where the hashed part of the line from `start` to `end` begins.
pub(super) fn tail_start(start: u64, end: u64) -> u64 {
    start.max(end.saturating_sub(TAIL_BYTES))
}

/// Tells changed bytes from unchanged ones; it need not keep anyone from forging them.
pub(super) fn hash(tail: &[u8]) -> u128 {
    xxh3_128(tail)
}

/// What is journalled beside a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Proof {
    pub(super) identity: Identity,
    pub(super) last: Option<Last>,
}

impl Proof {
    /// Whether it speaks of this file. Device numbers are given anew at a boot or a mount on some file
    /// systems, so the inode counts, and the record before the cursor.
    pub(super) fn is_of(&self, identity: Identity) -> bool {
        self.identity.inode == identity.inode
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_LEN + LAST_LEN);
        bytes.push(FORMAT);
        bytes.extend_from_slice(&self.identity.device.to_be_bytes());
        bytes.extend_from_slice(&self.identity.inode.to_be_bytes());
        if let Some(last) = self.last {
            bytes.extend_from_slice(&last.start.to_be_bytes());
            bytes.extend_from_slice(&last.end.to_be_bytes());
            bytes.extend_from_slice(&last.hash.to_be_bytes());
        }
        bytes
    }

    /// None where there is no proof.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn decode(bytes: &[u8]) -> Result<Option<Proof>, &'static str> {
        const FOREIGN: &str = "the proof is not one of a file";
        if bytes.is_empty() {
            return Ok(None);
        }
        let rest = bytes.strip_prefix(&[FORMAT]).ok_or(FOREIGN)?;
        let (device, rest) = rest.split_first_chunk().ok_or(FOREIGN)?;
        let (inode, rest) = rest.split_first_chunk().ok_or(FOREIGN)?;
        let identity =
            Identity { device: u64::from_be_bytes(*device), inode: u64::from_be_bytes(*inode) };
        if rest.is_empty() {
            return Ok(Some(Proof { identity, last: None }));
        }
        let (start, rest) = rest.split_first_chunk().ok_or(FOREIGN)?;
        let (end, rest) = rest.split_first_chunk().ok_or(FOREIGN)?;
        let hash: &[u8; 16] = rest.try_into().map_err(|_| FOREIGN)?;
        let last = Last {
            start: u64::from_be_bytes(*start),
            end: u64::from_be_bytes(*end),
            hash: u128::from_be_bytes(*hash),
        };
        Ok(Some(Proof { identity, last: Some(last) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_comes_back_as_it_was_and_a_damaged_one_is_refused() {
        let identity = Identity { device: 7, inode: u64::MAX };
        let last = Last { start: 5, end: 1 << 40, hash: 3 };
        for last in [None, Some(last)] {
            let proof = Proof { identity, last };
            let bytes = proof.encode();
            assert_eq!(Proof::decode(&bytes), Ok(Some(proof)));
            for length in 1..bytes.len() {
                if length != HEAD_LEN {
                    assert!(Proof::decode(&bytes[..length]).is_err(), "{length} bytes");
                }
            }
        }
        assert_eq!(Proof::decode(b""), Ok(None));
        assert!(Proof::decode(&[9; HEAD_LEN]).is_err());
    }

    #[test]
    fn only_the_end_of_a_long_record_is_hashed() {
        let last = |start, end| Last { start, end, hash: 0 };
        assert_eq!(last(10, 30).tail_start(), 10);
        assert_eq!(last(10, 10 + TAIL_BYTES + 1).tail_start(), 11);
        assert_eq!(last(0, u64::MAX).tail_len() as u64, TAIL_BYTES);
    }

    #[test]
    fn a_device_that_was_numbered_anew_is_no_other_file() {
        let proof = Proof { identity: Identity { device: 1, inode: 2 }, last: None };
        assert!(proof.is_of(Identity { device: 9, inode: 2 }));
        assert!(!proof.is_of(Identity { device: 1, inode: 3 }));
    }
}
