//! Models by their names on a hub: fetched as Hugging Face's hub serves them, once, and kept in its cache.
//!
//! The cache has the layout of Hugging Face's own Python client, in the same folder: what that client has fetched is not
//! fetched again, and it finds what was fetched here. A file has its name only when it is whole. What the hub says
//! (commits, tags of files, redirects) is checked before it becomes a path.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cache;
mod download;
mod name;

use std::path::{Path, PathBuf};
use std::time::Duration;

use gymkhana_net::{ClientError, Secret, fetching_client};
use reqwest::{Client, Method};
use url::{Host, Url};

use cache::Cache;
pub use name::{Commit, NameError, Repository, Revision};

/// The hub where none is named.
const HUGGING_FACE: &str = "https://huggingface.co";
/// The file that every model has, by which revisions are looked up.
const EVERY_MODEL_HAS: &str = "config.json";

/// A file could not be had.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The environment names no hub that can be asked.
    #[error("HF_ENDPOINT is `{0}`; it must be the address of a hub, such as https://huggingface.co")]
    Endpoint(String),
    /// There is no folder for the cache.
    #[error("there is no folder to keep models in; set HF_HOME to one")]
    NoHome,
    /// A token would be read on its way.
    #[error("the token of HF_TOKEN would go unencrypted to `{0}`; use https, or unset HF_TOKEN")]
    Unencrypted(String),
    /// The client cannot be set up.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The hub does not answer, or not as hubs do, and the cache does not hold what is wanted.
    #[error("{what} cannot be fetched from `{endpoint}`: {why}")]
    Unreachable {
        /// The model or its file.
        what: String,
        /// The hub.
        endpoint: String,
        /// What happened, at the last attempt.
        why: String,
    },
    /// The hub does not show the model to us.
    #[error(
        "`{endpoint}` shows `{repository}` to nobody without permission: {why}; ask for it on the model's page and set \
         HF_TOKEN to a token of yours, or check the name"
    )]
    Refused {
        /// The model.
        repository: Repository,
        /// The hub.
        endpoint: String,
        /// What the hub says.
        why: String,
    },
    /// There is no such model.
    #[error("`{endpoint}` has no model `{repository}`; check the name")]
    NoRepository {
        /// The model.
        repository: Repository,
        /// The hub.
        endpoint: String,
    },
    /// There is no such revision of it.
    #[error(
        "model `{repository}` has no revision `{revision}` on `{endpoint}`; give a branch, a tag or a commit of it"
    )]
    NoRevision {
        /// The model.
        repository: Repository,
        /// The revision.
        revision: String,
        /// The hub.
        endpoint: String,
    },
    /// A file came in another shape than the hub had said.
    #[error("{what} came damaged from `{endpoint}`: {why}; try again")]
    Damaged {
        /// The model's file.
        what: String,
        /// The hub.
        endpoint: String,
        /// What is wrong.
        why: String,
    },
    /// The cache cannot be written or read.
    #[error("cannot {action} `{}` in the cache of models; free space, or set HF_HOME to another folder", path.display())]
    Disk {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// How far a file is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The file's name.
    pub file: &'a str,
    /// Bytes that are there.
    pub done: u64,
    /// Bytes of the whole file, if the hub says so.
    pub size: Option<u64>,
}

/// A hub and the cache in front of it.
pub struct Hub {
    endpoint: Url,
    cache: Cache,
    token: Option<Secret>,
    /// Whether nothing may be asked: what is not in the cache is missing.
    offline: bool,
    /// How often it is asked again when it fails.
    retries: u32,
    /// The first pause before that; each later one is twice as long.
    pause: Duration,
    client: Client,
}

