//! Plugins in an OCI registry, in the layout of `wkg`.
//!
//! Each plugin is a repository `NAMESPACE/NAME` with one tag per version. The manifest has a config of type
//! `application/vnd.wasm.config.v0+json` and one layer `application/wasm`, the component. The signed release is an
//! annotation, which other tools preserve and ignore. The operator of the registry can move and hide tags, and there is
//! no checkpoint; only a lock file pins a version.

mod budget;
mod credentials;
pub(crate) mod error;
mod layout;
mod push;

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt, TryStreamExt};
use gymkhana_registry::{
    ContentFile, ContentStore, Digest, IndexRow, MAX_PLUGIN_BYTES, PendingFile, PluginName, PublicKey, Release,
    ReleaseError, SignedText,
};
use reqwest::header::{ACCEPT, LINK};
use reqwest::{Method, StatusCode};
use semver::{Version, VersionReq};
use serde::Deserialize;
use url::Url;

use crate::error::RegistryClientError;
use crate::remote::RemoteAccess;
use crate::transport::{FetchError, HttpTransport, RequestParts, UnreadResponse, below};
use crate::trust::SourceId;
use budget::RepositoryBudget;
pub(crate) use credentials::OciCredentials;
use error::OciError;
use layout::{MANIFEST, OciManifest};

/// Size limit of a manifest in bytes; registries enforce the same limit.
const MAX_MANIFEST: u64 = 4 << 20;
/// Maximum number of manifests fetched concurrently.
const MAX_CONCURRENT: usize = 8;

/// An OCI registry.
#[derive(Debug)]
pub(crate) struct OciRegistry {
    name: String,
    http: HttpTransport,
    url: Url,
    /// Keys that may sign; `None` accepts unsigned releases.
    keys: Option<BTreeSet<PublicKey>>,
    credentials: OciCredentials,
}

/// A version with its release.
#[derive(Debug)]
pub(crate) struct OciRelease {
    pub row: IndexRow,
    pub release: Release,
    /// Text of the release file.
    pub file: String,
}

impl OciRegistry {
    pub fn new(
        name: String,
        http: HttpTransport,
        url: Url,
        keys: Option<BTreeSet<PublicKey>>,
        credentials: OciCredentials,
    ) -> Self {
        Self { name, http, url, keys, credentials }
    }

    /// Identifier of the source for provenance records.
    pub fn id(&self) -> SourceId {
        SourceId::new(self.url.as_str(), if self.keys.is_some() { "signed" } else { "unsigned" })
    }

    /// Keys that may sign; `None` if unsigned releases are accepted.
    pub fn keys(&self) -> Option<&BTreeSet<PublicKey>> {
        self.keys.as_ref()
    }

    /// Sends a request to the server, whose status does not matter.
    pub async fn contact(&self, access: RemoteAccess) -> Result<(), RegistryClientError> {
        if access.offline {
            return Err(RegistryClientError::Offline { what: format!("an answer of registry `{}`", self.name) });
        }
        match self.http.send(&Method::GET, &self.url, &RequestParts::default(), &[]).await {
            Ok(_) | Err(FetchError::Status { .. }) => Ok(()),
            Err(source) => {
                let (registry, what) = (self.name.clone(), "an answer".to_owned());
                Err(RegistryClientError::Fetch { registry, what, source })
            }
        }
    }

    /// Releases of the required versions.
    pub async fn releases(
        &self,
        name: &PluginName,
        required: &VersionReq,
        cache: &ContentStore,
        access: RemoteAccess,
    ) -> Result<Vec<OciRelease>, RegistryClientError> {
        if access.offline {
            let what = format!("the version list of `{name}` in registry `{}`", self.name);
            return Err(RegistryClientError::Offline { what });
        }
        let versions = self.versions(name).await?.into_iter().filter(|version| required.matches(version));
        let versions: Vec<Version> = versions.collect();
        let budget = &RepositoryBudget::default();
        let within = |charged: Result<(), OciError>| charged.map_err(|error| self.rejected(name, error));
        within(budget.manifests.charge(versions.len() as u64))?;
        let one = |version: Version| async move {
            let Some((manifest, size)) = self.manifest(name, &version).await? else { return Ok(None) };
            within(budget.manifest_bytes.charge(size))?;
            self.release(name, version, &manifest, budget, cache).await.map(Some)
        };
        let releases: Vec<Option<OciRelease>> =
            stream::iter(versions).map(one).buffered(MAX_CONCURRENT).try_collect().await?;
        Ok(releases.into_iter().flatten().collect())
    }

