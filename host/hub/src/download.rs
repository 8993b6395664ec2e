//! Requests to the hub and downloads: resumed after an interruption, verified, and linked only when complete.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use gymkhana_net::http::header::{ACCEPT_ENCODING, CONTENT_RANGE, ETAG, HeaderMap, LOCATION, RANGE};
use gymkhana_net::http::{Method, RequestBuilder, Response, StatusCode};
use gymkhana_net::{Failed, Retry, root_cause};
use gymkhana_waits::{Counterpart, Silent, within};
use sha2::{Digest, Sha256};
use url::Url;

use crate::name::{Commit, Repository, Tag};
use crate::{DownloadProgress, Hub, HubError, disk};

/// Limit on redirects of a request.
const MAX_REDIRECTS: usize = 5;
/// Limit on a file without a declared size, in bytes; only small files have none.
const MAX_UNSIZED: u64 = 64 << 20;
/// Limit on a file of weights, in bytes. Hubs accept files up to 50 GB.
const MAX_WEIGHTS: u64 = 64 << 30;
/// Limit on every other file, in bytes: those are read into memory. The largest published tokenizers have 40 MB.
const MAX_TEXT: u64 = 256 << 20;
/// Longest delay between two attempts.
const MAX_DELAY: Duration = Duration::from_secs(30);
/// Lowest rate of a download, in bytes per second.
const MIN_RATE: f64 = 1024.0;
/// Number of stall limits in which the file of another process must grow.
const LOCK_STALLS: u32 = 10;
/// Polling interval while another process downloads the same file.
const LOCK_POLL: Duration = Duration::from_millis(300);

/// The hub's description of a file.
pub(super) struct FileInfo {
    pub commit: Option<Commit>,
    tag: Option<Tag>,
    size: Option<u64>,
    /// URL of the content, if it is on another server.
    storage: Option<Url>,
    response: Response,
}

/// A failed attempt.
enum DownloadFailure {
    /// The next attempt may succeed; the reason for the user.
    Transient(String),
    /// No later attempt can succeed.
    Permanent(HubError),
}

impl From<HubError> for DownloadFailure {
    fn from(error: HubError) -> Self {
        Self::Permanent(error)
    }
}

impl Hub {
    /// Requests a file's description, with retries of transient faults.
    pub(super) async fn request(
        &self,
        method: Method,
        url: Url,
        repository: &Repository,
        revision: &str,
        what: &str,
    ) -> Result<FileInfo, HubError> {
        self.with_retries(what, async || self.request_once(method.clone(), url.clone(), repository, revision).await)
            .await
    }

    /// Repeats an attempt while it fails transiently.
    async fn with_retries<T>(
        &self,
        what: &str,
        attempt: impl AsyncFn() -> Result<T, DownloadFailure>,
    ) -> Result<T, HubError> {
        let retries = if self.offline { 0 } else { self.retries };
        let retry = Retry { retries, first_delay: self.first_delay, max_delay: MAX_DELAY };
        let attempt = || async {
            attempt().await.map_err(|fault| match fault {
                DownloadFailure::Transient(_) => Failed::transient(fault),
                DownloadFailure::Permanent(_) => Failed::Permanent(fault),
            })
        };
        retry.run(attempt, |_| {}).await.map_err(|gave_up| {
            let (Failed::Transient { error, .. } | Failed::Permanent(error)) = gave_up.failed;
            match error {
                DownloadFailure::Permanent(error) => error,
                DownloadFailure::Transient(why) => {
                    HubError::Unreachable { what: what.to_owned(), endpoint: self.endpoint.to_string(), why }
                }
            }
        })
    }

