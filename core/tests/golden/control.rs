//! The table `control.txt`: `found | expected -> state`.

use cenotaph_core::decide::{ControlState, Expected, judge_control};
use cenotaph_core::{Control, Cursors};

use crate::words::{Words, parts, stamp, unknown};

/// The right side of the case whose left side is `left`.
pub fn decide(left: &str) -> Result<String, String> {
    let columns = parts(left, '|');
    let [found, noted] = columns[..] else {
        return Err("needs found | noted".into());
    };
    let (noted, opened) = match noted.split_once(" opened ") {
        Some((noted, opened)) => {
            (noted, Some(opened.parse().map_err(|_| "opened needs a number")?))
        }
        None => (noted, None),
    };
    let noted = match noted.strip_prefix("noted ") {
        Some("none") => None,
        Some(text) => Some(stamp(text)?),
        None => return unknown(noted),
    };
    let mut knows_fact = true;
    let found = match found {
        "none" => None,
        "none unknown-fact" => {
            knows_fact = false;
            None
        }
        text => Some(control(text, &mut knows_fact)?),
    };
    let found_epoch = found.as_ref().map_or(0, |found| found.epoch);
    let opened = opened.unwrap_or(found_epoch.max(noted.map_or(0, |noted| noted.0)));
    let expected = Expected { ledger: "ours", destination: "qdrant", noted, opened, knows_fact };
    let shown = |(epoch, commit): (u64, u64)| format!("{epoch}.{commit}");
    Ok(match judge_control(found.as_ref(), &expected) {
        ControlState::Fresh => "fresh".into(),
        ControlState::Current => "current".into(),
        ControlState::Ahead { found } => format!("ahead {}", shown(found)),
        ControlState::Older { found } => format!("older {}", shown(found)),
        ControlState::Missing => "missing".into(),
        ControlState::Foreign => "foreign".into(),
        ControlState::LedgerWentBack => "ledger went back".into(),
    })
}

fn control(text: &str, knows_fact: &mut bool) -> Result<Control, String> {
    let mut words = Words::of(text);
    let (epoch, commit) = stamp(words.pop().unwrap_or_default())?;
    let mut control = Control {
        ledger: "ours".into(),
        destination: "qdrant".into(),
        epoch,
        commit,
        cursors: Cursors::new(),
        fact: 71,
        fact_hash: String::new(),
    };
    while let Some(word) = words.pop() {
        match word {
            "ledger" => control.ledger = words.after(word)?.into(),
            "destination" => control.destination = words.after(word)?.into(),
            "unknown-fact" => *knows_fact = false,
            _ => return unknown(word),
        }
    }
    Ok(control)
}
