//! A registry with a checkpoint: a folder, or the same files on a web server.

use std::io::Write;
use std::time::Duration;

use gymkhana_registry::{
    AcceptedCheckpoint, CHECKPOINT_FILE, CatalogueRow, CheckpointError, ContentFile, ContentStore, Digest, ErrorChain,
    IndexError, IndexRow, MAX_CHECKPOINT_BYTES, MAX_PLUGIN_BYTES, PendingFile, PluginName, PublicKey, RegistryFolder,
    ReleaseStatus, SignedTextError, check_append_only, read_catalogue, read_index,
};
use gymkhana_waits::{Counterpart, within};
use reqwest::header::IF_NONE_MATCH;
use reqwest::{Method, StatusCode};
use tokio::sync::OnceCell;
use url::Url;

use crate::config::Trust;
use crate::error::RegistryClientError;
use crate::nearest::nearest;
use crate::transport::{FetchError, HttpTransport, RequestParts, below};
use crate::trust::{SeenCheckpoint, SeenCheckpoints, SourceId};

/// Timeout of refreshing the state for a revocation check of a cached component.
pub(crate) const REFRESH_TIMEOUT: Duration = Duration::from_secs(3);

/// A registry with a checkpoint.
#[derive(Debug)]
pub(crate) struct Remote {
    pub name: String,
    pub location: Location,
    pub trust: Trust,
    /// Record of seen checkpoints; `None` for an unsigned registry, which has no rollback protection.
    seen: Option<SeenCheckpoints>,
    /// Index files of an unsigned registry.
    unsigned: ContentStore,
    state: OnceCell<RemoteState>,
    /// Reason why the state could not be refreshed for a revocation check, if so.
    refresh_failure: OnceCell<Option<String>>,
}

/// Current state of a registry.
#[derive(Debug)]
pub(crate) struct RemoteState {
    /// Text of the checkpoint file.
    pub text: String,
    pub accepted: AcceptedCheckpoint,
}

/// A state that could not be refreshed for a revocation check.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnreachableState<'a> {
    /// Reason.
    pub why: &'a str,
    /// Time at which the last seen state was signed, in seconds since 1970; `None` if none was seen.
    pub last: Option<u64>,
}

/// Location of a registry's files.
#[derive(Debug)]
pub(crate) enum Location {
    Folder(RegistryFolder),
    Web { http: Box<HttpTransport>, url: Url, token: Option<String> },
}

/// Network permission and current time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RemoteAccess {
    /// Disables the network.
    pub offline: bool,
    /// Current time in seconds since 1970.
    pub now: u64,
}

impl Remote {
    pub fn new(name: String, location: Location, trust: Trust, seen: &std::path::Path) -> Self {
        let id = location.id();
        let unsigned =
            ContentStore::new(seen.join(format!("unsigned-{}", &Digest::of(id.as_bytes()).to_string()[..32])));
        let seen = trust.root().map(|root| SeenCheckpoints::new(seen, &id, root));
        Self { name, location, trust, seen, unsigned, state: OnceCell::new(), refresh_failure: OnceCell::new() }
    }

    /// Identifier of the source for provenance records.
    pub fn id(&self) -> SourceId {
        let trust = self.trust.root().map_or_else(|| "unsigned".to_owned(), |root| root.to_string());
        SourceId::new(&self.location.id(), &trust)
    }

    /// State of the registry, fetched once per client.
    pub async fn state(&self, access: RemoteAccess) -> Result<&RemoteState, RegistryClientError> {
        self.state.get_or_try_init(|| self.fetch_state(access)).await
    }

    /// Returns true if this client has read the state.
    pub fn has_state(&self) -> bool {
        self.state.initialized()
    }

    /// Status of releases signed by a key, by the current state if it can be fetched quickly, otherwise by the last seen
    /// state (`None` if there is none) together with the reason of the failure.
    pub async fn release_status(
        &self,
        namespace: &str,
        key: &PublicKey,
        access: RemoteAccess,
    ) -> (Option<ReleaseStatus>, Option<UnreachableState<'_>>) {
        let failure = self.refresh_failure.get_or_init(|| async {
            match within(Counterpart::Registry, REFRESH_TIMEOUT, self.state(access)).await {
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Some(ErrorChain(&error).to_string()),
                Err(silent) => Some(silent.of(format!("`{}`", self.name)).to_string()),
            }
        });
        let failure = failure.await.as_deref().filter(|_| !access.offline);
        let status = |accepted: &AcceptedCheckpoint| accepted.checkpoint.release_status(namespace, key);
        if let Some(state) = self.state.get() {
            return (Some(status(&state.accepted)), None);
        }
        // Without a usable record there is no status; `failure` then holds the error.
        let last = self.seen.as_ref().and_then(|seen| seen.last().ok().flatten()).map(|last| last.accepted);
        let issued = last.as_ref().map(|last| last.checkpoint.issued);
        (last.as_ref().map(status), failure.map(|why| UnreachableState { why, last: issued }))
    }

