//! Asking the hub, and fetching a file: resumed where it broke off, hashed, and named only when it is whole.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use gymkhana_net::{Failed, Retry, root_cause};
use reqwest::header::{ACCEPT_ENCODING, CONTENT_RANGE, ETAG, HeaderMap, LOCATION, RANGE};
use reqwest::{Method, Response, StatusCode};
use sha2::{Digest, Sha256};
use url::Url;

use crate::name::{Commit, Repository, Tag};
use crate::{Hub, HubError, Progress, disk};

/// How often a request may be sent on.
const REDIRECTS: usize = 5;
/// The most that is read of a file whose size nobody says, in bytes: only small files come so.
const LARGEST_UNSAID: u64 = 64 << 20;
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How often it is looked whether another process has finished the same file.
const OTHERS: Duration = Duration::from_millis(300);

/// What the hub itself says of a file.
pub(super) struct Answer {
    pub commit: Option<Commit>,
    tag: Option<Tag>,
    size: Option<u64>,
    /// Where the content is, if it is elsewhere.
    elsewhere: Option<Url>,
    response: Response,
}

/// A failed attempt.
enum Fault {
    /// The next attempt may succeed; the reason in words.
    Passing(String),
    /// No later attempt can succeed.
    Final(HubError),
}

impl From<HubError> for Fault {
    fn from(error: HubError) -> Self {
        Self::Final(error)
    }
}

impl Hub {
    /// Asks for a file, again and again while the hub fails for the moment.
    pub(super) async fn ask(
        &self,
        method: Method,
        url: Url,
        repository: &Repository,
        revision: &str,
        what: &str,
    ) -> Result<Answer, HubError> {
        self.again(what, async || self.ask_once(method.clone(), url.clone(), repository, revision).await).await
    }

    /// Repeats an attempt while it fails transiently.
    async fn again<T>(&self, what: &str, attempt: impl AsyncFn() -> Result<T, Fault>) -> Result<T, HubError> {
        let retries = if self.offline { 0 } else { self.retries };
        let retry = Retry { retries, first_delay: self.pause, max_delay: LONGEST_PAUSE };
        let attempt = || async {
            attempt().await.map_err(|fault| match fault {
                Fault::Passing(_) => Failed::transient(fault),
                Fault::Final(_) => Failed::Permanent(fault),
            })
        };
        retry.run(attempt, |_| {}).await.map_err(|gave_up| {
            let (Failed::Transient { error, .. } | Failed::Permanent(error)) = gave_up.failed;
            match error {
                Fault::Final(error) => error,
                Fault::Passing(why) => {
                    HubError::Unreachable { what: what.to_owned(), endpoint: self.endpoint.to_string(), why }
                }
            }
        })
    }