    /// All tags that are versions.
    async fn versions(&self, name: &PluginName) -> Result<Vec<Version>, RegistryClientError> {
        #[derive(Deserialize)]
        struct TagPage {
            /// Some registries send `null` for an empty list.
            tags: Option<Vec<String>>,
        }
        let (mut versions, budget) = (BTreeSet::new(), RepositoryBudget::default());
        let within = |charged: Result<(), OciError>| charged.map_err(|error| self.rejected(name, error));
        let mut url = self.url_of(name, "tags/list");
        url.set_query(Some("n=1000"));
        loop {
            within(budget.pages.charge(1))?;
            let missing = [StatusCode::NOT_FOUND];
            let response = self.request(Method::GET, &url, name, RequestParts::default(), &missing).await?;
            if response.status() == StatusCode::NOT_FOUND {
                break;
            }
            let next = response.header(&LINK).and_then(next_page).and_then(|next| url.join(&next).ok());
            let bytes = response.bytes(budget.tag_bytes.limit()).await.map_err(self.failed(name))?;
            within(budget.tag_bytes.charge(bytes.len() as u64))?;
            let page: TagPage = serde_json::from_slice(&bytes)
                .map_err(|source| self.rejected(name, OciError::Json { file: "tag list", source }))?;
            within(budget.tags.charge(page.tags.iter().flatten().count() as u64))?;
            // Other tags, such as `latest`, are ignored.
            versions.extend(page.tags.iter().flatten().filter_map(|tag| tag.parse::<Version>().ok()));
            match next {
                Some(next) if next.origin() == self.url.origin() => url = next,
                _ => break,
            }
        }
        Ok(versions.into_iter().collect())
    }

    /// Manifest of a version and its size in bytes; `None` if the version does not exist.
    async fn manifest(
        &self,
        name: &PluginName,
        version: &Version,
    ) -> Result<Option<(OciManifest, u64)>, RegistryClientError> {
        let url = self.url_of(name, &format!("manifests/{version}"));
        let parts = RequestParts { headers: vec![(ACCEPT, MANIFEST)], ..RequestParts::default() };
        let response = self.request(Method::GET, &url, name, parts, &[StatusCode::NOT_FOUND]).await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let bytes = response.bytes(MAX_MANIFEST).await.map_err(self.failed(name))?;
        let manifest = serde_json::from_slice(&bytes)
            .map_err(|source| self.rejected(name, OciError::Json { file: "manifest", source }))?;
        Ok(Some((manifest, bytes.len() as u64)))
    }

    async fn release(
        &self,
        name: &PluginName,
        version: Version,
        manifest: &OciManifest,
        budget: &RepositoryBudget,
        cache: &ContentStore,
    ) -> Result<OciRelease, RegistryClientError> {
        let invalid = |why| self.rejected(name, OciError::Layout { version: version.clone(), why });
        let (digest, size) = manifest.component().map_err(invalid)?;
        let bad_release = |source| self.rejected(name, OciError::Release { version: version.clone(), source });
        let (file, signer) = match (&self.keys, manifest.release()) {
            (Some(keys), release) => {
                let unsigned = || self.rejected(name, OciError::Unsigned { version: version.clone() });
                let file = release.ok_or_else(unsigned)?.to_owned();
                let signed = SignedText::parse(&file).map_err(|error| bad_release(ReleaseError::Damaged(error)))?;
                let signer = signed.signers().find(|key| keys.contains(key)).ok_or_else(unsigned)?;
                (file, Some(signer))
            }
            (None, Some(file)) => (file.to_owned(), None),
            // Pushed by another tool: only the component describes itself.
            (None, None) => (self.release_of_component(name, &version, (digest, size), budget, cache).await?, None),
        };
        let release = Release::read(&file, signer.as_ref()).map_err(bad_release)?;
        let described = &release.manifest;
        let is_same = described.name == *name && described.version == version;
        if !is_same || release.digest != digest || release.size != size {
            return Err(self.rejected(name, OciError::ReleaseMismatch { version }));
        }
        let row = IndexRow { yanked: manifest.is_yanked(), ..IndexRow::new(&release, &file, signer) };
        Ok(OciRelease { row, release, file })
    }

