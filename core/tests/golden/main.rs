//! The golden tables in `core/testdata`: examples of every decision, in a form that can be read
//! and corrected without programming. A wrong line is shown with its file, line, expectation and
//! what the code decided; all wrong lines are shown at once.
//!
//! A case is one line, `what is known -> what is decided`. Lines that begin with `#` explain.

mod accept;
mod confirm;
mod control;
mod gate;
mod plan;
mod words;

use std::path::{Path, PathBuf};

/// Decides the left side of a case; answers what the right side should say.
type Decide = fn(&str) -> Result<String, String>;

struct Case {
    place: String,
    left: String,
    right: String,
}

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

/// The cases of one table. A line that is no case is answered as its error.
fn cases(path: &Path) -> Vec<Result<Case, String>> {
    let shown = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return vec![Err(format!("{}: {error}", path.display()))],
    };
    let spaced = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|(at, line)| {
            let place = format!("{shown}:{}", at + 1);
            match line.split_once("->") {
                Some((left, right)) => Ok(Case { place, left: spaced(left), right: spaced(right) }),
                None => Err(format!("{place}: a case needs ->")),
            }
        })
        .collect()
}

/// What is wrong with a case, if anything is.
fn wrong(case: Result<Case, String>, decide: Decide) -> Option<String> {
    let Case { place, left, right } = match case {
        Ok(case) => case,
        Err(error) => return Some(error),
    };
    match decide(&left) {
        Ok(got) if got == right => None,
        Ok(got) => Some(format!("{place}: {left}\n    expected: {right}\n    got:      {got}")),
        Err(error) => Some(format!("{place}: {left}\n    not understood: {error}")),
    }
}

fn check(paths: &[PathBuf], decide: Decide) {
    let mut failures = Vec::new();
    for path in paths {
        let cases = cases(path);
        if cases.is_empty() {
            failures.push(format!("{}: no case", path.display()));
        }
        failures.extend(cases.into_iter().filter_map(|case| wrong(case, decide)));
    }
    assert!(!paths.is_empty(), "no table was found");
    assert!(failures.is_empty(), "{} wrong:\n{}", failures.len(), failures.join("\n"));
}

/// Every table about accepting changes.
fn accept_tables() -> Vec<PathBuf> {
    let Ok(files) = std::fs::read_dir(testdata("accept")) else { return Vec::new() };
    let mut paths: Vec<_> = files.filter_map(|file| file.ok().map(|file| file.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "txt"));
    paths.sort();
    paths
}

#[test]
fn accepting() {
    check(&accept_tables(), accept::decide);
}

#[test]
fn every_row_of_the_verdict_table_has_a_case_in_each_lifecycle() {
    let lines = accept_tables().iter().flat_map(|path| cases(path)).collect::<Vec<_>>();
    let given: Vec<Case> = lines.into_iter().filter_map(Result::ok).collect();
    let missing = accept::missing_rows(given.iter().map(|case| case.left.as_str()));
    assert!(missing.is_empty(), "no case for:\n{}", missing.join("\n"));
    let missing = accept::missing_words(given.iter().map(|case| case.right.as_str()));
    assert!(missing.is_empty(), "no case is decided so:\n{}", missing.join("\n"));
}

#[test]
fn planning() {
    check(&[testdata("plan.txt")], plan::decide);
}

#[test]
fn highest_of_a_batch() {
    check(&[testdata("highest.txt")], plan::decide_highest);
}

#[test]
fn confirming() {
    check(&[testdata("confirm.txt")], confirm::decide);
}

#[test]
fn judging_control_records() {
    check(&[testdata("control.txt")], control::decide);
}

#[test]
fn opening_gates() {
    check(&[testdata("gate.txt")], gate::decide);
}

/// A table that no decision could fail would prove nothing.
#[test]
fn a_wrong_expectation_is_shown_with_its_place() {
    let case = |left: &str, right: &str| {
        Ok(Case { place: "x.txt:7".into(), left: left.into(), right: right.into() })
    };
    let left = "none | upsert v1 | terminal";
    assert_eq!(wrong(case(left, "accepted | live v1 | -"), accept::decide), None);
    let shown = wrong(case(left, "stale | same | -"), accept::decide).unwrap_or_default();
    for part in ["x.txt:7", "expected: stale | same | -", "got:      accepted | live v1 | -"] {
        assert!(shown.contains(part), "{shown}");
    }
    let shown = wrong(case("none | upsert w1 | terminal", ""), accept::decide).unwrap_or_default();
    assert!(shown.contains("w1"), "{shown}");
}
