//! What two destinations lose by a third that hangs or fails: their rates, with it and without it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use cenotaph::pipeline::turn::MakeConnector;
use cenotaph::supervisor::DestinationPlan;
use cenotaph_conformance::{Call, Faults, Faulty, Mode};
use cenotaph_connector::{Connector, Fault, Owner};

use crate::data::{Keys, Log, Shape, write_log};
use crate::report::{Figure, Spread, Target, Value, median_seconds};
use crate::world::{self, TantivyWay, World};
use crate::{Plan, say};

const GOOD: [&str; 2] = ["search", "cache"];
const THIRD: &str = "third";
const TEXT_BYTES: usize = 800;

/// What the third destination does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Third {
    Absent,
    Hangs,
    Fails,
}

impl Third {
    /// What happens to its writes.
    fn mode(self) -> Mode {
        match self {
            Third::Absent => Mode::Pass,
            Third::Hangs => Mode::Hang,
            Third::Fails => {
                Mode::Fail(Fault::retriable(Owner::Destination, "it is down", "bring it up"))
            }
        }
    }
}

const ALL: [Third; 3] = [Third::Absent, Third::Hangs, Third::Fails];

type Times = BTreeMap<(Third, String), Vec<Duration>>;

/// Measures the two good destinations beside each kind of third one.
pub async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let shape = Shape {
        changes: (plan.changes / 15).max(1_000),
        keys: Keys::New,
        text_bytes: TEXT_BYTES,
        deletes_percent: 0,
        seed: plan.seed ^ 7,
    };
    let log = write_log(&folder.path().join("docs.jsonl"), &shape)?;
    let mut times = Times::new();
    for pair in 0..plan.pairs {
        say(&format!("isolation: pair {} of {}", pair + 1, plan.pairs));
        for turn in 0..ALL.len() {
            let third = ALL[(turn + pair) % ALL.len()];
            for (name, took) in run(third, &log, folder.path()).await? {
                times.entry((third, name)).or_default().push(took);
            }
        }
    }
    let bad = [(Third::Hangs, "hangs"), (Third::Fails, "fails")];
    Ok(bad
        .into_iter()
        .flat_map(|(third, word)| GOOD.map(|name| figure(&times, third, word, name, &log)))
        .collect())
}

async fn run(third: Third, log: &Log, folder: &Path) -> anyhow::Result<BTreeMap<String, Duration>> {
    let dir = tempfile::tempdir_in(folder)?;
    let [index, cache] = GOOD;
    let mut destinations =
        vec![world::tantivy(index, TantivyWay::default())?, world::memory(cache)];
    destinations.extend((third != Third::Absent).then(|| world::memory(THIRD)));
    let mut plan = world::plan(&log.path, dir.path(), &destinations)?;
    let faults = Faults::default();
    faults.always(Call::Apply, third.mode());
    let spoilt = |destination: DestinationPlan| match &*destination.settings.name {
        THIRD => spoil(destination, &faults),
        _ => destination,
    };
    plan.destinations = plan.destinations.into_iter().map(spoilt).collect();
    let world = World::start(plan).await?;
    let arrived = world.arrived(&GOOD, log.bytes).await?;
    // Else the worker would wait for what hangs, until it gives up.
    faults.clear();
    world.stop().await?;
    Ok(arrived)
}

/// Makes a destination fail to a script.
fn spoil(destination: DestinationPlan, faults: &Faults) -> DestinationPlan {
    let DestinationPlan { settings, make } = destination;
    let faults = faults.clone();
    let make: MakeConnector =
        Box::new(move || Ok(Box::new(Faulty::new(make()?, faults.clone())) as Box<dyn Connector>));
    DestinationPlan { settings, make }
}

fn figure(times: &Times, third: Third, word: &str, name: &str, log: &Log) -> Figure {
    let of = |third| times.get(&(third, name.to_owned())).cloned().unwrap_or_default();
    let (without, with) = (of(Third::Absent), of(third));
    let ratios = without.iter().zip(&with).map(|(a, b)| a.as_secs_f64() / b.as_secs_f64());
    let value = Value::Ratio(Spread::of(ratios.collect()));
    let rate = |times: &[Duration]| log.lines as f64 / median_seconds(times);
    let name = format!("isolation/{name} while a third {word}");
    Figure::new(name, value, Some(Target::at_least(0.95)))
        .with("changes/s without", rate(&without))
        .with("changes/s with", rate(&with))
}
