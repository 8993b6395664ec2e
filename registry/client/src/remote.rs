//! A registry with a checkpoint: a folder, or the same files behind a web server.

use std::collections::HashSet;
use std::io::Write;
use std::time::Duration;

use gymkhana_registry::{
    AcceptedCheckpoint, CHECKPOINT_FILE, CatalogueRow, CheckpointError, ContentStore, Digest, PendingFile, IndexError, ContentFile,
    MAX_CHECKPOINT_BYTES, MAX_PLUGIN_BYTES, PluginName, PublicKey, RegistryFolder, IndexRow, ReleaseStatus, check_append_only,
    read_catalogue, read_index,
};
use reqwest::header::IF_NONE_MATCH;
use reqwest::{Method, StatusCode};
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;
use url::Url;

use crate::config::Trust;
use crate::error::RegistryClientError;
use crate::http::{FetchError, RequestParts, HttpTransport};
use crate::memory::{SeenCheckpoints, SeenCheckpoint};
use crate::vouchers::SourceId;

/// How long a registry is waited for whose newest state is wanted and not needed.
const MOMENT: Duration = Duration::from_secs(3);

/// One registry.
#[derive(Debug)]
pub(crate) struct Remote {
    pub name: String,
    pub place: Location,
    pub trust: Trust,
    /// None for an unsigned one, which may go back as it likes.
    memory: Option<SeenCheckpoints>,
    /// Index files of an unsigned one.
    unsigned: ContentStore,
    state: OnceCell<State>,
    /// Why the newest state was not told when what is here was to be used; none if it was.
    untold: OnceCell<Option<String>>,
}

/// What a registry holds now.
#[derive(Debug)]
pub(crate) struct State {
    /// The checkpoint's file.
    pub text: String,
    pub accepted: AcceptedCheckpoint,
}

/// Where its files are.
#[derive(Debug)]
pub(crate) enum Location {
    Folder(RegistryFolder),
    Web { web: HttpTransport, url: Url, token: Option<String> },
}

/// How a registry may be asked, and the time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    pub offline: bool,
    /// In seconds since 1970.
    pub now: u64,
}

impl Remote {
    pub fn new(name: String, place: Location, trust: Trust, memories: &std::path::Path) -> Self {
        let id = place.id();
        let memory = trust.root().map(|root| SeenCheckpoints::new(memories, &id, root));
        let unsigned =
            ContentStore::new(memories.join(format!("unsigned-{}", &Digest::of(id.as_bytes()).to_string()[..32])));
        Self { name, place, trust, memory, unsigned, state: OnceCell::new(), untold: OnceCell::new() }
    }

    /// What tells it from other sources.
    pub fn id(&self) -> SourceId {
        let trust = self.trust.root().map_or_else(|| "unsigned".to_owned(), |root| root.to_string());
        SourceId::new(&self.place.id(), &trust)
    }

    /// The registry's state, asked for once in this process's life.
    pub async fn state(&self, asking: Access) -> Result<&State, RegistryClientError> {
        self.state.get_or_try_init(|| self.ask_state(asking)).await
    }

    /// What a key counts for in a namespace: by the newest state if the registry tells it at once, and else by the last
    /// one that was seen, with why. None if none was.
    pub async fn release_status(&self, namespace: &str, key: &PublicKey, asking: Access) -> (Option<ReleaseStatus>, Option<&str>) {
        let untold = self.untold.get_or_init(|| async {
            match tokio::time::timeout(MOMENT, self.state(asking)).await {
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Some(with_causes(&error)),
                Err(_) => Some(format!("registry `{}` does not answer", self.name)),
            }
        });
        let untold = untold.await.as_deref().filter(|_| !asking.offline);
        let standing = |accepted: &AcceptedCheckpoint| accepted.checkpoint.release_status(namespace, key);
        let last = || self.memory.as_ref()?.last().ok()?;
        let standing = match self.state.get() {
            Some(state) => Some(release_status(&state.accepted)),
            None => last().map(|last| release_status(&last.accepted)),
        };
        (standing, untold)
    }

    async fn ask_state(&self, asking: Access) -> Result<State, RegistryClientError> {
        let last = self.memory.as_ref().map(SeenCheckpoints::last).transpose()?.flatten();
        if asking.offline && matches!(self.place, Location::Web { .. }) {
            let last = last.map(|SeenCheckpoint { text, accepted, .. }| State { text, accepted });
            return last.ok_or_else(|| RegistryClientError::Offline { what: format!("the state of registry `{}`", self.name) });
        }
        let Some((text, etag)) = self.checkpoint(last.as_ref()).await? else {
            // It has not changed; whether it still counts must be seen all the same.
            let SeenCheckpoint { text, accepted, .. } = last.ok_or_else(|| self.altered_tag())?;
            return match asking.now.checked_sub(accepted.checkpoint.expires) {
                Some(ago) => Err(self.refused(CheckpointError::Expired { ago })),
                None => Ok(State { text, accepted }),
            };
        };
        let Some((root, memory)) = self.trust.root().zip(self.memory.as_ref()) else {
            let accepted = AcceptedCheckpoint::unsigned(&text).map_err(|error| self.refused(error))?;
            return Ok(State { text, accepted });
        };
        let last = last.map(|last| last.accepted);
        let accepted = AcceptedCheckpoint::fresh(&text, &root, last.as_ref(), asking.now).map_err(|error| self.refused(error))?;
        if last.as_ref() != Some(&accepted) {
            memory.remember(&text, &accepted, etag.as_deref())?;
        }
        Ok(State { text, accepted })
    }

