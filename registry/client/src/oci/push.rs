//! Publishing into an OCI registry: the blobs first, the manifest under its tag last.

use gymkhana_registry::{PluginName, Release};
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use reqwest::{Method, StatusCode};
use semver::Version;

use super::layout::{MANIFEST, Manifest, YANKED, config};
use super::{OciRegistry, OciError};
use crate::error::RegistryClientError;
use crate::http::{FetchError, RequestParts};

impl Oci {
    /// Whether releases must be signed here.
    pub fn is_signed(&self) -> bool {
        self.keys.is_some()
    }

    /// Publishes a component with its release file, made `now`. There is no way to say "unless it is there" to such a
    /// registry: whether somebody else was faster is seen afterwards.
    pub async fn publish(&self, release: &Release, file: &str, component: &[u8], now: u64) -> Result<(), RegistryClientError> {
        let (name, version) = (&release.manifest.name, &release.manifest.version);
        if !version.build.is_empty() {
            let what = format!("cannot hold version {version}: a tag has no `+`; publish it without build metadata");
            return Err(RegistryClientError::Cannot { registry: self.name.clone(), what });
        }
        let refused = |error: gymkhana_registry::ManifestError| {
            self.refused(name, OciError::Release { version: version.clone(), source: error.into() })
        };
        let config = config(component, now).map_err(refused)??;
        self.upload(name, &config).await?;
        self.upload(name, component).await?;
        let manifest = Manifest::new(&config, component, file);
        self.put(name, version, &manifest).await?;
        let there = self.manifest(name, version).await?;
        match there.and_then(|there| there.component().ok()) {
            Some((digest, _)) if digest == release.digest => Ok(()),
            _ => Err(self.refused(name, OciError::Overtaken { version: version.clone() })),
        }
    }

    /// Withdraws a version from new resolutions, or brings it back.
    pub async fn yank(&self, name: &PluginName, version: &Version, yanked: bool) -> Result<(), RegistryClientError> {
        let unknown = || RegistryClientError::Cannot {
            registry: self.name.clone(),
            what: format!("has no version {version} of `{name}`"),
        };
        let mut manifest = self.manifest(name, version).await?.ok_or_else(unknown)?;
        if yanked {
            manifest.annotations.insert(YANKED.to_owned(), "true".to_owned());
        } else {
            manifest.annotations.remove(YANKED);
        }
        self.put(name, version, &manifest).await
    }

    async fn put(&self, name: &PluginName, version: &Version, manifest: &Manifest) -> Result<(), RegistryClientError> {
        let url = self.at(name, &format!("manifests/{version}"));
        let headers = vec![(CONTENT_TYPE, MANIFEST), (ACCEPT, MANIFEST)];
        let sent = RequestParts { headers, body: serde_json::to_vec(manifest)?.into(), ..RequestParts::default() };
        self.ask(Method::PUT, &url, name, sent, &[]).await.map(|_| ())
    }

    /// Uploads a blob, unless it is there.
    async fn upload(&self, name: &PluginName, bytes: &[u8]) -> Result<(), RegistryClientError> {
        let digest = format!("{:#}", gymkhana_registry::Digest::of(bytes));
        let blob = self.at(name, &format!("blobs/{digest}"));
        let there = self.ask(Method::HEAD, &blob, name, RequestParts::default(), &[StatusCode::NOT_FOUND]).await?;
        if there.status().is_success() {
            return Ok(());
        }
        let begun = self.ask(Method::POST, &self.at(name, "blobs/uploads/"), name, RequestParts::default(), &[]).await?;
        let place = begun.header(&LOCATION).and_then(|place| begun.url().join(place).ok());
        let origin = self.url.origin().ascii_serialization();
        let nowhere = || FetchError::Elsewhere { origin: origin.clone(), to: "nowhere".to_owned() };
        let mut place = place.ok_or_else(nowhere).map_err(self.failed(name))?;
        if place.origin() != self.url.origin() {
            let elsewhere = FetchError::Elsewhere { origin, to: place.to_string() };
            return Err(self.failed(name)(elsewhere));
        }
        place.query_pairs_mut().append_pair("digest", &digest);
        let headers = vec![(CONTENT_TYPE, "application/octet-stream")];
        let sent = RequestParts { headers, body: bytes.to_vec().into(), ..RequestParts::default() };
        self.ask(Method::PUT, &place, name, sent, &[]).await.map(|_| ())
    }
}
