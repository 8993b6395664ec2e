//! Table of the metrics that the page for Prometheus shows.
//!
//! A [`MetricFamily`] can be created only in this file, so that every metric has a row. `docs/reference/metrics.md` is
//! generated from the rows.

use gymkhana_rollout::WaitKind;
use prometheus_client::metrics::MetricType;

/// Prefix of all names.
pub const PREFIX: &str = "gymkhana";

/// A row of the table: a metric with all its label values.
#[derive(Debug, Clone, Copy)]
pub struct MetricFamily {
    name: &'static str,
    kind: MetricType,
    labels: &'static [&'static str],
    suffix: Option<&'static str>,
    unit: &'static str,
    meaning: &'static str,
}

impl MetricFamily {
    /// Name without prefix, unit and suffix of the type.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Type of its values.
    pub fn kind(&self) -> MetricType {
        self.kind
    }

    /// Names of the labels that distinguish its values.
    pub fn labels(&self) -> &'static [&'static str] {
        self.labels
    }

    /// Unit in OpenMetrics' sense, which is a part of the full name.
    pub fn suffix(&self) -> Option<&'static str> {
        self.suffix
    }

    /// Unit for readers.
    pub fn unit(&self) -> &'static str {
        self.unit
    }

    /// Meaning; also the help text on the page.
    pub fn meaning(&self) -> &'static str {
        self.meaning
    }

    /// Name of the values on the page, without the suffixes of a histogram.
    pub fn full_name(&self) -> String {
        let suffix = self.suffix.map(|unit| format!("_{unit}")).unwrap_or_default();
        let total = if matches!(self.kind, MetricType::Counter) { "_total" } else { "" };
        format!("{PREFIX}_{}{suffix}{total}", self.name)
    }
}

/// Defines rows and the list of all rows.
macro_rules! families {
    ($($row:ident: $kind:ident $name:literal, labels $labels:expr, suffix $suffix:expr, $unit:literal, $meaning:literal;)+) => {
        $(
            #[doc = concat!("The metric `", $name, "`.")]
            pub const $row: MetricFamily = MetricFamily {
                name: $name,
                kind: MetricType::$kind,
                labels: &$labels,
                suffix: $suffix,
                unit: $unit,
                meaning: $meaning,
            };
        )+
        /// All metrics, in the order of the page.
        pub const ALL: &[MetricFamily] = &[$($row),+];
    };
}

/// Unit of times.
const SECONDS: Option<&str> = Some("seconds");

families! {
    WAIT: Histogram "wait", labels ["kind"], suffix SECONDS, "seconds", "duration of finished waits";
    WAITING: Gauge "waiting", labels ["kind"], suffix None, "waits", "waits in progress";
    EPISODES: Counter "episodes", labels [], suffix None, "episodes", "finished episodes";
    FAILURES: Counter "failures", labels ["boundary", "kind"], suffix None, "failures", "failures of episodes by owner and kind";
    CONTEXT_RESTARTS: Counter "context_restarts", labels ["reason"], suffix None, "segments",
        "contexts that began a new segment, because a context strategy or the chat template changed earlier messages";
    DISABLED_MARKS: Counter "disabled_marks", labels [], suffix None, "marks",
        "marks of the tokenizer, such as end tokens, in texts from outside the policy, which became plain text";
    TOKEN_STALENESS: Histogram "token_staleness", labels [], suffix Some("steps"), "training steps",
        "staleness of trained tokens, one observation per token";
    TRAINER_IDLE: Counter "trainer_idle", labels [], suffix SECONDS, "seconds",
        "time for which the trainer waited for episodes";
    POLICY_IDLE: Counter "policy_idle", labels ["model"], suffix SECONDS, "seconds", "idle time of a model's thread";
    PLUGIN_PLACES: Gauge "plugin_places", labels [], suffix None, "instances", "capacity for live plugin instances";
    PLUGIN_PLACES_TAKEN: Gauge "plugin_places_taken", labels [], suffix None, "instances", "live plugin instances";
    PLUGIN_STARTS_WAITING: Gauge "plugin_starts_waiting", labels [], suffix None, "starts",
        "plugin starts that wait for capacity";
    PLUGIN_START_WAITS: Counter "plugin_start_waits", labels [], suffix None, "starts",
        "plugin starts that had to wait";
    PLUGIN_START_WAIT: Counter "plugin_start_wait", labels [], suffix SECONDS, "seconds",
        "time for which plugin starts waited for capacity";
}

/// Meaning of a value of the label `kind`.
pub fn wait_meaning(wait: WaitKind) -> &'static str {
    match wait {
        WaitKind::Queue => {
            "a group waits for capacity among the episodes in flight; under `deterministic = true`, an episode also \
             waits for its place"
        }
        WaitKind::Generate => "a policy generates a reply or scores a text",
        WaitKind::Tool => "a tool starts its session or answers a call",
        WaitKind::Environment => "the environment starts, steps, advises or shows its final view",
        WaitKind::Reward => "reward plugins score a group",
        WaitKind::Train => "a training step runs",
    }
}
