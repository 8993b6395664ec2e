//! HTTP requests to untrusted servers, bounded in size, rate, time and destination.
//!
//! Redirects are followed within an origin and to origins that the user listed. Proxies of the environment are ignored:
//! downloads are verified by digest or signature, and a proxy would see tokens.

mod error;
mod limits;
mod response;
mod upload;

use std::fmt;
use std::io::Write;
use std::time::{Duration, Instant};

use backon::Retryable;
use bytes::Bytes;
use gymkhana_registry::{ContentStore, Digest, PendingFile};
use gymkhana_waits::{Counterpart, pulse, within};
use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Body, Client, Method, Response, StatusCode, redirect};
use sha2::{Digest as _, Sha256};
use url::Url;

use error::root_cause;
use response::error_message;
use upload::Upload;

pub use error::FetchError;
pub use limits::TransferLimits;
pub(crate) use response::UnreadResponse;

/// Maximum number of redirects of one request.
const MAX_REDIRECTS: usize = 5;
/// Upper bound of sent bytes that are still in this machine's socket buffers.
const SOCKET_BUFFER: u64 = 256 << 10;
/// Size limit of all headers of a response, in bytes. The HTTP library itself allows 400 KiB.
const MAX_HEADERS: u64 = 64 << 10;

/// Headers and body of a request.
#[derive(Default, Clone)]
pub(crate) struct RequestParts<'a> {
    /// Headers without secrets.
    pub headers: Vec<(HeaderName, &'a str)>,
    /// Value of the `authorization` header, sent to the first origin only.
    pub authorization: Option<&'a str>,
    /// Request body.
    pub body: Bytes,
}

/// HTTP client of one registry with its allowed redirect targets.
#[derive(Clone)]
pub(crate) struct HttpTransport {
    client: Client,
    /// Client whose connections carry one request each. A server may close a kept connection during a long pause, such as
    /// that of a conformance suite, and a change is not sent a second time.
    unkept: Client,
    also: Vec<Url>,
    limits: TransferLimits,
}

impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTransport").field("also", &self.also).finish_non_exhaustive()
    }
}

impl HttpTransport {
    pub fn new(also: Vec<Url>, limits: TransferLimits) -> Result<Self, FetchError> {
        // Fails if a provider is already installed, which is equally good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || {
            let builder = Client::builder().no_proxy().redirect(redirect::Policy::none());
            // Later timeouts are handled here: reqwest's own timeout would also run during an upload.
            builder.connect_timeout(limits.connect_timeout)
        };
        let client = builder().build().map_err(FetchError::Client)?;
        let unkept = builder().pool_max_idle_per_host(0).build().map_err(FetchError::Client)?;
        Ok(Self { client, unkept, also, limits })
    }

    /// Sends a request once and returns a response with a success status, `304`, or one of `expected`.
    pub async fn send(
        &self,
        method: &Method,
        first: &Url,
        parts: &RequestParts<'_>,
        expected: &[StatusCode],
    ) -> Result<UnreadResponse, FetchError> {
        let mut url = without_userinfo(first.clone());
        for _ in 0..=MAX_REDIRECTS {
            let origin = url.origin().ascii_serialization();
            let client = if method.is_safe() { &self.client } else { &self.unkept };
            let mut request = client.request(method.clone(), url.clone()).headers(headers(parts, &origin)?);
            if let Some(secret) = parts.authorization.filter(|_| url.origin() == first.origin()) {
                let mut value = header_value(&AUTHORIZATION, secret, &origin)?;
                value.set_sensitive(true);
                request = request.header(AUTHORIZATION, value);
            }
            let upload = Upload::new(&parts.body);
            if !parts.body.is_empty() {
                request = request.body(Body::wrap(upload.clone()));
            } else if *method != Method::GET {
                request = request.body(Vec::new());
            }
            let response = self.response_head(request.send(), &upload, &origin).await?;
            let bytes = header_bytes(response.headers());
            if bytes > MAX_HEADERS {
                return Err(FetchError::LargeHeaders { origin, bytes, limit: MAX_HEADERS });
            }
            let status = response.status();
            if status.is_success() || status == StatusCode::NOT_MODIFIED || expected.contains(&status) {
                return Ok(UnreadResponse { response, origin, limits: self.limits });
            }
            if !status.is_redirection() {
                // The message is optional: a server that sends it too slowly gets an error without one.
                let message = within(Counterpart::Registry, self.limits.idle_timeout, error_message(response)).await;
                return Err(FetchError::Status { origin, status, message: message.unwrap_or_default() });
            }
            let location = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            let next = location.and_then(|to| url.join(to).ok());
            url = match next {
                Some(next) if self.is_allowed(first, &next) => without_userinfo(next),
                _ => {
                    return Err(FetchError::Redirected { origin, to: location.unwrap_or("an invalid URL").to_owned() });
                }
            };
        }
        Err(FetchError::TooManyRedirects { origin: first.origin().ascii_serialization() })
    }

    /// Returns true if a redirect stays within the first origin or leads to a listed one.
    fn is_allowed(&self, first: &Url, next: &Url) -> bool {
        next.origin() == first.origin() || self.also.iter().any(|also| also.origin() == next.origin())
    }

    /// Waits for the response head: as long as the upload makes progress, then for the idle timeout.
    async fn response_head(
        &self,
        sending: impl Future<Output = Result<Response, reqwest::Error>>,
        upload: &Upload,
        origin: &str,
    ) -> Result<Response, FetchError> {
        let unreachable = |why| FetchError::Unreachable { origin: origin.to_owned(), why };
        let mut sending = std::pin::pin!(sending);
        let (start, length) = (Instant::now(), upload.length());
        let mut previous = 0;
        loop {
            let bytes = upload.sent();
            // Sent bytes stay in socket buffers until the network has transmitted them.
            let is_complete = bytes == length;
            let buffered =
                if is_complete { length.min(SOCKET_BUFFER) / self.limits.min_bytes_per_second.max(1) } else { 0 };
            let timeout = self.limits.idle_timeout + Duration::from_secs(buffered);
            if let Some(response) = pulse(timeout, &mut sending).await {
                return response.map_err(|error| unreachable(root_cause(&error, start.elapsed())));
            }
            let (elapsed, sent) = (start.elapsed(), upload.sent());
            if is_complete {
                return Err(unreachable(silent(elapsed)));
            }
            if sent == previous || self.limits.is_too_slow(sent, elapsed) {
                let (origin, seconds) = (origin.to_owned(), elapsed.as_secs());
                return Err(FetchError::SlowUpload { origin, bytes: sent, length, seconds });
            }
            previous = sent;
        }
    }

    /// Fetches a file of at most `limit` bytes into memory, with retries.
    pub async fn fetch(&self, url: &Url, parts: &RequestParts<'_>, limit: u64) -> Result<Vec<u8>, FetchError> {
        self.retry(|| async {
            let response = self.send(&Method::GET, url, parts, &[]).await?;
            response.bytes(limit).await
        })
        .await
    }

    /// Fetches a file of at most `limit` bytes into a pending file of a store, with retries, and returns its digest.
    pub async fn download(
        &self,
        url: &Url,
        parts: &RequestParts<'_>,
        limit: u64,
        store: &ContentStore,
    ) -> Result<(PendingFile, Digest), FetchError> {
        self.retry(|| async {
            // Every attempt starts with a new file.
            let mut pending = store.create_pending().map_err(|error| FetchError::Disk(std::io::Error::other(error)))?;
            let mut hash = Sha256::new();
            let response = self.send(&Method::GET, url, parts, &[]).await?;
            let write = |chunk: &[u8]| {
                hash.update(chunk);
                pending.file.write_all(chunk)
            };
            response.stream(limit, write).await?;
            Ok((pending, Digest::from_hasher(hash)))
        })
        .await
    }

    /// Repeats an operation after transient failures.
    pub async fn retry<T, F: Future<Output = Result<T, FetchError>>>(
        &self,
        operation: impl FnMut() -> F,
    ) -> Result<T, FetchError> {
        operation.retry(self.limits.backoff()).when(FetchError::is_transient).await
    }
}

