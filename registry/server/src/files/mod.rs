//! Files of the registry: the mutable checkpoint, the immutable content-addressed files, and pages for browsers.

mod page;
pub(crate) mod page_cache;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use gymkhana_registry::{CHECKPOINT_FILE, ContentFile, Digest, open_regular_file};
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

use crate::http_error::HttpError;
use crate::service::RegistryService;
use page_cache::RegistryPage;

/// Size of a read from a file, in bytes.
const CHUNK: usize = 64 << 10;
/// Cache lifetime of immutable files.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// Serves a file; the fallback of all routes.
pub(crate) async fn serve(
    State(service): State<Arc<RegistryService>>,
    request: Request,
) -> Result<Response, HttpError> {
    let with_body = match *request.method() {
        Method::GET => true,
        Method::HEAD => false,
        Method::PUT => return Err(HttpError::not_found()),
        _ => {
            let message = "method not allowed\nhint: read files with GET, make changes with PUT";
            return Err(HttpError::new(StatusCode::METHOD_NOT_ALLOWED, message));
        }
    };
    let path = request.uri().path().trim_start_matches('/');
    if let Some(page) = RegistryPage::from_path(path) {
        return page::serve(service, page, with_body).await;
    }
    if path == CHECKPOINT_FILE {
        return checkpoint(&service, request.headers(), with_body).await;
    }
    let content = ContentFile::from_path(path).ok_or_else(HttpError::not_found)?;
    let etag = format!("\"{}\"", content.digest());
    if is_cached(request.headers(), &etag) {
        return Ok(not_modified(etag));
    }
    let file = match open(service.folder.content_store().path(&content)).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(HttpError::not_found()),
        other => other.map_err(|error| HttpError::internal(&error))?,
    };
    let length = file.metadata().await.map_err(|error| HttpError::internal(&error))?.len();
    let body = if with_body {
        Body::from_stream(ReaderStream::with_capacity(file.take(length), CHUNK))
    } else {
        Body::empty()
    };
    let media_type = match content {
        ContentFile::Component(_) => "application/wasm",
        ContentFile::Release(_) => "application/json",
        ContentFile::Index(..) | ContentFile::Catalogue(_) => "application/x-ndjson",
    };
    Ok(file_response(body, length, media_type, IMMUTABLE, etag))
}

async fn checkpoint(service: &RegistryService, headers: &HeaderMap, with_body: bool) -> Result<Response, HttpError> {
    let mut file =
        open(service.folder.path().join(CHECKPOINT_FILE)).await.map_err(|error| HttpError::internal(&error))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).await.map_err(|error| HttpError::internal(&error))?;
    let etag = format!("\"{}\"", Digest::of(&text));
    if is_cached(headers, &etag) {
        return Ok(not_modified(etag));
    }
    let length = text.len() as u64;
    let body = if with_body { Body::from(text) } else { Body::empty() };
    Ok(file_response(body, length, "application/json", "no-cache", etag))
}

/// Opens a regular file on a blocking thread.
async fn open(path: PathBuf) -> io::Result<File> {
    let file = tokio::task::spawn_blocking(move || open_regular_file(&path)).await.map_err(io::Error::other)??;
    Ok(File::from_std(file))
}

fn file_response(body: Body, length: u64, media_type: &str, cache_control: &str, etag: String) -> Response {
    let headers = [
        (CONTENT_TYPE, media_type.to_owned()),
        (CONTENT_LENGTH, length.to_string()),
        (CACHE_CONTROL, cache_control.to_owned()),
        (ETAG, etag),
    ];
    (headers, body).into_response()
}

fn not_modified(etag: String) -> Response {
    (StatusCode::NOT_MODIFIED, [(ETAG, etag)]).into_response()
}

/// Returns true if `if-none-match` contains the ETag.
fn is_cached(headers: &HeaderMap, etag: &str) -> bool {
    let Some(known) = headers.get(IF_NONE_MATCH).and_then(|known| known.to_str().ok()) else { return false };
    known.split(',').map(str::trim).any(|known| known == etag || known == "*" || known.strip_prefix("W/") == Some(etag))
}
