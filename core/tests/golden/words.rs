//! The words that the tables share.

use cenotaph_core::{
    Covers, Cursor, Entry, EntryFlags, EventHash, Fingerprint, NameHash, ScopeHash, State,
    TombstoneNo, Version,
};

/// The words of one clause, taken from the front.
pub struct Words<'a>(std::iter::Peekable<std::str::SplitWhitespace<'a>>);

impl<'a> Words<'a> {
    pub fn of(text: &'a str) -> Words<'a> {
        Words(text.split_whitespace().peekable())
    }

    pub fn pop(&mut self) -> Option<&'a str> {
        self.0.next()
    }

    /// The word that must follow another.
    pub fn after(&mut self, word: &str) -> Result<&'a str, String> {
        self.pop().ok_or_else(|| format!("something must follow {word:?}"))
    }

    /// Takes a word if it comes next.
    pub fn take(&mut self, word: &str) -> bool {
        self.0.next_if_eq(&word).is_some()
    }
}

pub fn unknown<T>(word: &str) -> Result<T, String> {
    Err(format!("{word:?} is no word of this table"))
}

/// The parts of a line or clause.
pub fn parts(text: &str, separator: char) -> Vec<&str> {
    text.split(separator).map(str::trim).collect()
}

/// `7` of `v7`, where `letter` is `v`.
pub fn numbered<T: std::str::FromStr>(word: &str, letter: char) -> Option<T> {
    word.strip_prefix(letter)?.parse().ok()
}

pub fn number<T: std::str::FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{word:?} is no number"))
}

pub fn version(word: &str) -> Result<Option<Version>, String> {
    match numbered(word, 'v') {
        Some(number) => Version::new(number).map(Some).map_err(|error| error.to_string()),
        None => Ok(None),
    }
}

/// Names stand for hashes: the name's letters are the hash's bytes.
pub fn hash<const N: usize>(name: &str) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
    bytes
}

/// The name that [`hash`] made the bytes from.
pub fn name(bytes: &[u8]) -> String {
    bytes.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect()
}

pub fn covers(word: &str) -> Result<Covers, String> {
    match word {
        "everything" => Ok(Covers::EVERYTHING),
        "nothing" => Ok(Covers::NOTHING),
        _ => version(word)?.map(Covers::through).map_or_else(|| unknown(word), Ok),
    }
}

pub fn shown_covers(covers: Covers) -> String {
    match covers.version() {
        Some(version) => format!("v{version}"),
        None => covers.to_string(),
    }
}

/// `10` or, with a feed epoch, `2:10`.
pub fn cursor(word: &str) -> Result<Cursor, String> {
    let (epoch, offset) = word.split_once(':').unwrap_or(("0", word));
    Ok(Cursor { epoch: number(epoch)?, offset: number(offset)? })
}

pub fn shown_cursor(cursor: Cursor) -> String {
    match cursor.epoch {
        0 => cursor.offset.to_string(),
        epoch => format!("{epoch}:{}", cursor.offset),
    }
}

/// `3.5`: epoch and commit.
pub fn stamp(word: &str) -> Result<(u64, u64), String> {
    let (epoch, commit) = word.split_once('.').ok_or(format!("{word:?} is no epoch.commit"))?;
    Ok((number(epoch)?, number(commit)?))
}

/// An entry, or `none`. See the head of `accept/terminal.txt` for the words.
pub fn entry(text: &str) -> Result<Option<Entry>, String> {
    let mut words = Words::of(text);
    let state = match words.pop() {
        Some("none") => return words.pop().map_or(Ok(None), unknown),
        Some("live") => State::Live,
        Some("removed") => State::Removed,
        other => return unknown(other.unwrap_or_default()),
    };
    let mut entry = blank(state);
    let mut erased = None;
    while let Some(word) = words.pop() {
        match word {
            "content" => entry.fingerprint = Fingerprint(hash(words.after(word)?)),
            "from" => entry.space = NameHash(hash(words.after(word)?)),
            "shared" => entry.space = NameHash::default(),
            "in" => entry.partition = number(words.after(word)?)?,
            "parent" => entry.parent = Some(ScopeHash(hash(words.after(word)?))),
            "tombstone" => entry.tombstone = Some(TombstoneNo(number(words.after(word)?)?)),
            "erased" => erased = Some(covers(words.after(word)?)?),
            "suspended" => entry.flags.suspended = true,
            "terminal" => entry.flags.terminal = true,
            "requests" => entry.flags.has_requests = true,
            "scope-restored" => entry.flags.scope_restored = true,
            "bare" => entry.flags.with_content = false,
            _ if word.starts_with('v') => entry.version = version(word)?,
            _ if word.starts_with('e') => entry.event = EventHash(hash(word)),
            _ => return unknown(word),
        }
    }
    entry.erased_through = erased.unwrap_or_else(|| usual_erasure(&entry));
    Ok(Some(entry))
}

/// What an entry is where its line says nothing else.
fn blank(state: State) -> Entry {
    let live = state == State::Live;
    Entry {
        state,
        version: None,
        event: EventHash(hash("e1")),
        fingerprint: Fingerprint(hash(if live { "A" } else { "-" })),
        space: NameHash(hash("crm")),
        parent: None,
        erased_through: Covers::NOTHING,
        partition: 0,
        tombstone: None,
        flags: EntryFlags { with_content: live, ..EntryFlags::default() },
    }
}

/// What is erased of an entry where its line does not say so.
pub fn usual_erasure(entry: &Entry) -> Covers {
    match entry.state {
        State::Live => Covers::NOTHING,
        State::Removed if entry.flags.terminal => Covers::EVERYTHING,
        State::Removed => entry.version.map_or(Covers::NOTHING, Covers::through),
    }
}

/// An entry in the words of [`entry`], without those about its last change.
pub fn shown_entry(entry: &Entry) -> String {
    let mut words = vec![match entry.state {
        State::Live => "live".to_string(),
        State::Removed => "removed".to_string(),
    }];
    words.extend(entry.version.map(|version| format!("v{version}")));
    match name(&entry.space.0).as_str() {
        "crm" => {}
        "" => words.push("shared".into()),
        space => words.push(format!("from {space}")),
    }
    words.extend(entry.parent.map(|parent| format!("parent {}", name(&parent.0))));
    words.extend(entry.tombstone.map(|number| format!("tombstone {number}")));
    if entry.erased_through != usual_erasure(entry) {
        words.push(format!("erased {}", shown_covers(entry.erased_through)));
    }
    let flags = entry.flags;
    let shown = [
        (flags.suspended, "suspended"),
        (flags.terminal, "terminal"),
        (flags.has_requests, "requests"),
        (flags.scope_restored, "scope-restored"),
        (entry.state == State::Live && !flags.with_content, "bare"),
    ];
    words.extend(shown.into_iter().filter(|(set, _)| *set).map(|(_, word)| word.to_string()));
    words.join(" ")
}
