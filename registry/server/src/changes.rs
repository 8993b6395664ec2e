//! Changes: publishing a release and yanking a version.
//!
//! A publish request consists of the release file, an empty line and the component. The release file is checked before the
//! component is read; the component is streamed to disk, at most as many bytes as the release declares.

use std::error::Error;
use std::io::Write;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use gymkhana_http::StallBudget;
use gymkhana_registry::{
    FolderError, MAX_PLUGIN_BYTES, MAX_RELEASE_BYTES, Namespace, PluginName, Release, RuleViolation,
};
use gymkhana_waits::{Counterpart, within};
use http_body_util::{BodyExt, LengthLimitError};
use serde::Deserialize;
use tokio::time::Instant;

use crate::http_error::HttpError;
use crate::publish_tokens::Publisher;
use crate::release_head::ReleaseHead;
use crate::request_log::LogDetail;
use crate::service::RegistryService;

/// A yank request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Yank {
    name: PluginName,
    version: semver::Version,
    yanked: bool,
}

/// Publishes a release.
pub(crate) async fn publish(
    State(service): State<Arc<RegistryService>>,
    Extension(publisher): Extension<Publisher>,
    body: Body,
) -> Result<Response, HttpError> {
    let mut body = TimedBody { body, stall: service.limits.stall() };
    let (file, first) = body.release_file().await?;
    let bad_request = |error: &dyn Error| HttpError::client(StatusCode::BAD_REQUEST, error);
    let release = Release::read(&file, None).map_err(|error| bad_request(&error))?;
    check_namespace(&publisher, &release.manifest.name)?;
    // Errors of the release itself are reported before the component is uploaded.
    let (early_service, early_file) = (Arc::clone(&service), file.clone());
    let precheck = move || early_service.folder.precheck(&early_file, Some(&early_service.root.public()));
    change_folder(&service, precheck).await?;
    let mut pending = service.folder.content_store().create_pending().map_err(|error| HttpError::internal(&error))?;
    let mut remaining = release.size.min(MAX_PLUGIN_BYTES as u64);
    let mut next = Some(first);
    while let Some(chunk) = next {
        remaining = remaining.checked_sub(chunk.len() as u64).ok_or_else(|| {
            let message = format!("the component is larger than the {} bytes declared in its release", release.size);
            HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
        })?;
        pending.file.write_all(&chunk).map_err(|error| HttpError::internal(&error))?;
        next = body.chunk().await?;
    }
    let folder_service = Arc::clone(&service);
    let add = move || folder_service.folder.add(&file, &pending, folder_service.authority());
    let row = change_folder(&service, add).await?;
    Ok(done(format!("published {} {}", row.name, row.version)))
}

/// Yanks or restores a version.
pub(crate) async fn yank(
    State(service): State<Arc<RegistryService>>,
    Extension(publisher): Extension<Publisher>,
    body: Body,
) -> Result<Response, HttpError> {
    let mut body = TimedBody { body, stall: service.limits.stall() };
    let mut bytes = BytesMut::new();
    // The route's body limit bounds the size.
    while let Some(chunk) = body.chunk().await? {
        bytes.extend_from_slice(&chunk);
    }
    let request = serde_json::from_slice(&bytes);
    let Yank { name, version, yanked } = request.map_err(|error| HttpError::client(StatusCode::BAD_REQUEST, &error))?;
    check_namespace(&publisher, &name)?;
    let message = format!("{} {name} {version}", if yanked { "yanked" } else { "restored" });
    let folder_service = Arc::clone(&service);
    let yank = move || folder_service.folder.yank(&name, &version, yanked, folder_service.authority());
    change_folder(&service, yank).await?;
    Ok(done(message))
}

/// Response of a completed change, whose text is also logged.
fn done(message: String) -> Response {
    let mut response = format!("{message}\n").into_response();
    response.extensions_mut().insert(LogDetail(message));
    response
}

