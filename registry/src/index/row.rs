//! One version of a plugin in the index.

use std::collections::BTreeSet;

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::{Capability, ContractStamp, Digest, Kind, LockEntry, PluginName, PublicKey, Release};

/// Schema of an index row.
pub const INDEX_ROW_SCHEMA: u32 = 1;

/// Index entry of one version. It repeats the release fields that resolution needs, so only the selected release is
/// fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexRow {
    /// [`INDEX_ROW_SCHEMA`] at the time of writing.
    pub schema: u32,
    /// Plugin name.
    pub name: PluginName,
    /// Version.
    pub version: Version,
    /// SHA-256 of the component.
    pub digest: Digest,
    /// Size of the component in bytes.
    pub size: u64,
    /// Kinds that the plugin implements.
    pub kinds: BTreeSet<Kind>,
    /// Requested capabilities.
    pub capabilities: BTreeSet<Capability>,
    /// Contract that the plugin was built with.
    pub contract: ContractStamp,
    /// Exported interfaces without the package version.
    pub exports: BTreeSet<String>,
    /// One-line description.
    pub description: String,
    /// SHA-256 of the release file.
    pub release: Digest,
    /// Key that signed the release; `None` in an unsigned registry.
    pub signer: Option<PublicKey>,
    /// True if new resolutions skip this version.
    pub yanked: bool,
}

impl IndexRow {
    /// Builds the row of a release; `file` is the content of its release file.
    #[must_use]
    pub fn new(release: &Release, file: impl AsRef<[u8]>, signer: Option<PublicKey>) -> Self {
        let manifest = &release.manifest;
        Self {
            schema: INDEX_ROW_SCHEMA,
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            digest: release.digest,
            size: release.size,
            kinds: manifest.kinds.clone(),
            capabilities: manifest.capabilities.clone(),
            contract: manifest.contract.clone(),
            exports: release.exports.clone(),
            description: manifest.description.clone(),
            release: Digest::of(file.as_ref()),
            signer,
            yanked: false,
        }
    }

    /// Returns true if this row agrees with the release that it references.
    #[must_use]
    pub fn describes(&self, release: &Release, file: impl AsRef<[u8]>) -> bool {
        *self == Self { yanked: self.yanked, ..Self::new(release, file, self.signer) }
    }

    /// Lock entry of this version.
    #[must_use]
    pub fn pin(&self) -> LockEntry {
        LockEntry {
            name: self.name.clone(),
            version: self.version.clone(),
            digest: self.digest,
            kinds: self.kinds.clone(),
            capabilities: self.capabilities.clone(),
            contract: self.contract.clone(),
        }
    }
}