    async fn ask_once(
        &self,
        method: Method,
        mut url: Url,
        repository: &Repository,
        revision: &str,
    ) -> Result<Answer, Fault> {
        if self.offline {
            return Err(Fault::Passing("HF_HUB_OFFLINE is set, and the cache does not hold it".to_owned()));
        }
        for _ in 0..REDIRECTS {
            let mut request = self.client.request(method.clone(), url.clone()).header(ACCEPT_ENCODING, "identity");
            if let Some(token) = &self.token {
                request = request.bearer_auth(token.reveal());
            }
            let response = request.send().await.map_err(|error| Fault::Passing(root_cause(&error)))?;
            let headers = response.headers();
            if response.status().is_redirection() {
                let to = text(headers, LOCATION.as_str()).and_then(|to| url.join(to).ok());
                let to = to.ok_or_else(|| Fault::Passing(format!("it redirects `{url}` nowhere")))?;
                if to.origin() == self.endpoint.origin() {
                    // A model that was renamed.
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
        Err(Fault::Passing(format!("it redirects more than {REDIRECTS} times")))
    }

    /// What a status that is no success means.
    fn refusal(&self, response: &Response, repository: &Repository, revision: &str) -> Option<Fault> {
        let (status, headers) = (response.status(), response.headers());
        let code = text(headers, "x-error-code").unwrap_or_default();
        let why = || {
            format!(
                "{status}{}",
                text(headers, "x-error-message").map(|said| format!(", {said:.200}")).unwrap_or_default()
            )
        };
        let (repository, endpoint) = (repository.clone(), self.endpoint.to_string());
        let error = match (status, code) {
            (status, _) if status.is_success() => return None,
            // That a commit has no such file is an answer.
            (StatusCode::NOT_FOUND, "EntryNotFound") => return None,
            (_, "RevisionNotFound") => HubError::NoRevision { repository, revision: revision.to_owned(), endpoint },
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => {
                HubError::Refused { repository, endpoint, why: why() }
            }
            (StatusCode::NOT_FOUND, _) => HubError::NoRepository { repository, endpoint },
            _ => return Some(Fault::Passing(format!("it answered {}", why()))),
        };
        Some(Fault::Final(error))
    }

    /// Fetches a file into the cache and gives its tag; none if the commit has no such file.
    pub(super) async fn fetch(
        &self,
        repository: &Repository,
        commit: &Commit,
        name: &str,
        progress: &(dyn Fn(Progress<'_>) + Sync),
    ) -> Result<Option<Tag>, HubError> {
        let what = format!("`{name}` of model `{repository}`");
        let url = self.url(repository, commit.as_str(), name);
        self.again(&what, async || {
            let answer = self.ask_once(Method::GET, url.clone(), repository, commit.as_str()).await?;
            if answer.response.status() == StatusCode::NOT_FOUND {
                return Ok(None);
            }
            let damaged =
                |why: String| HubError::Damaged { what: what.clone(), endpoint: self.endpoint.to_string(), why };
            if answer.commit.as_ref() != Some(commit) {
                let found = answer.commit.as_ref().map_or("no commit at all", Commit::as_str);
                return Err(damaged(format!("it is of {found} and should be of {commit}")).into());
            }
            let tag =
                answer.tag.clone().ok_or_else(|| damaged("it has no tag that can be a file's name".to_owned()))?;
            let blob = self.cache.blob(repository, &tag);
            let file = Incoming { name, tag: &tag, size: answer.size, blob: &blob };
            if let Some(partial) = file.open().await? {
                let whole = self.receive(answer, &file, partial, progress).await?;
                file.check(&whole).map_err(|why| {
                    // What is wrong is not gone on from.
                    let _ = fs::remove_file(file.partial());
                    damaged(why)
                })?;
                fs::rename(file.partial(), &blob).map_err(disk("write", &blob))?;
            }
            Ok(Some(tag))
        })
        .await
    }

    /// Writes what is missing of a file; gives its size and digest.
    async fn receive(
        &self,
        answer: Answer,
        file: &Incoming<'_>,
        mut partial: File,
        progress: &(dyn Fn(Progress<'_>) + Sync),
    ) -> Result<Whole, Fault> {
        let path = file.partial();
        let broken = |action| disk(action, &path);
        let mut hash = Sha256::new();
        let mut done = 0;
        let mut response = match answer.elsewhere {
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
        while let Some(chunk) = response.chunk().await.map_err(|error| Fault::Passing(root_cause(&error)))? {
            done += chunk.len() as u64;
            if done > file.size.unwrap_or(LARGEST_UNSAID) {
                break;
            }
            partial.write_all(&chunk).map_err(broken("write"))?;
            hash.update(&chunk);
            progress(Progress { file: file.name, done, size: file.size });
        }
        if file.size.is_some_and(|size| done < size) {
            return Err(Fault::Passing(format!("it broke off after {done} bytes")));
        }
        partial.sync_all().map_err(broken("write"))?;
        Ok(Whole { size: done, sha256: hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect() })
    }

    /// The content that lies elsewhere, from a byte on. Whoever keeps it is shown no token.
    async fn content(&self, mut url: Url, from: u64) -> Result<Response, Fault> {
        for _ in 0..REDIRECTS {
            let mut request = self.client.get(url.clone()).header(ACCEPT_ENCODING, "identity");
            if from > 0 {
                request = request.header(RANGE, format!("bytes={from}-"));
            }
            let response = request.send().await.map_err(|error| Fault::Passing(root_cause(&error)))?;
            if response.status().is_redirection() {
                let to = text(response.headers(), LOCATION.as_str()).and_then(|to| url.join(to).ok());
                url = to.ok_or_else(|| Fault::Passing("its storage redirects nowhere".to_owned()))?;
                continue;
            }
            let begins = text(response.headers(), CONTENT_RANGE.as_str()).unwrap_or_default();
            return match response.status() {
                StatusCode::OK => Ok(response),
                StatusCode::PARTIAL_CONTENT if begins.starts_with(&format!("bytes {from}-")) => Ok(response),
                status => Err(Fault::Passing(format!("its storage answered {status}"))),
            };
        }
        Err(Fault::Passing(format!("its storage redirects more than {REDIRECTS} times")))
    }
}

fn answer(response: Response, elsewhere: Option<Url>) -> Answer {
    let headers = response.headers();
    let linked = text(headers, "x-linked-size").and_then(|size| size.parse().ok());
    Answer {
        commit: text(headers, "x-repo-commit").and_then(Commit::parse),
        tag: text(headers, "x-linked-etag").or(text(headers, ETAG.as_str())).and_then(Tag::parse),
        size: linked.or(if elsewhere.is_none() { response.content_length() } else { None }),
        elsewhere,
        response,
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// A file on its way into the cache.
struct Incoming<'a> {
    name: &'a str,
    tag: &'a Tag,
    size: Option<u64>,
    /// Its place there.
    blob: &'a Path,
}

/// A file that has come to its end.
struct Whole {
    size: u64,
    sha256: String,
}

impl Incoming<'_> {
    /// Where it is until it is whole.
    fn partial(&self) -> std::path::PathBuf {
        self.blob.with_file_name(format!("{}.incomplete", self.tag.as_str()))
    }

    /// What there is of it, for nobody else to write to; none if it is whole, perhaps by another process meanwhile.
    async fn open(&self) -> Result<Option<File>, HubError> {
        let (path, folder) = (self.partial(), self.blob.parent().unwrap_or(Path::new(".")));
        fs::create_dir_all(folder).map_err(disk("create", folder))?;
        loop {
            if self.blob.is_file() {
                return Ok(None);
            }
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false).open(&path);
            let file = file.map_err(disk("write", &path))?;
            match file.try_lock() {
                // Whoever held it may have given it its place while this one waited.
                Ok(()) if self.blob.is_file() => return Ok(None),
                Ok(()) => return Ok(Some(file)),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(OTHERS).await,
                Err(TryLockError::Error(error)) => return Err(disk("lock", &path)(error)),
            }
        }
    }

    /// What is wrong with the file, if it is not what the hub said.
    fn check(&self, whole: &Whole) -> Result<(), String> {
        if self.size.is_some_and(|size| size != whole.size) || whole.size > self.size.unwrap_or(LARGEST_UNSAID) {
            let said = self.size.map_or_else(|| format!("at most {LARGEST_UNSAID}"), |size| size.to_string());
            return Err(format!("it has {} bytes or more, and the hub says {said}", whole.size));
        }
        if self.tag.sha256().is_some_and(|sha256| !sha256.eq_ignore_ascii_case(&whole.sha256)) {
            return Err(format!("its sha256 is {} and should be {}", whole.sha256, self.tag.as_str()));
        }
        Ok(())
    }
}

/// Hashes what is there of a file; gives how much that is.
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
