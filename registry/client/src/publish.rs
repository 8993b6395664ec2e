//! Publishing and yanking releases in folders, registry servers and OCI registries.

use std::io::Write;

use gymkhana_registry::{
    Authority, ContentStoreError, FolderError, IndexRow, Namespace, PluginName, PublicKey, RegistryFolder, Release,
    Report, RuleViolation, SecretKey, SelfDescription, check_release, read_manifest,
};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, StatusCode};
use semver::{Version, VersionReq};
use serde_json::json;
use url::Url;

use crate::backend::Backend;
use crate::client::RegistryClient;
use crate::error::RegistryClientError;
use crate::remote::{Location, Remote};
use crate::transport::{FetchError, HttpTransport, RequestParts, below};

/// Media type of a publish request: release file, empty line, component.
const RELEASE_TYPE: &str = "application/vnd.gymkhana.release";
/// Size limit of the response to a change, in bytes.
const MAX_RESPONSE: u64 = 64 << 10;

/// Keys of a publisher.
#[derive(Debug, Default)]
pub struct Secrets {
    /// Key of the namespace, which signs releases.
    pub key: Option<SecretKey>,
    /// Root key of a local registry folder.
    pub root: Option<SecretKey>,
    /// Validity of the folder's checkpoint in seconds.
    pub lifetime: u64,
}

/// Component to publish.
#[derive(Debug)]
pub struct PublishRequest<'a> {
    /// Bytes of the component.
    pub component: &'a [u8],
    /// Conformance report.
    pub report: Option<Report>,
    /// Answers of the plugin about itself.
    pub description: Option<SelfDescription>,
}

/// A checked and signed release with its registry.
struct PreparedRelease<'a> {
    registry: &'a str,
    backend: &'a Backend,
    release: Release,
    /// Text of the release file.
    file: String,
    row: IndexRow,
}

impl RegistryClient {
    /// Publishes a component in the registry of its namespace. Returns the registry name and the index row.
    ///
    /// # Errors
    /// If the release violates a rule, a key is missing or wrong, or the registry rejects the release.
    pub async fn publish(
        &self,
        request: PublishRequest<'_>,
        secrets: &Secrets,
    ) -> Result<(String, IndexRow), RegistryClientError> {
        let component = request.component;
        let PreparedRelease { registry, backend, release, file, row } = self.prepare(request, secrets).await?;
        match backend {
            Backend::Oci(oci) => oci.publish(&release, &file, component, self.access.now).await?,
            Backend::Remote(remote) => match &remote.location {
                Location::Folder(folder) => self.publish_to_folder(remote, folder, &file, component, secrets)?,
                Location::Web { http, url, token } => {
                    let body = [file.as_bytes(), b"\n", component].concat();
                    let to = below(url, "publish");
                    self.send_change(remote, http, &to, token.as_deref(), RELEASE_TYPE, body).await?;
                }
            },
        }
        Ok((registry.to_owned(), row))
    }

    /// Applies all checks of [`publish`](Self::publish) that are possible without a change. Returns the registry name and
    /// the index row that a release would have.
    ///
    /// # Errors
    /// As for [`publish`](Self::publish).
    pub async fn check_publish(
        &self,
        request: PublishRequest<'_>,
        secrets: &Secrets,
    ) -> Result<(String, IndexRow), RegistryClientError> {
        let manifest = read_manifest(request.component).map_err(RegistryClientError::NotAPlugin)?;
        self.check_credentials(manifest.name.namespace(), secrets)?;
        let prepared = self.prepare(request, secrets).await?;
        Ok((prepared.registry.to_owned(), prepared.row))
    }

    /// Applies the checks of [`check_publish`](Self::check_publish) that need no conformance report, before it is made.
    ///
    /// # Errors
    /// As for [`publish`](Self::publish).
    pub async fn check_before_suite(&self, component: &[u8], secrets: &Secrets) -> Result<(), RegistryClientError> {
        match self.check_publish(PublishRequest { component, report: None, description: None }, secrets).await {
            Err(RegistryClientError::Rule(violation)) if matches!(*violation, RuleViolation::NoReport { .. }) => Ok(()),
            checked => checked.map(drop),
        }
    }

