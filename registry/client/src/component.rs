//! A pinned plugin's bytes: from the cache, or fetched, checked against its publisher's signature, and kept.

use futures::stream::{self, StreamExt, TryStreamExt};
use gymkhana_registry::{
    ContentStore, ContentStoreError, ContentFile, LockEntry, PublicKey, Release, IndexRow, ReleaseStatus, ResolveError, read_manifest,
};
use semver::{Comparator, Op, VersionReq};

use crate::client::{RegistryClient, Backend};
use crate::config::Trust;
use crate::error::RegistryClientError;
use crate::site::Remote;

/// How many components are fetched at once.
const SIDE_BY_SIDE: usize = 4;

impl RegistryClient {
    /// The components of pinned plugins, in their order.
    ///
    /// # Errors
    /// If one cannot be had, or is not what it must be.
    pub async fn components(&self, pinned: &[LockEntry]) -> Result<Vec<Vec<u8>>, RegistryClientError> {
        let one = |entry: LockEntry| async move { self.component(&entry).await };
        stream::iter(pinned.to_vec()).map(one).buffered(SIDE_BY_SIDE).try_collect().await
    }

    /// The component of a pinned plugin. One in the cache is hashed again, and used if the source that serves it now has
    /// vouched for it; then nobody need be asked for it.
    ///
    /// # Errors
    /// If it cannot be had, or is not what it must be.
    pub async fn component(&self, pinned: &LockEntry) -> Result<Vec<u8>, RegistryClientError> {
        let bytes = match self.cache.read(&ContentFile::Component(pinned.digest)) {
            Err(ContentStoreError::Changed { path }) if !self.asking.offline => {
                self.notice(format!("`{}` was changed since it was fetched; it is fetched again", path.display()));
                None
            }
            other => other?,
        };
        let Some(bytes) = bytes else {
            let (row, release) = self.release(pinned).await?;
            let bytes = self.fetch(&row, &release).await?;
            return self.is_pinned(pinned, bytes);
        };
        if !self.is_vouched_for(pinned, &bytes).await? {
            // By the word of another source, which is not this one's: it must give its own.
            self.vouch_anew(pinned, &bytes).await?;
        }
        self.is_pinned(pinned, bytes)
    }

    /// Whether the source that serves a plugin has vouched for this component, and that still counts.
    async fn is_vouched_for(&self, pinned: &LockEntry, bytes: &[u8]) -> Result<bool, RegistryClientError> {
        let (_, serving) = self.serves(pinned.name.namespace())?;
        let Some(voucher) = self.vouchers.find(&serving.id(), pinned.digest) else { return Ok(false) };
        let Some(signer) = voucher.signer else { return Ok(serving.is_unsigned()) };
        let counts = match serving {
            Backend::Remote(site) => self.release_status(site, pinned, &signer).await? == ReleaseStatus::Valid,
            Backend::Oci(oci) => oci.keys().is_some_and(|keys| keys.contains(&signer)),
        };
        let Ok(Some(file)) = self.cache.read(&ContentFile::Release(voucher.release)) else { return Ok(false) };
        let release = Release::read(&String::from_utf8_lossy(&file), Some(&signer));
        Ok(counts && release.is_ok_and(|release| release.check_component(bytes).is_ok()))
    }

    /// What the key counts for that signed what is here: a revoked one is refused.
    async fn release_status(&self, site: &Remote, pinned: &LockEntry, key: &PublicKey) -> Result<ReleaseStatus, RegistryClientError> {
        let (standing, untold) = site.release_status(pinned.name.namespace(), key, self.asking).await;
        if let Some(why) = untold {
            self.notice(format!("whether a key was revoked is known as of the last time that it was asked: {why}"));
        }
        match standing.unwrap_or(ReleaseStatus::UnknownKey) {
            ReleaseStatus::Revoked => {
                Err(RegistryClientError::Revoked { name: pinned.name.clone(), version: pinned.version.clone(), key: *key })
            }
            other => Ok(other),
        }
    }

