//! The commands that ask the running worker.

use std::process::ExitCode;
use std::time::Duration;

use bytestring::ByteString;
use cenotaph_core::{Generation, ObjectKey, parse_record_key};

use super::args::{
    BarrierCommand, DestinationCommand, ObjectArgs, QuarantineCommand, TombstoneCommand,
};
use super::client::{Client, NoAnswer, Waited, parameter, segment};
use super::exit::Exit;
use super::output::Output;
use super::render;
use crate::api::types::{
    BarrierRequestBody, BarrierView, DestinationView, Page, QuarantineView, ScopeView, StatusView,
    TombstoneView,
};

/// Why a command did not do it.
#[derive(Debug)]
pub enum Refused {
    /// The words of the command are off.
    Usage(String),
    /// No answer.
    NoAnswer(NoAnswer),
    /// Standard output is gone.
    Output(std::io::Error),
}

impl From<NoAnswer> for Refused {
    fn from(none: NoAnswer) -> Refused {
        Refused::NoAnswer(none)
    }
}

impl From<std::io::Error> for Refused {
    fn from(error: std::io::Error) -> Refused {
        Refused::Output(error)
    }
}

impl Refused {
    /// Says it, and is the exit code.
    #[must_use]
    pub fn say(&self) -> ExitCode {
        match self {
            Refused::Usage(what) => Exit::Usage.say(what),
            Refused::NoAnswer(none) => none.exit().say(&none.to_string()),
            Refused::Output(error) => Exit::Failed.say(&format!("cannot print: {error}")),
        }
    }
}

type Outcome = Result<ExitCode, Refused>;

/// A worker, and how to print what it answers.
pub struct Asker {
    client: Client,
    output: Output,
}

impl Asker {
    /// Asks the worker at `server`.
    ///
    /// # Errors
    /// If there is no HTTP client.
    pub fn new(server: &str, output: Output) -> Result<Asker, Refused> {
        Ok(Asker { client: Client::new(server)?, output })
    }

    /// `status`.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn status(&self) -> Outcome {
        let status: StatusView = self.client.get("/v1/status").await?;
        self.output.print(&status, render::status)?;
        Ok(Exit::Done.into())
    }

    /// `tombstone …`.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn tombstone(&self, command: TombstoneCommand) -> Outcome {
        match command {
            TombstoneCommand::Show(object) => {
                let view: TombstoneView = self.client.get(&object_path(&object)?).await?;
                self.output.print(&view, render::tombstone)?;
                Ok(Exit::Done.into())
            }
            TombstoneCommand::List { destination, owner, tenant, limit } => {
                let query = [
                    parameter("destination", destination.as_deref()),
                    parameter("owner", owner.as_deref()),
                    parameter("tenant", tenant.as_deref()),
                ];
                let path = format!("/v1/tombstones?{}limit={limit}", query.concat());
                let page: Page<TombstoneView> = self.client.get(&path).await?;
                self.output.print(&page, render::tombstones)?;
                Ok(Exit::Done.into())
            }
            TombstoneCommand::Wait { object, timeout } => {
                let path = object_path(&object)?;
                self.wait(&path, timeout, |view: &TombstoneView| !view.blocked, render::tombstone)
                    .await
            }
        }
    }

    /// `barrier …`.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn barrier(&self, command: BarrierCommand) -> Outcome {
        match command {
            BarrierCommand::Create { name, tenant, collection, parent } => {
                let scope = tenant.map(|tenant| ScopeView { tenant, collection, parent });
                let body = BarrierRequestBody { name, scope };
                let view: BarrierView = self.client.post("/v1/barriers", &body).await?;
                self.output.print(&view, render::barrier)?;
                Ok(Exit::Done.into())
            }
            BarrierCommand::Show { name } => {
                let path = format!("/v1/barriers/{}", segment(&name));
                let view: BarrierView = self.client.get(&path).await?;
                self.output.print(&view, render::barrier)?;
                Ok(Exit::Done.into())
            }
            BarrierCommand::List => {
                let page: Page<BarrierView> = self.client.get("/v1/barriers?limit=1000").await?;
                self.output.print(&page, render::barriers)?;
                Ok(Exit::Done.into())
            }
            BarrierCommand::Wait { name, timeout } => {
                let path = format!("/v1/barriers/{}", segment(&name));
                let released = |view: &BarrierView| view.state == "RELEASED";
                self.wait(&path, timeout, released, render::barrier).await
            }
        }
    }

    /// `destination …`.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn destination(&self, command: DestinationCommand) -> Outcome {
        match command {
            DestinationCommand::List => {
                let views: Vec<DestinationView> = self.client.get("/v1/destinations").await?;
                self.output.print(&views, |views| render::destinations(views))?;
            }
            DestinationCommand::Show { name } => {
                let path = format!("/v1/destinations/{}", segment(&name));
                let view: DestinationView = self.client.get(&path).await?;
                self.output.print(&view, render::destination)?;
            }
        }
        Ok(Exit::Done.into())
    }

    /// `quarantine …`.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn quarantine(&self, command: QuarantineCommand) -> Outcome {
        match command {
            QuarantineCommand::List => {
                let page: Page<QuarantineView> =
                    self.client.get("/v1/quarantine?limit=1000").await?;
                self.output.print(&page, render::quarantine)?;
                Ok(Exit::Done.into())
            }
        }
    }

    async fn wait<T: serde::de::DeserializeOwned + serde::Serialize>(
        &self,
        path: &str,
        timeout: Duration,
        open: impl Fn(&T) -> bool,
        render: impl FnOnce(&T) -> String,
    ) -> Outcome {
        match self.client.wait(path, timeout, open).await? {
            Waited::Open(view) => {
                self.output.print(&view, render)?;
                Ok(Exit::Done.into())
            }
            Waited::Blocked(Some(view)) => {
                self.output.print(&view, render)?;
                Ok(Exit::Blocked.say("still blocked when the time was up"))
            }
            Waited::Blocked(None) => {
                Ok(Exit::Blocked.say("there was nothing of this name when the time was up"))
            }
        }
    }
}

