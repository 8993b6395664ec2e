//! A line for every request: who asked, for what, and what came of it. A token is never in it.

use std::net::IpAddr;
use std::time::Instant;

use hyper::{Request, Response};
use serde::Serialize;

/// Where lines go.
pub type RequestLog = Box<dyn Fn(&RequestLogEntry) + Send + Sync>;

/// The longest path that is written down, in characters.
const LONGEST_PATH: usize = 200;

/// One request.
#[derive(Debug, Clone, Serialize)]
pub struct RequestLogEntry {
    /// When it came, in seconds since 1970.
    pub time: u64,
    /// Who asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<IpAddr>,
    /// How.
    pub method: String,
    /// For what.
    pub path: String,
    /// What was answered.
    pub status: u16,
    /// How long that took, in milliseconds; of a file, until its first byte.
    pub milliseconds: f64,
    /// Whose token it was, by its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// What was done, or why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    #[serde(skip)]
    begun: Instant,
}

impl RequestLogEntry {
    pub(crate) fn begin<B>(request: &Request<B>, peer: IpAddr) -> Self {
        let path = request.uri().path().chars().take(LONGEST_PATH).collect();
        Self { peer: Some(peer), method: request.method().to_string(), path, ..Self::trouble_free() }
    }

    pub(crate) fn trouble(what: String) -> Self {
        Self { status: 500, what: Some(what), ..Self::trouble_free() }
    }

    fn trouble_free() -> Self {
        Self {
            time: crate::now(),
            peer: None,
            method: String::new(),
            path: String::new(),
            status: 0,
            milliseconds: 0.0,
            token: None,
            what: None,
            begun: Instant::now(),
        }
    }

    pub(crate) fn end<B>(&mut self, response: &Response<B>) {
        self.status = response.status().as_u16();
        self.milliseconds = self.begun.elapsed().as_secs_f64() * 1e3;
    }
}
