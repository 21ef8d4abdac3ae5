//! Every error of a configuration at once, each with the place, the line, the cause and the fix.

use std::fmt;
use std::path::{Path, PathBuf};

use super::document::Span;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ConfigError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; 0 where the file itself is the matter.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The key, dotted.
    pub key: String,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub fix: String,
    #[serde(skip)]
    source: Option<(String, usize)>,
}

/// Everything that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl std::error::Error for ConfigErrors {}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for error in &self.0 {
            writeln!(f, "{error}")?;
        }
        match self.0.len() {
            1 => write!(f, "1 error"),
            count => write!(f, "{count} errors"),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = if self.key.is_empty() { String::new() } else { format!("{}: ", self.key) };
        writeln!(f, "error: {key}{}", self.what)?;
        let file = self.file.display();
        match &self.source {
            None => writeln!(f, "  at {file}")?,
            Some((text, width)) => {
                let (line, column) = (self.line, self.column);
                let margin = " ".repeat(line.to_string().len());
                writeln!(f, "  at {file}:{line}:{column}")?;
                writeln!(f, "  {line} | {text}")?;
                let indent = " ".repeat(column.saturating_sub(1));
                writeln!(f, "  {margin} | {indent}{}", "^".repeat((*width).max(1)))?;
            }
        }
        writeln!(f, "  fix: {}", self.fix)
    }
}

/// Gathers the errors of one file.
#[derive(Debug)]
pub(super) struct Collector<'a> {
    file: &'a Path,
    text: &'a str,
    pub(super) errors: Vec<ConfigError>,
}

impl<'a> Collector<'a> {
    pub(super) fn new(file: &'a Path, text: &'a str) -> Collector<'a> {
        Collector { file, text, errors: Vec::new() }
    }

    /// Something is wrong at a place.
    pub(super) fn at(
        &mut self,
        span: Span,
        key: &str,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let start = floor(self.text, span.start);
        let begin = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let end = self.text[start..].find('\n').map_or(self.text.len(), |at| start + at);
        let until = floor(self.text, span.end.clamp(start, end));
        let line = self.text[..start].matches('\n').count() + 1;
        let column = self.text[begin..start].chars().count() + 1;
        let width = self.text[start..until].chars().count();
        // Tabs would move the underline.
        let shown = self.text[begin..end].trim_end().replace('\t', " ");
        self.errors.push(ConfigError {
            file: self.file.to_owned(),
            line,
            column,
            key: key.to_owned(),
            what: what.into(),
            fix: fix.into(),
            source: Some((shown, width)),
        });
    }
}

fn floor(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The file itself is the matter.
pub(super) fn of_file(file: &Path, what: impl Into<String>, fix: impl Into<String>) -> ConfigError {
    ConfigError {
        file: file.to_owned(),
        line: 0,
        column: 0,
        key: String::new(),
        what: what.into(),
        fix: fix.into(),
        source: None,
    }
}
