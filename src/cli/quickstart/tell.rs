//! Tells the story: for a person as it happens, for a program at its end.

use std::io::{self, Write as _};
use std::time::Duration;

use serde::Serialize;

use crate::api::types::TombstoneView;
use crate::cli::output::Output;

/// An old update that came again.
#[derive(Debug, Serialize)]
pub(super) struct Replay {
    pub(super) refused: u64,
    pub(super) resurrections_refused: u64,
    pub(super) search: Vec<String>,
}

/// All that happened.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    pub(super) documents: usize,
    pub(super) search_before: Vec<String>,
    pub(super) closed: TombstoneView,
    pub(super) open: TombstoneView,
    pub(super) search_after: Vec<String>,
    pub(super) replay: Replay,
}

#[derive(Serialize)]
struct Ended<'a> {
    #[serde(flatten)]
    told: &'a Told,
    took_seconds: f64,
}

/// Tells it.
pub(super) struct Teller {
    output: Output,
}

impl Teller {
    pub(super) fn new(output: Output) -> Teller {
        Teller { output }
    }

    fn say(&self, lines: &[String]) -> io::Result<()> {
        if self.output == Output::Json {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        writeln!(out)
    }

    pub(super) fn filled(&self, documents: usize, query: &str, hits: &[String]) -> io::Result<()> {
        self.say(&[
            format!("1. {documents} documents went from a change log into two copies:"),
            "   search (a tantivy index) and cache (in memory).".to_owned(),
            format!("   searching for {query:?} finds: {}", list(hits)),
        ])
    }

    pub(super) fn closed(&self, view: &TombstoneView) -> io::Result<()> {
        let mut lines = vec![format!(
            "2. {}/{}/{} is deleted. Its gate is {}:",
            view.tenant,
            view.collection,
            view.object,
            view.gate.to_uppercase()
        )];
        for at in &view.destinations {
            lines.push(match &at.evidence {
                Some(_) => format!("   {:<8} confirmed", at.name),
                None => {
                    let owner = at.owner.as_deref().unwrap_or("nobody");
                    format!("   {:<8} MISSING; {owner} answers for it (held back for this demonstration)", at.name)
                }
            });
        }
        lines.push("   Whoever waits for this deletion waits on.".to_owned());
        self.say(&lines)
    }

    pub(super) fn open(
        &self,
        view: &TombstoneView,
        query: &str,
        hits: &[String],
    ) -> io::Result<()> {
        let mut lines = vec![
            "3. The cache goes on. Each copy was read back after its delete was durable."
                .to_owned(),
            format!("   The gate is {}:", view.gate.to_uppercase()),
        ];
        for at in &view.destinations {
            if let Some(evidence) = &at.evidence {
                lines.push(format!(
                    "   {:<8} {}: {}, at {}",
                    at.name, evidence.level, evidence.method, evidence.looked_at
                ));
            }
        }
        lines.push(format!("   searching for {query:?} finds: {}", list(hits)));
        self.say(&lines)
    }

    pub(super) fn replayed(&self, replay: &Replay) -> io::Result<()> {
        self.say(&[
            "4. A queue delivers the old update once more.".to_owned(),
            format!(
                "   refused: {}; resurrections prevented: {}",
                replay.refused, replay.resurrections_refused
            ),
            format!("   the search still finds: {}", list(&replay.search)),
        ])
    }

    pub(super) fn end(&self, told: &Told, took: Duration) -> anyhow::Result<()> {
        if self.output == Output::Json {
            let ended = Ended { told, took_seconds: took.as_secs_f64() };
            let mut out = io::stdout().lock();
            serde_json::to_writer_pretty(&mut out, &ended)?;
            return Ok(writeln!(out)?);
        }
        self.say(&[
            format!(
                "All of it took {:.1} s, and nothing of it is left behind.",
                took.as_secs_f64()
            ),
            String::new(),
            "Next, with the example configuration of this repository; its log must be there first:"
                .to_owned(),
            "   touch config/changes.jsonl".to_owned(),
            "   cenotaph run --config config/cenotaph.toml".to_owned(),
            "and, in another terminal, after a line that deletes it, how a deletion stands:"
                .to_owned(),
            "   cenotaph tombstone show T1/docs/D7".to_owned(),
        ])?;
        Ok(())
    }
}

fn list(hits: &[String]) -> String {
    if hits.is_empty() { "nothing".to_owned() } else { hits.join(", ") }
}
