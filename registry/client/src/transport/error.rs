//! Errors of HTTP requests to untrusted servers.

use std::time::Duration;

use reqwest::StatusCode;

use super::MAX_REDIRECTS;

/// An HTTP request failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The HTTP client cannot be created.
    #[error(
        "cannot create an HTTP client\nhint: install the system's root certificates, such as package ca-certificates"
    )]
    Client(#[source] reqwest::Error),
    /// A header value contains characters that HTTP does not allow.
    #[error("cannot send header `{name}` to `{origin}`: its value contains invalid characters")]
    InvalidHeader {
        /// Contacted origin.
        origin: String,
        /// Header name.
        name: String,
    },
    /// The connection failed, or the server did not respond in time.
    #[error(
        "cannot reach `{origin}`: {why}\nhint: check the network and the address, or use cached data with --offline"
    )]
    Unreachable {
        /// Contacted origin.
        origin: String,
        /// Root cause.
        why: String,
    },
    /// Unexpected response status.
    #[error("`{origin}` answered {status}{}", details(.message))]
    Status {
        /// Contacted origin.
        origin: String,
        /// Response status.
        status: StatusCode,
        /// Message in the response body, shortened; it may end with a hint line.
        message: String,
    },
    /// Redirect to an origin that is not allowed.
    #[error("`{origin}` redirects to `{to}`, which is not the registry\nhint: if this is intended, add it to `also`")]
    Redirected {
        /// Contacted origin.
        origin: String,
        /// Redirect target.
        to: String,
    },
    /// Too many redirects.
    #[error("`{origin}` redirects more than {MAX_REDIRECTS} times")]
    TooManyRedirects {
        /// Contacted origin.
        origin: String,
    },
    /// Unusable response of a token endpoint.
    #[error("cannot obtain a token from `{origin}`: {why}")]
    Token {
        /// Contacted origin.
        origin: String,
        /// Reason.
        why: String,
    },
    /// Response headers above the size limit.
    #[error("`{origin}` sends {bytes} bytes of response headers, but the limit is {limit}")]
    LargeHeaders {
        /// Contacted origin.
        origin: String,
        /// Size of the headers in bytes.
        bytes: u64,
        /// Size limit in bytes.
        limit: u64,
    },
    /// Body above the size limit.
    #[error("`{origin}` sends more than the expected {limit} bytes")]
    TooLarge {
        /// Contacted origin.
        origin: String,
        /// Size limit in bytes.
        limit: u64,
    },
    /// Download below the minimum rate.
    #[error("download from `{origin}` is too slow: {bytes} bytes in {seconds} s\nhint: try again, or use a mirror")]
    SlowDownload {
        /// Contacted origin.
        origin: String,
        /// Received bytes.
        bytes: u64,
        /// Elapsed time in seconds.
        seconds: u64,
    },
    /// Upload below the minimum rate.
    #[error(
        "upload to `{origin}` is too slow: {bytes} of {length} bytes in {seconds} s\nhint: try again, or ask the registry's \
         maintainer"
    )]
    SlowUpload {
        /// Contacted origin.
        origin: String,
        /// Sent bytes.
        bytes: u64,
        /// Total bytes.
        length: u64,
        /// Elapsed time in seconds.
        seconds: u64,
    },
    /// The connection broke before the end of the body.
    #[error("`{origin}` closed the connection after {bytes} bytes: {why}")]
    Interrupted {
        /// Contacted origin.
        origin: String,
        /// Received bytes.
        bytes: u64,
        /// Root cause.
        why: String,
    },
    /// A file of a registry folder cannot be read.
    #[error("cannot read the file\nhint: check that it exists and its permissions")]
    Unreadable(#[source] std::io::Error),
    /// The downloaded bytes cannot be written.
    #[error("cannot write the downloaded file\nhint: check free disk space")]
    Disk(#[source] std::io::Error),
}

fn details(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

impl FetchError {
    /// Returns true if a retry may succeed.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Interrupted { .. } => true,
            Self::Status { status, .. } => status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS,
            _ => false,
        }
    }
}

/// Text of the innermost cause of a reqwest error, after which the request had waited for this time.
pub(super) fn root_cause(error: &reqwest::Error, waited: Duration) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    if error.is_timeout() { super::silent(waited) } else { cause.to_string() }
}