    /// Asks the source that serves a plugin for its word for a component that is here.
    async fn vouch_anew(&self, pinned: &LockEntry, bytes: &[u8]) -> Result<(), RegistryClientError> {
        let (row, release) = match self.release(pinned).await {
            Err(RegistryClientError::Offline { .. }) => {
                let (registry, _) = self.serves(pinned.name.namespace())?;
                let (name, version) = (pinned.name.clone(), pinned.version.clone());
                return Err(RegistryClientError::NoProvenance { registry: registry.to_owned(), name, version });
            }
            other => other?,
        };
        self.is_what_was_signed(&row, &release, bytes)?;
        self.vouch(&row)
    }

    /// Notes that the source that serves a plugin stands for this version of it.
    fn vouch(&self, row: &IndexRow) -> Result<(), RegistryClientError> {
        let (_, serving) = self.serves(row.name.namespace())?;
        let path = self.cache.folder().to_owned();
        let failed = |source| ContentStoreError::Disk { what: "written", path, source };
        Ok(self.vouchers.note(&serving.id(), row).map_err(failed)?)
    }

    /// Sees that a plugin is what its publisher signed, from the registry's state on down, and gives who signed.
    ///
    /// # Errors
    /// If it is not, or that cannot be known.
    pub async fn verify(&self, pinned: &LockEntry) -> Result<Option<PublicKey>, RegistryClientError> {
        let (row, release) = self.release(pinned).await?;
        let bytes = match self.cache.read(&ContentFile::Component(pinned.digest))? {
            Some(bytes) => bytes,
            None => self.fetch(&row, &release).await?,
        };
        self.is_what_was_signed(&row, &release, &bytes)?;
        self.vouch(&row)?;
        self.is_pinned(pinned, bytes)?;
        Ok(row.signer)
    }

    /// What was signed of a pinned plugin.
    async fn release(&self, pinned: &LockEntry) -> Result<(IndexRow, Release), RegistryClientError> {
        let (registry, serving) = self.serves(pinned.name.namespace())?;
        let exactly = exactly(&pinned.version);
        let (rows, release) = match serving {
            Backend::Remote(site) => (site.rows(&pinned.name, self.asking).await?, None),
            Backend::Oci(oci) => {
                let offers = oci.offers(&pinned.name, &exactly, &self.cache, self.asking).await?;
                let mut release = None;
                let mut rows = Vec::new();
                for offer in offers.into_iter().filter(|offer| offer.row.version == pinned.version) {
                    self.cache.write(&ContentFile::Release(offer.row.release), offer.file.as_bytes())?;
                    release = Some(offer.release);
                    rows.push(offer.row);
                }
                (rows, release)
            }
        };
        let unresolved = |source| RegistryClientError::Unresolved {
            registry: registry.to_owned(),
            name: pinned.name.clone(),
            source: Box::new(source),
        };
        let row = rows.iter().find(|row| row.version == pinned.version);
        let row = row.ok_or_else(|| {
            let known = rows.iter().rev().take(5).map(|row| row.version.clone()).collect();
            unresolved(ResolveError::NoVersion { wanted: exactly, known })
        })?;
        if row.digest != pinned.digest {
            let (version, locked, found) = (row.version.clone(), pinned.digest, row.digest);
            return Err(unresolved(ResolveError::Changed { version, locked, found }));
        }
        let release = match (release, serving) {
            (Some(release), _) => release,
            (None, Backend::Remote(site)) => self.signed(site, row).await?,
            (None, Backend::Oci(_)) => return Err(RegistryClientError::NoRegistry(pinned.name.namespace().to_owned())),
        };
        Ok((row.clone(), release))
    }

