//! Plugins in an OCI registry, laid out as `wkg` lays components out.
//!
//! Repository `NAMESPACE/NAME`, a tag for each version, and below it a manifest with a config of type
//! `application/vnd.wasm.config.v0+json` and one layer `application/wasm`, the component. What a publisher signed stands
//! beside it as an annotation, which other tools keep and ignore. Tags can be moved and hidden by whoever runs the
//! registry: there is no checkpoint here, so that a lock file is what pins a version.

mod auth;
mod layout;
mod push;

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt, TryStreamExt};
use gymkhana_registry::{
    ContentStore, ContentStoreError, Digest, PendingFile, ContentFile, MAX_PLUGIN_BYTES, PluginName, PublicKey, Release, ReleaseError,
    IndexRow, SignedText,
};
use reqwest::header::{ACCEPT, LINK};
use reqwest::{Method, StatusCode};
use semver::{Version, VersionReq};
use serde::Deserialize;
use url::Url;

use crate::error::RegistryClientError;
use crate::http::{HttpResponse, FetchError, RequestParts, HttpTransport};
use crate::site::{Access, below, download};
use crate::vouchers::SourceId;
pub(crate) use auth::OciCredentials;
use layout::{MANIFEST, Manifest};

/// The largest manifest that is read, in bytes: what registries themselves take.
const MAX_MANIFEST: u64 = 4 << 20;
/// The largest page of a list of tags, in bytes.
const MAX_TAGS: u64 = 4 << 20;
/// The most pages of it.
const MAX_PAGES: usize = 100;
/// How many manifests are fetched at once.
const SIDE_BY_SIDE: usize = 8;

/// A registry of that kind.
#[derive(Debug)]
pub(crate) struct Oci {
    name: String,
    web: HttpTransport,
    url: Url,
    /// Who may sign; none takes unsigned ones.
    keys: Option<BTreeSet<PublicKey>>,
    tokens: OciCredentials,
}

/// One version, and what was signed of it.
#[derive(Debug)]
pub(crate) struct OciRelease {
    pub row: IndexRow,
    pub release: Release,
    /// The release's file.
    pub file: String,
}

/// What an OCI registry holds is not what it must be.
#[derive(Debug, thiserror::Error)]
pub enum OciError {
    /// It is no JSON of the right shape.
    #[error("its {what} is damaged; ask the registry's maintainer")]
    Json {
        /// Which file.
        what: &'static str,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// It is something else than a component.
    #[error("its version {version} is no component as `wkg` stores one: {why}")]
    Layout {
        /// The version.
        version: Version,
        /// What is wrong.
        why: &'static str,
    },
    /// Nobody signed it who may.
    #[error(
        "its version {version} is not signed by one of the registry's `keys`; ask its publisher, or set `unsigned = true` for a registry that you trust"
    )]
    Unsigned {
        /// The version.
        version: Version,
    },
    /// What was signed is something else.
    #[error("its version {version} is not what its publisher signed; ask its publisher")]
    OtherThanSigned {
        /// The version.
        version: Version,
    },
    /// The release is refused.
    #[error("its version {version} is refused")]
    Release {
        /// The version.
        version: Version,
        /// Why.
        source: ReleaseError,
    },
    /// Somebody else published the same version at the same time.
    #[error("its version {version} was published by somebody else at the same time; theirs is what counts")]
    Overtaken {
        /// The version.
        version: Version,
    },
}

impl Oci {
    pub fn new(name: String, web: HttpTransport, url: Url, keys: Option<BTreeSet<PublicKey>>, tokens: OciCredentials) -> Self {
        Self { name, web, url, keys, tokens }
    }

    /// What tells it from other sources.
    pub fn id(&self) -> SourceId {
        SourceId::new(self.url.as_str(), if self.keys.is_some() { "signed" } else { "unsigned" })
    }

    /// Who may sign; none where unsigned releases are taken.
    pub fn keys(&self) -> Option<&BTreeSet<PublicKey>> {
        self.keys.as_ref()
    }

