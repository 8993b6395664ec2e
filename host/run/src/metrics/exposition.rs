//! State of a run in the Prometheus text format, version 0.0.4.

use std::fmt::{Display, Write};
use std::time::Duration;

use gymkhana_rollout::{Buckets, RolloutMetrics, WaitKind};
use gymkhana_sandbox::Counters;

/// HTTP content type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Nanoseconds per second.
const SECOND: f64 = 1e9;

/// Text under construction.
#[derive(Default)]
struct Exposition(String);

impl Exposition {
    /// Starts a metric; `name` is given without the common prefix.
    fn metric(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP gymkhana_{name} {help}"));
        self.line(format_args!("# TYPE gymkhana_{name} {kind}"));
    }

    /// Adds a value; `labels` is empty or enclosed in braces.
    fn value(&mut self, name: &str, labels: &str, value: impl Display) {
        self.line(format_args!("gymkhana_{name}{labels} {value}"));
    }

    /// Adds a metric with one value.
    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.metric(name, kind, help);
        self.value(name, "", value);
    }

    /// Adds the lines of a histogram with cumulative buckets. Values are divided by `unit`.
    fn histogram(&mut self, name: &str, label: &str, buckets: &Buckets, unit: f64) {
        let comma = if label.is_empty() { "" } else { "," };
        let bounds = buckets.bounds.iter().map(|bound| (*bound as f64 / unit).to_string());
        let mut below = 0;
        for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(&buckets.counts) {
            below += count;
            self.value(&format!("{name}_bucket"), &format!("{{{label}{comma}le=\"{bound}\"}}"), below);
        }
        let labels = if label.is_empty() { String::new() } else { format!("{{{label}}}") };
        self.value(&format!("{name}_sum"), &labels, buckets.sum as f64 / unit);
        self.value(&format!("{name}_count"), &labels, below);
    }

    fn line(&mut self, line: impl Display) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{line}");
    }
}

/// A quoted label.
fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    format!("{name}=\"{value}\"")
}

/// The whole text. `idle` holds the idle time of each model by name.
pub fn exposition(watch: &RolloutMetrics, sandbox: &Counters, idle: &[(String, Duration)]) -> String {
    let mut text = Exposition::default();
    let boundary = |wait: WaitKind| label("boundary", wait.label());
    text.metric("wait_seconds", "histogram", "Wait time of episodes and the trainer, by boundary.");
    for wait in WaitKind::ALL {
        text.histogram("wait_seconds", &boundary(wait), &watch.times(wait), SECOND);
    }
    text.metric("waiting", "gauge", "Waits in progress, by boundary.");
    for wait in WaitKind::ALL {
        text.value("waiting", &format!("{{{}}}", boundary(wait)), watch.running(wait));
    }
    text.single("episodes_total", "counter", "Finished episodes.", watch.episodes());
    text.metric("failures_total", "counter", "Failures of episodes, by boundary.");
    for (at, count) in watch.failures() {
        text.value("failures_total", &format!("{{{}}}", label("boundary", at)), count);
    }
    text.metric("token_staleness_steps", "histogram", "Staleness of trained tokens, in training steps.");
    text.histogram("token_staleness_steps", "", &watch.lags(), 1.0);
    let help = "Time for which the trainer waited for episodes.";
    text.single("trainer_idle_seconds_total", "counter", help, watch.trainer_idle().as_secs_f64());
    text.metric("policy_idle_seconds_total", "counter", "Idle time of a model, by model.");
    for (model, idle) in idle {
        text.value("policy_idle_seconds_total", &format!("{{{}}}", label("model", model)), idle.as_secs_f64());
    }
    places(&mut text, sandbox);
    text.0
}

/// Adds the metrics of the sandbox.
fn places(text: &mut Exposition, sandbox: &Counters) {
    let taken = sandbox.places.saturating_sub(sandbox.free_places);
    text.single("plugin_places", "gauge", "Capacity for live plugin instances.", sandbox.places);
    text.single("plugin_places_taken", "gauge", "Live plugin instances.", taken);
    text.single("plugin_starts_waiting", "gauge", "Plugin starts waiting for capacity.", sandbox.waiting);
    text.single("plugin_start_waits_total", "counter", "Plugin starts that had to wait.", sandbox.waits);
    let help = "Time for which plugin starts waited for capacity.";
    text.single("plugin_start_wait_seconds_total", "counter", help, sandbox.waited.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters() -> Counters {
        let waited = Duration::from_millis(1500);
        Counters { compiled: 3, cache_hits: 2, places: 10, free_places: 4, waits: 7, waiting: 2, waited }
    }

    /// Covers every metric whose value does not depend on the clock.
    #[test]
    fn the_text_is_what_was_reported() {
        let watch = RolloutMetrics::default();
        watch.finished([gymkhana_record::Boundary::Model].iter());
        watch.lagged(0, 5);
        watch.lagged(3, 2);
        watch.trainer_waited(Duration::from_millis(250));
        let running = watch.time(WaitKind::Tool);
        let idle = [("policy".to_owned(), Duration::from_secs(2)), ("a \"b\"\\".to_owned(), Duration::ZERO)];
        insta::assert_snapshot!(exposition(&watch, &counters(), &idle));
        drop(running);
        let text = exposition(&watch, &counters(), &idle);
        assert!(text.contains("gymkhana_wait_seconds_count{boundary=\"tool\"} 1\n"), "{text}");
        assert!(text.contains("gymkhana_wait_seconds_bucket{boundary=\"tool\",le=\"+Inf\"} 1\n"), "{text}");
    }
}