    async fn request_once(
        &self,
        method: Method,
        mut url: Url,
        repository: &Repository,
        revision: &str,
    ) -> Result<FileInfo, DownloadFailure> {
        if self.offline {
            return Err(DownloadFailure::Transient(
                "HF_HUB_OFFLINE is set, and the cache does not contain it".to_owned(),
            ));
        }
        for _ in 0..MAX_REDIRECTS {
            let mut request = self.client.request(method.clone(), url.clone()).header(ACCEPT_ENCODING, "identity");
            if let Some(token) = &self.token {
                request = request.bearer_auth(token.reveal());
            }
            let response = self.sent(request).await?;
            let headers = response.headers();
            if response.status().is_redirection() {
                let to = text(headers, LOCATION.as_str()).and_then(|to| url.join(to).ok());
                let to = to.ok_or_else(|| {
                    DownloadFailure::Transient(format!("it redirects `{url}` without a valid target"))
                })?;
                if to.origin() == self.endpoint.origin() {
                    // The model was renamed.
                    url = to;
                    continue;
                }
                return Ok(answer(response, Some(to)));
            }
            if let Some(failed) = self.refusal(&response, repository, revision) {
                return Err(failed);
            }
            return Ok(answer(response, None));
        }
        Err(DownloadFailure::Transient(format!("it redirects more than {MAX_REDIRECTS} times")))
    }

    /// Returns the fault that an unsuccessful status means.
    fn refusal(&self, response: &Response, repository: &Repository, revision: &str) -> Option<DownloadFailure> {
        let (status, headers) = (response.status(), response.headers());
        let code = text(headers, "x-error-code");
        let shown = |message: &str| match &self.token {
            Some(token) => token.hide_in_text(message.to_owned()),
            None => message.to_owned(),
        };
        let why = || {
            text(headers, "x-error-message")
                .map_or_else(|| status.to_string(), |message| format!("{status}, {:.200}", shown(message)))
        };
        let (repository, endpoint) = (repository.clone(), self.endpoint.to_string());
        let error = match (status, code) {
            (status, _) if status.is_success() => return None,
            // A missing file is an answer and not a fault.
            (StatusCode::NOT_FOUND, Some("EntryNotFound")) => return None,
            (_, Some("RevisionNotFound")) => {
                HubError::NoRevision { repository, revision: revision.to_owned(), endpoint }
            }
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => {
                HubError::Refused { repository, endpoint, why: why() }
            }
            (StatusCode::NOT_FOUND, _) => HubError::NoRepository { repository, endpoint },
            _ => return Some(DownloadFailure::Transient(format!("it answered {}", why()))),
        };
        Some(DownloadFailure::Permanent(error))
    }