impl Hub {
    /// The hub and the cache that the environment names, in the words of Hugging Face's client: `HF_ENDPOINT`,
    /// `HF_HUB_CACHE`, `HF_HOME`, `HF_TOKEN`, `HF_HUB_OFFLINE`; a token also from the file that its log-in writes.
    ///
    /// # Errors
    /// If they name what cannot be.
    pub fn from_environment() -> Result<Self, HubError> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let folder = |name: &str| variable(name).map(PathBuf::from);
        let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
        let home = folder("HF_HOME").or_else(|| Some(caches?.join("huggingface")));
        let cache = folder("HF_HUB_CACHE").or_else(|| Some(home.as_ref()?.join("hub"))).ok_or(HubError::NoHome)?;
        let kept = home.and_then(|home| std::fs::read_to_string(home.join("token")).ok());
        let token = variable("HF_TOKEN").or(kept).filter(|token| !token.trim().is_empty());
        let endpoint = variable("HF_ENDPOINT").unwrap_or_else(|| HUGGING_FACE.to_owned());
        let mut hub = Self::new(&endpoint, cache, token.map(|token| Secret::new(&token)))?;
        let yes = |value: String| ["1", "on", "yes", "true"].contains(&value.trim().to_ascii_lowercase().as_str());
        hub.offline = variable("HF_HUB_OFFLINE").is_some_and(yes);
        Ok(hub)
    }

    /// A hub at `endpoint`, whose files are kept in `cache`.
    ///
    /// # Errors
    /// If the endpoint is no address, or the token would go there unencrypted.
    pub fn new(endpoint: &str, cache: PathBuf, token: Option<Secret>) -> Result<Self, HubError> {
        let wrong = || HubError::Endpoint(endpoint.to_owned());
        let mut endpoint: Url = endpoint.trim_end_matches('/').parse().map_err(|_| wrong())?;
        if !["http", "https"].contains(&endpoint.scheme()) || endpoint.host().is_none() {
            return Err(wrong());
        }
        let here = is_this_machine(&endpoint);
        if token.is_some() && endpoint.scheme() != "https" && !here {
            return Err(HubError::Unencrypted(endpoint.into()));
        }
        if !endpoint.path().ends_with('/') {
            endpoint.set_path(&format!("{}/", endpoint.path()));
        }
        let (retries, pause) = (4, Duration::from_millis(500));
        let client = fetching_client(here)?;
        Ok(Self { endpoint, cache: Cache::new(cache), token, offline: false, retries, pause, client })
    }

    /// The same, asked again so often when it fails, after this pause at first.
    #[must_use]
    pub fn asked_again(mut self, retries: u32, pause: Duration) -> Self {
        (self.retries, self.pause) = (retries, pause);
        self
    }

    /// The commit that a revision is now; the one that it was when it was last asked for, where the hub cannot be
    /// reached.
    ///
    /// # Errors
    /// If the hub does not know the model or the revision, or cannot be reached and never was.
    pub async fn commit(&self, repository: &Repository, revision: &Revision) -> Result<Commit, HubError> {
        if let Some(commit) = revision.as_commit() {
            return Ok(commit);
        }
        match self.commit_at(repository, revision).await {
            Err(error @ HubError::Unreachable { .. }) => self.cache.commit(repository, revision).ok_or(error),
            Err(error) => Err(error),
            Ok(commit) => {
                self.cache.keep_commit(repository, revision, &commit)?;
                Ok(commit)
            }
        }
    }

    async fn commit_at(&self, repository: &Repository, revision: &Revision) -> Result<Commit, HubError> {
        let what = format!("model `{repository}`");
        let url = self.url(repository, revision.as_str(), EVERY_MODEL_HAS);
        let answer = self.ask(Method::HEAD, url, repository, revision.as_str(), &what).await?;
        answer.commit.ok_or_else(|| HubError::Unreachable {
            what,
            endpoint: self.endpoint.to_string(),
            why: "its answer names no commit: it is no hub of models".to_owned(),
        })
    }

    /// The folder of a commit in the cache: it holds the files that were asked for.
    #[must_use]
    pub fn folder(&self, repository: &Repository, commit: &Commit) -> PathBuf {
        self.cache.snapshot(repository, commit)
    }

    /// A file of a commit, fetched if the cache does not hold it; none if the commit has no such file.
    ///
    /// # Errors
    /// If it cannot be fetched, comes damaged, or cannot be written.
    pub async fn file(
        &self,
        repository: &Repository,
        commit: &Commit,
        name: &str,
        progress: &(dyn Fn(Progress<'_>) + Sync),
    ) -> Result<Option<PathBuf>, HubError> {
        if !name::is_file_name(name) {
            return Err(HubError::Damaged {
                what: format!("model `{repository}`"),
                endpoint: self.endpoint.to_string(),
                why: format!("it names a file `{name}`, which is none of its folder"),
            });
        }
        let path = self.cache.snapshot(repository, commit).join(name);
        if path.is_file() {
            return Ok(Some(path));
        }
        if self.cache.is_absent(repository, commit, name) {
            return Ok(None);
        }
        match self.fetch(repository, commit, name, progress).await? {
            Some(tag) => self.cache.link(repository, commit, name, &tag).map(Some),
            None => self.cache.keep_absent(repository, commit, name).map(|()| None),
        }
    }

    fn url(&self, repository: &Repository, revision: &str, name: &str) -> Url {
        let mut url = self.endpoint.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            // A revision such as `refs/pr/1` is one part: its slashes are escaped.
            parts.pop_if_empty().extend(repository.as_str().split('/')).extend(["resolve", revision, name]);
        }
        url
    }
}

/// Whether an address lies on this machine, by its own words.
fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// An error of the cache.
fn disk(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> HubError {
    let path = path.to_owned();
    move |source| HubError::Disk { action, path, source }
}
