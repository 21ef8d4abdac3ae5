//! Reads the files, checks them together, and makes them a [`Config`].

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use bytestring::ByteString;
use cenotaph_connector::{Destination, Factory};
use cenotaph_core::{Authority, CollectionPolicy, Rule};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::document::{self, Node};
use super::errors::{Collector, ConfigError, ConfigErrors, of_file};
use super::file::{CollectionTable, DestinationFile, RuleTable, WorkerFile};
use super::interpolate::interpolate;
use super::walk::{check, suggest};
use super::{
    ApiConfig, Config, DestinationConfig, LedgerConfig, SourceConfig, SourceKind,
    UnknownCollections,
};
use crate::envelope::Defaults;
use crate::ledger::{self, Rules};
use crate::pipeline::PipelineSettings;
use crate::registry;

/// A file that was read and checked, and the tree that says where things stand in it.
struct Checked<T> {
    value: T,
    tree: Node,
    text: String,
    path: PathBuf,
}

impl Config {
    /// Reads `cenotaph.toml` at `path` and the destinations' files beside it.
    ///
    /// # Errors
    /// Everything that is wrong with any of them.
    pub fn load(path: &Path) -> Result<Config, ConfigErrors> {
        Config::load_with(path, &|name| std::env::var(name).ok())
    }

    /// The same, with another environment.
    ///
    /// # Errors
    /// Everything that is wrong with any of the files.
    pub fn load_with(
        path: &Path,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Config, ConfigErrors> {
        let mut errors = Vec::new();
        let worker: Option<Checked<WorkerFile>> = read(path, env, &mut errors);
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let Some(worker) = worker else {
            // What is wrong with the destinations' files is told in the same go.
            for file in destination_files(&folder.join("destinations"), &mut errors) {
                let _: Option<Checked<DestinationFile>> = read(&file, env, &mut errors);
            }
            return Err(ConfigErrors(errors));
        };
        let rules = rules(&worker.value);
        let listen = listen(&worker, &mut errors);
        let data = folder.join(&worker.value.data_dir);
        let mut destinations = Vec::new();
        for file in destination_files(&folder.join(&worker.value.destinations), &mut errors) {
            let before = errors.len();
            if let Some(file) = read::<DestinationFile>(&file, env, &mut errors) {
                let made = destination(&file, &worker.value, &rules, &data, &mut errors);
                destinations.extend(made.filter(|_| errors.len() == before));
            }
        }
        let (Some(listen), true) = (listen, errors.is_empty()) else {
            return Err(ConfigErrors(errors));
        };
        Ok(assemble(path, &folder, &data, worker.value, rules, listen, destinations))
    }
}

fn read<T: DeserializeOwned + schemars::JsonSchema>(
    path: &Path,
    env: &dyn Fn(&str) -> Option<String>,
    errors: &mut Vec<ConfigError>,
) -> Option<Checked<T>> {
    // A pipe would be waited for, for ever.
    if std::fs::metadata(path).is_ok_and(|it| !it.is_file()) {
        let fix = "put a file in its place, or take it away";
        errors.push(of_file(path, "is not a plain file", fix));
        return None;
    }
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            let fix = "name the file with --config, or create it";
            errors.push(of_file(path, format!("cannot be read: {error}"), fix));
            return None;
        }
    };
    let mut collector = Collector::new(path, &text);
    let tree = match document::parse(&text) {
        Ok(tree) => Some(tree),
        Err((what, span)) => {
            collector.at(span, "", what, "correct the TOML here");
            None
        }
    };
    let checked = tree.and_then(|mut tree| {
        let schema = Value::from(schemars::schema_for!(T));
        let folder = path.parent().unwrap_or(Path::new(""));
        tree.each_text(&mut |text| interpolate(text, folder, &env), &mut |span, what| {
            collector.at(span, "", what, "give the value in that way")
        });
        check(&tree, &schema, &mut collector, "");
        if !collector.errors.is_empty() {
            return None;
        }
        match serde_json::from_value(tree.to_json()) {
            Ok(value) => Some((value, tree)),
            Err(error) => {
                let span = tree.span.clone();
                collector.at(span.start..span.start, "", error.to_string(), "correct this file");
                None
            }
        }
    });
    errors.append(&mut collector.errors);
    let path = path.to_owned();
    checked.map(|(value, tree)| Checked { value, tree, text, path })
}

