//! One version of a plugin, as the index tells of it.

use std::collections::BTreeSet;

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::{Capability, ContractStamp, Digest, Kind, LockEntry, PluginName, PublicKey, Release};

/// The number of a line's shape.
pub const ROW_SCHEMA: u32 = 1;

/// One version. It repeats what resolving needs of the release, so that no release is fetched that is not chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// [`ROW_SCHEMA`] when it was written.
    pub schema: u32,
    /// The plugin.
    pub name: PluginName,
    /// The version.
    pub version: Version,
    /// The sha256 of the component.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// What it offers.
    pub kinds: BTreeSet<Kind>,
    /// What it asks for.
    pub capabilities: BTreeSet<Capability>,
    /// The contract that it was built with.
    pub contract: ContractStamp,
    /// The interfaces that it exports, without the versions of their package.
    pub exports: BTreeSet<String>,
    /// One line for people.
    pub description: String,
    /// The sha256 of the release file.
    pub release: Digest,
    /// Who signed the release; none in an unsigned folder.
    pub signer: Option<PublicKey>,
    /// Whether new resolutions pass it over.
    pub yanked: bool,
}

impl Row {
    /// The line of a release whose file is `file`.
    #[must_use]
    pub fn new(release: &Release, file: &str, signer: Option<PublicKey>) -> Self {
        let manifest = &release.manifest;
        Self {
            schema: ROW_SCHEMA,
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            digest: release.digest,
            size: release.size,
            kinds: manifest.kinds.clone(),
            capabilities: manifest.capabilities.clone(),
            contract: manifest.contract.clone(),
            exports: release.exports.clone(),
            description: manifest.description.clone(),
            release: Digest::of(file.as_bytes()),
            signer,
            yanked: false,
        }
    }

    /// Whether this line says the same as the release that it names.
    #[must_use]
    pub fn tells_of(&self, release: &Release, file: &str) -> bool {
        *self == Self { yanked: self.yanked, ..Self::new(release, file, self.signer) }
    }

    /// The version, pinned.
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
