//! Downloads of models from a Hugging Face hub into its cache.
//!
//! The cache has the folder and the layout of Hugging Face's Python client, so both clients share downloads. A file gets
//! its name only when it is complete. Data from the hub (commits, tags of files, redirects) are validated before they
//! become paths.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cache;
mod download;
mod name;

use std::path::{Path, PathBuf};
use std::time::Duration;

use gymkhana_net::http::{Client, Method};
use gymkhana_net::{ClientError, Secret, fetching_client};
use gymkhana_waits::Silent;
use url::{Host, Url};

use cache::Cache;
pub use name::{Commit, NameError, Repository, Revision};

/// Default hub.
const HUGGING_FACE: &str = "https://huggingface.co";
/// Time in which a download must bring bytes. Another process that downloads the same file gets ten times as long, because it
/// reads what it has before it goes on.
const STALL: Duration = Duration::from_secs(60);
/// A file that every model has, requested to resolve a revision.
const PROBE_FILE: &str = "config.json";

/// A file cannot be provided.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The endpoint is not a URL of a hub.
    #[error(
        "HF_ENDPOINT is `{0}`, which is not the address of a hub\nhint: set it to one such as https://huggingface.co"
    )]
    Endpoint(String),
    /// The folder for the cache is unknown.
    #[error("cannot cache models: neither HF_HOME nor HOME is set\nhint: set HF_HOME to a folder")]
    NoHome,
    /// The token would be sent unencrypted.
    #[error("the token of HF_TOKEN would be sent unencrypted to `{0}`\nhint: use https, or unset HF_TOKEN")]
    Unencrypted(String),
    /// The client cannot be set up.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The hub does not answer or its answer is invalid, and the cache does not contain the file.
    #[error("cannot download {what} from `{endpoint}`: {why}")]
    Unreachable {
        /// The model or its file.
        what: String,
        /// The hub.
        endpoint: String,
        /// Failure of the last attempt.
        why: String,
    },
    /// The hub denies access to the model.
    #[error(
        "`{endpoint}` denies access to `{repository}`: {why}\nhint: request access on the model's page and set HF_TOKEN \
         to your token, or check the name"
    )]
    Refused {
        /// The model.
        repository: Repository,
        /// The hub.
        endpoint: String,
        /// Status and message of the hub.
        why: String,
    },
    /// The model does not exist.
    #[error("`{endpoint}` has no model `{repository}`\nhint: check the name")]
    NoRepository {
        /// The model.
        repository: Repository,
        /// The hub.
        endpoint: String,
    },
    /// The revision does not exist.
    #[error(
        "model `{repository}` has no revision `{revision}` on `{endpoint}`\nhint: set a branch, a tag or a commit of it"
    )]
    NoRevision {
        /// The model.
        repository: Repository,
        /// The revision.
        revision: String,
        /// The hub.
        endpoint: String,
    },
    /// Another process downloads the same file, and its file does not grow.
    #[error("cannot download {what}: {silent}\nhint: end the other process that downloads it")]
    Locked {
        /// The model's file.
        what: String,
        /// The wait for the other process.
        silent: Silent,
    },
    /// A file differs from the hub's description.
    #[error("{what} from `{endpoint}` is damaged: {why}\nhint: try again")]
    Damaged {
        /// The file.
        what: String,
        /// The hub.
        endpoint: String,
        /// The difference.
        why: String,
    },
    /// The cache cannot be written or read.
    #[error("cannot {action} `{}` in the cache of models\nhint: free space, or set HF_HOME to another folder", path.display())]
    Disk {
        /// The action.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
}

/// Progress of a download.
#[derive(Debug, Clone, Copy)]
pub struct DownloadProgress<'a> {
    /// Name of the file.
    pub file: &'a str,
    /// Bytes downloaded.
    pub done: u64,
    /// Size of the file in bytes, if the hub declares it.
    pub size: Option<u64>,
}

/// A hub with its cache.
pub struct Hub {
    endpoint: Url,
    cache: Cache,
    token: Option<Secret>,
    /// Whether only the cache is used.
    offline: bool,
    /// Number of retries.
    retries: u32,
    /// Delay before the first retry; each later delay is twice as long.
    first_delay: Duration,
    /// Time in which a download must bring bytes: from the hub, or into the file of another process.
    stall: Duration,
    client: Client,
}