    /// The release of a row, signed by a key of its namespace.
    pub(crate) async fn signed(&self, site: &Remote, row: &IndexRow) -> Result<Release, RegistryClientError> {
        let item = ContentFile::Release(row.release);
        let bytes = match self.cache.read(&item) {
            Ok(Some(bytes)) => bytes,
            // What was changed is fetched anew, and replaced when it is kept.
            Ok(None) | Err(ContentStoreError::Changed { .. }) => site.file(&item, self.asking).await?,
            Err(error) => return Err(error.into()),
        };
        let file = String::from_utf8_lossy(&bytes);
        let refused = |source| RegistryClientError::Release {
            name: row.name.clone(),
            version: row.version.clone(),
            source: Box::new(source),
        };
        let signer = match site.trust {
            Trust::Unsigned => None,
            Trust::Root(_) => {
                let checkpoint = &site.state(self.asking).await?.accepted.checkpoint;
                let (name, version) = (row.name.clone(), row.version.clone());
                match row.signer.map(|key| (key, checkpoint.release_status(name.namespace(), &key))) {
                    Some((key, ReleaseStatus::Valid)) => Some(key),
                    Some((key, ReleaseStatus::Revoked)) => return Err(RegistryClientError::Revoked { name, version, key }),
                    Some((_, ReleaseStatus::UnknownKey)) | None => {
                        let signer = row.signer.map_or("nobody".to_owned(), |key| key.to_string());
                        return Err(RegistryClientError::NotAKey { name, version, signer });
                    }
                }
            }
        };
        let release = Release::read(&file, signer.as_ref()).map_err(refused)?;
        if !row.describes(&release, &file) {
            return Err(RegistryClientError::OtherThanSigned {
                registry: site.name.clone(),
                name: row.name.clone(),
                version: row.version.clone(),
            });
        }
        self.cache.write(&item, &bytes)?;
        Ok(release)
    }

    /// Fetches a component. It gets its name in the cache when it is what was signed, and not before.
    pub(crate) async fn fetch(&self, row: &IndexRow, release: &Release) -> Result<Vec<u8>, RegistryClientError> {
        let item = ContentFile::Component(row.digest);
        let (_, serving) = self.serves(row.name.namespace())?;
        let incoming = match serving {
            Backend::Remote(site) => site.component(&item, row.size, &self.cache, self.asking).await?,
            Backend::Oci(oci) => oci.component(row, &self.cache, self.asking).await?,
        };
        let bytes = std::fs::read(incoming.path()).map_err(|source| ContentStoreError::Disk {
            what: "read",
            path: incoming.path().to_owned(),
            source,
        })?;
        self.is_what_was_signed(row, release, &bytes)?;
        self.cache.keep(&incoming, &item)?;
        self.vouch(row)?;
        Ok(bytes)
    }

    pub(crate) fn is_what_was_signed(&self, row: &IndexRow, release: &Release, bytes: &[u8]) -> Result<(), RegistryClientError> {
        let (name, version) = (row.name.clone(), row.version.clone());
        release.check_component(bytes).map_err(|source| RegistryClientError::Release {
            name,
            version,
            source: Box::new(source),
        })
    }

    /// A component of the right digest may still be another plugin's, if the lock was edited.
    fn is_pinned(&self, pinned: &LockEntry, bytes: Vec<u8>) -> Result<Vec<u8>, RegistryClientError> {
        let (name, version) = (pinned.name.clone(), pinned.version.clone());
        let refused =
            |source| RegistryClientError::Release { name: name.clone(), version: version.clone(), source: Box::new(source) };
        let manifest = read_manifest(&bytes).map_err(|error| refused(error.into()))?;
        if LockEntry::new(&manifest, pinned.digest) == *pinned {
            Ok(bytes)
        } else {
            Err(refused(gymkhana_registry::ReleaseError::AnotherManifest))
        }
    }

    /// The cache of components and releases.
    #[must_use]
    pub fn cache(&self) -> &ContentStore {
        &self.cache
    }
}

/// The requirement of one version alone.
fn exactly(version: &semver::Version) -> VersionReq {
    let (major, minor, patch) = (version.major, Some(version.minor), Some(version.patch));
    VersionReq { comparators: vec![Comparator { op: Op::Exact, major, minor, patch, pre: version.pre.clone() }] }
}
