//! Keys that have broken real systems.

use cenotaph_core::{Generation, ObjectKey};

/// Object ids with every awkward character and length.
const AWKWARD: &[&str] = &[
    "plain",
    " leading and trailing ",
    "a",
    "A",
    "a-b c/D",
    "a/b",
    "a//b",
    "/",
    "~",
    "a~2",
    "a%7E2",
    "%",
    "%00",
    "\0",
    "nul\0inside",
    "line\nbreak",
    "line",
    "tab\tand\rreturn",
    "\"double\" and 'single'",
    "back\\slash",
    "{json: [1]}",
    "a:b OR *:*",
    "_id",
    "*",
    "?",
    "-1",
    "0",
    "00",
    "1e3",
    "null",
    "true",
    "../../etc/passwd",
    ".",
    "..",
    "id-1",
    "id-10",
    "id-100",
    "the",
    "The",
    "straße",
    "strasse",
    "é",
    "e\u{301}",
    "\u{202e}rtl",
    "שלום",
    "😀",
    "👨\u{200d}👩\u{200d}👧",
    "\u{feff}bom",
    "\u{ffff}",
    "\u{10ffff}",
];

/// Object keys with every awkward character and length, all of them different; generations 1 and 2
/// of some, and ids that differ only behind their 4,000th byte.
#[must_use]
pub fn awkward_keys() -> Vec<ObjectKey> {
    let mut keys: Vec<ObjectKey> = AWKWARD.iter().filter_map(|name| key(name, 1)).collect();
    keys.extend(["plain", "a", "a~2", "~"].iter().filter_map(|name| key(name, 2)));
    keys.extend(key("a", u32::MAX));
    keys.extend([4095, 4096].iter().filter_map(|&length| key(&"x".repeat(length), 1)));
    keys.extend(key(&format!("{}y", "x".repeat(4095)), 1));
    // Each byte of it is encoded as three.
    keys.extend(key(&"/".repeat(4096), 1));
    // The same names, split in other places.
    let split = [("a", "b/c", "d"), ("a/b", "c", "d"), ("a", "b", "c/d"), ("a%2Fb", "c", "d")];
    keys.extend(split.iter().filter_map(|&(tenant, collection, object)| {
        ObjectKey::new(tenant, collection, object, Generation::FIRST).ok()
    }));
    keys
}

/// An object of the suite's own tenant and collection.
pub(crate) fn key(object: &str, generation: u32) -> Option<ObjectKey> {
    ObjectKey::new("T1", "docs", object, Generation(generation)).ok()
}
