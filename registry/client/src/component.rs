//! Components of pinned plugins: read from the cache or fetched, verified against the signed release, and cached.

use futures::stream::{self, StreamExt, TryStreamExt};
use gymkhana_registry::{
    ContentFile, ContentStore, ContentStoreError, IndexRow, LockEntry, PluginFile, PublicKey, Release, ReleaseStatus,
    ResolveError, read_manifest,
};
use semver::{Comparator, Op, VersionReq};

use crate::backend::Backend;
use crate::client::RegistryClient;
use crate::config::Trust;
use crate::error::RegistryClientError;
use crate::remote::{Remote, UnreachableState};
use crate::trust::utc;

/// Maximum number of components fetched concurrently.
const MAX_CONCURRENT: usize = 4;

impl RegistryClient {
    /// Files of pinned plugins, in order.
    ///
    /// # Errors
    /// If a component cannot be fetched or fails verification.
    pub async fn components(&self, pinned: &[LockEntry]) -> Result<Vec<PluginFile>, RegistryClientError> {
        let one = |entry: LockEntry| async move {
            self.component(&entry).await.map(|bytes| PluginFile::of_release(entry, bytes))
        };
        stream::iter(pinned.to_vec()).map(one).buffered(MAX_CONCURRENT).try_collect().await
    }

    /// Component of a pinned plugin. A cached component is hashed again and used without a download if the configured
    /// registry vouches for it.
    ///
    /// # Errors
    /// If the component cannot be fetched or fails verification.
    pub async fn component(&self, pinned: &LockEntry) -> Result<Vec<u8>, RegistryClientError> {
        let component = self.verified_component(pinned).await?;
        self.warn_if_yanked(pinned).await;
        Ok(component)
    }

    async fn verified_component(&self, pinned: &LockEntry) -> Result<Vec<u8>, RegistryClientError> {
        let bytes = match self.cache.read(&ContentFile::Component(pinned.digest)) {
            Err(ContentStoreError::Changed { path }) if !self.access.offline => {
                self.add_notice(format!("`{}` was modified in the cache; fetching it again", path.display()));
                None
            }
            other => other?,
        };
        let Some(bytes) = bytes else {
            let (row, release) = self.release(pinned).await?;
            let bytes = self.fetch(&row, &release).await?;
            return self.check_pin(pinned, bytes);
        };
        if !self.has_provenance(pinned, &bytes).await? {
            // The component came from another source; the configured registry must vouch for it.
            self.establish_provenance(pinned, &bytes).await?;
        }
        self.check_pin(pinned, bytes)
    }

    /// Returns true if the registry of a plugin vouched for this component and its signature is still valid.
    async fn has_provenance(&self, pinned: &LockEntry, bytes: &[u8]) -> Result<bool, RegistryClientError> {
        let (_, backend) = self.registry_of(pinned.name.namespace())?;
        let Some(provenance) = self.provenance.find(&backend.id(), pinned.digest) else { return Ok(false) };
        let Some(signer) = provenance.signer else { return Ok(backend.is_unsigned()) };
        let is_valid = match backend {
            Backend::Remote(remote) => self.release_status(remote, pinned, &signer).await? == ReleaseStatus::Valid,
            Backend::Oci(oci) => oci.keys().is_some_and(|keys| keys.contains(&signer)),
        };
        // A missing or modified release file is fetched again.
        let Ok(Some(file)) = self.cache.read(&ContentFile::Release(provenance.release)) else { return Ok(false) };
        let release = Release::read(&file, Some(&signer));
        Ok(is_valid && release.is_ok_and(|release| release.check_component(bytes).is_ok()))
    }

    /// Status of the release of a cached component; a revoked key is an error.
    async fn release_status(
        &self,
        remote: &Remote,
        pinned: &LockEntry,
        key: &PublicKey,
    ) -> Result<ReleaseStatus, RegistryClientError> {
        let (status, unreachable) = remote.release_status(pinned.name.namespace(), key, self.access).await;
        if let Some(UnreachableState { why, last }) = unreachable {
            let why = why.split("\nhint: ").next().unwrap_or(why);
            let registry = &remote.name;
            let used = match last {
                Some(issued) => format!("using its state of {}", utc(issued)),
                None => "and no earlier state of it is known".to_owned(),
            };
            self.add_notice(format!("cannot check registry `{registry}` for revoked keys, {used}: {why}"));
        }
        match status.unwrap_or(ReleaseStatus::UnknownKey) {
            ReleaseStatus::Revoked => {
                let (name, version) = (pinned.name.clone(), pinned.version.clone());
                Err(RegistryClientError::Revoked { name, version, key: *key })
            }
            other => Ok(other),
        }
    }

