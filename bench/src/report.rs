//! What comes out: figures against their targets, as a table or as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use comfy_table::{Table, presets};
use serde::Serialize;

use crate::machine::Machine;

/// Ratios of several pairs.
#[derive(Debug, Clone, Serialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub pairs: usize,
}

impl Spread {
    pub fn of(mut ratios: Vec<f64>) -> Spread {
        ratios.sort_by(f64::total_cmp);
        Spread {
            median: median(&ratios),
            min: ratios.first().copied().unwrap_or(f64::NAN),
            max: ratios.last().copied().unwrap_or(f64::NAN),
            pairs: ratios.len(),
        }
    }
}

/// The middle of sorted numbers.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match (sorted.get(middle), sorted.len() % 2) {
        (Some(it), 1) => *it,
        (Some(it), _) => (it + sorted[middle - 1]) / 2.0,
        (None, _) => f64::NAN,
    }
}

/// The middle of seconds, for details.
pub fn median_seconds(times: &[Duration]) -> f64 {
    let mut seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
    seconds.sort_by(f64::total_cmp);
    median(&seconds)
}

/// Times in milliseconds.
#[derive(Debug, Clone, Serialize)]
pub struct Latency {
    pub count: usize,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

impl Latency {
    pub fn of(mut times: Vec<Duration>) -> Latency {
        times.sort();
        let at = |share: f64| {
            let rank = (times.len() as f64 * share).ceil() as usize;
            times.get(rank.saturating_sub(1)).map_or(f64::NAN, |it| it.as_secs_f64() * 1e3)
        };
        Latency { count: times.len(), p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1.0) }
    }
}

/// What a figure is.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// How many times as fast as what it is compared with.
    Ratio(Spread),
    /// How long something took, in milliseconds.
    Ms(Latency),
}

/// What a figure should be.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Target {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aim: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_below_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_below_ms: Option<f64>,
}

/// One figure.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    pub name: String,
    pub value: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
    /// What it was made of; the unit is in the name.
    pub details: BTreeMap<String, f64>,
}

impl Figure {
    pub fn new(name: impl Into<String>, value: Value, target: Option<Target>) -> Figure {
        let met = target.map(|target| target.is_met(&value));
        Figure { name: name.into(), value, target, met, details: BTreeMap::new() }
    }

    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: f64) -> Figure {
        self.details.insert(name.into(), value);
        self
    }
}

impl Target {
    pub fn at_least(at_least: f64) -> Target {
        Target { at_least: Some(at_least), ..Target::default() }
    }

    fn is_met(&self, value: &Value) -> bool {
        let below = |limit: Option<f64>, is: f64| limit.is_none_or(|limit| is < limit);
        match value {
            Value::Ratio(spread) => self.at_least.is_none_or(|least| spread.median >= least),
            Value::Ms(it) => below(self.p50_below_ms, it.p50) && below(self.p99_below_ms, it.p99),
        }
    }

    fn text(&self) -> String {
        let parts = [
            self.at_least.map(|it| format!(">= {it:.2}")),
            self.aim.map(|it| format!("aim {it:.2}")),
            self.p50_below_ms.map(|it| format!("p50 < {it:.0} ms")),
            self.p99_below_ms.map(|it| format!("p99 < {it:.0} ms")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// Everything that one run found.
#[derive(Debug, Serialize)]
pub struct Report {
    pub machine: Machine,
    pub changes: u64,
    pub seconds: f64,
    pub peak_mib: u64,
    pub figures: Vec<Figure>,
}

impl Report {
    /// As a table, with what each figure was made of below it.
    pub fn table(&self) -> String {
        let machine = &self.machine;
        let mut out = format!(
            "{} x {}, {} MiB, Linux {}, load before {:.2}; {} changes, {:.0} s ({:.1} \
             stolen by the host), peak {} MiB\n\n",
            machine.cores,
            machine.cpu,
            machine.memory_mib,
            machine.kernel,
            machine.load_1m,
            self.changes,
            self.seconds,
            machine.stolen_seconds,
            self.peak_mib,
        );
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        table.set_header(["figure", "measured", "min .. max", "target", ""]);
        for figure in &self.figures {
            table.add_row(row(figure));
        }
        out.push_str(&table.to_string());
        out.push_str("\n\n");
        for figure in &self.figures {
            let details = figure.details.iter();
            let details: Vec<_> =
                details.map(|(name, it)| format!("{name} {}", short(*it))).collect();
            out.push_str(&format!("{}: {}\n", figure.name, details.join(", ")));
        }
        out
    }
}

fn row(figure: &Figure) -> [String; 5] {
    let (measured, spread) = match &figure.value {
        Value::Ratio(it) => (
            format!("{:.2}", it.median),
            format!("{:.2} .. {:.2} ({} pairs)", it.min, it.max, it.pairs),
        ),
        Value::Ms(it) => (
            format!("p50 {} ms, p99 {} ms", short(it.p50), short(it.p99)),
            format!("p90 {} ms, max {} ms ({})", short(it.p90), short(it.max), it.count),
        ),
    };
    let verdict = match figure.met {
        Some(true) => "met",
        Some(false) => "MISSED",
        None => "",
    };
    let target = figure.target.map(|it| it.text()).unwrap_or_default();
    [figure.name.clone(), measured, spread, target, verdict.into()]
}

/// A number with three digits that count.
fn short(number: f64) -> String {
    match number.abs() {
        it if it >= 100.0 || it == 0.0 => format!("{number:.0}"),
        it if it >= 10.0 => format!("{number:.1}"),
        it if it >= 1.0 => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}
