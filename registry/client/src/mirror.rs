//! Mirrors: verified copies of a registry with its original signatures. Clients that pin the root key can use either.

use std::path::Path;

use futures::stream::{self, StreamExt, TryStreamExt};
use gymkhana_registry::{ContentFile, ContentStore, IndexRow, PluginName, RegistryFolder};

use crate::backend::Backend;
use crate::client::RegistryClient;
use crate::component::check_component;
use crate::error::RegistryClientError;
use crate::remote::Remote;

/// Maximum number of plugins copied concurrently.
const MAX_CONCURRENT: usize = 4;

/// Content of a mirror after an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MirrorSummary {
    /// Sequence number of its checkpoint.
    pub sequence: u64,
    /// Number of plugins.
    pub plugins: usize,
    /// Number of versions.
    pub versions: usize,
    /// Number of components fetched by this update.
    pub fetched: usize,
    /// Number of versions skipped because their signing key was revoked.
    pub skipped: usize,
}

/// Version counts of one mirrored plugin.
#[derive(Default)]
struct VersionCounts {
    present: usize,
    fetched: usize,
    skipped: usize,
}

impl RegistryClient {
    /// Copies a registry into a folder, or updates an existing copy. The checkpoint is written last, so the folder keeps its
    /// old state until the new one is complete.
    ///
    /// # Errors
    /// If a file cannot be fetched, fails verification or cannot be written. Files copied before the error are kept.
    pub async fn mirror(&self, registry: &str, folder: &Path) -> Result<MirrorSummary, RegistryClientError> {
        let Backend::Remote(remote) = self.registry(registry)? else {
            let problem = "is an OCI registry, which cannot list its plugins\nhint: copy it with OCI tools";
            return Err(RegistryClientError::Unsupported {
                registry: registry.to_owned(),
                problem: problem.to_owned(),
            });
        };
        let state = remote.state(self.access).await?;
        let checkpoint = &state.accepted.checkpoint;
        let mirror = RegistryFolder::at(folder);
        let names: Vec<PluginName> = checkpoint.index.keys().cloned().collect();
        let plugins = names.len();
        let one = |name: PluginName| {
            let contents = mirror.content_store().clone();
            async move { self.mirror_plugin(remote, &name, &contents).await }
        };
        let counts: Vec<VersionCounts> = stream::iter(names).map(one).buffered(MAX_CONCURRENT).try_collect().await?;
        let catalogue = ContentFile::Catalogue(checkpoint.catalogue);
        if !matches!(mirror.content_store().read(&catalogue), Ok(Some(_))) {
            mirror.content_store().write(&catalogue, &remote.fetch_file(&catalogue, self.access).await?)?;
        }
        mirror.write_checkpoint(&state.text)?;
        let sum = |count: fn(&VersionCounts) -> usize| counts.iter().map(count).sum();
        Ok(MirrorSummary {
            sequence: checkpoint.sequence,
            plugins,
            versions: sum(|one| one.present),
            fetched: sum(|one| one.fetched),
            skipped: sum(|one| one.skipped),
        })
    }

    /// Copies a plugin and skips versions whose signing key was revoked.
    async fn mirror_plugin(
        &self,
        remote: &Remote,
        name: &PluginName,
        mirror: &ContentStore,
    ) -> Result<VersionCounts, RegistryClientError> {
        let mut counts = VersionCounts::default();
        for row in &remote.rows(name, self.access).await? {
            match self.mirror_version(remote, row, mirror).await {
                Ok(fetched) => {
                    counts.present += 1;
                    counts.fetched += usize::from(fetched);
                }
                Err(RegistryClientError::Revoked { name, version, key }) => {
                    counts.skipped += 1;
                    self.add_notice(format!("`{name}` {version} was skipped: its signing key {key} was revoked"));
                }
                Err(error) => return Err(error),
            }
        }
        let state = remote.state(self.access).await?;
        if let Some(digest) = state.accepted.checkpoint.index.get(name) {
            let item = ContentFile::Index(name.clone(), *digest);
            if !matches!(mirror.read(&item), Ok(Some(_))) {
                mirror.write(&item, &remote.fetch_file(&item, self.access).await?)?;
            }
        }
        Ok(counts)
    }

    /// Copies a version; returns true if its component was fetched.
    async fn mirror_version(
        &self,
        remote: &Remote,
        row: &IndexRow,
        mirror: &ContentStore,
    ) -> Result<bool, RegistryClientError> {
        let release = self.signed_release(remote, row).await?;
        let item = ContentFile::Release(row.release);
        if !matches!(mirror.read(&item), Ok(Some(_))) {
            let file = self.cache.read(&item)?;
            let file = match file {
                Some(file) => file,
                None => remote.fetch_file(&item, self.access).await?,
            };
            mirror.write(&item, &file)?;
        }
        let item = ContentFile::Component(row.digest);
        if matches!(mirror.read(&item), Ok(Some(_))) {
            return Ok(false);
        }
        // The component goes directly into the mirror and not through the user's cache.
        let pending = remote.component(&item, row.size, mirror, self.access).await?;
        check_component(row, &release, &pending.read()?)?;
        mirror.commit(&pending, &item)?;
        Ok(true)
    }
}