    async fn fetch_state(&self, access: RemoteAccess) -> Result<RemoteState, RegistryClientError> {
        let last = self.seen.as_ref().map(SeenCheckpoints::last).transpose()?.flatten();
        if access.offline && matches!(self.location, Location::Web { .. }) {
            let last = last.map(|SeenCheckpoint { text, accepted, .. }| RemoteState { text, accepted });
            return last.ok_or_else(|| RegistryClientError::Offline {
                what: format!("the state of registry `{}`", self.name),
            });
        }
        let Some((text, etag)) = self.checkpoint(last.as_ref()).await? else {
            // An unchanged checkpoint can have expired.
            let SeenCheckpoint { text, accepted, .. } = last.ok_or_else(|| self.unexpected_not_modified())?;
            return match access.now.checked_sub(accepted.checkpoint.expires) {
                Some(ago) => Err(self.rejected(CheckpointError::Expired { ago })),
                None => Ok(RemoteState { text, accepted }),
            };
        };
        let Some((root, seen)) = self.trust.root().zip(self.seen.as_ref()) else {
            let accepted = AcceptedCheckpoint::unsigned(&text).map_err(|error| self.rejected(error))?;
            return Ok(RemoteState { text, accepted });
        };
        let last = last.map(|last| last.accepted);
        let accepted = AcceptedCheckpoint::verify(&text, &root, last.as_ref(), access.now)
            .map_err(|error| self.rejected(error))?;
        if last.as_ref() != Some(&accepted) {
            seen.record(&text, &accepted, etag.as_deref())?;
        }
        Ok(RemoteState { text, accepted })
    }

    fn rejected(&self, source: CheckpointError) -> RegistryClientError {
        RegistryClientError::Checkpoint { registry: self.name.clone(), source: Box::new(source) }
    }

    /// Error of a `304` response to an unconditional request.
    fn unexpected_not_modified(&self) -> RegistryClientError {
        self.failed(CHECKPOINT_FILE)(FetchError::Status {
            origin: self.location.id(),
            status: StatusCode::NOT_MODIFIED,
            message: "the request was unconditional".to_owned(),
        })
    }

    /// Fetches the checkpoint text and its ETag; `None` if it equals the last seen one.
    async fn checkpoint(
        &self,
        last: Option<&SeenCheckpoint>,
    ) -> Result<Option<(String, Option<String>)>, RegistryClientError> {
        match &self.location {
            Location::Folder(folder) => {
                let text = folder.checkpoint_text().map_err(|source| self.unreadable(source))?;
                Ok(Some((text, None)))
            }
            Location::Web { http, url, .. } => {
                let url = below(url, CHECKPOINT_FILE);
                let tag = last.and_then(|last| last.etag.as_deref());
                let headers = tag.map(|tag| (IF_NONE_MATCH, tag)).into_iter().collect();
                let parts = RequestParts { headers, ..RequestParts::default() };
                let (bytes, etag) = http
                    .retry(|| async {
                        let response = http.send(&Method::GET, &url, &parts, &[]).await?;
                        if response.status() == StatusCode::NOT_MODIFIED {
                            return Ok((None, None));
                        }
                        let etag = response.etag();
                        Ok((Some(response.bytes(MAX_CHECKPOINT_BYTES).await?), etag))
                    })
                    .await
                    .map_err(self.failed(CHECKPOINT_FILE))?;
                let Some(bytes) = bytes else { return Ok(None) };
                let text = String::from_utf8(bytes).map_err(|error| {
                    self.rejected(CheckpointError::Damaged(SignedTextError::NotUtf8(error.utf8_error())))
                })?;
                Ok(Some((text, etag)))
            }
        }
    }

    /// Index rows of a plugin.
    pub async fn rows(&self, name: &PluginName, access: RemoteAccess) -> Result<Vec<IndexRow>, RegistryClientError> {
        let state = &self.state(access).await?.accepted;
        let Some(digest) = state.checkpoint.index.get(name) else {
            let nearest = nearest(&name.to_string(), state.checkpoint.index.keys());
            return Err(RegistryClientError::UnknownPlugin {
                registry: self.name.clone(),
                name: name.clone(),
                nearest,
            });
        };
        let file = ContentFile::Index(name.clone(), *digest);
        let rejected = |source| RegistryClientError::Index {
            registry: self.name.clone(),
            name: name.to_string(),
            source: Box::new(source),
        };
        if let Ok(Some(bytes)) = self.index_store().read(&file) {
            return read_index(name, &bytes).map_err(rejected);
        }
        let bytes = self.fetch_file(&file, access).await?;
        let rows = read_index(name, &bytes).map_err(rejected)?;
        self.check_against_seen(name, &rows).map_err(rejected)?;
        self.index_store().write(&file, &bytes)?;
        Ok(rows)
    }

