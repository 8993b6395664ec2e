//! The registry's files: the checkpoint, which changes, and all others, which never do.

use bytes::Bytes;
use futures::stream;
use gymkhana_registry::{CHECKPOINT_FILE, Digest, ContentFile};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH};
use hyper::{Method, Request, Response, StatusCode};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, Take};

use crate::RegistryService;
use crate::answer::{Body, HttpError, full};

/// How much of a file is read at once, in bytes.
const PIECE: usize = 64 << 10;

impl RegistryService {
    /// Answers with a file.
    pub(crate) async fn file<B>(&self, request: &Request<B>) -> Result<Response<Body>, HttpError> {
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return Err(HttpError::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "files are read with GET, and changes made with PUT",
            ));
        }
        let path = request.uri().path().trim_start_matches('/');
        if path == CHECKPOINT_FILE {
            return self.checkpoint(request).await;
        }
        let item = ContentFile::of_path(path).ok_or_else(HttpError::missing)?;
        let tag = format!("\"{}\"", item.digest());
        if is_known(request, &tag) {
            return Ok(not_modified(&tag));
        }
        let file = match File::open(self.folder.content_store().path(&item)).await {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(HttpError::missing()),
            other => other.map_err(|error| HttpError::fault(&error))?,
        };
        let length = file.metadata().await.map_err(|error| HttpError::fault(&error))?.len();
        let body = if request.method() == Method::HEAD { full(Bytes::new()) } else { pieces(file, length) };
        let kind = match item {
            ContentFile::Component(_) => "application/wasm",
            ContentFile::Release(_) => "application/json",
            ContentFile::Index(..) | ContentFile::Catalogue(_) => "application/x-ndjson",
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
        tagged(&mut response, &tag);
        Ok(response)
    }

    async fn checkpoint<B>(&self, request: &Request<B>) -> Result<Response<Body>, HttpError> {
        let path = self.folder.path().join(CHECKPOINT_FILE);
        let text = tokio::fs::read(path).await.map_err(|error| HttpError::fault(&error))?;
        let tag = format!("\"{}\"", Digest::of(&text));
        if is_known(request, &tag) {
            return Ok(not_modified(&tag));
        }
        let length = text.len();
        let mut response =
            Response::new(if request.method() == Method::HEAD { full(Bytes::new()) } else { full(text) });
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        tagged(&mut response, &tag);
        Ok(response)
    }
}

/// Whether the client has what this tag names.
fn is_known<B>(request: &Request<B>, tag: &str) -> bool {
    let known = request.headers().get(IF_NONE_MATCH).and_then(|known| known.to_str().ok()).unwrap_or_default();
    known.split(',').map(str::trim).any(|known| known == tag || known == "*" || known.strip_prefix("W/") == Some(tag))
}

fn not_modified(tag: &str) -> Response<Body> {
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    tagged(&mut response, tag);
    response
}

fn tagged(response: &mut Response<Body>, tag: &str) {
    // A digest in quotation marks is a good value.
    if let Ok(tag) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(ETAG, tag);
    }
}

/// A file as a body, read piece by piece as the client takes it.
fn pieces(file: File, length: u64) -> Body {
    let next = |mut file: Take<File>| async move {
        let mut piece = Vec::with_capacity(PIECE);
        match file.read_buf(&mut piece).await {
            Ok(0) => None,
            Ok(_) => Some((Ok(Frame::data(Bytes::from(piece))), file)),
            Err(error) => Some((Err(error), file)),
        }
    };
    BodyExt::boxed(StreamBody::new(Box::pin(stream::unfold(file.take(length), next))))
}