    /// Downloads a file into the cache and returns its tag; `None` if the commit does not have the file.
    pub(super) async fn fetch(
        &self,
        repository: &Repository,
        commit: &Commit,
        name: &str,
        progress: &(dyn Fn(DownloadProgress<'_>) + Sync),
    ) -> Result<Option<Tag>, HubError> {
        let what = format!("`{name}` of model `{repository}`");
        let url = self.url(repository, commit.as_str(), name);
        self.with_retries(&what, async || {
            let answer = self.request_once(Method::GET, url.clone(), repository, commit.as_str()).await?;
            if answer.response.status() == StatusCode::NOT_FOUND {
                return Ok(None);
            }
            let damaged =
                |why: String| HubError::Damaged { what: what.clone(), endpoint: self.endpoint.to_string(), why };
            if answer.commit.as_ref() != Some(commit) {
                let found = answer.commit.as_ref().map_or("an unknown commit", Commit::as_str);
                return Err(damaged(format!("it belongs to {found} instead of {commit}")).into());
            }
            let tag =
                answer.tag.clone().ok_or_else(|| damaged("its tag is missing or not a valid file name".to_owned()))?;
            let most = most_bytes(name);
            if answer.size.is_some_and(|size| size > most) {
                return Err(
                    damaged(format!("it has {} bytes, more than {most}", answer.size.unwrap_or_default())).into()
                );
            }
            let blob = self.cache.blob(repository, &tag);
            let file = IncomingFile { name, tag: &tag, size: answer.size, blob: &blob };
            let bound = LOCK_STALLS * self.stall;
            let opened = file.open(bound, progress).await?;
            let locked = |silent: Silent| HubError::Locked { what: what.clone(), silent };
            if let Some(partial) = opened.map_err(locked)? {
                let downloaded = self.receive(answer, &file, partial, progress).await?;
                file.check(&downloaded).map_err(|why| {
                    // A damaged file is not resumed.
                    let _ = fs::remove_file(file.partial());
                    damaged(why)
                })?;
                fs::rename(file.partial(), &blob).map_err(disk("write", &blob))?;
            }
            Ok(Some(tag))
        })
        .await
    }

    /// Writes the missing part of a file; returns its size and digest.
    async fn receive(
        &self,
        answer: FileInfo,
        file: &IncomingFile<'_>,
        mut partial: File,
        progress: &(dyn Fn(DownloadProgress<'_>) + Sync),
    ) -> Result<Downloaded, DownloadFailure> {
        let path = file.partial();
        let broken = |action| disk(action, &path);
        let mut hash = Sha256::new();
        let mut done = 0;
        let mut response = match answer.storage {
            None => answer.response,
            Some(url) => {
                done = hash_of(&mut partial, &mut hash).map_err(broken("read"))?;
                let response = self.content(url, done).await?;
                if response.status() != StatusCode::PARTIAL_CONTENT {
                    (done, hash) = (0, Sha256::new());
                }
                response
            }
        };
        partial.set_len(done).map_err(broken("write"))?;
        partial.seek(SeekFrom::Start(done)).map_err(broken("write"))?;
        let mut rate = Rate::new(self.stall);
        while let Some(chunk) = self.chunk(&mut response).await? {
            let chunk = chunk.as_ref();
            done += chunk.len() as u64;
            rate.received(chunk.len() as u64).map_err(DownloadFailure::Transient)?;
            if done > file.size.unwrap_or(MAX_UNSIZED) {
                break;
            }
            partial.write_all(chunk).map_err(broken("write"))?;
            hash.update(chunk);
            progress(DownloadProgress { file: file.name, done, size: file.size });
        }
        if file.size.is_some_and(|size| done < size) {
            return Err(DownloadFailure::Transient(format!("it ended early after {done} bytes")));
        }
        partial.sync_all().map_err(broken("write"))?;
        Ok(Downloaded { size: done, sha256: hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect() })
    }

    /// Sends a request and waits for the head of its answer.
    async fn sent(&self, request: RequestBuilder) -> Result<Response, DownloadFailure> {
        let sent = within(Counterpart::Hub, self.stall, request.send()).await;
        let sent = sent.map_err(|silent| DownloadFailure::Transient(silent.to_string()))?;
        sent.map_err(|error| DownloadFailure::Transient(root_cause(&error)))
    }

    /// The next bytes of an answer; `None` at its end.
    async fn chunk(&self, response: &mut Response) -> Result<Option<impl AsRef<[u8]> + use<>>, DownloadFailure> {
        let chunk = within(Counterpart::Hub, self.stall, response.chunk()).await;
        let chunk = chunk.map_err(|silent| DownloadFailure::Transient(silent.to_string()))?;
        chunk.map_err(|error| DownloadFailure::Transient(root_cause(&error)))
    }

    /// Requests a content from its storage, from a byte offset on. The storage does not receive the token.
    async fn content(&self, mut url: Url, from: u64) -> Result<Response, DownloadFailure> {
        for _ in 0..MAX_REDIRECTS {
            let mut request = self.client.get(url.clone()).header(ACCEPT_ENCODING, "identity");
            if from > 0 {
                request = request.header(RANGE, format!("bytes={from}-"));
            }
            let response = self.sent(request).await?;
            if response.status().is_redirection() {
                let to = text(response.headers(), LOCATION.as_str()).and_then(|to| url.join(to).ok());
                url = to.ok_or_else(|| {
                    DownloadFailure::Transient("its storage redirects without a valid target".to_owned())
                })?;
                continue;
            }
            let range = text(response.headers(), CONTENT_RANGE.as_str());
            let continues = range.is_some_and(|range| range.starts_with(&format!("bytes {from}-")));
            return match response.status() {
                StatusCode::OK => Ok(response),
                StatusCode::PARTIAL_CONTENT if continues => Ok(response),
                status => Err(DownloadFailure::Transient(format!("its storage answered {status}"))),
            };
        }
        Err(DownloadFailure::Transient(format!("its storage redirects more than {MAX_REDIRECTS} times")))
    }
}

/// Limit on a file by its name, in bytes.
fn most_bytes(name: &str) -> u64 {
    if name.ends_with(".safetensors") { MAX_WEIGHTS } else { MAX_TEXT }
}

fn answer(response: Response, storage: Option<Url>) -> FileInfo {
    let headers = response.headers();
    let linked = text(headers, "x-linked-size").and_then(|size| size.parse().ok());
    FileInfo {
        commit: text(headers, "x-repo-commit").and_then(Commit::parse),
        tag: text(headers, "x-linked-etag").or(text(headers, ETAG.as_str())).and_then(Tag::parse),
        size: linked.or(if storage.is_none() { response.content_length() } else { None }),
        storage,
        response,
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The rate of a download: a hub that sends a few bytes now and then does not keep it open.
struct Rate {
    stall: Duration,
    since: Instant,
    bytes: u64,
}

impl Rate {
    fn new(stall: Duration) -> Self {
        Self { stall, since: Instant::now(), bytes: 0 }
    }

    /// Counts received bytes.
    ///
    /// # Errors
    /// If the last period brought too few; the reason.
    fn received(&mut self, bytes: u64) -> Result<(), String> {
        self.bytes += bytes;
        let passed = self.since.elapsed();
        if passed < self.stall {
            return Ok(());
        }
        let (brought, seconds) = (self.bytes, passed.as_secs_f64());
        if (brought as f64) < MIN_RATE * seconds {
            return Err(format!("{} sent {brought} bytes in {seconds:.1} s", Counterpart::Hub.name()));
        }
        *self = Self::new(self.stall);
        Ok(())
    }
}

/// A file during its download.
struct IncomingFile<'a> {
    name: &'a str,
    tag: &'a Tag,
    size: Option<u64>,
    /// Final path.
    blob: &'a Path,
}

/// A downloaded file before verification.
struct Downloaded {
    size: u64,
    sha256: String,
}

impl IncomingFile<'_> {
    /// Path during the download.
    fn partial(&self) -> std::path::PathBuf {
        self.blob.with_file_name(format!("{}.incomplete", self.tag.as_str()))
    }

    /// Opens and locks the partial file; `None` if the file is already complete, possibly by another process. The inner error is
    /// that of another process whose file does not grow; until then its progress is passed on.
    async fn open(
        &self,
        bound: Duration,
        progress: &(dyn Fn(DownloadProgress<'_>) + Sync),
    ) -> Result<Result<Option<File>, Silent>, HubError> {
        let (path, folder) = (self.partial(), self.blob.parent().unwrap_or(Path::new(".")));
        fs::create_dir_all(folder).map_err(disk("create", folder))?;
        let mut grown = (0, Instant::now());
        loop {
            if self.blob.is_file() {
                return Ok(Ok(None));
            }
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false).open(&path);
            let file = file.map_err(disk("write", &path))?;
            match file.try_lock() {
                // Another process may have completed it during the wait.
                Ok(()) if self.blob.is_file() => return Ok(Ok(None)),
                Ok(()) => return Ok(Ok(Some(file))),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(disk("lock", &path)(error)),
            }
            let done = file.metadata().map_err(disk("read", &path))?.len();
            if done != grown.0 {
                grown = (done, Instant::now());
                progress(DownloadProgress { file: self.name, done, size: self.size });
            } else if grown.1.elapsed() >= bound {
                let named = format!("of `{}`", path.display());
                return Ok(Err(Silent { counterpart: Counterpart::RunLock, named, waited: bound }));
            }
            tokio::time::sleep(LOCK_POLL).await;
        }
    }

    /// Verifies the file against the hub's description.
    ///
    /// # Errors
    /// The difference.
    fn check(&self, downloaded: &Downloaded) -> Result<(), String> {
        if self.size.is_some_and(|size| size != downloaded.size) || downloaded.size > self.size.unwrap_or(MAX_UNSIZED) {
            let declared = self.size.map_or_else(|| format!("at most {MAX_UNSIZED}"), |size| size.to_string());
            return Err(format!("it has {} bytes or more, and the hub declares {declared}", downloaded.size));
        }
        if self.tag.sha256().is_some_and(|sha256| !sha256.eq_ignore_ascii_case(&downloaded.sha256)) {
            return Err(format!("its sha256 is {} and should be {}", downloaded.sha256, self.tag.as_str()));
        }
        Ok(())
    }
}

/// Hashes a file and returns its size.
fn hash_of(file: &mut File, hash: &mut Sha256) -> std::io::Result<u64> {
    let mut buffer = vec![0; 1 << 20];
    let mut done = 0;
    file.seek(SeekFrom::Start(0))?;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(done),
            count => {
                hash.update(&buffer[..count]);
                done += count as u64;
            }
        }
    }
}