/// Runs a folder operation on a blocking thread. The number of concurrent operations is limited here and not by a tower
/// layer, because a layer would also count the time of slow uploads.
async fn change_folder<T: Send + 'static>(
    service: &RegistryService,
    operation: impl FnOnce() -> Result<T, FolderError> + Send + 'static,
) -> Result<T, HttpError> {
    // The semaphore is never closed.
    let permit = Arc::clone(&service.changes).acquire_owned().await.map_err(|error| HttpError::internal(&error))?;
    let result = tokio::task::spawn_blocking(move || {
        let result = operation();
        // The operation continues if the client disconnects, and keeps its permit.
        drop(permit);
        result
    });
    result.await.map_err(|error| HttpError::internal(&error))?.map_err(|error| folder_error(&error))
}

/// Response of a folder error.
fn folder_error(error: &FolderError) -> HttpError {
    let status = match error {
        FolderError::Rule(rule) if matches!(**rule, RuleViolation::Exists { .. }) => StatusCode::CONFLICT,
        FolderError::NotAKey { .. } => StatusCode::FORBIDDEN,
        FolderError::Unknown(_) => StatusCode::NOT_FOUND,
        FolderError::Rule(_)
        | FolderError::InvalidRelease(_)
        | FolderError::Release { .. }
        | FolderError::TooLarge { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        _ => return HttpError::internal(error),
    };
    HttpError::client(status, error)
}

/// Checks that a token is valid for the namespace of a plugin.
fn check_namespace(publisher: &Publisher, name: &PluginName) -> Result<(), HttpError> {
    if publisher.namespaces.contains(name.namespace()) {
        return Ok(());
    }
    let namespaces: Vec<&str> = publisher.namespaces.iter().map(Namespace::as_str).collect();
    let message = format!(
        "the token is valid for namespace {}, not for `{name}`\nhint: ask the registry's maintainer for another token",
        namespaces.join(", ")
    );
    Err(HttpError::new(StatusCode::FORBIDDEN, message))
}

/// A request body with a stall budget.
struct TimedBody {
    body: Body,
    stall: StallBudget,
}

impl TimedBody {
    /// Next chunk; `None` at the end.
    async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            let start = Instant::now();
            let frame = within(Counterpart::Client, self.stall.remaining(), self.body.frame()).await;
            let frame = frame.map_err(|_| HttpError::new(StatusCode::REQUEST_TIMEOUT, "the upload is too slow"))?;
            let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
            self.stall.transferred(data.map_or(0, Bytes::len), start.elapsed());
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(body_error(&error)),
                // Trailers are ignored.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => return Ok(Some(data)),
                    Err(_) => continue,
                },
            }
        }
    }

    /// Release file at the start of the body, and the bytes of the component that were received with it.
    async fn release_file(&mut self) -> Result<(String, Bytes), HttpError> {
        let mut head = ReleaseHead::default();
        loop {
            if let Some((file, first)) = head.take() {
                let file = String::from_utf8(file);
                let file = file.map_err(|error| HttpError::client(StatusCode::BAD_REQUEST, &error))?;
                return Ok((file, first));
            }
            if head.len() as u64 > MAX_RELEASE_BYTES {
                let message = format!("the release file is larger than {MAX_RELEASE_BYTES} bytes");
                return Err(HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, message));
            }
            let truncated = || {
                let message = "the request is truncated: expected a release file, an empty line and the component";
                HttpError::new(StatusCode::BAD_REQUEST, message)
            };
            head.push(&self.chunk().await?.ok_or_else(truncated)?);
        }
    }
}

/// Response of an error while reading a body: too large, or interrupted.
fn body_error(error: &axum::Error) -> HttpError {
    let mut cause: Option<&dyn Error> = Some(error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, "the request body is too large");
        }
        cause = error.source();
    }
    HttpError::new(StatusCode::BAD_REQUEST, "the request body was interrupted")
}
