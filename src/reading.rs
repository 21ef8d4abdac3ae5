//! From a raw record to an item that can be decided: decoded, and hashed under the ledger's key.

use cenotaph_core::{BarrierRequest, Identified, Incoming, KeyHasher, ScopeName};

use crate::envelope::{Decoder, Undecodable};
use crate::ledger::Item;
use crate::source::RawRecord;

/// Reads records for one thread.
#[derive(Debug, Clone)]
pub struct Reading {
    decoder: Decoder,
    hasher: KeyHasher,
}

impl Reading {
    /// A reader of records.
    #[must_use]
    pub fn new(decoder: Decoder, hasher: KeyHasher) -> Reading {
        Reading { decoder, hasher }
    }

    /// What a record says, whatever it says.
    pub fn item(&mut self, record: RawRecord) -> Item {
        let position = record.position;
        match self.decoder.decode(record) {
            Ok(Incoming::Change(change)) => Item::Change(self.hasher.identify(change)),
            Ok(Incoming::Barrier(request)) => self.barrier(request),
            Ok(Incoming::Ignored(_)) => Item::Ignored,
            Err(Undecodable { reason, detail, deletion }) => {
                Item::Undecodable { position, reason, detail, deletion }
            }
        }
    }

    /// The change that a record is, for those who read it again: what else it may be was decided
    /// when it was read for the first time.
    pub fn change(&mut self, record: RawRecord) -> Option<Identified> {
        match self.decoder.decode(record) {
            Ok(Incoming::Change(change)) => Some(self.hasher.identify(change)),
            _ => None,
        }
    }

    fn barrier(&mut self, request: BarrierRequest) -> Item {
        let tenant = request.scope.as_ref().map_or("", |scope| scope.tenant.as_str());
        let event = self.hasher.event(tenant, &request.event_id);
        let scope = request.scope.as_ref().map(|scope| scope_hash(&mut self.hasher, scope));
        Item::Barrier { request, event, scope }
    }
}

/// The hash of a scope's name.
pub fn scope_hash(hasher: &mut KeyHasher, scope: &ScopeName) -> cenotaph_core::ScopeHash {
    hasher.scope(&scope.tenant, scope.collection.as_deref(), scope.parent.as_deref())
}
