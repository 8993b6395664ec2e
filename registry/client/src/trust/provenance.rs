//! Provenance of cached components: which source vouches for a component.
//!
//! A digest identifies a component but not its source, and trust in one source does not extend to another. The client
//! therefore records, per source, the release and the signer of each verified component. A record is not a proof: for
//! signed sources the release is verified again against the currently valid keys.

use std::path::PathBuf;

use gymkhana_registry::{ContentStore, Digest, IndexRow, PublicKey, write_atomically};
use serde::{Deserialize, Serialize};

/// Provenance records of a cache.
#[derive(Debug)]
pub(crate) struct ProvenanceStore {
    folder: PathBuf,
}

/// Provenance record of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Provenance {
    /// Digest of the release file.
    pub release: Digest,
    /// Key that signed the release; `None` for an unsigned source.
    pub signer: Option<PublicKey>,
}

/// Identifier of a source: a hash of its location and its trust settings.
#[derive(Debug, Clone)]
pub(crate) struct SourceId(String);

impl SourceId {
    /// Identifier of a location with trust settings, given as unambiguous text.
    pub fn new(location: &str, trust: &str) -> Self {
        Self(Digest::of(format!("{location}\n{trust}").as_bytes()).to_string()[..32].to_owned())
    }
}

impl ProvenanceStore {
    /// Records stored in the folder of a cache.
    pub fn of_cache(cache: &ContentStore) -> Self {
        Self { folder: cache.folder().join("provenance") }
    }

    fn path(&self, source: &SourceId, component: Digest) -> PathBuf {
        self.folder.join(&source.0).join(format!("{component}.json"))
    }

    /// Reads a record. A damaged record counts as missing, so the source is asked again.
    pub fn find(&self, source: &SourceId, component: Digest) -> Option<Provenance> {
        serde_json::from_slice(&std::fs::read(self.path(source, component)).ok()?).ok()
    }

    /// Records that a source vouches for the component of a row.
    pub fn record(&self, source: &SourceId, row: &IndexRow) -> std::io::Result<()> {
        let provenance = Provenance { release: row.release, signer: row.signer };
        if self.find(source, row.digest).as_ref() == Some(&provenance) {
            return Ok(());
        }
        let path = self.path(source, row.digest);
        std::fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
        write_atomically(&path, &serde_json::to_vec(&provenance)?)
    }
}