impl<T> Checked<T> {
    /// Something is wrong at a dotted key.
    fn wrong(&self, key: &str, what: String, fix: String, errors: &mut Vec<ConfigError>) {
        let path: Vec<&str> = key.split('.').collect();
        let mut collector = Collector::new(&self.path, &self.text);
        collector.at(self.tree.span_of(&path), key, what, fix);
        errors.append(&mut collector.errors);
    }
}

/// Only this machine may ask: there is no token yet.
fn listen(worker: &Checked<WorkerFile>, errors: &mut Vec<ConfigError>) -> Option<SocketAddr> {
    let text = &worker.value.api.listen;
    let address = text.parse::<SocketAddr>();
    match address {
        Ok(address) if address.ip().is_loopback() => return Some(address),
        Ok(_) => worker.wrong(
            "api.listen",
            format!("{text} is not an address of this machine only, and the API asks for no token"),
            "use 127.0.0.1 or [::1], and reach it through a tunnel or a proxy that authenticates"
                .to_owned(),
            errors,
        ),
        Err(_) => worker.wrong(
            "api.listen",
            format!("{text:?} is no address"),
            "write an IP address and a port, such as \"127.0.0.1:8083\"".to_owned(),
            errors,
        ),
    }
    None
}

fn destination_files(folder: &Path, errors: &mut Vec<ConfigError>) -> Vec<PathBuf> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            let fix = "create it, with one TOML file a destination";
            errors.push(of_file(folder, format!("cannot be listed: {error}"), fix));
            return Vec::new();
        }
    };
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    files.sort();
    if files.is_empty() {
        let fix = "add one TOML file a destination, such as search.toml";
        errors.push(of_file(folder, "holds no destination", fix));
    }
    files
}

fn is_slug(name: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut bytes = name.bytes();
    bytes.next().is_some_and(word)
        && name.len() <= 63
        && bytes.all(|byte| word(byte) || byte == b'_' || byte == b'-')
}

fn destination(
    file: &Checked<DestinationFile>,
    worker: &WorkerFile,
    rules: &Rules,
    data: &Path,
    errors: &mut Vec<ConfigError>,
) -> Option<DestinationConfig> {
    let name = file.path.file_stem().and_then(|name| name.to_str()).unwrap_or("").to_owned();
    if !is_slug(&name) {
        let fix =
            "rename it: lower-case letters, digits, - and _, at most 63, a letter or digit first";
        errors.push(of_file(&file.path, format!("{name:?} is no name for a destination"), fix));
    }
    let value = &file.value;
    if worker.unknown_collections == UnknownCollections::Quarantine {
        for collection in value.collections.iter().filter(|it| !rules.collections.contains_key(*it))
        {
            let known = rules.collections.keys().map(String::as_str).collect();
            let what = format!("{collection:?} is not configured, so its changes go to quarantine");
            let fix = format!(
                "add [collections.{collection}] to the worker's file; {}",
                suggest(collection, known)
            );
            file.wrong("collections", what, fix, errors);
        }
    }
    if value.retry.initial.0 > value.retry.max.0 {
        let fix = "make retry.max at least as long as retry.initial".to_owned();
        file.wrong("retry.initial", "is longer than retry.max".to_owned(), fix, errors);
    }
    let factories = registry::factories();
    let Some(factory) = factories.iter().find(|it| it.kind() == value.connector).cloned() else {
        let known = factories.iter().map(|factory| factory.kind()).collect();
        let what = format!("there is no connector {:?}", value.connector);
        file.wrong("connector", what, suggest(&value.connector, known), errors);
        return None;
    };
    let destination =
        Destination { name: name.clone(), data_dir: data.join("destinations").join(&name) };
    let settings = Value::Object(value.settings.clone());
    connector_settings(file, &*factory, &destination, &settings, errors);
    let pipeline = pipeline(name, value, worker);
    Some(DestinationConfig { pipeline, destination, factory, settings })
}

