//! The table `confirm.txt`: `finding | circumstances -> judgement`.

use cenotaph_core::decide::{Finding, Judgement, LookContext, confirm};
use cenotaph_core::{Covers, EvidenceLevel, Version};

use crate::words::{Words, covers, number, parts, stamp, unknown, version};

/// The right side of the case whose left side is `left`.
pub fn decide(left: &str) -> Result<String, String> {
    let columns = parts(left, '|');
    let [finding, circumstances] = columns[..] else {
        return Err("needs finding | circumstances".into());
    };
    let finding = match finding.split_once(' ').unwrap_or((finding, "")) {
        ("gone", "") => Finding::Gone,
        ("acknowledged", "") => Finding::Acknowledged,
        ("unknown", "") => Finding::Unknown,
        ("present", "unversioned") => Finding::Present { oldest: None },
        ("present", word) => Finding::Present { oldest: version(word)? },
        (word, _) => return unknown(word),
    };
    let mut look = usual()?;
    for clause in parts(circumstances, ',') {
        change(&mut look, clause)?;
    }
    Ok(match confirm(&finding, &look) {
        Judgement::Confirmed => "confirmed".into(),
        Judgement::StillPresent => "still present".into(),
        Judgement::Waits(reason) => format!("waits {}", reason.word()),
    })
}

fn usual() -> Result<LookContext, String> {
    let version = Version::new(5).map_err(|error| error.to_string())?;
    Ok(LookContext {
        pending: true,
        current_epoch: 3,
        look_epoch: 3,
        removed_at: Some((3, 5)),
        seen: Some((3, 5)),
        keeps_control: true,
        required: EvidenceLevel::Absent,
        reached: EvidenceLevel::Absent,
        late_write_possible: false,
        covers: Covers::through(version),
        reopened: false,
    })
}

fn change(look: &mut LookContext, clause: &str) -> Result<(), String> {
    let mut words = Words::of(clause);
    match words.pop().unwrap_or_default() {
        "as-usual" => {}
        "not-owed" => look.pending = false,
        "epoch-now" => look.current_epoch = number(words.after("epoch-now")?)?,
        "look-of-epoch" => look.look_epoch = number(words.after("look-of-epoch")?)?,
        "not-removed" => look.removed_at = None,
        "removed-at" => look.removed_at = Some(stamp(words.after("removed-at")?)?),
        "saw" => {
            let word = words.after("saw")?;
            look.seen = if word == "none" { None } else { Some(stamp(word)?) };
        }
        "keeps-none" => look.keeps_control = false,
        "needs" => look.required = level(words.after("needs")?)?,
        "reached" => look.reached = level(words.after("reached")?)?,
        "late-write" => look.late_write_possible = true,
        "covers" => look.covers = covers(words.after("covers")?)?,
        "reopened" => look.reopened = true,
        word => return unknown(word),
    }
    words.pop().map_or(Ok(()), unknown)
}

fn level(word: &str) -> Result<EvidenceLevel, String> {
    let levels = [EvidenceLevel::Acknowledged, EvidenceLevel::Absent, EvidenceLevel::Purged];
    levels.into_iter().find(|level| level.word() == word).map_or_else(|| unknown(word), Ok)
}
