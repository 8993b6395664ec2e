//! Changes: a release that is published, a version that is withdrawn.
//!
//! A release comes as its signed file, an empty line, and the component. What can be judged by the signed file is judged
//! before the component is read, which goes to disk as it comes, no further than the release says.

use std::io::Write;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use gymkhana_registry::{
    FolderError, MAX_PLUGIN_BYTES, MAX_RELEASE_BYTES, Namespace, PluginName, RuleViolation, Release,
};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use serde::Deserialize;
use tokio::time::Instant;

use crate::RegistryService;
use crate::answer::{Body, HttpError, full};
use crate::log::RequestLogEntry;
use crate::stall_timeout::StallTimeout;
use crate::tokens::Known;

/// What separates a release file from its component: the file's last line end and an empty line.
const SEPARATOR: &[u8] = b"\n\n";
/// The largest request to withdraw a version, in bytes.
const MAX_YANK: usize = 4096;

/// A request to withdraw a version, or to bring it back.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Yank {
    name: PluginName,
    version: semver::Version,
    yanked: bool,
}

impl RegistryService {
    /// Makes a change for who may.
    pub(crate) async fn change(
        self: Arc<Self>,
        request: Request<Incoming>,
        known: Known,
        line: &mut RequestLogEntry,
    ) -> Result<Response<Body>, HttpError> {
        line.token = Some(known.number.clone());
        if !self.limiter.may_change(&known.number) {
            return Err(HttpError::too_many("your token changes too much; wait a minute"));
        }
        // Who sends slowly holds one of the token's places, and none that others wait for.
        let too_many = || HttpError::too_many("your token sends too many releases at once; wait until one is through");
        let _place = self.releases.enter(known.number.clone()).ok_or_else(too_many)?;
        let done = match request.uri().path() {
            "/publish" => Arc::clone(&self).publish(request.into_body(), &known).await?,
            "/yank" => Arc::clone(&self).yank(request.into_body(), &known).await?,
            _ => return Err(HttpError::missing()),
        };
        line.what = Some(done.clone());
        Ok(Response::new(full(format!("{done}\n"))))
    }

    async fn publish(self: Arc<Self>, body: Incoming, known: &Known) -> Result<String, HttpError> {
        let mut body = Timed { body, pace: self.pace() };
        let (file, first) = body.release_file().await?;
        let said = Release::read(&file, None).map_err(|error| HttpError::mistake(StatusCode::BAD_REQUEST, &error))?;
        let name = said.manifest.name.clone();
        may_write(known, &name)?;
        let root = self.root.public();
        // What is wrong with the release itself is said before anything is sent.
        let service = Arc::clone(&self);
        let early = file.clone();
        self.at_the_folder(move || service.folder.would_add(&early, Some(&root))).await?;
        let mut incoming = self.folder.content_store().begin().map_err(|error| HttpError::fault(&error))?;
        let mut left = said.size.min(MAX_PLUGIN_BYTES as u64);
        let mut next = Some(first);
        while let Some(piece) = next {
            left = left.checked_sub(piece.len() as u64).ok_or_else(|| {
                let words = format!("the component is larger than the {} bytes that its release says", said.size);
                HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, words)
            })?;
            incoming.file.write_all(&piece).map_err(|error| HttpError::fault(&error))?;
            next = body.piece().await?;
        }
        let service = Arc::clone(&self);
        let row = self.at_the_folder(move || service.folder.add(&file, &incoming, service.authority())).await?;
        Ok(format!("published {} {}", row.name, row.version))
    }

    async fn yank(self: Arc<Self>, body: Incoming, known: &Known) -> Result<String, HttpError> {
        let mut body = Timed { body, pace: self.pace() };
        let mut bytes = BytesMut::new();
        while let Some(piece) = body.piece().await? {
            bytes.extend_from_slice(&piece);
            if bytes.len() > MAX_YANK {
                return Err(HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, "that is too much for a name and a version"));
            }
        }
        let asked = serde_json::from_slice(&bytes);
        let Yank { name, version, yanked } =
            asked.map_err(|error| HttpError::mistake(StatusCode::BAD_REQUEST, &error))?;
        may_write(known, &name)?;
        let done = format!("{} {name} {version}", if yanked { "yanked" } else { "brought back" });
        let service = Arc::clone(&self);
        self.at_the_folder(move || service.folder.yank(&name, &version, yanked, service.authority())).await?;
        Ok(done)
    }

    /// Does what waits for the disk where nobody else waits for it; so many do so side by side.
    async fn at_the_folder<T: Send + 'static>(
        &self,
        act: impl FnOnce() -> Result<T, FolderError> + Send + 'static,
    ) -> Result<T, HttpError> {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.changes).acquire_owned().await.map_err(|error| HttpError::fault(&error))?;
        let done = tokio::task::spawn_blocking(move || {
            let done = act();
            // Not before: who asked for it may be gone meanwhile.
            drop(permit);
            done
        });
        done.await.map_err(|error| HttpError::fault(&error))?.map_err(|error| refusal(&error))
    }
}

