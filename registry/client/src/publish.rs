//! Publishing and withdrawing: into a folder, to our server, or into an OCI registry.

use std::io::Write;

use gymkhana_registry::{
    Authority, ContentStoreError, FolderError, Namespace, PluginName, PublicKey, RuleViolation, RegistryFolder, Release, Report,
    IndexRow, SecretKey, check_release,
};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use semver::{Version, VersionReq};
use serde_json::json;
use url::Url;

use crate::client::{RegistryClient, Backend};
use crate::error::RegistryClientError;
use crate::http::{FetchError, RequestParts, HttpTransport};
use crate::site::{Location, Remote, below};

/// The type of what is sent to a server that takes releases: the release file, an empty line, the component.
const RELEASE_TYPE: &str = "application/vnd.gymkhana.release";
/// The longest answer to a change that is read, in bytes.
const MAX_ANSWER: u64 = 64 << 10;

/// What a publisher has.
#[derive(Debug, Default)]
pub struct Secrets {
    /// A key of the namespace, for releases.
    pub key: Option<SecretKey>,
    /// The registry's root key, for folders of one's own.
    pub root: Option<SecretKey>,
    /// For how many seconds such a folder's checkpoint counts.
    pub lifetime: u64,
}

/// What is published.
#[derive(Debug)]
pub struct PublishRequest<'a> {
    /// The component.
    pub component: &'a [u8],
    /// What the conformance suite found out about it.
    pub report: Option<Report>,
}

impl RegistryClient {
    /// Publishes a component where its namespace is served; gives the registry's name and the line in its index.
    ///
    /// # Errors
    /// If a rule refuses it, if keys are missing or wrong, or if the registry does not take it.
    pub async fn publish(&self, publishing: PublishRequest<'_>, secrets: &Secrets) -> Result<(String, IndexRow), RegistryClientError> {
        let release = Release::of(publishing.component, publishing.report).map_err(RegistryClientError::NoPlugin)?;
        let name = &release.manifest.name;
        let (registry, serving) = self.serves(name.namespace())?;
        self.may_publish(&release, registry, serving).await?;
        let key = signing_key(registry, serving, secrets)?;
        let file = release.sign(key)?;
        let signer = key.map(SecretKey::public);
        let row = IndexRow::new(&release, &file, signer);
        match serving {
            Backend::Oci(oci) => oci.publish(&release, &file, publishing.component, self.asking.now).await?,
            Backend::Remote(site) => {
                if let Some(key) = signer {
                    self.is_mine(site, name, key).await?;
                }
                match &site.place {
                    Location::Folder(folder) => self.add(site, folder, &file, publishing.component, secrets)?,
                    Location::Web { web, url, token } => {
                        let body = [file.as_bytes(), b"\n", publishing.component].concat();
                        let to = below(url, "publish");
                        self.send(site, web, &to, token.as_deref(), RELEASE_TYPE, body).await?;
                    }
                }
            }
        }
        Ok((registry.to_owned(), row))
    }

    /// Sees that the publisher has what the registry of a component asks for, before the conformance suite takes its time.
    ///
    /// # Errors
    /// If no registry serves its namespace, or a key or a token is missing.
    pub fn is_equipped(&self, component: &[u8], secrets: &Secrets) -> Result<(), RegistryClientError> {
        let release = Release::of(component, None).map_err(RegistryClientError::NoPlugin)?;
        let (registry, serving) = self.serves(release.manifest.name.namespace())?;
        signing_key(registry, serving, secrets)?;
        if let Backend::Remote(site) = serving
            && let Location::Web { token, .. } = &site.place
        {
            self.token(&site.name, token.as_deref())?;
        }
        Ok(())
    }

    /// The rules, before anything is sent: the server applies them again.
    async fn may_publish(&self, release: &Release, registry: &str, serving: &Backend) -> Result<(), RegistryClientError> {
        let name = &release.manifest.name;
        let (rows, names) = match serving {
            Backend::Remote(site) => {
                let index = &site.state(self.asking).await?.accepted.checkpoint.index;
                let rows = if index.contains_key(name) { site.rows(name, self.asking).await? } else { Vec::new() };
                (rows, index.keys().cloned().collect())
            }
            Backend::Oci(oci) => {
                // A version in the way is no less in the way for being damaged or of another publisher.
                let offers = oci.offers(name, &VersionReq::STAR, &self.cache, self.asking).await?;
                self.notice(format!("registry `{registry}` cannot list its plugins: no name is compared with theirs"));
                (offers.into_iter().map(|offer| offer.row).collect(), Vec::new())
            }
        };
        let others: Vec<PluginName> = names;
        check_release(release, &rows, others.iter()).map_err(|refusal: RuleViolation| RegistryClientError::Rule(Box::new(refusal)))
    }

    async fn is_mine(&self, site: &Remote, name: &PluginName, key: PublicKey) -> Result<(), RegistryClientError> {
        let namespaces = &site.state(self.asking).await?.accepted.checkpoint.namespaces;
        if namespaces.get(name.namespace()).is_some_and(|keys| keys.current.contains(&key)) {
            return Ok(());
        }
        let namespace: Namespace = name.namespace().parse().map_err(|_| RegistryClientError::NoRegistry(name.to_string()))?;
        Err(RegistryClientError::NotMyNamespace { key, namespace, registry: site.name.clone() })
    }

