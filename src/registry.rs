//! Which connectors there are: one line each, behind a Cargo feature.

use std::sync::Arc;

use cenotaph_connector::Factory;

/// Every connector of this build.
#[must_use]
pub fn factories() -> Vec<Arc<dyn Factory>> {
    vec![
        Arc::new(cenotaph_memory::Memory),
        #[cfg(feature = "tantivy")]
        Arc::new(cenotaph_tantivy::Tantivy),
    ]
}
