//! HTTP responses whose bodies are bounded in size, rate and idle time.

use std::time::{Duration, Instant};

use gymkhana_waits::{Counterpart, within};
use reqwest::header::{ETAG, HeaderName};
use reqwest::{Response, StatusCode};
use url::Url;

use super::error::{FetchError, root_cause};
use super::limits::TransferLimits;

/// Size limit of an error message in a response body, in bytes.
const MAX_ERROR_BODY: usize = 2048;
/// Length limit of a line of an error message, in characters.
const MAX_ERROR_LINE: usize = 400;

/// A response whose body was not read yet.
pub(crate) struct UnreadResponse {
    pub(super) response: Response,
    pub(super) origin: String,
    pub(super) limits: TransferLimits,
}

impl UnreadResponse {
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

    /// Reads a body of at most `limit` bytes.
    pub async fn bytes(self, limit: u64) -> Result<Vec<u8>, FetchError> {
        let mut bytes = Vec::new();
        self.stream(limit, |chunk| {
            bytes.extend_from_slice(chunk);
            Ok(())
        })
        .await?;
        Ok(bytes)
    }

    /// Passes the body to `sink` chunk by chunk and returns its length. The body has at most `limit` bytes, arrives at
    /// the minimum rate or faster, and is complete.
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
        let start = Instant::now();
        let mut bytes = 0;
        loop {
            let Ok(chunk) = within(Counterpart::Registry, self.limits.idle_timeout, self.response.chunk()).await else {
                return Err(slow(origin, bytes, start.elapsed()));
            };
            let chunk = match chunk {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return Ok(bytes),
                Err(error) => {
                    return Err(FetchError::Interrupted { origin, bytes, why: root_cause(&error, start.elapsed()) });
                }
            };
            bytes += chunk.len() as u64;
            if bytes > limit {
                return Err(too_large());
            }
            sink(&chunk).map_err(FetchError::Disk)?;
            let elapsed = start.elapsed();
            if self.limits.is_too_slow(bytes, elapsed) {
                return Err(slow(origin, bytes, elapsed));
            }
        }
    }
}

fn slow(origin: String, bytes: u64, elapsed: Duration) -> FetchError {
    FetchError::SlowDownload { origin, bytes, seconds: elapsed.as_secs() }
}

/// Reads the error message of a response: its first line and, if present, the hint line that follows.
pub(super) async fn error_message(mut response: Response) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < MAX_ERROR_BODY {
        match response.chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) | Err(_) => break,
        }
    }
    bytes.truncate(MAX_ERROR_BODY);
    first_lines(&String::from_utf8_lossy(&bytes))
}

fn first_lines(text: &str) -> String {
    let shorten = |line: &str| line.chars().take(MAX_ERROR_LINE).collect::<String>();
    let mut lines = text.lines();
    let message = lines.next().map(shorten).unwrap_or_default();
    match lines.next().filter(|line| line.starts_with("hint: ")) {
        Some(hint) => format!("{message}\n{}", shorten(hint)),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_messages_keep_the_hint_line_only() {
        for (text, message) in [
            ("", ""),
            ("no such file\nhint: check the path\nmore\n", "no such file\nhint: check the path"),
            ("<html>\n<body>", "<html>"),
        ] {
            assert_eq!(first_lines(text), message);
        }
        assert_eq!(first_lines(&"x".repeat(1000)).len(), MAX_ERROR_LINE);
    }
}