/// What a client hears of what the folder said.
fn refusal(error: &FolderError) -> HttpError {
    match error {
        FolderError::Refused(rule) if matches!(**rule, RuleViolation::Exists { .. }) => {
            HttpError::mistake(StatusCode::CONFLICT, error)
        }
        FolderError::NotAKey { .. } => HttpError::mistake(StatusCode::FORBIDDEN, error),
        FolderError::Unknown(_) => HttpError::mistake(StatusCode::NOT_FOUND, error),
        FolderError::Refused(_)
        | FolderError::NoRelease(_)
        | FolderError::Release { .. }
        | FolderError::Full { .. } => HttpError::mistake(StatusCode::UNPROCESSABLE_ENTITY, error),
        _ => HttpError::fault(error),
    }
}

fn may_write(known: &Known, name: &PluginName) -> Result<(), HttpError> {
    if known.namespaces.contains(name.namespace()) {
        return Ok(());
    }
    let namespaces: Vec<&str> = known.namespaces.iter().map(Namespace::as_str).collect();
    let words =
        format!("your token is for {}, and `{name}` is elsewhere; ask for one of its own", namespaces.join(", "));
    Err(HttpError::new(StatusCode::FORBIDDEN, words))
}

/// A body whose sender is waited for at its pace.
struct Timed {
    body: Incoming,
    pace: StallTimeout,
}

impl Timed {
    /// The next piece; none at the end.
    async fn piece(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            let begun = Instant::now();
            let frame = tokio::time::timeout(self.pace.left(), self.body.frame()).await;
            let frame = frame.map_err(|_| HttpError::new(StatusCode::REQUEST_TIMEOUT, "you send too slowly"))?;
            let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
            self.pace.moved(data.map_or(0, Bytes::len), begun.elapsed());
            match frame {
                None => return Ok(None),
                Some(Err(_)) => return Err(HttpError::new(StatusCode::BAD_REQUEST, "the request broke off")),
                // What is no data is a trailer, which says nothing.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => return Ok(Some(data)),
                    Err(_) => continue,
                },
            }
        }
    }

    /// The release file at the beginning, and what came with its end.
    async fn release_file(&mut self) -> Result<(String, Bytes), HttpError> {
        let mut bytes = BytesMut::new();
        loop {
            if let Some(at) = bytes.windows(SEPARATOR.len()).position(|window| window == SEPARATOR) {
                let mut head = bytes.split_to(at + SEPARATOR.len());
                head.truncate(at + 1);
                let file = String::from_utf8(head.to_vec());
                let file = file.map_err(|error| HttpError::mistake(StatusCode::BAD_REQUEST, &error))?;
                return Ok((file, bytes.freeze()));
            }
            if bytes.len() as u64 > MAX_RELEASE_BYTES {
                let words = "the release file has no end; send it, an empty line, and the component";
                return Err(HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, words));
            }
            let cut_off =
                || HttpError::new(StatusCode::BAD_REQUEST, "send a release file, an empty line, and the component");
            let piece = self.piece().await?.ok_or_else(cut_off)?;
            bytes.extend_from_slice(&piece);
        }
    }
}
