//! Asking web servers that are not trusted: so many bytes, so fast, from nowhere else.
//!
//! A server may be slow, endless, short, or send us elsewhere; each has a bound and an error of its own. Redirects are
//! followed within an origin and to origins that the user has named. Proxies of the environment are not used: what is
//! fetched is checked by digest or signature anyway, and a proxy would see tokens.

use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, ETAG, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Body, Client, Method, Response, StatusCode, redirect};
use url::Url;

use crate::upload::Upload;

/// How often a request may be sent on.
const REDIRECTS: usize = 5;
/// The most that is read of what a server says about an error, in bytes.
const WORDS: usize = 2048;
/// What of a body may lie in this machine's buffers when all of it has gone, in bytes.
const BUFFERED: u64 = 256 << 10;
/// What is said of who does not answer.
const TOO_LONG: &str = "it took too long";

/// How long somebody is waited for.
#[derive(Debug, Clone, Copy)]
pub struct TransferLimits {
    /// For a connection.
    pub connecting: Duration,
    /// For the next byte, whether it comes or is taken; and for an answer, once the request has gone.
    pub idle: Duration,
    /// After this, a body must have come at [`slowest`](Self::slowest) or faster.
    pub grace: Duration,
    /// Bytes a second, on average from the start.
    pub slowest: u64,
    /// How often it is asked again after a failure that may pass.
    pub retries: u32,
    /// The first pause before that; each later one is twice as long.
    pub pause: Duration,
}

impl Default for TransferLimits {
    fn default() -> Self {
        Self {
            connecting: Duration::from_secs(10),
            idle: Duration::from_secs(30),
            grace: Duration::from_secs(20),
            slowest: 4096,
            retries: 3,
            pause: Duration::from_millis(300),
        }
    }
}

impl TransferLimits {
    /// Whether so many bytes in so long are fewer than anybody waits for.
    fn is_too_slow(&self, bytes: u64, elapsed: Duration) -> bool {
        elapsed > self.grace && (bytes as f64) < self.slowest as f64 * elapsed.as_secs_f64()
    }
}

/// A request came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No client can be set up.
    #[error("no HTTP client can be set up; install the system's package of root certificates, such as ca-certificates")]
    Client(#[source] reqwest::Error),
    /// Nobody answers.
    #[error("`{origin}` cannot be reached: {why}")]
    Unreachable {
        /// Who was asked.
        origin: String,
        /// At the bottom of it.
        why: String,
    },
    /// Another answer than a success.
    #[error("`{origin}` answered {status}{}", said(.words))]
    Status {
        /// Who was asked.
        origin: String,
        /// The status.
        status: StatusCode,
        /// What it said, shortened.
        words: String,
    },
    /// Sent to somewhere else.
    #[error("`{origin}` sends us on to `{to}`, which is not the registry; if that is right, name it in `also`")]
    Elsewhere {
        /// Who was asked.
        origin: String,
        /// Where to.
        to: String,
    },
    /// Sent on without end.
    #[error("`{origin}` sends us on more than {REDIRECTS} times")]
    Redirects {
        /// Who was asked.
        origin: String,
    },
    /// More than there should be.
    #[error("`{origin}` sends more than the {limit} bytes that there should be")]
    TooLarge {
        /// Who was asked.
        origin: String,
        /// How many.
        limit: u64,
    },
    /// Slower than anybody waits.
    #[error("`{origin}` sends {bytes} bytes in {seconds} s, which is too slow; try again, or use a mirror")]
    Slow {
        /// Who was asked.
        origin: String,
        /// What came.
        bytes: u64,
        /// In how long.
        seconds: u64,
    },
    /// It takes what is sent slower than anybody waits.
    #[error(
        "`{origin}` has taken {bytes} of {length} bytes in {seconds} s, which is too slow; try again, or ask its maintainer"
    )]
    SlowToTake {
        /// Who was asked.
        origin: String,
        /// What went.
        bytes: u64,
        /// What should have gone.
        length: u64,
        /// In how long.
        seconds: u64,
    },
    /// The body ends early, or the connection breaks.
    #[error("`{origin}` broke off after {bytes} bytes: {why}")]
    BrokeOff {
        /// Who was asked.
        origin: String,
        /// What came.
        bytes: u64,
        /// At the bottom of it.
        why: String,
    },
    /// A folder's file cannot be read.
    #[error("it cannot be read; check that it is there and that this user may read it")]
    Unread(#[source] std::io::Error),
    /// What came cannot be kept.
    #[error("what was fetched cannot be written; free space")]
    Disk(#[source] std::io::Error),
}

fn said(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(": {words}") }
}

