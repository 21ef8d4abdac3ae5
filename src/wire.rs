//! From a configuration to a worker that can be started.

use std::sync::Arc;
use std::time::Duration;

use crate::api::ApiOptions;
use crate::config::{Config, DestinationConfig, Format};
use crate::envelope::{self, Decoder};
use crate::ingest::ReadBounds;
use crate::ledger::LedgerOptions;
use crate::source::{FeedFault, FileOptions, FileSource};
use crate::supervisor::{DestinationPlan, WorkerPlan, connector_maker};

/// The most bytes of one read, and so of one frame's changes.
const READ_BYTES: usize = 1 << 20;
/// How long ingest waits at the end of the log before it looks whether it should stop.
const READ_WAIT: Duration = Duration::from_millis(100);

/// What a configuration says, resolved.
///
/// # Errors
/// [`FeedFault`] if the source is not there.
pub fn plan(config: Config) -> Result<WorkerPlan, FeedFault> {
    let options = FileOptions {
        max_record_bytes: config.source.max_record_bytes,
        poll: config.source.poll,
        ..FileOptions::new(&config.source.path)
    };
    let format = match config.source.format {
        Format::Cenotaph => envelope::Format::Cenotaph,
    };
    Ok(WorkerPlan {
        source: Arc::new(FileSource::open(options)?),
        decoder: Decoder { format, defaults: config.source.defaults },
        bounds: ReadBounds {
            max_records: config.ledger.group_max_records,
            max_bytes: READ_BYTES,
            wait: READ_WAIT,
        },
        ledger: LedgerOptions {
            dir: config.ledger.dir,
            cache_bytes: config.ledger.cache_bytes,
            checkpoint_objects: config.ledger.checkpoint_objects,
            journal_whole_bytes: config.ledger.journal_whole_bytes,
        },
        rules: config.rules,
        window_bytes: config.ledger.window_bytes,
        destinations: config.destinations.into_iter().map(destination).collect(),
        api: ApiOptions {
            listen: config.api.listen,
            max_body_bytes: config.api.max_body_bytes,
            max_wait: config.api.max_wait,
            max_waiters: config.api.max_waiters,
        },
    })
}

fn destination(config: DestinationConfig) -> DestinationPlan {
    let DestinationConfig { pipeline, destination, factory, settings } = config;
    DestinationPlan { settings: pipeline, make: connector_maker(factory, destination, settings) }
}