    /// Checks that an index file extends the last seen one, and deletes the latter.
    fn check_against_seen(&self, name: &PluginName, rows: &[IndexRow]) -> Result<(), IndexError> {
        let Some(seen) = &self.seen else { return Ok(()) };
        let folder = seen.content_store().folder().join("index").join(name.to_string());
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let digest = entry.path().file_stem().and_then(|stem| stem.to_str()?.parse::<Digest>().ok());
            let Some(file) = digest.map(|digest| ContentFile::Index(name.clone(), digest)) else { continue };
            if let Ok(Some(bytes)) = seen.content_store().read(&file)
                && let Ok(old) = read_index(name, &bytes)
            {
                check_append_only(&old, rows)?;
            }
            // The new file supersedes it; another process may have deleted it already.
            let _ = std::fs::remove_file(entry.path());
        }
        Ok(())
    }

    /// Catalogue of the registry.
    pub async fn catalogue(&self, access: RemoteAccess) -> Result<Vec<CatalogueRow>, RegistryClientError> {
        let state = &self.state(access).await?.accepted;
        let file = ContentFile::Catalogue(state.checkpoint.catalogue);
        let bytes = match self.index_store().read(&file) {
            Ok(Some(bytes)) => bytes,
            _ => {
                let bytes = self.fetch_file(&file, access).await?;
                self.index_store().write(&file, &bytes)?;
                bytes
            }
        };
        read_catalogue(&bytes).map_err(|source| RegistryClientError::Index {
            registry: self.name.clone(),
            name: "catalogue".to_owned(),
            source: Box::new(source),
        })
    }

    /// Store of index files and catalogues.
    fn index_store(&self) -> ContentStore {
        self.seen.as_ref().map_or_else(|| self.unsigned.clone(), SeenCheckpoints::content_store)
    }

    /// Fetches a file from the registry and verifies its digest.
    pub async fn fetch_file(&self, file: &ContentFile, access: RemoteAccess) -> Result<Vec<u8>, RegistryClientError> {
        let bytes = match &self.location {
            Location::Folder(folder) => {
                // Verified below, so that folders and servers give the same error.
                let bytes = folder.content_store().read_unverified(file);
                bytes.map_err(FetchError::Unreadable).map_err(self.failed(&file.path()))?
            }
            Location::Web { http, url, .. } => {
                self.require_online(&file.path(), access)?;
                let parts = RequestParts::default();
                let bytes = http.fetch(&below(url, &file.path()), &parts, file.limit()).await;
                bytes.map_err(self.failed(&file.path()))?
            }
        };
        self.check_digest(file, Digest::of(&bytes))?;
        Ok(bytes)
    }

    /// Fetches a component of at most `size` bytes into a pending file of a store and verifies its digest.
    pub async fn component(
        &self,
        file: &ContentFile,
        size: u64,
        store: &ContentStore,
        access: RemoteAccess,
    ) -> Result<PendingFile, RegistryClientError> {
        let (pending, digest) = match &self.location {
            Location::Folder(_) => {
                let bytes = self.fetch_file(file, access).await?;
                let mut pending = store.create_pending()?;
                pending.file.write_all(&bytes).map_err(FetchError::Disk).map_err(self.failed(&file.path()))?;
                (pending, Digest::of(&bytes))
            }
            Location::Web { http, url, .. } => {
                self.require_online(&file.path(), access)?;
                let (url, limit) = (below(url, &file.path()), size.min(MAX_PLUGIN_BYTES as u64));
                let downloaded = http.download(&url, &RequestParts::default(), limit, store).await;
                downloaded.map_err(self.failed(&file.path()))?
            }
        };
        self.check_digest(file, digest)?;
        Ok(pending)
    }

    fn check_digest(&self, file: &ContentFile, found: Digest) -> Result<(), RegistryClientError> {
        let (registry, what, expected) = (self.name.clone(), format!("`{}`", file.path()), file.digest());
        if found == expected {
            Ok(())
        } else {
            Err(RegistryClientError::DigestMismatch { registry, what, found, expected })
        }
    }

    fn require_online(&self, what: &str, access: RemoteAccess) -> Result<(), RegistryClientError> {
        let what = || format!("`{what}` of registry `{}`", self.name);
        if access.offline { Err(RegistryClientError::Offline { what: what() }) } else { Ok(()) }
    }

    fn unreadable(&self, source: gymkhana_registry::FolderReadError) -> RegistryClientError {
        RegistryClientError::Folder { registry: self.name.clone(), source: Box::new(source) }
    }

    pub fn failed(&self, what: &str) -> impl FnOnce(FetchError) -> RegistryClientError {
        let (registry, what) = (self.name.clone(), format!("`{what}`"));
        move |source| RegistryClientError::Fetch { registry, what, source }
    }
}

impl Location {
    /// Canonical path or URL.
    fn id(&self) -> String {
        match self {
            Self::Folder(folder) => {
                let path = folder.path();
                std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
            }
            Self::Web { url, .. } => url.to_string(),
        }
    }
}
