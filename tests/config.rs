//! The configuration: the examples are sound, and what is wrong is told all at once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

use cenotaph::config::Config;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Compares what is told of a broken configuration with the text kept beside it. `UPDATE_EXPECT=1`
/// writes it anew.
fn told(name: &str) {
    let folder = root().join("tests/testdata/config").join(name);
    let errors = Config::load(&folder.join("cenotaph.toml")).expect_err("it is broken");
    let text = errors.to_string().replace(&format!("{}/", folder.display()), "");
    let expected = folder.join("expected.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&expected, &text).unwrap();
    }
    let expected = std::fs::read_to_string(expected).unwrap_or_default();
    assert_eq!(text, expected, "what is told of {name} has changed");
}

#[test]
fn everything_that_is_wrong_with_a_file_is_told_at_once() {
    told("broken");
}

#[test]
fn what_only_shows_between_files_is_told_too() {
    told("unsound");
}

#[test]
fn the_examples_are_sound() {
    let config = Config::load(&root().join("config/cenotaph.toml")).unwrap();
    let names: Vec<_> = config
        .destinations
        .iter()
        .map(|it| (&*it.pipeline.name, &*it.pipeline.connector))
        .collect();
    assert_eq!(names, [("cache", "memory"), ("search", "tantivy")]);
    assert!(config.rules.collections.contains_key("docs"));
    assert!(config.api.listen.ip().is_loopback());
}

#[test]
fn a_file_that_is_not_there_is_said() {
    let errors = Config::load(Path::new("/nowhere/cenotaph.toml")).expect_err("there is none");
    assert!(errors.0.len() <= 2, "{errors}");
    assert!(errors.to_string().contains("/nowhere/cenotaph.toml"), "{errors}");
}

#[test]
fn values_come_from_the_environment_and_secrets_are_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cenotaph.toml");
    std::fs::create_dir(folder.path().join("destinations")).unwrap();
    std::fs::write(
        &path,
        "[source]\nkind = \"file\"\npath = \"${LOG:usual.jsonl}\"\n[collections.docs]\n",
    )
    .unwrap();
    let destination = "connector = \"memory\"\ncollections = [\"docs\"]\nowner = \"${OWNER}\"\n";
    std::fs::write(folder.path().join("destinations/cache.toml"), destination).unwrap();
    let with = |name: &str| (name == "OWNER").then(|| "team@example.org".to_owned());
    let config = Config::load_with(&path, &with).unwrap();
    assert_eq!(config.source.path, folder.path().join("usual.jsonl"));
    assert_eq!(config.destinations[0].pipeline.owner, "team@example.org");
    let errors = Config::load_with(&path, &|_| None).expect_err("OWNER is not set");
    assert!(errors.to_string().contains("OWNER"), "{errors}");

    std::fs::write(folder.path().join("secret"), "s3cret").unwrap();
    let destination = format!("{destination}[settings]\nsnapshot = \"${{file:secret}}\"\n");
    std::fs::write(folder.path().join("destinations/cache.toml"), destination).unwrap();
    let errors = Config::load_with(&path, &with).expect_err("a switch is no text");
    assert!(!errors.to_string().contains("s3cret"), "{errors}");
}