impl FetchError {
    /// Whether it may come out another time.
    fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::BrokeOff { .. } => true,
            Self::Status { status, .. } => status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS,
            _ => false,
        }
    }

    /// The status of the answer, if there was one.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }
}

/// What is sent with a request.
#[derive(Default, Clone)]
pub(crate) struct RequestParts<'a> {
    /// Headers that anybody may see.
    pub headers: Vec<(HeaderName, &'a str)>,
    /// The `authorization` header; it is sent to the first origin alone.
    pub authorization: Option<&'a str>,
    /// The body.
    pub body: Bytes,
}

/// A server's answer, before its body.
pub(crate) struct HttpResponse {
    response: Response,
    origin: String,
    patience: TransferLimits,
}

/// One web server and where it may send us.
#[derive(Clone)]
pub(crate) struct Web {
    client: Client,
    also: Vec<Url>,
    patience: TransferLimits,
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTransport").field("also", &self.also).finish_non_exhaustive()
    }
}

impl Web {
    pub fn new(also: Vec<Url>, patience: TransferLimits) -> Result<Self, FetchError> {
        // Fails if a provider is there already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = Client::builder().no_proxy().redirect(redirect::Policy::none());
        // Everything behind the connection is waited for here: the client's own timeout would also run while we send.
        let client = builder.connect_timeout(patience.connecting).build();
        Ok(Self { client: client.map_err(FetchError::Client)?, also, patience })
    }

    /// Asks once, for an answer that is a success, `304`, or one of `expected`.
    pub async fn ask(
        &self,
        method: &Method,
        first: &Url,
        sent: &RequestParts<'_>,
        expected: &[StatusCode],
    ) -> Result<HttpResponse, FetchError> {
        let mut url = first.clone();
        for _ in 0..=REDIRECTS {
            let origin = url.origin().ascii_serialization();
            let mut request = self.client.request(method.clone(), url.clone()).headers(headers(sent));
            if let Some(secret) = sent.authorization.filter(|_| url.origin() == first.origin()) {
                let mut value = HeaderValue::from_str(secret).unwrap_or_else(|_| HeaderValue::from_static(""));
                value.set_sensitive(true);
                request = request.header(AUTHORIZATION, value);
            }
            let upload = Upload::of(&sent.body);
            if !sent.body.is_empty() {
                request = request.body(Body::wrap(upload.clone()));
            } else if *method != Method::GET {
                request = request.body(Vec::new());
            }
            let response = self.head(request.send(), &upload, &origin).await?;
            let status = response.status();
            if status.is_success() || status == StatusCode::NOT_MODIFIED || expected.contains(&status) {
                return Ok(HttpResponse { response, origin, patience: self.patience });
            }
            if !status.is_redirection() {
                // Whoever drips words is not listened to any longer than whoever says nothing.
                let words = tokio::time::timeout(self.patience.idle, words(response)).await.unwrap_or_default();
                return Err(FetchError::Status { origin, status, words });
            }
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            let next = to.and_then(|to| url.join(to).ok());
            let may = |next: &Url| {
                next.origin() == first.origin() || self.also.iter().any(|also| also.origin() == next.origin())
            };
            url = match next {
                Some(next) if may(&next) => next,
                _ => return Err(FetchError::Elsewhere { origin, to: to.unwrap_or("nowhere").to_owned() }),
            };
        }
        Err(FetchError::Redirects { origin: first.origin().ascii_serialization() })
    }

