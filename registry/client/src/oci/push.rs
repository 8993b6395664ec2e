//! Publishing in an OCI registry: blobs first, then the tagged manifest.

use gymkhana_registry::{PluginName, Release};
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use reqwest::{Method, StatusCode};
use semver::Version;

use super::layout::{MANIFEST, OciManifest, YANKED, config};
use super::{OciError, OciRegistry};
use crate::error::RegistryClientError;
use crate::transport::{FetchError, RequestParts};

impl OciRegistry {
    /// Returns true if releases must be signed.
    pub fn is_signed(&self) -> bool {
        self.keys.is_some()
    }

    /// Publishes a component with its release file at `now` (seconds since 1970). The protocol has no conditional write, so
    /// a concurrent publication is detected afterwards.
    pub async fn publish(
        &self,
        release: &Release,
        file: &str,
        component: &[u8],
        now: u64,
    ) -> Result<(), RegistryClientError> {
        let (name, version) = (&release.manifest.name, &release.manifest.version);
        if !version.build.is_empty() {
            let problem = format!(
                "cannot store version {version}, because tags do not allow `+`\nhint: publish it without build metadata"
            );
            return Err(RegistryClientError::Unsupported { registry: self.name.clone(), problem });
        }
        let rejected = |error: gymkhana_registry::ManifestError| {
            self.rejected(name, OciError::Release { version: version.clone(), source: error.into() })
        };
        let config = config(component, now).map_err(rejected)??;
        self.upload(name, &config).await?;
        self.upload(name, component).await?;
        let manifest = OciManifest::new(&config, component, file);
        self.put(name, version, &manifest).await?;
        let current = self.manifest(name, version).await?;
        match current.and_then(|(current, _)| current.component().ok()) {
            Some((digest, _)) if digest == release.digest => Ok(()),
            _ => Err(self.rejected(name, OciError::Overwritten { version: version.clone() })),
        }
    }

    /// Yanks a version, which excludes it from new resolutions, or restores it.
    pub async fn yank(&self, name: &PluginName, version: &Version, yanked: bool) -> Result<(), RegistryClientError> {
        let unknown = || RegistryClientError::Unsupported {
            registry: self.name.clone(),
            problem: format!("does not have version {version} of `{name}`"),
        };
        let (mut manifest, _) = self.manifest(name, version).await?.ok_or_else(unknown)?;
        if yanked {
            manifest.annotations.insert(YANKED.to_owned(), "true".to_owned());
        } else {
            manifest.annotations.remove(YANKED);
        }
        self.put(name, version, &manifest).await
    }

    async fn put(
        &self,
        name: &PluginName,
        version: &Version,
        manifest: &OciManifest,
    ) -> Result<(), RegistryClientError> {
        let url = self.url_of(name, &format!("manifests/{version}"));
        let headers = vec![(CONTENT_TYPE, MANIFEST), (ACCEPT, MANIFEST)];
        let parts = RequestParts { headers, body: serde_json::to_vec(manifest)?.into(), ..RequestParts::default() };
        self.request(Method::PUT, &url, name, parts, &[]).await.map(|_| ())
    }

    /// Uploads a blob unless it exists.
    async fn upload(&self, name: &PluginName, bytes: &[u8]) -> Result<(), RegistryClientError> {
        let digest = format!("{:#}", gymkhana_registry::Digest::of(bytes));
        let blob = self.url_of(name, &format!("blobs/{digest}"));
        let existing =
            self.request(Method::HEAD, &blob, name, RequestParts::default(), &[StatusCode::NOT_FOUND]).await?;
        if existing.status().is_success() {
            return Ok(());
        }
        let started = self
            .request(Method::POST, &self.url_of(name, "blobs/uploads/"), name, RequestParts::default(), &[])
            .await?;
        let target = started.header(&LOCATION).and_then(|target| started.url().join(target).ok());
        let origin = self.url.origin().ascii_serialization();
        let missing = || FetchError::Redirected { origin: origin.clone(), to: "an invalid URL".to_owned() };
        let mut target = target.ok_or_else(missing).map_err(self.failed(name))?;
        if target.origin() != self.url.origin() {
            let redirected = FetchError::Redirected { origin, to: target.to_string() };
            return Err(self.failed(name)(redirected));
        }
        target.query_pairs_mut().append_pair("digest", &digest);
        let headers = vec![(CONTENT_TYPE, "application/octet-stream")];
        let parts = RequestParts { headers, body: bytes.to_vec().into(), ..RequestParts::default() };
        self.request(Method::PUT, &target, name, parts, &[]).await.map(|_| ())
    }
}
