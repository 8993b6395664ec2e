//! Limits of a listener's connections.

use std::time::Duration;

use super::handles::{HandleShare, handles_for};
use super::stall::StallBudget;

/// Limits of a listener's connections.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Connections at the same time, at least 1. More wait, while each has a request in progress.
    pub all: usize,
    /// Of these, connections from one network ([`crate::network_of`]). More are refused, while each has a request in
    /// progress.
    pub per_network: usize,
    /// Time for a TLS handshake, for a request head, and between two requests.
    pub head_time: Duration,
    /// Size of a request head in bytes, at least 8192.
    pub head_bytes: usize,
    /// Budget of a client that does not take its answer.
    pub stall: StallBudget,
    /// Which requests a flood cannot make faster than at a pace.
    pub pace: RequestPace,
}

/// A pace of requests, so that a flood of them leaves the process its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestPace {
    /// None.
    Unlimited,
    /// Least time between two connections or requests.
    All(Duration),
    /// Least time between two requests that are answered with 400, 401, 403 or 404. Their connections close first when
    /// others need room.
    Refused(Duration),
}

impl ConnectionLimits {
    /// These limits with at most as many connections as fit into a share of the process's file handles, if each needs
    /// `handles` of them.
    #[must_use]
    pub fn within(self, share: HandleShare, handles: usize) -> Self {
        let all = handles_for(self.all, handles, share);
        Self { all, per_network: self.per_network.min(all), ..self }
    }
}