    /// The versions that fit, each with what was signed of it.
    pub async fn offers(
        &self,
        name: &PluginName,
        versions: &VersionReq,
        cache: &ContentStore,
        asking: Access,
    ) -> Result<Vec<OciRelease>, RegistryClientError> {
        if asking.offline {
            let what = format!("the list of `{name}` in registry `{}`", self.name);
            return Err(RegistryClientError::Offline { what });
        }
        let fitting = self.versions(name).await?.into_iter().filter(|version| versions.matches(version));
        let one = |version: Version| async move {
            let Some(manifest) = self.manifest(name, &version).await? else { return Ok(None) };
            self.offer(name, version, &manifest, cache).await.map(Some)
        };
        let offers: Vec<Option<OciRelease>> = stream::iter(fitting).map(one).buffered(SIDE_BY_SIDE).try_collect().await?;
        Ok(offers.into_iter().flatten().collect())
    }

    /// All versions: the tags that are one.
    async fn versions(&self, name: &PluginName) -> Result<Vec<Version>, RegistryClientError> {
        #[derive(Deserialize)]
        struct Tags {
            tags: Option<Vec<String>>,
        }
        let mut versions = BTreeSet::new();
        let mut url = self.at(name, "tags/list");
        url.set_query(Some("n=1000"));
        for _ in 0..MAX_PAGES {
            let answer = self.ask(Method::GET, &url, name, RequestParts::default(), &[StatusCode::NOT_FOUND]).await?;
            if answer.status() == StatusCode::NOT_FOUND {
                break;
            }
            let next = answer.header(&LINK).and_then(next_page).and_then(|next| url.join(&next).ok());
            let bytes = answer.bytes(MAX_TAGS).await.map_err(self.failed(name))?;
            let page: Tags = serde_json::from_slice(&bytes)
                .map_err(|source| self.refused(name, OciError::Json { what: "list of tags", source }))?;
            // What is no version, such as `latest`, is somebody else's business.
            versions.extend(page.tags.unwrap_or_default().iter().filter_map(|tag| tag.parse::<Version>().ok()));
            match next {
                Some(next) if next.origin() == self.url.origin() => url = next,
                _ => break,
            }
        }
        Ok(versions.into_iter().collect())
    }

    /// A version's manifest; none if there is no such version.
    async fn manifest(&self, name: &PluginName, version: &Version) -> Result<Option<Manifest>, RegistryClientError> {
        let url = self.at(name, &format!("manifests/{version}"));
        let sent = RequestParts { headers: vec![(ACCEPT, MANIFEST)], ..RequestParts::default() };
        let answer = self.ask(Method::GET, &url, name, sent, &[StatusCode::NOT_FOUND]).await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let bytes = answer.bytes(MAX_MANIFEST).await.map_err(self.failed(name))?;
        let manifest = serde_json::from_slice(&bytes);
        Ok(Some(manifest.map_err(|source| self.refused(name, OciError::Json { what: "manifest", source }))?))
    }

    async fn offer(
        &self,
        name: &PluginName,
        version: Version,
        manifest: &Manifest,
        cache: &ContentStore,
    ) -> Result<OciRelease, RegistryClientError> {
        let wrong = |why| self.refused(name, OciError::Layout { version: version.clone(), why });
        let (digest, size) = manifest.component().map_err(wrong)?;
        let release_refused = |source| self.refused(name, OciError::Release { version: version.clone(), source });
        let (file, signer) = match (&self.keys, manifest.release()) {
            (Some(keys), release) => {
                let unsigned = || self.refused(name, OciError::Unsigned { version: version.clone() });
                let file = release.ok_or_else(unsigned)?.to_owned();
                let signed = SignedText::parse(&file).map_err(|error| release_refused(ReleaseError::Damaged(error)))?;
                let signer = signed.signers().find(|key| keys.contains(key)).ok_or_else(unsigned)?;
                (file, Some(signer))
            }
            (None, Some(file)) => (file.to_owned(), None),
            // Pushed by another tool: what it is stands in the component alone.
            (None, None) => (self.said_by_component(name, &version, (digest, size), cache).await?, None),
        };
        let release = Release::read(&file, signer.as_ref()).map_err(release_refused)?;
        let said = &release.manifest;
        if said.name != *name || said.version != version || release.digest != digest || release.size != size {
            return Err(self.refused(name, OciError::OtherThanSigned { version }));
        }
        let row = IndexRow { yanked: manifest.is_yanked(), ..IndexRow::new(&release, &file, signer) };
        Ok(OciRelease { row, release, file })
    }

