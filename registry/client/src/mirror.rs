//! A mirror: everything that a registry holds, checked and laid out as it lies there, with the registry's own
//! signatures. Who pins its root key can use either.

use std::path::Path;

use futures::stream::{self, StreamExt, TryStreamExt};
use gymkhana_registry::{ContentStore, ContentStoreError, ContentFile, PluginName, RegistryFolder, IndexRow};

use crate::client::{RegistryClient, Backend};
use crate::error::RegistryClientError;
use crate::site::Remote;

/// How many plugins are copied at once.
const SIDE_BY_SIDE: usize = 4;

/// What a mirror holds now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MirrorSummary {
    /// The number of the checkpoint that it shows.
    pub sequence: u64,
    /// Plugins.
    pub plugins: usize,
    /// Versions of all of them.
    pub versions: usize,
    /// Components that were fetched now.
    pub fetched: usize,
    /// Versions that are not copied, since the key that signed them was revoked.
    pub left_out: usize,
}

/// What was copied of one plugin, in versions.
#[derive(Default)]
struct Copied {
    there: usize,
    fetched: usize,
    left_out: usize,
}

impl RegistryClient {
    /// Copies a registry into a folder, or what of it has changed. The checkpoint comes last, so that the folder shows
    /// the old state until the new one is whole.
    ///
    /// # Errors
    /// If something cannot be fetched, is not what was signed, or cannot be written; what was copied stays.
    pub async fn mirror(&self, registry: &str, folder: &Path) -> Result<MirrorSummary, RegistryClientError> {
        let Backend::Remote(site) = self.named(registry)? else {
            let what = "is an OCI registry, which has no list of plugins to copy; copy it with its own tools";
            return Err(RegistryClientError::Cannot { registry: registry.to_owned(), what: what.to_owned() });
        };
        let state = site.state(self.asking).await?;
        let checkpoint = &state.accepted.checkpoint;
        let mirror = RegistryFolder::at(folder);
        let names: Vec<PluginName> = checkpoint.index.keys().cloned().collect();
        let plugins = names.len();
        let one = |name: PluginName| {
            let contents = mirror.content_store().clone();
            async move { self.copy(site, &name, &contents).await }
        };
        let copied: Vec<Copied> = stream::iter(names).map(one).buffered(SIDE_BY_SIDE).try_collect().await?;
        let catalogue = ContentFile::Catalogue(checkpoint.catalogue);
        if !matches!(mirror.content_store().read(&catalogue), Ok(Some(_))) {
            mirror.content_store().write(&catalogue, &site.file(&catalogue, self.asking).await?)?;
        }
        mirror.show(&state.text)?;
        let sum = |part: fn(&Copied) -> usize| copied.iter().map(part).sum();
        Ok(MirrorSummary {
            sequence: checkpoint.sequence,
            plugins,
            versions: sum(|one| one.there),
            fetched: sum(|one| one.fetched),
            left_out: sum(|one| one.left_out),
        })
    }

    /// Copies a plugin. A version whose key was revoked is of use to nobody, and no reason to copy nothing else.
    async fn copy(&self, site: &Remote, name: &PluginName, mirror: &ContentStore) -> Result<Copied, RegistryClientError> {
        let mut copied = Copied::default();
        for row in &site.rows(name, self.asking).await? {
            match self.copy_version(site, row, mirror).await {
                Ok(fetched) => {
                    copied.there += 1;
                    copied.fetched += usize::from(fetched);
                }
                Err(RegistryClientError::Revoked { name, version, key }) => {
                    copied.left_out += 1;
                    self.notice(format!("`{name}` {version} is left out: the key that signed it, {key}, was revoked"));
                }
                Err(error) => return Err(error),
            }
        }
        let state = site.state(self.asking).await?;
        if let Some(digest) = state.accepted.checkpoint.index.get(name) {
            let item = ContentFile::Index(name.clone(), *digest);
            if !matches!(mirror.read(&item), Ok(Some(_))) {
                mirror.write(&item, &site.file(&item, self.asking).await?)?;
            }
        }
        Ok(copied)
    }

    /// Copies a version, unless it is there; says whether it was fetched.
    async fn copy_version(&self, site: &Remote, row: &IndexRow, mirror: &ContentStore) -> Result<bool, RegistryClientError> {
        let release = self.signed(site, row).await?;
        let item = ContentFile::Release(row.release);
        if !matches!(mirror.read(&item), Ok(Some(_))) {
            let file = self.cache.read(&item)?;
            let file = match file {
                Some(file) => file,
                None => site.file(&item, self.asking).await?,
            };
            mirror.write(&item, &file)?;
        }
        let item = ContentFile::Component(row.digest);
        if matches!(mirror.read(&item), Ok(Some(_))) {
            return Ok(false);
        }
        // Not through the cache, which is this user's and need not hold all that a mirror does.
        let incoming = site.component(&item, row.size, mirror, self.asking).await?;
        let path = incoming.path().to_owned();
        let bytes = std::fs::read(&path).map_err(|source| ContentStoreError::Disk { what: "read", path, source })?;
        self.is_what_was_signed(row, &release, &bytes)?;
        mirror.keep(&incoming, &item)?;
        Ok(true)
    }
}
