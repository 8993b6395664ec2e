//! Who vouched for a component that lies in the cache.
//!
//! A digest says what a component is, and nothing of who stands for it: that is a source's to say, and one source's word
//! is not another's. So what was checked is written down beside the cache, by source: which release it was, and who signed
//! it. A note is no proof. Of a signed source the release is checked again, against the keys that count now.

use std::path::PathBuf;

use gymkhana_registry::{ContentStore, Digest, PublicKey, IndexRow, write_atomically};
use serde::{Deserialize, Serialize};

/// The notes of a cache.
#[derive(Debug)]
pub(crate) struct ProvenanceStore {
    folder: PathBuf,
}

/// One note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Provenance {
    /// The release file.
    pub release: Digest,
    /// Whose word it is; nobody's where the user has said that a source is unsigned.
    pub signer: Option<PublicKey>,
}

/// What tells a source from others: its place, and what is trusted there.
#[derive(Debug, Clone)]
pub(crate) struct SourceId(String);

impl SourceId {
    /// That of a place, and of a trust in words that no other trust has.
    pub fn new(place: &str, trust: &str) -> Self {
        Self(Digest::of(format!("{place}\n{trust}").as_bytes()).to_string()[..32].to_owned())
    }
}

impl ProvenanceStore {
    /// Those beside this cache.
    pub fn beside(cache: &ContentStore) -> Self {
        Self { folder: cache.folder().join("vouchers") }
    }

    fn path(&self, source: &SourceId, component: Digest) -> PathBuf {
        self.folder.join(&source.0).join(format!("{component}.json"))
    }

    /// What a source said of a component, if it was asked before. A damaged note is none.
    pub fn find(&self, source: &SourceId, component: Digest) -> Option<Provenance> {
        serde_json::from_slice(&std::fs::read(self.path(source, component)).ok()?).ok()
    }

    /// Notes what a source said of the component of this row.
    pub fn note(&self, source: &SourceId, row: &IndexRow) -> std::io::Result<()> {
        let voucher = Provenance { release: row.release, signer: row.signer };
        if self.find(source, row.digest).as_ref() == Some(&voucher) {
            return Ok(());
        }
        let path = self.path(source, row.digest);
        std::fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
        write_atomically(&path, &serde_json::to_vec(&voucher)?)
    }
}