    fn refused(&self, source: CheckpointError) -> RegistryClientError {
        RegistryClientError::Checkpoint { registry: self.name.clone(), source: Box::new(source) }
    }

    /// A server says "not modified" of what was never there.
    fn altered_tag(&self) -> RegistryClientError {
        self.failed(CHECKPOINT_FILE)(FetchError::Status {
            origin: self.place.id(),
            status: StatusCode::NOT_MODIFIED,
            words: "although it was asked for nothing that it could have changed".to_owned(),
        })
    }

    /// The checkpoint that the registry shows, and the server's tag for it; none if it is the last one.
    async fn checkpoint(&self, last: Option<&SeenCheckpoint>) -> Result<Option<(String, Option<String>)>, RegistryClientError> {
        match &self.place {
            Location::Folder(folder) => {
                let text = folder.checkpoint_text().map_err(|source| self.unreadable(source))?;
                Ok(Some((text, None)))
            }
            Location::Web { web, url, .. } => {
                let url = below(url, CHECKPOINT_FILE);
                let tag = last.and_then(|last| last.etag.as_deref());
                let headers = tag.map(|tag| (IF_NONE_MATCH, tag)).into_iter().collect();
                let sent = RequestParts { headers, ..RequestParts::default() };
                let (bytes, etag) = web
                    .again(|| async {
                        let answer = web.ask(&Method::GET, &url, &sent, &[]).await?;
                        if answer.status() == StatusCode::NOT_MODIFIED {
                            return Ok((None, None));
                        }
                        let etag = answer.etag();
                        Ok((Some(answer.bytes(MAX_CHECKPOINT_BYTES).await?), etag))
                    })
                    .await
                    .map_err(self.failed(CHECKPOINT_FILE))?;
                let Some(bytes) = bytes else { return Ok(None) };
                let text = String::from_utf8(bytes).unwrap_or_default();
                Ok(Some((text, etag)))
            }
        }
    }

    /// The versions of a plugin.
    pub async fn rows(&self, name: &PluginName, asking: Access) -> Result<Vec<IndexRow>, RegistryClientError> {
        let state = &self.state(asking).await?.accepted;
        let Some(digest) = state.checkpoint.index.get(name) else {
            let near = nearest(&name.to_string(), state.checkpoint.index.keys());
            return Err(RegistryClientError::Unknown { registry: self.name.clone(), name: name.clone(), near });
        };
        let item = ContentFile::Index(name.clone(), *digest);
        let refused = |source| RegistryClientError::Index {
            registry: self.name.clone(),
            name: name.to_string(),
            source: Box::new(source),
        };
        if let Ok(Some(bytes)) = self.kept().read(&item) {
            return read_index(name, &text(bytes)).map_err(refused);
        }
        let bytes = self.file(&item, asking).await?;
        let rows = read_index(name, &text(bytes.clone())).map_err(refused)?;
        self.goes_on(name, &rows).map_err(refused)?;
        self.kept().write(&item, &bytes)?;
        Ok(rows)
    }

