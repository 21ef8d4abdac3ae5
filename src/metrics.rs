//! Every metric name, in one place. Labels are bounded: destinations, verdicts and states, never
//! tenants, keys or texts.

use std::time::Duration;

use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use crate::ledger::Counts;

const READ: &str = "cenotaph_sink_record_read_total";
const SENT: &str = "cenotaph_sink_record_send_total";
const VERDICTS: &str = "cenotaph_records_total";
const RESURRECTIONS: &str = "cenotaph_resurrections_refused_total";
const UNREADABLE_DELETIONS: &str = "cenotaph_unreadable_deletions_total";
const PENDING: &str = "cenotaph_deletions_pending";
const OLDEST: &str = "cenotaph_deletion_oldest_pending_age_seconds";
const CONFIRM: &str = "cenotaph_deletion_confirm_seconds";
const REAPPEARED: &str = "cenotaph_reappeared_total";
const BARRIERS: &str = "cenotaph_barriers";
const LAG: &str = "cenotaph_cursor_lag";
const BATCH: &str = "cenotaph_put_batch_seconds";
const SYNC: &str = "cenotaph_ledger_sync_seconds";
const LEDGER_BYTES: &str = "cenotaph_ledger_bytes";
const QUARANTINED: &str = "cenotaph_quarantined_records";
const OWED: &str = "cenotaph_owed_positions";
const LANE_FAILURES: &str = "cenotaph_lane_failures";
const WINDOW: &str = "cenotaph_window_bytes";

const SECONDS_BUCKETS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3600.0];

/// Installs the recorder of this process. What it gathers is rendered by the handle.
///
/// # Errors
/// [`BuildError`] if there is one already.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS_BUCKETS)?
        .install_recorder()?;
    describe();
    // A counter that nothing has raised yet is 0, and not absent.
    ingested(&Counts::default());
    Ok(handle)
}

fn describe() {
    describe_counter!(READ, "Records of the stream that were decided in this run of the process");
    describe_counter!(SENT, "Changes that a destination took");
    describe_counter!(
        VERDICTS,
        "Records of the stream by what became of them; adds up to the read"
    );
    describe_counter!(
        RESURRECTIONS,
        "Changes refused that would have brought a removed object back"
    );
    describe_counter!(UNREADABLE_DELETIONS, "Deletions that went to quarantine");
    describe_gauge!(PENDING, "Deletions that a destination has not confirmed");
    describe_gauge!(OLDEST, "Age of the oldest deletion that a destination has not confirmed");
    describe_histogram!(CONFIRM, "From the acceptance of a deletion to its confirmation");
    describe_counter!(REAPPEARED, "Confirmations revoked because the object was found again");
    describe_gauge!(BARRIERS, "Named barriers by state");
    describe_gauge!(LAG, "How far a destination is behind ingest, in the units of the source");
    describe_histogram!(BATCH, "Duration of a destination's commits");
    describe_histogram!(SYNC, "Duration of the journal's writes and syncs");
    describe_gauge!(LEDGER_BYTES, "Size of the ledger on disk");
    describe_gauge!(QUARANTINED, "Records that wait for somebody");
    describe_gauge!(OWED, "Positions that a destination holds back or has parked");
    describe_gauge!(LANE_FAILURES, "How often in a row a lane of a destination has failed");
    describe_gauge!(WINDOW, "Bytes of accepted changes in memory");
}

/// A batch of the stream was decided.
pub fn ingested(counts: &Counts) {
    counter!(READ).increment(counts.read);
    for (verdict, count) in counts.classes() {
        counter!(VERDICTS, "verdict" => verdict).increment(count);
    }
    counter!(RESURRECTIONS).increment(counts.resurrections_refused);
    counter!(UNREADABLE_DELETIONS).increment(counts.undecodable_deletions);
}

/// A frame of the journal was written and synced.
pub fn synced(took: Duration) {
    histogram!(SYNC).record(took.as_secs_f64());
}

/// A destination took changes.
pub fn sent(destination: &str, count: u64) {
    counter!(SENT, "destination" => destination.to_owned()).increment(count);
}

/// A destination committed.
pub fn committed(destination: &str, took: Duration) {
    histogram!(BATCH, "destination" => destination.to_owned()).record(took.as_secs_f64());
}

/// A destination confirmed a deletion.
pub fn confirmed(destination: &str, since_accepted: Duration) {
    histogram!(CONFIRM, "destination" => destination.to_owned())
        .record(since_accepted.as_secs_f64());
}

/// Confirmations of a destination do not hold any more.
pub fn reappeared(destination: &str, count: u64) {
    counter!(REAPPEARED, "destination" => destination.to_owned()).increment(count);
}

/// How a destination stands.
#[derive(Debug, Clone, Copy, Default)]
pub struct DestinationGauges {
    /// Deletions that it has not confirmed.
    pub pending: u64,
    /// The age of the oldest.
    pub oldest_pending: Duration,
    /// How far it is behind ingest.
    pub lag: u64,
    /// Positions that it holds back or has parked.
    pub owed: u64,
}

/// Shows how a destination stands.
pub fn destination(name: &str, gauges: DestinationGauges) {
    let label = || name.to_owned();
    gauge!(PENDING, "destination" => label()).set(gauges.pending as f64);
    gauge!(OLDEST, "destination" => label()).set(gauges.oldest_pending.as_secs_f64());
    gauge!(LAG, "destination" => label()).set(gauges.lag as f64);
    gauge!(OWED, "destination" => label()).set(gauges.owed as f64);
}

/// Shows how often in a row a lane has failed; 0 once it works.
pub fn lane(destination: &str, lane: &'static str, failures: u32) {
    let destination = destination.to_owned();
    gauge!(LANE_FAILURES, "destination" => destination, "lane" => lane).set(f64::from(failures));
}

/// Shows how the worker stands.
pub fn worker(held: u64, released: u64, quarantined: u64, window_bytes: u64, ledger_bytes: u64) {
    gauge!(BARRIERS, "state" => "HELD").set(held as f64);
    gauge!(BARRIERS, "state" => "RELEASED").set(released as f64);
    gauge!(QUARANTINED).set(quarantined as f64);
    gauge!(WINDOW).set(window_bytes as f64);
    gauge!(LEDGER_BYTES).set(ledger_bytes as f64);
}