/// Reason in the error of a timeout.
fn silent(waited: Duration) -> String {
    format!("it did not answer for {} s", waited.as_secs())
}

fn headers(parts: &RequestParts<'_>, origin: &str) -> Result<HeaderMap, FetchError> {
    let mut headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("identity"))]);
    for (name, value) in &parts.headers {
        headers.insert(name, header_value(name, value, origin)?);
    }
    Ok(headers)
}

/// Converts a header value; the error contains the header's name only, because the value may be a secret.
fn header_value(name: &HeaderName, value: &str, origin: &str) -> Result<HeaderValue, FetchError> {
    let invalid = |_| FetchError::InvalidHeader { origin: origin.to_owned(), name: name.to_string() };
    HeaderValue::from_str(value).map_err(invalid)
}

/// Size of the names and values of headers in bytes, with their separators.
fn header_bytes(headers: &HeaderMap) -> u64 {
    headers.iter().map(|(name, value)| name.as_str().len() as u64 + value.len() as u64 + 4).sum()
}

/// URL without user name and password. The HTTP library would send them as an `authorization` header, and a URL may come
/// from a server: as a redirect, a token endpoint, a next page or an upload target.
fn without_userinfo(mut url: Url) -> Url {
    // An error means that the URL has no host, and therefore no user name.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url
}

/// Appends a path to a URL whose path ends with a slash.
pub(crate) fn below(url: &Url, path: &str) -> Url {
    let mut below = url.clone();
    below.set_path(&format!("{}{path}", url.path()));
    below
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A secret with a line break is an error and not an empty header.
    #[tokio::test]
    async fn invalid_header_values_are_errors() {
        let transport = HttpTransport::new(Vec::new(), TransferLimits::default()).unwrap();
        let url = "http://127.0.0.1:9/".parse().unwrap();
        let parts = RequestParts { authorization: Some("Bearer a\nb"), ..RequestParts::default() };
        let error = transport.send(&Method::GET, &url, &parts, &[]).await.err().unwrap();
        assert!(matches!(&error, FetchError::InvalidHeader { name, .. } if name == "authorization"), "{error}");
        assert!(!error.to_string().contains("Bearer"), "{error}");
    }
}