    /// Verifies a cached component with the configured registry.
    async fn establish_provenance(&self, pinned: &LockEntry, bytes: &[u8]) -> Result<(), RegistryClientError> {
        let (row, release) = match self.release(pinned).await {
            Err(RegistryClientError::Offline { .. }) => {
                let (registry, _) = self.registry_of(pinned.name.namespace())?;
                let (name, version) = (pinned.name.clone(), pinned.version.clone());
                return Err(RegistryClientError::NoProvenance { registry: registry.to_owned(), name, version });
            }
            other => other?,
        };
        check_component(&row, &release, bytes)?;
        self.record_provenance(&row)
    }

    /// Records that the configured registry vouches for a version.
    fn record_provenance(&self, row: &IndexRow) -> Result<(), RegistryClientError> {
        let (_, backend) = self.registry_of(row.name.namespace())?;
        let path = self.cache.folder().to_owned();
        let failed = |source| ContentStoreError::Disk { operation: "write", path, source };
        Ok(self.provenance.record(&backend.id(), row).map_err(failed)?)
    }

    /// Verifies a pinned plugin from the registry's state down to the component, and returns the signing key.
    ///
    /// # Errors
    /// If the verification fails or the required files cannot be fetched.
    pub async fn verify(&self, pinned: &LockEntry) -> Result<Option<PublicKey>, RegistryClientError> {
        let (row, release) = self.release(pinned).await?;
        let bytes = match self.cache.read(&ContentFile::Component(pinned.digest))? {
            Some(bytes) => bytes,
            None => self.fetch(&row, &release).await?,
        };
        check_component(&row, &release, &bytes)?;
        self.record_provenance(&row)?;
        self.check_pin(pinned, bytes)?;
        self.warn_if_yanked(pinned).await;
        Ok(row.signer)
    }

    /// Index row and verified release of a pinned plugin, without its component.
    ///
    /// # Errors
    /// If the release cannot be fetched or fails verification.
    pub async fn release(&self, pinned: &LockEntry) -> Result<(IndexRow, Release), RegistryClientError> {
        let (registry, backend) = self.registry_of(pinned.name.namespace())?;
        match backend {
            Backend::Remote(remote) => {
                let rows = remote.rows(&pinned.name, self.access).await?;
                let row = pinned_row(registry, pinned, &rows)?;
                let release = self.signed_release(remote, row).await?;
                Ok((row.clone(), release))
            }
            Backend::Oci(oci) => {
                let releases = oci.releases(&pinned.name, &exact(pinned), &self.cache, self.access).await?;
                let rows: Vec<IndexRow> = releases.iter().map(|release| release.row.clone()).collect();
                let row = pinned_row(registry, pinned, &rows)?;
                let release = releases.into_iter().find(|release| release.row == *row);
                // `row` is one of the rows of `releases`.
                let release = release.ok_or_else(|| no_version(registry, pinned, &rows))?;
                self.cache.write(&ContentFile::Release(row.release), release.file.as_bytes())?;
                Ok((row.clone(), release.release))
            }
        }
    }

    /// Release of a row, verified against the keys of its namespace.
    pub(crate) async fn signed_release(&self, remote: &Remote, row: &IndexRow) -> Result<Release, RegistryClientError> {
        let content = ContentFile::Release(row.release);
        let file = match self.cache.read(&content) {
            Ok(Some(bytes)) => bytes,
            // A modified file is fetched again and replaced.
            Ok(None) | Err(ContentStoreError::Changed { .. }) => remote.fetch_file(&content, self.access).await?,
            Err(error) => return Err(error.into()),
        };
        let (name, version) = (row.name.clone(), row.version.clone());
        let signer = match remote.trust {
            Trust::Unsigned => None,
            Trust::Root(_) => {
                let checkpoint = &remote.state(self.access).await?.accepted.checkpoint;
                match row.signer.map(|key| (key, checkpoint.release_status(name.namespace(), &key))) {
                    Some((key, ReleaseStatus::Valid)) => Some(key),
                    Some((key, ReleaseStatus::Revoked)) => {
                        return Err(RegistryClientError::Revoked { name, version, key });
                    }
                    Some((_, ReleaseStatus::UnknownKey)) | None => {
                        let signer = row.signer.map_or("no key".to_owned(), |key| key.to_string());
                        return Err(RegistryClientError::NotAKey { name, version, signer });
                    }
                }
            }
        };
        let release = match Release::read(&file, signer.as_ref()) {
            Ok(release) => release,
            Err(source) => return Err(RegistryClientError::Release { name, version, source: Box::new(source) }),
        };
        if !row.describes(&release, &file) {
            return Err(RegistryClientError::IndexMismatch { registry: remote.name.clone(), name, version });
        }
        self.cache.write(&content, &file)?;
        Ok(release)
    }