/// Checks `[settings]` against the connector's own schema, builds the connector offline, and sees
/// that it can prove what is asked of it.
fn connector_settings(
    file: &Checked<DestinationFile>,
    factory: &dyn Factory,
    destination: &Destination,
    settings: &Value,
    errors: &mut Vec<ConfigError>,
) {
    let schema = Value::from(factory.settings_schema());
    let mut collector = Collector::new(&file.path, &file.text);
    match file.tree.get("settings") {
        Some(node) => check(node, &schema, &mut collector, "settings"),
        None => {
            let start = file.tree.span.start;
            let none = Node { span: start..start, kind: document::Kind::Table(Vec::new()) };
            check(&none, &schema, &mut collector, "settings");
        }
    }
    let before = collector.errors.len();
    errors.append(&mut collector.errors);
    if before > 0 {
        return;
    }
    match factory.build(destination.clone(), settings.clone()) {
        Err(error) => {
            let key = if error.key.is_empty() {
                "settings".into()
            } else {
                format!("settings.{}", error.key)
            };
            file.wrong(&key, error.what, "see the connector's README".to_owned(), errors);
        }
        Ok(connector) => {
            let (asked, can) = (file.value.confirm, connector.capabilities().evidence);
            if asked > can {
                let what = format!("{} cannot prove {:?}", file.value.connector, asked.word());
                file.wrong("confirm", what, format!("ask for {:?} or less", can.word()), errors);
            }
        }
    }
}

fn pipeline(name: String, file: &DestinationFile, worker: &WorkerFile) -> PipelineSettings {
    PipelineSettings {
        name,
        connector: file.connector.clone(),
        collections: file.collections.clone(),
        confirm: file.confirm,
        owner: file.owner.clone(),
        settle: file.settle.0,
        max_records: file.batch.max_records,
        max_bytes: as_usize(file.batch.max_bytes.0),
        max_wait: file.batch.max_wait.0,
        max_commit: file.batch.max_commit.0,
        retry_initial: file.retry.initial.0,
        retry_max: file.retry.max.0,
        owed_max: worker.ledger.owed_max,
    }
}

fn as_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn rules(worker: &WorkerFile) -> Rules {
    let collections: BTreeMap<String, CollectionPolicy> =
        worker.collections.iter().map(|(name, table)| (name.clone(), policy(table))).collect();
    let authority = Authority { rules: worker.authority.iter().map(rule).collect() };
    let unknown_collections = match worker.unknown_collections {
        UnknownCollections::Quarantine => ledger::UnknownCollections::Quarantine,
        UnknownCollections::Ignore => ledger::UnknownCollections::Ignore,
        UnknownCollections::Accept => ledger::UnknownCollections::Accept,
    };
    let text = format!("{collections:?}{unknown_collections:?}{authority:?}");
    let mut hash = [0; 16];
    hash.copy_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..16]);
    Rules {
        collections,
        unknown_collections,
        default_policy: CollectionPolicy::default(),
        authority,
        quarantine_max: worker.ledger.quarantine_max,
        requests_kept: worker.ledger.requests_kept.0,
        hash,
    }
}

fn policy(table: &CollectionTable) -> CollectionPolicy {
    CollectionPolicy {
        lifecycle: table.lifecycle,
        generations: table.generations,
        equal_version_delete: table.equal_version_delete,
        on_conflict: table.on_conflict,
        version_space: table.version_space,
        schemas: table.schemas.clone(),
    }
}

fn rule(table: &RuleTable) -> Rule {
    Rule {
        sources: table.sources.clone(),
        ops: table.ops.clone(),
        tenants: table.tenants.clone(),
        collections: table.collections.clone(),
        types: table.types.clone(),
    }
}

fn assemble(
    path: &Path,
    folder: &Path,
    data: &Path,
    worker: WorkerFile,
    rules: Rules,
    listen: SocketAddr,
    destinations: Vec<DestinationConfig>,
) -> Config {
    let WorkerFile { source, ledger, api, .. } = worker;
    // There is one kind; the types refuse every other word.
    let SourceKind::File = source.kind;
    let text = |text: Option<String>| text.map(ByteString::from);
    Config {
        file: path.to_owned(),
        source: SourceConfig {
            path: folder.join(source.path),
            format: source.format,
            defaults: Defaults {
                tenant: text(source.tenant),
                collection: text(source.collection),
                source: text(source.source),
            },
            max_record_bytes: as_usize(source.max_record.0),
            poll: source.poll.0,
        },
        ledger: LedgerConfig {
            dir: ledger.dir.map_or_else(|| data.join("ledger"), |dir| folder.join(dir)),
            group_max_records: ledger.group_max_records,
            cache_bytes: ledger.cache.0,
            checkpoint_objects: ledger.checkpoint_objects,
            journal_whole_bytes: ledger.journal_whole.0,
            window_bytes: ledger.window.0,
        },
        api: ApiConfig {
            listen,
            max_body_bytes: as_usize(api.max_body.0),
            max_wait: api.request_timeout.0,
            max_waiters: api.max_waiters,
        },
        rules,
        destinations,
    }
}
