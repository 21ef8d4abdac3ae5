//! `cenotaph check`: everything that can be known about a configuration without reaching anything.

use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;

use super::exit::Exit;
use super::output::{Output, table};
use crate::config::{Config, ConfigError};

#[derive(Debug, Serialize)]
struct Checked {
    file: String,
    source: String,
    ledger: String,
    listen: String,
    collections: Vec<String>,
    destinations: Vec<CheckedDestination>,
}

#[derive(Debug, Serialize)]
struct CheckedDestination {
    name: String,
    connector: String,
    collections: Vec<String>,
    confirm: &'static str,
    owner: String,
}

#[derive(Debug, Serialize)]
struct Wrong<'a> {
    errors: &'a [ConfigError],
}

/// Checks the configuration at `path`.
#[must_use]
pub fn check(path: &Path, output: Output) -> ExitCode {
    let printed = match Config::load(path) {
        Ok(config) => output.print(&checked(&config), render).map(|()| Exit::Done.into()),
        Err(errors) if output == Output::Json => {
            let wrong = Wrong { errors: &errors.0 };
            output.print(&wrong, |_| String::new()).map(|()| Exit::Usage.into())
        }
        Err(errors) => Ok(Exit::Usage.say(&errors.to_string())),
    };
    printed.unwrap_or_else(|error| Exit::Failed.say(&format!("cannot print: {error}")))
}

fn checked(config: &Config) -> Checked {
    Checked {
        file: config.file.display().to_string(),
        source: config.source.path.display().to_string(),
        ledger: config.ledger.dir.display().to_string(),
        listen: config.api.listen.to_string(),
        collections: config.rules.collections.keys().cloned().collect(),
        destinations: config
            .destinations
            .iter()
            .map(|it| CheckedDestination {
                name: it.pipeline.name.clone(),
                connector: it.pipeline.connector.clone(),
                collections: it.pipeline.collections.clone(),
                confirm: it.pipeline.confirm.word(),
                owner: it.pipeline.owner.clone(),
            })
            .collect(),
    }
}

fn render(checked: &Checked) -> String {
    let rows = checked.destinations.iter().map(|it| {
        let collections = it.collections.join(", ");
        vec![
            it.name.clone(),
            it.connector.clone(),
            collections,
            it.confirm.into(),
            it.owner.clone(),
        ]
    });
    let head = ["destination", "connector", "collections", "confirms", "owner"];
    format!(
        "{} is sound\nreads {}\nledger in {}\nlistens on {}\n{}",
        checked.file,
        checked.source,
        checked.ledger,
        checked.listen,
        table(&head, rows.collect())
    )
}