    /// Fetches a component and commits it to the cache after verification.
    pub(crate) async fn fetch(&self, row: &IndexRow, release: &Release) -> Result<Vec<u8>, RegistryClientError> {
        let (_, backend) = self.registry_of(row.name.namespace())?;
        let content = ContentFile::Component(row.digest);
        let pending = match backend {
            Backend::Remote(remote) => remote.component(&content, row.size, &self.cache, self.access).await?,
            Backend::Oci(oci) => oci.component(row, &self.cache, self.access).await?,
        };
        let bytes = pending.read()?;
        check_component(row, release, &bytes)?;
        self.cache.commit(&pending, &content)?;
        self.record_provenance(row)?;
        Ok(bytes)
    }

    /// Checks a component against its lock entry: an edited lock file can combine a name with another plugin's digest.
    fn check_pin(&self, pinned: &LockEntry, bytes: Vec<u8>) -> Result<Vec<u8>, RegistryClientError> {
        let rejected = |source| RegistryClientError::Release {
            name: pinned.name.clone(),
            version: pinned.version.clone(),
            source: Box::new(source),
        };
        let manifest = read_manifest(&bytes).map_err(|error| rejected(error.into()))?;
        if LockEntry::new(&manifest, pinned.digest) == *pinned {
            Ok(bytes)
        } else {
            Err(rejected(gymkhana_registry::ReleaseError::ManifestMismatch))
        }
    }

    /// Cache of components and releases.
    #[must_use]
    pub fn cache(&self) -> &ContentStore {
        &self.cache
    }
}

/// Checks a component against its release.
pub(crate) fn check_component(row: &IndexRow, release: &Release, bytes: &[u8]) -> Result<(), RegistryClientError> {
    release.check_component(bytes).map_err(|source| RegistryClientError::Release {
        name: row.name.clone(),
        version: row.version.clone(),
        source: Box::new(source),
    })
}

/// The row of a pinned version, whose digest must be the pinned one.
fn pinned_row<'a>(
    registry: &str,
    pinned: &LockEntry,
    rows: &'a [IndexRow],
) -> Result<&'a IndexRow, RegistryClientError> {
    let row = rows.iter().find(|row| row.version == pinned.version);
    let row = row.ok_or_else(|| no_version(registry, pinned, rows))?;
    if row.digest == pinned.digest {
        return Ok(row);
    }
    let (version, locked, found) = (row.version.clone(), pinned.digest, row.digest);
    Err(unresolved(registry, pinned, ResolveError::Changed { version, locked, found }))
}

fn no_version(registry: &str, pinned: &LockEntry, rows: &[IndexRow]) -> RegistryClientError {
    let known = rows.iter().rev().take(5).map(|row| row.version.clone()).collect();
    unresolved(registry, pinned, ResolveError::NoVersion { required: exact(pinned), known })
}

fn unresolved(registry: &str, pinned: &LockEntry, source: ResolveError) -> RegistryClientError {
    let (registry, name) = (registry.to_owned(), pinned.name.clone());
    RegistryClientError::Unresolved { registry, name, source: Box::new(source) }
}

/// Requirement of exactly the pinned version.
fn exact(pinned: &LockEntry) -> VersionReq {
    let version = &pinned.version;
    let (major, minor, patch) = (version.major, Some(version.minor), Some(version.patch));
    VersionReq { comparators: vec![Comparator { op: Op::Exact, major, minor, patch, pre: version.pre.clone() }] }
}