    /// Checks and signs a release.
    async fn prepare(
        &self,
        request: PublishRequest<'_>,
        secrets: &Secrets,
    ) -> Result<PreparedRelease<'_>, RegistryClientError> {
        let PublishRequest { component, report, description } = request;
        let release = Release::of(component, report).map_err(RegistryClientError::NotAPlugin)?;
        let release = Release { description, ..release };
        let name = &release.manifest.name;
        let (registry, backend) = self.registry_of(name.namespace())?;
        let key = signing_key(registry, backend, secrets)?;
        let signer = key.map(SecretKey::public);
        if let (Backend::Remote(remote), Some(key)) = (backend, signer) {
            self.check_namespace_key(remote, name, key).await?;
        }
        self.check_rules(&release, registry, backend).await?;
        let file = release.sign(key)?;
        // A release that no reader accepts is not sent.
        Release::read(&file, signer.as_ref()).map_err(|source| RegistryClientError::Release {
            name: name.clone(),
            version: release.manifest.version.clone(),
            source: Box::new(source),
        })?;
        let row = IndexRow::new(&release, &file, signer);
        Ok(PreparedRelease { registry, backend, release, file, row })
    }

    /// Checks that the keys and tokens for publishing in a namespace are available, before a plugin is built.
    ///
    /// # Errors
    /// If no registry serves the namespace, or a key or token is missing.
    pub fn check_credentials(&self, namespace: &str, secrets: &Secrets) -> Result<(), RegistryClientError> {
        let (registry, backend) = self.registry_of(namespace)?;
        signing_key(registry, backend, secrets)?;
        match backend {
            Backend::Remote(remote) => match &remote.location {
                Location::Web { token, .. } => self.token(&remote.name, token.as_deref()).map(drop),
                Location::Folder(_) => self.authority(remote, secrets).map(drop),
            },
            Backend::Oci(_) => Ok(()),
        }
    }

    /// Applies the publishing rules before the upload; the server applies them again.
    async fn check_rules(
        &self,
        release: &Release,
        registry: &str,
        backend: &Backend,
    ) -> Result<(), RegistryClientError> {
        let name = &release.manifest.name;
        let (rows, names) = match backend {
            Backend::Remote(remote) => {
                let index = &remote.state(self.access).await?.accepted.checkpoint.index;
                let rows = if index.contains_key(name) { remote.rows(name, self.access).await? } else { Vec::new() };
                (rows, index.keys().cloned().collect())
            }
            Backend::Oci(oci) => {
                // Existing versions block the name even if they are damaged or signed by another publisher.
                let releases = oci.releases(name, &VersionReq::STAR, &self.cache, self.access).await?;
                self.add_notice(format!(
                    "registry `{registry}` cannot list its plugins, so the check for confusable names was skipped"
                ));
                (releases.into_iter().map(|release| release.row).collect(), Vec::new())
            }
        };
        let others: Vec<PluginName> = names;
        check_release(release, &rows, others.iter())
            .map_err(|violation: RuleViolation| RegistryClientError::Rule(Box::new(violation)))
    }

    async fn check_namespace_key(
        &self,
        remote: &Remote,
        name: &PluginName,
        key: PublicKey,
    ) -> Result<(), RegistryClientError> {
        let namespaces = &remote.state(self.access).await?.accepted.checkpoint.namespaces;
        if namespaces.get(name.namespace()).is_some_and(|keys| keys.current.contains(&key)) {
            return Ok(());
        }
        let namespace: Namespace =
            name.namespace().parse().map_err(|_| RegistryClientError::NoRegistry(name.to_string()))?;
        Err(RegistryClientError::NotMyNamespace { key, namespace, registry: remote.name.clone() })
    }

    fn publish_to_folder(
        &self,
        remote: &Remote,
        folder: &RegistryFolder,
        file: &str,
        component: &[u8],
        secrets: &Secrets,
    ) -> Result<(), RegistryClientError> {
        let authority = self.authority(remote, secrets)?;
        let mut pending = folder.content_store().create_pending()?;
        let written = pending.file.write_all(component);
        written.map_err(|source| ContentStoreError::Disk {
            operation: "write",
            path: pending.path().to_owned(),
            source,
        })?;
        folder.add(file, &pending, authority).map_err(rejected(remote))?;
        Ok(())
    }

    /// Signing authority of a local registry folder.
    fn authority<'a>(&self, remote: &Remote, secrets: &'a Secrets) -> Result<Authority<'a>, RegistryClientError> {
        let root = match (remote.trust.root(), &secrets.root) {
            (Some(_), None) => {
                let problem = "is a signed folder, which requires its root key\nhint: pass the key with --root";
                return Err(unsupported(&remote.name, problem));
            }
            (Some(_), root) => root.as_ref(),
            (None, _) => None,
        };
        Ok(Authority { root, lifetime: secrets.lifetime, now: self.access.now })
    }

    /// Yanks a version, which excludes it from new resolutions, or restores it. Returns the registry name.
    ///
    /// # Errors
    /// If the version does not exist or the registry rejects the change.
    pub async fn yank(
        &self,
        name: &PluginName,
        version: &Version,
        yanked: bool,
        secrets: &Secrets,
    ) -> Result<String, RegistryClientError> {
        let (registry, backend) = self.registry_of(name.namespace())?;
        match backend {
            Backend::Oci(oci) => oci.yank(name, version, yanked).await?,
            Backend::Remote(remote) => match &remote.location {
                Location::Folder(folder) => {
                    let authority = self.authority(remote, secrets)?;
                    folder.yank(name, version, yanked, authority).map_err(rejected(remote))?;
                }
                Location::Web { http, url, token } => {
                    let body = json!({ "name": name, "version": version, "yanked": yanked }).to_string();
                    let to = below(url, "yank");
                    self.send_change(remote, http, &to, token.as_deref(), "application/json", body.into_bytes())
                        .await?;
                }
            },
        }
        Ok(registry.to_owned())
    }

    /// Publishing token from the environment variable in the registry's settings.
    fn token(&self, registry: &str, variable: Option<&str>) -> Result<String, RegistryClientError> {
        let variable = variable.ok_or_else(|| {
            unsupported(registry, "requires a token\nhint: name the environment variable with your token in `token`")
        })?;
        (self.variable)(variable).ok_or_else(|| {
            unsupported(
                registry,
                &format!(
                    "reads the token from the environment variable {variable}, which is not set\nhint: set it to the token \
                     that the registry's maintainer gave you"
                ),
            )
        })
    }

    /// Sends a change to a registry server.
    async fn send_change(
        &self,
        remote: &Remote,
        http: &HttpTransport,
        to: &Url,
        token: Option<&str>,
        media_type: &str,
        body: Vec<u8>,
    ) -> Result<(), RegistryClientError> {
        if self.access.offline {
            return Err(RegistryClientError::Offline { what: format!("registry `{}`", remote.name) });
        }
        let authorization = format!("Bearer {}", self.token(&remote.name, token)?.trim());
        let variable = token.unwrap_or_default();
        let headers = vec![(CONTENT_TYPE, media_type)];
        let parts = RequestParts { headers, authorization: Some(&authorization), body: body.into() };
        // Without retries: a second attempt after a lost response would be rejected as a duplicate.
        let response = match http.send(&Method::PUT, to, &parts, &[]).await {
            Ok(response) => response.bytes(MAX_RESPONSE).await.map(|_| ()),
            Err(error) => Err(error),
        };
        response.map_err(|error| match error {
            FetchError::Status { status: StatusCode::UNAUTHORIZED, .. } => {
                RegistryClientError::UnknownToken { registry: remote.name.clone(), variable: variable.to_owned() }
            }
            FetchError::Status { status, message, .. } if status.is_client_error() => {
                RegistryClientError::RejectedByServer { registry: remote.name.clone(), message }
            }
            other => remote.failed("the change")(other),
        })
    }
}

/// Key that signs releases for a registry; `None` for an unsigned registry.
fn signing_key<'a>(
    registry: &str,
    backend: &Backend,
    secrets: &'a Secrets,
) -> Result<Option<&'a SecretKey>, RegistryClientError> {
    let is_signed = match backend {
        Backend::Remote(remote) => remote.trust.root().is_some(),
        Backend::Oci(oci) => oci.is_signed(),
    };
    if is_signed && secrets.key.is_none() {
        let problem = "accepts signed releases only\nhint: pass your key with --key, or create one with `host keygen`";
        return Err(unsupported(registry, problem));
    }
    Ok(secrets.key.as_ref().filter(|_| is_signed))
}

fn unsupported(registry: &str, problem: &str) -> RegistryClientError {
    RegistryClientError::Unsupported { registry: registry.to_owned(), problem: problem.to_owned() }
}

fn rejected(remote: &Remote) -> impl FnOnce(FolderError) -> RegistryClientError {
    let registry = remote.name.clone();
    move |source| RegistryClientError::RejectedByFolder { registry, source: Box::new(source) }
}