    /// Derives the release file of a version that was pushed without one from its component. The component is cached only
    /// if its name and version match.
    async fn release_of_component(
        &self,
        name: &PluginName,
        version: &Version,
        (digest, size): (Digest, u64),
        budget: &RepositoryBudget,
        cache: &ContentStore,
    ) -> Result<String, RegistryClientError> {
        let content = ContentFile::Component(digest);
        let derive = |bytes: &[u8]| {
            let rejected = |source| self.rejected(name, OciError::Release { version: version.clone(), source });
            let release = Release::of(bytes, None).map_err(|error| rejected(error.into()))?;
            let is_same = release.manifest.name == *name && release.manifest.version == *version;
            let mismatch = || self.rejected(name, OciError::ReleaseMismatch { version: version.clone() });
            if is_same { Ok(release.sign(None)?) } else { Err(mismatch()) }
        };
        if let Ok(Some(bytes)) = cache.read(&content) {
            return derive(&bytes);
        }
        budget.component_bytes.charge(size).map_err(|error| self.rejected(name, error))?;
        let pending = self.blob(name, digest, size, cache).await?;
        let file = derive(&pending.read()?)?;
        cache.commit(&pending, &content)?;
        Ok(file)
    }

    /// Component of a version, verified by digest only.
    pub async fn component(
        &self,
        row: &IndexRow,
        cache: &ContentStore,
        access: RemoteAccess,
    ) -> Result<PendingFile, RegistryClientError> {
        if access.offline {
            return Err(RegistryClientError::Offline { what: format!("`{}` {}", row.name, row.version) });
        }
        self.blob(&row.name, row.digest, row.size, cache).await
    }

    async fn blob(
        &self,
        name: &PluginName,
        digest: Digest,
        size: u64,
        cache: &ContentStore,
    ) -> Result<PendingFile, RegistryClientError> {
        let url = self.url_of(name, &format!("blobs/{digest:#}"));
        let authorization = self.credentials.known(name);
        let parts = RequestParts { authorization: authorization.as_deref(), ..RequestParts::default() };
        let limit = size.min(MAX_PLUGIN_BYTES as u64);
        let (pending, found) = self.http.download(&url, &parts, limit, cache).await.map_err(self.failed(name))?;
        if found == digest {
            return Ok(pending);
        }
        let (registry, what, expected) = (self.name.clone(), format!("the component of `{name}`"), digest);
        Err(RegistryClientError::DigestMismatch { registry, what, found, expected })
    }

    /// Sends a request and authenticates if the registry requires it.
    async fn request(
        &self,
        method: Method,
        url: &Url,
        name: &PluginName,
        parts: RequestParts<'_>,
        expected: &[StatusCode],
    ) -> Result<UnreadResponse, RegistryClientError> {
        let expected = [expected, &[StatusCode::UNAUTHORIZED]].concat();
        let known = self.credentials.known(name);
        let attempt = async |authorization: Option<&str>| {
            let parts = RequestParts { authorization, ..parts.clone() };
            self.http.retry(|| self.http.send(&method, url, &parts, &expected)).await.map_err(self.failed(name))
        };
        let response = attempt(known.as_deref()).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let obtained = self.credentials.obtain(&self.http, &self.url, &response, name).await;
        let authorization = obtained.map_err(self.failed(name))?;
        let response = attempt(authorization.as_deref()).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let message = match self.credentials.variable() {
            Some(variable) => format!("the credentials in {variable} were rejected"),
            None => {
                "credentials are required\nhint: in your own gymkhana-registries.toml, not the project's, set `credentials` \
                     to the name of an environment variable that holds `user:password`"
                    .to_owned()
            }
        };
        let origin = url.origin().ascii_serialization();
        let status = StatusCode::UNAUTHORIZED;
        Err(self.failed(name)(FetchError::Status { origin, status, message }))
    }

    /// URL below a plugin's repository. The API is at the root of the host; the configured path prefixes the repository.
    fn url_of(&self, name: &PluginName, rest: &str) -> Url {
        let prefix = self.url.path().trim_start_matches('/').to_owned();
        let mut root = self.url.clone();
        root.set_path("/");
        below(&root, &format!("v2/{prefix}{name}/{rest}"))
    }

    fn failed(&self, name: &PluginName) -> impl FnOnce(FetchError) -> RegistryClientError {
        let (registry, what) = (self.name.clone(), format!("`{name}`"));
        move |source| RegistryClientError::Fetch { registry, what, source }
    }

    fn rejected(&self, name: &PluginName, source: OciError) -> RegistryClientError {
        RegistryClientError::Oci { registry: self.name.clone(), name: name.clone(), source: Box::new(source) }
    }
}

/// Next page in a `link` header.
fn next_page(link: &str) -> Option<String> {
    let entry = link.split(',').find(|entry| entry.contains("rel=\"next\""))?;
    let (url, _) = entry.trim().strip_prefix('<')?.split_once('>')?;
    Some(url.to_owned())
}
