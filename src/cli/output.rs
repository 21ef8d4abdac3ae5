//! What a command prints: a table for people, JSON for programs.

use std::io::{self, Write as _};

use clap::ValueEnum;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
}

/// The longest text of a cell, in characters.
const MAX_CELL: usize = 128;

impl Output {
    /// Prints a value as JSON, or as what `table` makes of it.
    ///
    /// # Errors
    /// An I/O error of standard output.
    pub fn print<T: Serialize>(
        self,
        value: &T,
        table: impl FnOnce(&T) -> String,
    ) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let printed = match self {
            Output::Table => writeln!(out, "{}", table(value)),
            Output::Json => serde_json::to_writer_pretty(&mut out, value)
                .map_err(io::Error::from)
                .and_then(|()| writeln!(out)),
        };
        // Whoever reads it has read enough.
        printed.or_else(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Ok(()),
            _ => Err(error),
        })
    }
}

/// A table with a head and rows.
#[must_use]
pub fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(head.iter().copied());
    for row in rows {
        table.add_row(row.iter().map(|cell| plain(cell)));
    }
    table.to_string()
}

/// A text that cannot move a terminal's cursor, and is not too long.
#[must_use]
pub fn plain(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(MAX_CELL)
        .flat_map(|it| {
            let control =
                it.is_control() || matches!(it, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            let escaped = control.then(|| it.escape_unicode());
            let kept = (!control).then_some(it);
            escaped.into_iter().flatten().chain(kept)
        })
        .collect();
    if text.chars().nth(MAX_CELL).is_some() {
        shown.push('…');
    }
    shown
}

/// Or a dash.
#[must_use]
pub fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_cannot_steer_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(plain("x\u{202e}y"), "x\\u{202e}y");
        assert_eq!(plain(&"é".repeat(200)).chars().count(), MAX_CELL + 1);
        assert_eq!(plain("D7/ü"), "D7/ü");
    }
}
