//! One log entry per request. Entries never contain tokens.

use std::net::IpAddr;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::extract::Request;
use axum::response::Response;
use serde::Serialize;

/// Receiver of log entries.
pub type RequestLog = Box<dyn Fn(&RequestLogEntry) + Send + Sync>;

/// Length limit of a logged path, in characters.
const MAX_PATH: usize = 200;

/// Log entry of a request, or of an event without a request.
#[derive(Debug, Clone, Serialize)]
pub struct RequestLogEntry {
    /// Arrival time in seconds since 1970.
    pub time: u64,
    /// Address of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<IpAddr>,
    /// HTTP method.
    pub method: String,
    /// Requested path, shortened.
    pub path: String,
    /// Response status.
    pub status: u16,
    /// Time until the response head, in milliseconds.
    pub milliseconds: f64,
    /// Number of the publisher's token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Completed change, or reason of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    #[serde(skip)]
    start: Instant,
}

/// Response extension with the text of [`RequestLogEntry::what`].
#[derive(Clone)]
pub(crate) struct LogDetail(pub String);

/// Response extension with the number of the publisher's token.
#[derive(Clone)]
pub(crate) struct LogToken(pub String);

impl RequestLogEntry {
    pub(crate) fn of_request(request: &Request, peer: IpAddr) -> Self {
        let path = request.uri().path().chars().take(MAX_PATH).collect();
        Self { peer: Some(peer), method: request.method().to_string(), path, ..Self::empty() }
    }

    /// Entry of a failure outside of a request.
    pub(crate) fn of_failure(what: String) -> Self {
        Self { status: 500, what: Some(what), ..Self::empty() }
    }

    fn empty() -> Self {
        Self {
            time: now(),
            peer: None,
            method: String::new(),
            path: String::new(),
            status: 0,
            milliseconds: 0.0,
            token: None,
            what: None,
            start: Instant::now(),
        }
    }

    /// Completes the entry with the status and the extensions of the response.
    pub(crate) fn complete(mut self, response: &mut Response) -> Self {
        self.status = response.status().as_u16();
        self.milliseconds = self.start.elapsed().as_secs_f64() * 1e3;
        self.token = response.extensions_mut().remove::<LogToken>().map(|LogToken(token)| token);
        self.what = response.extensions_mut().remove::<LogDetail>().map(|LogDetail(what)| what);
        self
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