    /// Waits for the head of an answer: as long as what is sent is taken, and then for so long.
    async fn head(
        &self,
        sending: impl Future<Output = Result<Response, reqwest::Error>>,
        upload: &Upload,
        origin: &str,
    ) -> Result<Response, FetchError> {
        let unreachable = |why| FetchError::Unreachable { origin: origin.to_owned(), why };
        let mut sending = std::pin::pin!(sending);
        let (begun, length) = (Instant::now(), upload.length());
        let mut before = 0;
        loop {
            let bytes = upload.gone();
            // What has gone lies in this machine's buffers for a while.
            let buffered = if bytes == length { length.min(BUFFERED) / self.patience.slowest.max(1) } else { 0 };
            let patience = self.patience.idle + Duration::from_secs(buffered);
            if let Ok(answered) = tokio::time::timeout(patience, &mut sending).await {
                return answered.map_err(|error| unreachable(root_cause(&error)));
            }
            let (elapsed, gone) = (begun.elapsed(), upload.gone());
            if bytes == length {
                return Err(unreachable(TOO_LONG.to_owned()));
            }
            if gone == before || self.patience.is_too_slow(gone, elapsed) {
                let (origin, seconds) = (origin.to_owned(), elapsed.as_secs());
                return Err(FetchError::SlowToTake { origin, bytes: gone, length, seconds });
            }
            before = gone;
        }
    }

    /// Fetches a whole file of at most `limit` bytes into memory.
    pub async fn bytes(&self, url: &Url, sent: &RequestParts<'_>, limit: u64) -> Result<Vec<u8>, FetchError> {
        self.again(|| async {
            let answer = self.ask(&Method::GET, url, sent, &[]).await?;
            answer.bytes(limit).await
        })
        .await
    }

    /// Tries until it comes out or fails for good.
    pub async fn again<T, F: Future<Output = Result<T, FetchError>>>(
        &self,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, FetchError> {
        let mut pause = self.patience.pause;
        let mut tried = 0;
        loop {
            match attempt().await {
                Err(error) if error.may_pass() && tried < self.patience.retries => {}
                other => return other,
            }
            tried += 1;
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }
}

fn headers(sent: &RequestParts<'_>) -> HeaderMap {
    let mut headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("identity"))]);
    for (name, value) in &sent.headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    headers
}

impl HttpResponse {
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub fn header(&self, name: &HeaderName) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    pub fn etag(&self) -> Option<String> {
        self.header(&ETAG).map(str::to_owned)
    }

    pub fn url(&self) -> &Url {
        self.response.url()
    }

    /// The body, of at most `limit` bytes.
    pub async fn bytes(self, limit: u64) -> Result<Vec<u8>, FetchError> {
        let mut bytes = Vec::new();
        self.stream(limit, |chunk| {
            bytes.extend_from_slice(chunk);
            Ok(())
        })
        .await?;
        Ok(bytes)
    }

    /// Gives the body on in pieces, as it comes: at most `limit` bytes, fast enough and whole.
    pub async fn stream(
        mut self,
        limit: u64,
        mut sink: impl FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<u64, FetchError> {
        let origin = self.origin;
        let too_large = || FetchError::TooLarge { origin: origin.clone(), limit };
        if self.response.content_length().is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        let begun = Instant::now();
        let mut bytes = 0;
        loop {
            let Ok(chunk) = tokio::time::timeout(self.patience.idle, self.response.chunk()).await else {
                return Err(slow(origin, bytes, begun.elapsed()));
            };
            let chunk = match chunk {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return Ok(bytes),
                Err(error) => return Err(FetchError::BrokeOff { origin, bytes, why: root_cause(&error) }),
            };
            bytes += chunk.len() as u64;
            if bytes > limit {
                return Err(too_large());
            }
            sink(&chunk).map_err(FetchError::Disk)?;
            let elapsed = begun.elapsed();
            if self.patience.is_too_slow(bytes, elapsed) {
                return Err(slow(origin, bytes, elapsed));
            }
        }
    }
}

fn slow(origin: String, bytes: u64, elapsed: Duration) -> FetchError {
    FetchError::Slow { origin, bytes, seconds: elapsed.as_secs() }
}

/// What a server says about an error: its first line, shortened.
async fn words(mut response: Response) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < WORDS {
        match response.chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) | Err(_) => break,
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    text.lines().next().unwrap_or_default().chars().take(400).collect()
}

/// What went wrong at the bottom of it.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    if error.is_timeout() { TOO_LONG.to_owned() } else { cause.to_string() }
}