fn object_path(object: &ObjectArgs) -> Result<String, Refused> {
    let key = object_key(&object.key).map_err(Refused::Usage)?;
    let generation = object.generation.unwrap_or(key.generation.0);
    let parts = [&*key.tenant, &*key.collection, &*key.object];
    let version = object.min_version.map(|version| version.to_string());
    let query = [
        parameter("event_id", object.event.as_deref()),
        parameter("min_version", version.as_deref()),
    ];
    let query = query.concat();
    // No client sends a path with such a part as it is.
    if parts.iter().any(|part| matches!(*part, "." | "..")) {
        let [tenant, collection, object] = parts.map(segment);
        let name = format!("tenant={tenant}&collection={collection}&object={object}");
        return Ok(format!("/v1/tombstone?{name}&{query}generation={generation}"));
    }
    let path = parts.map(segment).join("/");
    Ok(format!("/v1/tombstones/{path}?{query}generation={generation}"))
}

/// A record key; or, where it is none, three parts in which `%XX` stands for a byte all the same.
fn object_key(text: &str) -> Result<ObjectKey, String> {
    if let Ok(key) = parse_record_key(text) {
        return Ok(key);
    }
    let parts: Vec<&str> = text.split('/').collect();
    match parts[..] {
        [tenant, collection, object] => {
            let [tenant, collection, object] = [tenant, collection, object].map(decoded);
            ObjectKey::new(tenant?, collection?, object?, Generation::FIRST)
                .map_err(|error| format!("{text:?} is no object: {error}"))
        }
        _ => Err(format!(
            "{text:?} is no object: write tenant/collection/object, and percent-encode a \"/\" \
             inside a part"
        )),
    }
}

/// A part as it was typed: never taken for another object's name because it is half encoded.
fn decoded(part: &str) -> Result<ByteString, String> {
    let mut rest = part;
    while let Some(at) = rest.find('%') {
        let digits = rest.get(at + 1..at + 3).unwrap_or_default();
        if digits.len() != 2 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(format!("{part:?}: write %25 where a \"%\" stands for itself"));
        }
        rest = &rest[at + 3..];
    }
    match percent_encoding::percent_decode_str(part).decode_utf8() {
        Ok(text) => Ok(ByteString::from(text.into_owned())),
        Err(_) => Err(format!("{part:?}: what its %XX stand for is no UTF-8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_encoded_key_names_the_object_that_it_says() {
        let object = |text: &str| object_key(text).map(|key| key.object.to_string());
        for (text, expected) in [
            ("shop/products/D7", "D7"),
            ("shop/products/a%2Fb%20%7E%C3%B6", "a/b ~ö"),
            ("shop/products/a%2Fb %7Eö", "a/b ~ö"),
            ("shop/products/a%2Fb+c", "a/b+c"),
            ("shop/products/100%25", "100%"),
            ("shop/products/a:b", "a:b"),
        ] {
            assert_eq!(object(text).as_deref(), Ok(expected), "{text}");
        }
        for text in ["shop/products/100%", "shop/products/a%2", "shop/products/%ff", "shop/D7"] {
            assert!(object(text).is_err(), "{text}");
        }
    }
}
