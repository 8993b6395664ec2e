//! Metrics of sessions, as OpenMetrics text.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::error::ServeError;
use crate::protocol::Protocol;

/// Numbers of sessions at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionCounts {
    /// Open sessions.
    pub open: usize,
    /// Sessions with live plugin instances.
    pub live: usize,
    /// Largest number of sessions with live plugin instances.
    pub places: usize,
    /// Number of times that a session was parked.
    pub parked: u64,
    /// Workers that are present.
    pub workers: usize,
}

/// HTTP content type of the page.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Outcome of a request without an error.
const OK: &str = "ok";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProtocolLabel {
    protocol: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    protocol: &'static str,
    /// `ok`, or the kind of the error.
    outcome: &'static str,
    /// The party at fault; empty without an error.
    owner: &'static str,
}

/// Metrics of the requests of all sessions.
pub(crate) struct SessionMetrics {
    requests: Family<OutcomeLabels, Counter>,
    seconds: Family<ProtocolLabel, Histogram>,
    opened: Family<ProtocolLabel, Counter>,
    moved: Counter,
    lost: Counter,
}

impl Default for SessionMetrics {
    fn default() -> Self {
        // 16 µs to 69 s in factors of 4.
        let histogram = || Histogram::new(exponential_buckets(1.6e-5, 4.0, 12));
        Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(histogram as fn() -> Histogram),
            opened: Family::default(),
            moved: Counter::default(),
            lost: Counter::default(),
        }
    }
}

impl SessionMetrics {
    /// Counts a session.
    pub(crate) fn opened(&self, protocol: Protocol) {
        self.opened.get_or_create(&ProtocolLabel { protocol: protocol.label() }).inc();
    }

    /// Counts an episode that moves to another worker.
    pub(crate) fn moved(&self) {
        self.moved.inc();
    }

    /// Counts an episode that could not continue or be scored.
    pub(crate) fn lost(&self) {
        self.lost.inc();
    }

    /// Counts a request of a session.
    pub(crate) fn finished(&self, protocol: Protocol, error: Option<&ServeError>, took: Duration) {
        let protocol = protocol.label();
        let (outcome, owner) = error.map_or((OK, ""), |error| (error.kind.label(), error.owner.label()));
        self.requests.get_or_create(&OutcomeLabels { protocol, outcome, owner }).inc();
        self.seconds.get_or_create(&ProtocolLabel { protocol }).observe(took.as_secs_f64());
    }

    /// The page. `records_writable` tells whether records can be written now.
    ///
    /// # Errors
    /// If the encoder refuses a value.
    pub(crate) fn page(&self, counts: SessionCounts, records_writable: bool) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("gymkhana_serve");
        let gauge = |value: usize| ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
        registry.register(
            "requests",
            "Requests of sessions by protocol, outcome and party at fault",
            self.requests.clone(),
        );
        registry.register_with_unit("request", "Time of a request", Unit::Seconds, self.seconds.clone());
        registry.register("sessions_opened", "Sessions opened by protocol", self.opened.clone());
        registry.register("sessions", "Open sessions", gauge(counts.open));
        registry.register("sessions_live", "Sessions with live plugin instances", gauge(counts.live));
        registry.register("places", "Largest number of sessions with live plugin instances", gauge(counts.places));
        let parked = prometheus_client::metrics::counter::ConstCounter::new(counts.parked);
        registry.register("sessions_parked", "Sessions turned into snapshots", parked);
        registry.register("workers", "Workers that hold plugin instances", gauge(counts.workers));
        registry.register("episodes_moved", "Episodes that moved from a lost worker to another", self.moved.clone());
        registry.register("episodes_lost", "Episodes dropped by a fault of the host", self.lost.clone());
        let writable = gauge(usize::from(records_writable));
        registry.register("records_writable", "Whether records can be written; 0 while the disk is full", writable);
        let mut page = String::new();
        text::encode(&mut page, &registry)?;
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn the_page_counts_by_protocol_and_fault() {
        let metrics = SessionMetrics::default();
        metrics.opened(Protocol::VerlTool);
        metrics.finished(Protocol::VerlTool, None, Duration::from_millis(1));
        let full = ServeError::host(ErrorKind::Full, "full");
        metrics.finished(Protocol::VerlTool, Some(&full), Duration::from_millis(1));
        let page = metrics.page(SessionCounts { open: 3, live: 2, places: 5, parked: 7, workers: 4 }, true).unwrap();
        for line in [
            "gymkhana_serve_requests_total{protocol=\"verltool\",outcome=\"ok\",owner=\"\"} 1",
            "gymkhana_serve_requests_total{protocol=\"verltool\",outcome=\"full\",owner=\"host\"} 1",
            "gymkhana_serve_request_seconds_count{protocol=\"verltool\"} 2",
            "gymkhana_serve_sessions_opened_total{protocol=\"verltool\"} 1",
            "gymkhana_serve_sessions 3",
            "gymkhana_serve_records_writable 1",
            "gymkhana_serve_sessions_live 2",
            "gymkhana_serve_places 5",
            "gymkhana_serve_sessions_parked_total 7",
            "gymkhana_serve_workers 4",
            "gymkhana_serve_episodes_moved_total 0",
            "gymkhana_serve_episodes_lost_total 0",
        ] {
            assert!(page.lines().any(|own| own == line), "{line} in {page}");
        }
    }
}
