//! State of a run as OpenMetrics text.

use std::fmt;
use std::time::Duration;

use gymkhana_rollout::{HistogramBuckets, RestartReason, WaitKind};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::RunState;
use super::families::{self, MetricFamily};

/// HTTP content type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Nanoseconds per second.
pub const SECOND: f64 = 1e9;

impl RunState {
    /// The whole page.
    ///
    /// # Errors
    /// If the encoder refuses a value.
    pub fn exposition(self) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix(families::PREFIX);
        registry.register_collector(Box::new(self));
        let mut page = String::new();
        text::encode(&mut page, &registry)?;
        Ok(page)
    }
}

impl Collector for RunState {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = MetricsPage(encoder);
        let (rollout, sandbox) = (&self.rollout, &self.sandbox);
        let times = |wait: WaitKind| ([wait.label()], MetricValue::of_buckets(&rollout.times(wait), SECOND));
        page.labelled(families::WAIT, WaitKind::ALL.into_iter().map(times))?;
        let running = |wait: WaitKind| ([wait.label()], MetricValue::Integer(rollout.running(wait)));
        page.labelled(families::WAITING, WaitKind::ALL.into_iter().map(running))?;
        page.single(families::EPISODES, &MetricValue::Integer(rollout.episodes()))?;
        let failures: Vec<(&str, String, u64)> =
            rollout.failures().map(|(boundary, kind, count)| (boundary, kind.to_string(), count)).collect();
        let failures =
            failures.iter().map(|(boundary, kind, count)| ([*boundary, kind.as_str()], MetricValue::Integer(*count)));
        page.labelled(families::FAILURES, failures)?;
        let restarts = |reason: RestartReason| ([reason.label()], MetricValue::Integer(rollout.restarts(reason)));
        page.labelled(families::CONTEXT_RESTARTS, RestartReason::ALL.into_iter().map(restarts))?;
        page.single(families::DISABLED_MARKS, &MetricValue::Integer(rollout.disabled_marks()))?;
        page.single(families::TOKEN_STALENESS, &MetricValue::of_buckets(&rollout.staleness(), 1.0))?;
        page.single(families::TRAINER_IDLE, &MetricValue::Seconds(rollout.trainer_idle()))?;
        let idle = self.idle.iter().map(|(model, idle)| ([model.as_str()], MetricValue::Seconds(*idle)));
        page.labelled(families::POLICY_IDLE, idle)?;
        let taken = sandbox.places.saturating_sub(sandbox.free_places);
        page.single(families::PLUGIN_PLACES, &MetricValue::Integer(sandbox.places.into()))?;
        page.single(families::PLUGIN_PLACES_TAKEN, &MetricValue::Integer(taken.into()))?;
        page.single(families::PLUGIN_STARTS_WAITING, &MetricValue::Integer(sandbox.waiting.into()))?;
        page.single(families::PLUGIN_START_WAITS, &MetricValue::Integer(sandbox.waits))?;
        page.single(families::PLUGIN_START_WAIT, &MetricValue::Seconds(sandbox.waited))
    }
}

/// Value of a metric with certain labels.
enum MetricValue {
    Integer(u64),
    Seconds(Duration),
    /// Sum and buckets; a bucket has its upper bound and the number of its own observations.
    Histogram(f64, Vec<(f64, u64)>),
}

impl MetricValue {
    /// A histogram whose values are divided by `unit`.
    fn of_buckets(buckets: &HistogramBuckets, unit: f64) -> Self {
        let bounds = buckets.bounds.iter().map(|bound| *bound as f64 / unit).chain([f64::INFINITY]);
        Self::Histogram(buckets.sum as f64 / unit, bounds.zip(buckets.counts.iter().copied()).collect())
    }