impl Hub {
    /// Creates a hub from the environment variables of Hugging Face's client: `HF_ENDPOINT`, `HF_HUB_CACHE`, `HF_HOME`,
    /// `HF_TOKEN`, `HF_HUB_OFFLINE`; the token also from the file that its log-in writes.
    ///
    /// # Errors
    /// If a value is invalid.
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

    /// Creates a hub at `endpoint` with its files in `cache`.
    ///
    /// # Errors
    /// If the endpoint is invalid, or if the token would be sent unencrypted.
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
        let (retries, first_delay) = (4, Duration::from_millis(500));
        let client = fetching_client(here)?;
        let (cache, stall) = (Cache::new(cache), STALL);
        Ok(Self { endpoint, cache, token, offline: false, retries, first_delay, stall, client })
    }

    /// Returns the hub with this number of retries and this delay before the first one.
    #[must_use]
    pub fn with_retry_policy(mut self, retries: u32, first_delay: Duration) -> Self {
        (self.retries, self.first_delay) = (retries, first_delay);
        self
    }

    /// Returns the hub with this time in which a download must bring bytes.
    #[must_use]
    pub fn with_stall_limit(self, stall: Duration) -> Self {
        Self { stall, ..self }
    }

    /// Resolves a revision to its commit. If the hub is unreachable, returns the commit of the last request.
    ///
    /// # Errors
    /// If the hub does not have the model or the revision, or if it is unreachable and the cache has no commit.
    pub async fn commit(&self, repository: &Repository, revision: &Revision) -> Result<Commit, HubError> {
        if let Some(commit) = revision.as_commit() {
            return Ok(commit);
        }
        match self.commit_at(repository, revision).await {
            Err(error @ HubError::Unreachable { .. }) => self.cache.commit(repository, revision).ok_or(error),
            Err(error) => Err(error),
            Ok(commit) => {
                self.cache.store_commit(repository, revision, &commit)?;
                Ok(commit)
            }
        }
    }

    async fn commit_at(&self, repository: &Repository, revision: &Revision) -> Result<Commit, HubError> {
        let what = format!("model `{repository}`");
        let url = self.url(repository, revision.as_str(), PROBE_FILE);
        let answer = self.request(Method::HEAD, url, repository, revision.as_str(), &what).await?;
        answer.commit.ok_or_else(|| HubError::Unreachable {
            what,
            endpoint: self.endpoint.to_string(),
            why: "its answer names no commit, so it is not a hub of models".to_owned(),
        })
    }

    /// Folder of a commit in the cache, with the files requested so far.
    #[must_use]
    pub fn folder(&self, repository: &Repository, commit: &Commit) -> PathBuf {
        self.cache.snapshot(repository, commit)
    }

    /// Returns the path of a file of a commit, and downloads it if the cache does not contain it; `None` if the commit
    /// does not have the file.
    ///
    /// # Errors
    /// If the file cannot be downloaded, is damaged, or cannot be written.
    pub async fn file(
        &self,
        repository: &Repository,
        commit: &Commit,
        name: &str,
        progress: &(dyn Fn(DownloadProgress<'_>) + Sync),
    ) -> Result<Option<PathBuf>, HubError> {
        if !name::is_file_name(name) {
            return Err(HubError::Damaged {
                what: format!("model `{repository}`"),
                endpoint: self.endpoint.to_string(),
                why: format!("it names a file `{name}`, which is not a plain file name"),
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
            None => self.cache.store_absent(repository, commit, name).map(|()| None),
        }
    }

    fn url(&self, repository: &Repository, revision: &str, name: &str) -> Url {
        let mut url = self.endpoint.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            // A revision such as `refs/pr/1` is one path segment: its slashes are escaped.
            parts.pop_if_empty().extend(repository.as_str().split('/')).extend(["resolve", revision, name]);
        }
        url
    }
}

/// Returns whether a URL names this machine.
fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Creates an error of the cache.
fn disk(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> HubError {
    let path = path.to_owned();
    move |source| HubError::Disk { action, path, source }
}