    /// The release file of a version that was pushed without one. Its component is kept if it is this version's, and not
    /// before that is known.
    async fn said_by_component(
        &self,
        name: &PluginName,
        version: &Version,
        (digest, size): (Digest, u64),
        cache: &ContentStore,
    ) -> Result<String, RegistryClientError> {
        let item = ContentFile::Component(digest);
        let said = |bytes: &[u8]| {
            let refused = |source| self.refused(name, OciError::Release { version: version.clone(), source });
            let release = Release::of(bytes, None).map_err(|error| refused(error.into()))?;
            let is_this = release.manifest.name == *name && release.manifest.version == *version;
            let other = || self.refused(name, OciError::OtherThanSigned { version: version.clone() });
            if is_this { Ok(release.sign(None)?) } else { Err(other()) }
        };
        if let Ok(Some(bytes)) = cache.read(&item) {
            return said(&bytes);
        }
        let incoming = self.blob(name, digest, size, cache).await?;
        let path = incoming.path().to_owned();
        let bytes = std::fs::read(&path).map_err(|source| ContentStoreError::Disk { what: "read", path, source })?;
        let file = said(&bytes)?;
        cache.keep(&incoming, &item)?;
        Ok(file)
    }

    /// The component of a version, not yet looked at.
    pub async fn component(&self, row: &IndexRow, cache: &ContentStore, asking: Access) -> Result<PendingFile, RegistryClientError> {
        if asking.offline {
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
        let url = self.at(name, &format!("blobs/{digest:#}"));
        let authorization = self.tokens.known(name);
        let sent = RequestParts { authorization: authorization.as_deref(), ..RequestParts::default() };
        let limit = size.min(MAX_PLUGIN_BYTES as u64);
        let (incoming, found) = download(&self.web, &url, &sent, limit, cache).await.map_err(self.failed(name))?;
        let (registry, what, expected) = (self.name.clone(), format!("the component of `{name}`"), digest);
        if found == digest { Ok(incoming) } else { Err(RegistryClientError::Altered { registry, what, found, expected }) }
    }

    /// Asks, with what the registry wants to see of who asks.
    async fn ask(
        &self,
        method: Method,
        url: &Url,
        name: &PluginName,
        sent: RequestParts<'_>,
        expected: &[StatusCode],
    ) -> Result<HttpResponse, RegistryClientError> {
        let expected = [expected, &[StatusCode::UNAUTHORIZED]].concat();
        let known = self.tokens.known(name);
        let attempt = async |authorization: Option<&str>| {
            let sent = RequestParts { authorization, ..sent.clone() };
            self.web.again(|| self.web.ask(&method, url, &sent, &expected)).await.map_err(self.failed(name))
        };
        let answer = attempt(known.as_deref()).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let authorization = self.tokens.obtain(&self.web, &answer, name).await.map_err(self.failed(name))?;
        let answer = attempt(authorization.as_deref()).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let hint = match self.tokens.variable() {
            Some(variable) => format!("it does not accept what {variable} holds"),
            None => "it wants to know who asks; name an environment variable with `user:password` in `credentials`"
                .to_owned(),
        };
        let origin = url.origin().ascii_serialization();
        let status = StatusCode::UNAUTHORIZED;
        Err(self.failed(name)(FetchError::Status { origin, status, words: hint }))
    }

    /// An address below a plugin's repository. The API lies at the host's root, whatever folder the user names.
    fn at(&self, name: &PluginName, rest: &str) -> Url {
        let folder = self.url.path().trim_start_matches('/').to_owned();
        let mut root = self.url.clone();
        root.set_path("/");
        below(&root, &format!("v2/{folder}{name}/{rest}"))
    }

    fn failed(&self, name: &PluginName) -> impl FnOnce(FetchError) -> RegistryClientError {
        let (registry, what) = (self.name.clone(), format!("`{name}`"));
        move |source| RegistryClientError::Fetch { registry, what, source }
    }

    fn refused(&self, name: &PluginName, source: OciError) -> RegistryClientError {
        RegistryClientError::Oci { registry: self.name.clone(), name: name.clone(), source: Box::new(source) }
    }
}

/// The next page that a `link` header names.
fn next_page(link: &str) -> Option<String> {
    let entry = link.split(',').find(|entry| entry.contains("rel=\"next\""))?;
    let (url, _) = entry.trim().strip_prefix('<')?.split_once('>')?;
    Some(url.to_owned())
}
