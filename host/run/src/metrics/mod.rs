//! `--metrics ADDRESS`: a page for Prometheus, if the build has the feature `metrics`.

#[cfg(feature = "metrics")]
mod exposition;
#[cfg(feature = "metrics")]
mod families;
#[cfg(not(feature = "metrics"))]
mod left_out;
#[cfg(feature = "metrics")]
mod reference;
#[cfg(feature = "metrics")]
mod server;

use std::sync::Arc;
use std::time::Duration;

use gymkhana_rollout::RolloutMetrics;
use gymkhana_sandbox::Counters;

#[cfg(not(feature = "metrics"))]
pub use left_out::MetricsListener;
#[cfg(feature = "metrics")]
pub use reference::metrics_page;
#[cfg(feature = "metrics")]
pub use server::MetricsListener;

/// Reads the state of the run; called for every request.
pub type ReadState = Arc<dyn Fn() -> RunState + Send + Sync>;

/// State of a run at a scrape. Without the feature `metrics`, nothing reads it.
#[derive(Debug)]
#[cfg_attr(not(feature = "metrics"), allow(dead_code))]
pub struct RunState {
    /// Counters and histograms of the rollouts.
    pub rollout: Arc<RolloutMetrics>,
    /// Capacity of the sandbox.
    pub sandbox: Counters,
    /// Idle time of each model, by name.
    pub idle: Vec<(String, Duration)>,
}
