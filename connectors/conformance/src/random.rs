//! Random sequences against a model. A failing one is cut down before it is shown.

use std::collections::BTreeMap;

use cenotaph_connector::Fence;
use cenotaph_core::ObjectKey;

use crate::bench::{Bench, everything, many, through};
use crate::harness::Harness;
use crate::report::{Stop, Verdict, broken};

const KEYS: usize = 12;
const STEPS: u64 = 40;

/// One step of a sequence; objects by number.
#[derive(Debug, Clone)]
enum Step {
    Apply(Vec<(usize, u64)>),
    /// A number and what it covers; none for everything.
    Remove(Vec<(usize, Option<u64>)>),
    Commit,
    /// A hint, after which everything is as before.
    Backlog(bool),
    Restart,
}

/// Each sequence on a folder of its own.
pub(crate) fn sequences(bench: &mut Bench<'_>) -> Verdict {
    for seed in bench.harness.random_sequences() {
        let steps = generate(seed);
        if let Err(Stop::Broken(saw)) = play(bench.harness, &steps) {
            let (steps, saw) = shrink(bench.harness, steps, saw);
            return broken(format!("seed {seed}, cut down to {steps:?}: {saw}"));
        }
    }
    Ok(())
}

fn generate(seed: u64) -> Vec<Step> {
    let mut random = SplitMix(seed);
    let mut version = 0;
    let mut steps: Vec<Step> = (0..STEPS)
        .map(|_| match random.below(9) {
            0..=2 => Step::Apply(pick(&mut random, |random, key| {
                // Mostly newer; at times the same version again. A caller never goes back.
                version += random.below(2);
                (key, version + 1)
            })),
            3 | 4 => Step::Remove(pick(&mut random, |random, key| {
                let covers = random.below(3) > 0;
                (key, covers.then(|| (version + 2).saturating_sub(random.below(6)).max(1)))
            })),
            5 | 6 => Step::Commit,
            7 => Step::Restart,
            _ => Step::Backlog(random.below(2) == 0),
        })
        .collect();
    steps.push(Step::Commit);
    steps
}

/// Some objects, each at most once.
fn pick<T>(random: &mut SplitMix, mut make: impl FnMut(&mut SplitMix, usize) -> T) -> Vec<T> {
    let chosen: Vec<usize> = (0..KEYS).filter(|_| random.below(3) == 0).collect();
    chosen.into_iter().map(|key| make(random, key)).collect()
}

/// Plays the steps and compares after each commit and restart.
fn play(harness: &dyn Harness, steps: &[Step]) -> Verdict {
    let mut bench = Bench::new(harness)?;
    let keys = many("random", KEYS)?;
    let mut now: BTreeMap<ObjectKey, u64> = BTreeMap::new();
    let mut committed = now.clone();
    // A store with a fence refuses what was ever removed; no caller writes that.
    let fenced = matches!(bench.capabilities()?.fence, Fence::Forever | Fence::For(_));
    let mut floors = [0; KEYS];
    for step in steps {
        match step {
            Step::Apply(objects) => {
                let objects: Vec<_> = objects
                    .iter()
                    .filter(|(number, version)| !fenced || *version > floors[*number])
                    .map(|&(number, version)| (&keys[number], version))
                    .collect();
                bench.apply(&objects)?;
                now.extend(objects.iter().map(|&(key, version)| (key.clone(), version)));
            }
            Step::Remove(objects) => {
                let mut removals = Vec::new();
                for &(number, covers) in objects {
                    let key = &keys[number];
                    floors[number] = floors[number].max(covers.unwrap_or(u64::MAX));
                    removals.push(match covers {
                        None => everything(key),
                        Some(covers) => through(key, covers)?,
                    });
                    if now.get(key).is_some_and(|it| covers.is_none_or(|covers| *it <= covers)) {
                        now.remove(key);
                    }
                }
                bench.remove(&removals)?;
            }
            Step::Commit => {
                bench.commit()?;
                committed = now.clone();
                bench.expect(&keys, &committed)?;
            }
            Step::Backlog(behind) => bench.call(async |it| it.backlog(*behind))?,
            Step::Restart if !harness.transactional() => {}
            Step::Restart => {
                bench.reopen()?;
                now = committed.clone();
                bench.expect(&keys, &committed)?;
            }
        }
    }
    bench.close()
}

/// Leaves out whatever the failure does not need.
fn shrink(harness: &dyn Harness, mut steps: Vec<Step>, mut saw: String) -> (Vec<Step>, String) {
    let mut at = 0;
    while at < steps.len() {
        let mut fewer = steps.clone();
        fewer.remove(at);
        match play(harness, &fewer) {
            Err(Stop::Broken(again)) => (steps, saw) = (fewer, again),
            _ => at += 1,
        }
    }
    (steps, saw)
}

/// The generator of Steele, Lea and Flood: small, and the same everywhere.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