    fn encode(&self, kind: MetricType, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let is_counter = matches!(kind, MetricType::Counter);
        match self {
            Self::Integer(value) if is_counter => encoder.encode_counter::<NoLabelSet, _, f64>(value, None),
            Self::Integer(value) => encoder.encode_gauge(value),
            Self::Seconds(value) if is_counter => {
                encoder.encode_counter::<NoLabelSet, _, f64>(&value.as_secs_f64(), None)
            }
            Self::Seconds(value) => encoder.encode_gauge(&value.as_secs_f64()),
            Self::Histogram(sum, buckets) => {
                let count = buckets.iter().map(|(_, count)| count).sum();
                encoder.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
            }
        }
    }
}

/// Page under construction.
struct MetricsPage<'a>(DescriptorEncoder<'a>);

impl MetricsPage<'_> {
    /// Adds a metric with one value.
    fn single(&mut self, family: MetricFamily, value: &MetricValue) -> fmt::Result {
        self.metric(family, |encoder| value.encode(family.kind(), encoder))
    }

    /// Adds a metric with one value for each combination of its labels.
    fn labelled<'v, const COUNT: usize>(
        &mut self,
        family: MetricFamily,
        values: impl Iterator<Item = ([&'v str; COUNT], MetricValue)>,
    ) -> fmt::Result {
        self.metric(family, |mut encoder| {
            for (of, value) in values {
                let labels: Vec<(&str, &str)> = family.labels().iter().copied().zip(of).collect();
                value.encode(family.kind(), encoder.encode_family(&labels)?)?;
            }
            Ok(())
        })
    }

    /// Adds the head of a metric and its values.
    fn metric(&mut self, family: MetricFamily, values: impl FnOnce(MetricEncoder<'_>) -> fmt::Result) -> fmt::Result {
        let unit = family.suffix().map(|unit| Unit::Other(unit.to_owned()));
        values(self.0.encode_descriptor(family.name(), family.meaning(), unit.as_ref(), family.kind())?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gymkhana_record::{Boundary, CallSite, Failure, FailureKind};
    use gymkhana_rollout::RolloutMetrics;
    use gymkhana_sandbox::Counters;

    use super::*;

    fn state(rollout: &Arc<RolloutMetrics>) -> RunState {
        let waited = Duration::from_millis(1500);
        let sandbox = Counters { compiled: 3, cache_hits: 2, places: 10, free_places: 4, waits: 7, waiting: 2, waited };
        let idle = vec![("policy".to_owned(), Duration::from_secs(2)), ("a \"b\"\\".to_owned(), Duration::ZERO)];
        RunState { rollout: Arc::clone(rollout), sandbox, idle }
    }

    /// Covers every metric whose value does not depend on the clock.
    #[test]
    fn the_text_is_what_was_reported() {
        let rollout = Arc::new(RolloutMetrics::default());
        rollout.finished(&[Failure {
            at: Boundary::Model,
            kind: FailureKind::Fault,
            call_site: CallSite::Score,
            message: String::new(),
        }]);
        rollout.restarted(RestartReason::Template);
        rollout.record_disabled_marks(3);
        rollout.record_staleness(0, 5);
        rollout.record_staleness(3, 2);
        rollout.trainer_waited(Duration::from_millis(250));
        let running = rollout.time(WaitKind::Tool);
        insta::assert_snapshot!(state(&rollout).exposition().unwrap());
        drop(running);
        let text = state(&rollout).exposition().unwrap();
        assert!(text.contains("gymkhana_wait_seconds_count{kind=\"tool\"} 1\n"), "{text}");
        assert!(text.contains("gymkhana_wait_seconds_bucket{le=\"+Inf\",kind=\"tool\"} 1\n"), "{text}");
    }

    /// The page shows the rows of the table in their order, under the names that the table documents.
    #[test]
    fn the_page_has_every_metric_of_the_table() {
        let text = state(&Arc::default()).exposition().unwrap();
        let shown: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# HELP ")).collect();
        let listed: Vec<String> = families::ALL
            .iter()
            .map(|family| format!("{} {}", family.full_name().trim_end_matches("_total"), family.meaning()))
            .collect();
        assert_eq!(shown, listed);
        for family in families::ALL {
            let name = family.full_name();
            assert!(text.lines().any(|line| line.starts_with(&name)), "{name} has no value in {text}");
        }
    }
}
