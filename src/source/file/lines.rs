//! Finding lines in bytes and in files.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::Log;
use crate::source::FeedFault;

const BACKWARD_BYTES: u64 = 64 * 1024;

/// Where the first line in `bytes` ends: the place of its `\n`.
pub(super) fn newline(bytes: &[u8]) -> Option<usize> {
    memchr::memchr(b'\n', bytes)
}

/// How long the record is that takes up `line`, a line without its `\n`.
pub(super) fn record_len(line: &[u8]) -> usize {
    line.strip_suffix(b"\r").unwrap_or(line).len()
}

/// Fills `bytes` from `offset` on. Answers how many there were.
///
/// # Errors
/// What the file answered.
pub(super) fn read_full(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Where the last complete line ends, between `known`, where one does, and `length`.
///
/// # Errors
/// [`FeedFault`] if the log can't be read.
pub(super) fn last_end(log: &Log, known: u64, length: u64) -> Result<u64, FeedFault> {
    let mut end = length;
    while end > known {
        let start = known.max(end.saturating_sub(BACKWARD_BYTES));
        let bytes = log.read(start, (end - start) as usize)?;
        if let Some(at) = bytes.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_end_of_a_line_is_found_wherever_it_is() {
        assert_eq!(newline(b""), None);
        assert_eq!(newline(b"abc"), None);
        assert_eq!(newline(b"\n"), Some(0));
        assert_eq!(newline(b"ab\ncd\n"), Some(2));
        for length in 0..200 {
            let mut bytes = vec![b'x'; length];
            bytes.push(b'\n');
            bytes.extend_from_slice(b"y\n");
            assert_eq!(newline(&bytes), Some(length));
        }
    }

    #[test]
    fn one_carriage_return_belongs_to_the_end_of_the_line() {
        assert_eq!(record_len(b"ab\r"), 2);
        assert_eq!(record_len(b"ab\r\r"), 3);
        assert_eq!(record_len(b"\r"), 0);
        assert_eq!(record_len(b""), 0);
    }
}