    /// Sees that nothing was rewritten since an index file of this plugin was last seen, and forgets that one.
    fn goes_on(&self, name: &PluginName, rows: &[IndexRow]) -> Result<(), IndexError> {
        let Some(root) = &self.memory else { return Ok(()) };
        let folder = root.content_store().folder().join("index").join(name.to_string());
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let digest = entry.path().file_stem().and_then(|stem| stem.to_str()?.parse::<Digest>().ok());
            let Some(item) = digest.map(|digest| ContentFile::Index(name.clone(), digest)) else { continue };
            if let Ok(Some(bytes)) = root.content_store().read(&item)
                && let Ok(old) = read_index(name, &text(bytes))
            {
                check_append_only(&old, rows)?;
            }
            // Its successor has taken its place; another process may have removed it too.
            let _ = std::fs::remove_file(entry.path());
        }
        Ok(())
    }

    /// The catalogue.
    pub async fn catalogue(&self, asking: Access) -> Result<Vec<CatalogueRow>, RegistryClientError> {
        let state = &self.state(asking).await?.accepted;
        let item = ContentFile::Catalogue(state.checkpoint.catalogue);
        let bytes = match self.kept().read(&item) {
            Ok(Some(bytes)) => bytes,
            _ => {
                let bytes = self.file(&item, asking).await?;
                self.kept().write(&item, &bytes)?;
                bytes
            }
        };
        read_catalogue(&text(bytes)).map_err(|source| RegistryClientError::Index {
            registry: self.name.clone(),
            name: "catalogue".to_owned(),
            source: Box::new(source),
        })
    }

    /// Where index files and catalogues are kept.
    fn kept(&self) -> ContentStore {
        self.memory.as_ref().map_or_else(|| self.unsigned.clone(), SeenCheckpoints::contents)
    }

    /// A file by its digest, from the registry itself.
    pub async fn file(&self, item: &ContentFile, asking: Access) -> Result<Vec<u8>, RegistryClientError> {
        let bytes = match &self.place {
            Location::Folder(folder) => {
                // As it lies there: that it is another file is said below, in the same words as of a server's.
                let bytes = folder.content_store().read_unverified(item);
                bytes.map_err(FetchError::Unread).map_err(self.failed(&item.path()))?
            }
            Location::Web { web, url, .. } => {
                self.may_ask(&item.path(), asking)?;
                let sent = RequestParts::default();
                web.bytes(&below(url, &item.path()), &sent, item.limit()).await.map_err(self.failed(&item.path()))?
            }
        };
        self.is_whole(item, Digest::of(&bytes))?;
        Ok(bytes)
    }

    /// A component, written where it may become part of the cache; it has the digest of `item`.
    pub async fn component(
        &self,
        item: &ContentFile,
        size: u64,
        cache: &ContentStore,
        asking: Access,
    ) -> Result<PendingFile, RegistryClientError> {
        let (incoming, digest) = match &self.place {
            Location::Folder(_) => {
                let bytes = self.file(item, asking).await?;
                let mut incoming = cache.begin()?;
                incoming.file.write_all(&bytes).map_err(FetchError::Disk).map_err(self.failed(&item.path()))?;
                (incoming, Digest::of(&bytes))
            }
            Location::Web { web, url, .. } => {
                self.may_ask(&item.path(), asking)?;
                download(web, &below(url, &item.path()), &RequestParts::default(), size.min(MAX_PLUGIN_BYTES as u64), cache)
                    .await
                    .map_err(self.failed(&item.path()))?
            }
        };
        self.is_whole(item, digest)?;
        Ok(incoming)
    }

    fn is_whole(&self, item: &ContentFile, found: Digest) -> Result<(), RegistryClientError> {
        let (registry, what, expected) = (self.name.clone(), format!("`{}`", item.path()), item.digest());
        if found == expected { Ok(()) } else { Err(RegistryClientError::Altered { registry, what, found, expected }) }
    }

    fn may_ask(&self, what: &str, asking: Access) -> Result<(), RegistryClientError> {
        let what = || format!("`{what}` of registry `{}`", self.name);
        if asking.offline { Err(RegistryClientError::Offline { what: what() }) } else { Ok(()) }
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
    /// What tells it from others.
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

/// Fetches a body of at most `size` bytes into a file, and gives its digest.
pub(crate) async fn download(
    web: &HttpTransport,
    url: &Url,
    sent: &RequestParts<'_>,
    size: u64,
    cache: &ContentStore,
) -> Result<(PendingFile, Digest), FetchError> {
    web.again(|| async {
        // A new file for each attempt, so that no half of an earlier one stays.
        let mut incoming = cache.begin().map_err(|error| FetchError::Disk(std::io::Error::other(error)))?;
        let mut hash = Sha256::new();
        let answer = web.ask(&Method::GET, url, sent, &[]).await?;
        let write = |chunk: &[u8]| {
            hash.update(chunk);
            incoming.file.write_all(chunk)
        };
        answer.stream(size, write).await?;
        Ok((incoming, Digest::from_hasher(hash)))
    })
    .await
}

/// An error and its causes, in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |words, cause| format!("{words}: {cause}"))
}

/// An address below another, whose path ends with a slash.
pub(crate) fn below(url: &Url, path: &str) -> Url {
    let mut below = url.clone();
    below.set_path(&format!("{}{path}", url.path()));
    below
}

/// A file's text. What is no UTF-8 is no line of JSON either, and is refused as that.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The known name that is most like a wrong one, as it stands behind a message.
pub(crate) fn nearest<'a>(wrong: &str, known: impl Iterator<Item = &'a PluginName>) -> String {
    let mut seen = HashSet::new();
    let likeness = |name: &PluginName| {
        let near = strsim::jaro_winkler(wrong, &name.to_string()).max(strsim::jaro_winkler(wrong, name.name()));
        (near, name.to_string())
    };
    known
        .filter(|name| seen.insert((*name).clone()))
        .map(likeness)
        .filter(|(near, _)| *near > 0.8)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| format!("; did you mean `{name}`?"))
        .unwrap_or_default()
}