    fn add(
        &self,
        site: &Remote,
        folder: &RegistryFolder,
        file: &str,
        component: &[u8],
        secrets: &Secrets,
    ) -> Result<(), RegistryClientError> {
        let authority = self.authority(site, secrets)?;
        let mut incoming = folder.content_store().begin()?;
        let written = incoming.file.write_all(component);
        written.map_err(|source| ContentStoreError::Disk { what: "written", path: incoming.path().to_owned(), source })?;
        folder.add(file, &incoming, authority).map_err(not_taken(site))?;
        Ok(())
    }

    /// Who signs a folder's new state.
    fn authority<'a>(&self, site: &Remote, secrets: &'a Secrets) -> Result<Authority<'a>, RegistryClientError> {
        let root = match (site.trust.root(), &secrets.root) {
            (Some(_), None) => {
                let what = "is a signed folder, whose state its root key signs; give it with --root";
                return Err(cannot(&site.name, what));
            }
            (Some(_), root) => root.as_ref(),
            (None, _) => None,
        };
        Ok(Authority { root, lifetime: secrets.lifetime, now: self.asking.now })
    }

    /// Withdraws a version from new resolutions, or brings it back; gives the registry's name.
    ///
    /// # Errors
    /// If there is no such version, or the registry does not take it.
    pub async fn yank(
        &self,
        name: &PluginName,
        version: &Version,
        yanked: bool,
        secrets: &Secrets,
    ) -> Result<String, RegistryClientError> {
        let (registry, serving) = self.serves(name.namespace())?;
        match serving {
            Backend::Oci(oci) => oci.yank(name, version, yanked).await?,
            Backend::Remote(site) => match &site.place {
                Location::Folder(folder) => {
                    let authority = self.authority(site, secrets)?;
                    folder.yank(name, version, yanked, authority).map_err(not_taken(site))?;
                }
                Location::Web { web, url, token } => {
                    let body = json!({ "name": name, "version": version, "yanked": yanked }).to_string();
                    let to = below(url, "yank");
                    self.send(site, web, &to, token.as_deref(), "application/json", body.into_bytes()).await?;
                }
            },
        }
        Ok(registry.to_owned())
    }

    /// The publisher's token, from the environment variable that the registry's settings name.
    fn token(&self, registry: &str, variable: Option<&str>) -> Result<String, RegistryClientError> {
        let variable = variable.ok_or_else(|| {
            cannot(registry, "takes changes by token alone; name the environment variable that holds yours in `token`")
        })?;
        (self.variable)(variable).ok_or_else(|| {
            cannot(registry, &format!("takes your token from the environment variable {variable}, which is not set"))
        })
    }

    /// Sends a change to a server that takes them.
    async fn send(
        &self,
        site: &Remote,
        web: &HttpTransport,
        to: &Url,
        token: Option<&str>,
        media_type: &str,
        body: Vec<u8>,
    ) -> Result<(), RegistryClientError> {
        if self.asking.offline {
            return Err(RegistryClientError::Offline { what: format!("registry `{}`", site.name) });
        }
        let authorization = format!("Bearer {}", self.token(&site.name, token)?.trim());
        let headers = vec![(CONTENT_TYPE, media_type)];
        let sent = RequestParts { headers, authorization: Some(&authorization), body: body.into() };
        // Once: a change that was made and whose answer was lost would be refused the second time.
        let answered = match web.ask(&Method::PUT, to, &sent, &[]).await {
            Ok(answer) => answer.bytes(MAX_ANSWER).await.map(|_| ()),
            Err(error) => Err(error),
        };
        answered.map_err(|error| match error {
            FetchError::Status { status, words, .. } if status.is_client_error() => {
                RegistryClientError::Refused { registry: site.name.clone(), words }
            }
            other => site.failed("the change")(other),
        })
    }
}

/// The key that signs releases for a registry; none where nobody signs.
fn signing_key<'a>(
    registry: &str,
    serving: &Backend,
    secrets: &'a Secrets,
) -> Result<Option<&'a SecretKey>, RegistryClientError> {
    let is_signed = match serving {
        Backend::Remote(site) => site.trust.root().is_some(),
        Backend::Oci(oci) => oci.is_signed(),
    };
    if is_signed && secrets.key.is_none() {
        let what = "takes signed releases alone; give your key with --key, or make one with `host keygen`";
        return Err(cannot(registry, what));
    }
    Ok(secrets.key.as_ref().filter(|_| is_signed))
}

fn cannot(registry: &str, what: &str) -> RegistryClientError {
    RegistryClientError::Cannot { registry: registry.to_owned(), what: what.to_owned() }
}

fn not_taken(site: &Remote) -> impl FnOnce(FolderError) -> RegistryClientError {
    let registry = site.name.clone();
    move |source| RegistryClientError::NotTaken { registry, source: Box::new(source) }
}
