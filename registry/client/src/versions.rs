//! All versions of a plugin, and warnings about pinned versions that were withdrawn.

use gymkhana_registry::{ContractStamp, IndexRow, LockEntry, PluginName, ReleaseStatus, RequirementName};
use gymkhana_waits::{Counterpart, within};
use semver::VersionReq;

use crate::backend::Backend;
use crate::client::RegistryClient;
use crate::error::RegistryClientError;
use crate::remote::REFRESH_TIMEOUT;

/// A plugin in the registry of its namespace.
#[derive(Debug, Clone)]
pub struct PluginVersions {
    /// Full name.
    pub name: PluginName,
    /// Registry name.
    pub registry: String,
    /// All versions, newest first.
    pub versions: Vec<PluginVersion>,
}

/// One version of a plugin.
#[derive(Debug, Clone)]
pub struct PluginVersion {
    /// Index row.
    pub row: IndexRow,
    /// True if the key that signed it was revoked, so that it cannot be used.
    pub revoked: bool,
}

impl PluginVersion {
    /// Returns true if new resolutions of this host may choose the version.
    #[must_use]
    pub fn is_available(&self) -> bool {
        !self.row.yanked && !self.revoked && self.row.contract == ContractStamp::of_this_host()
    }
}

impl PluginVersions {
    /// Newest version that new resolutions may choose.
    #[must_use]
    pub fn newest(&self) -> Option<&IndexRow> {
        self.versions.iter().find(|version| version.is_available()).map(|version| &version.row)
    }

    /// Newest available version that satisfies a requirement.
    #[must_use]
    pub fn newest_matching(&self, required: &VersionReq) -> Option<&IndexRow> {
        let mut available = self.versions.iter().filter(|version| version.is_available());
        available.find(|version| required.matches(&version.row.version)).map(|version| &version.row)
    }

    /// Version to describe for a requirement: the newest available one, otherwise the newest one that matches.
    #[must_use]
    pub fn best(&self, required: &VersionReq) -> Option<&IndexRow> {
        let matching = || self.versions.iter().filter(|version| required.matches(&version.row.version));
        matching().find(|version| version.is_available()).or_else(|| matching().next()).map(|version| &version.row)
    }
}

impl RegistryClient {
    /// All versions of a plugin, given by its full or short name.
    ///
    /// # Errors
    /// If the registry cannot be read, or the name is unknown or ambiguous.
    pub async fn versions(&self, name: &RequirementName) -> Result<PluginVersions, RegistryClientError> {
        let name = self.full_name(name, None).await?;
        let (registry, mut rows) = self.rows(&name, &VersionReq::STAR).await?;
        rows.sort_by(|one, other| other.version.cmp(&one.version));
        let versions = {
            let is_revoked = self.revocations(&name).await?;
            rows.into_iter().map(|row| PluginVersion { revoked: is_revoked(&row), row }).collect()
        };
        Ok(PluginVersions { name, registry, versions })
    }

    /// Tells of a plugin's rows whether the key that signed them was revoked.
    pub(crate) async fn revocations<'a>(
        &'a self,
        name: &'a PluginName,
    ) -> Result<impl Fn(&IndexRow) -> bool + 'a, RegistryClientError> {
        let checkpoint = match self.registry_of(name.namespace())? {
            (_, Backend::Remote(remote)) => Some(&remote.state(self.access).await?.accepted.checkpoint),
            (_, Backend::Oci(_)) => None,
        };
        Ok(move |row: &IndexRow| {
            let status = |key| checkpoint.map(|checkpoint| checkpoint.release_status(name.namespace(), &key));
            row.signer.and_then(status) == Some(ReleaseStatus::Revoked)
        })
    }

    /// Adds a notice if a pinned version is yanked. Only a state that was read before is asked: a pinned and cached
    /// plugin must not need its registry.
    pub(crate) async fn warn_if_yanked(&self, pinned: &LockEntry) {
        let Ok((_, Backend::Remote(remote))) = self.registry_of(pinned.name.namespace()) else { return };
        if !remote.has_state() {
            return;
        }
        let rows = within(Counterpart::Registry, REFRESH_TIMEOUT, remote.rows(&pinned.name, self.access)).await;
        let Ok(Ok(rows)) = rows else { return };
        if rows.iter().any(|row| row.version == pinned.version && row.yanked) {
            self.add_notice(format!(
                "warning: `{}` {} is yanked: its publisher withdrew it; `host update` chooses another version",
                pinned.name, pinned.version
            ));
        }
    }
}
