//! Local records of trust: the last checkpoint seen of each registry, and the provenance of cached components.

mod provenance;
mod seen;

pub(crate) use provenance::{ProvenanceStore, SourceId};
pub(crate) use seen::{SeenCheckpoint, SeenCheckpoints};
