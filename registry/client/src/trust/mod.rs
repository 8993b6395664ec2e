//! Local records of trust: the last checkpoint seen of each registry, and the provenance of cached components.

mod provenance;
mod seen;
mod utc;

pub(crate) use provenance::{ProvenanceStore, SourceId};
pub(crate) use seen::{SeenCheckpoint, SeenCheckpoints};
pub(crate) use utc::{date, utc};
