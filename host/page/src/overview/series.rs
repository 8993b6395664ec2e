//! Values of a run's steps as points, by name.

use std::collections::BTreeMap;

use gymkhana_store::MetricsLine;

/// Values that the overview shows first, in this order.
pub(crate) const FIRST: [&str; 16] = [
    "success",
    "eval_success",
    "reward",
    "loss",
    "entropy",
    "staleness_mean",
    "staleness_max",
    "tokens_per_second",
    "reference_divergence",
    "behaviour_divergence",
    "reply_tokens",
    "calls",
    "malformed_calls",
    "failures",
    "seconds_play",
    "seconds_train",
];

/// What the horizontal axis is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Across {
    /// Training steps of all stages, counted from 0.
    Steps,
    /// Minutes since the first step.
    Minutes,
}

/// Bounds of the horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Zoom {
    /// First point.
    pub from: Option<f64>,
    /// Last point.
    pub to: Option<f64>,
}

impl Zoom {
    fn includes(self, x: f64) -> bool {
        self.from.is_none_or(|from| x >= from) && self.to.is_none_or(|to| x <= to)
    }
}

/// Points of all values of a run, by name.
pub(crate) fn of_run(lines: &[MetricsLine], across: Across, zoom: Zoom) -> BTreeMap<String, Vec<(f64, f64)>> {
    let start = lines.first().map_or(0.0, |line| line.time);
    let mut series: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (step, line) in lines.iter().enumerate() {
        let x = match across {
            Across::Steps => step as f64,
            Across::Minutes => (line.time - start) / 60.0,
        };
        if !zoom.includes(x) {
            continue;
        }
        for (name, value) in &line.values {
            if let Some(value) = value.as_f64() {
                push(&mut series, name, x, value);
            }
        }
        if let Some(speed) = tokens_per_second(line) {
            push(&mut series, "tokens_per_second", x, speed);
        }
    }
    series
}

fn push(series: &mut BTreeMap<String, Vec<(f64, f64)>>, name: &str, x: f64, value: f64) {
    match series.get_mut(name) {
        Some(points) => points.push((x, value)),
        None => {
            series.insert(name.to_owned(), vec![(x, value)]);
        }
    }
}

/// Sampled tokens divided by the time of the step; `None` if the step has no such values.
fn tokens_per_second(line: &MetricsLine) -> Option<f64> {
    let value = |name: &str| line.values.get(name).and_then(serde_json::Value::as_f64);
    let seconds = value("seconds_play")? + value("seconds_train")?;
    let speed = value("sampled_tokens")? / seconds;
    speed.is_finite().then_some(speed)
}

/// Names of all values of some runs: the well-known ones first, then the others by name.
pub(crate) fn names<'a>(all: impl Iterator<Item = &'a String>) -> (Vec<&'a str>, Vec<&'a str>) {
    let mut found: Vec<&str> = all.map(String::as_str).collect();
    found.sort_unstable();
    found.dedup();
    let first: Vec<&str> = FIRST.into_iter().filter(|name| found.contains(name)).collect();
    found.retain(|name| !first.contains(name));
    (first, found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(stage: u32, step: u64, time: f64, values: &serde_json::Value) -> MetricsLine {
        let values = values.as_object().cloned().unwrap();
        MetricsLine { schema: gymkhana_store::METRICS_SCHEMA, stage, step, time, values }
    }

    #[test]
    fn stages_follow_each_other_and_absent_values_are_left_out() {
        let lines = [
            line(0, 0, 60.0, &json!({ "loss": 2.0 })),
            line(
                1,
                0,
                120.0,
                &json!({ "loss": null, "sampled_tokens": 300, "seconds_play": 2.0, "seconds_train": 1.0 }),
            ),
            line(1, 1, 240.0, &json!({ "loss": 1.0 })),
        ];
        let all = Zoom { from: None, to: None };
        let series = of_run(&lines, Across::Steps, all);
        assert_eq!(series["loss"], [(0.0, 2.0), (2.0, 1.0)]);
        assert_eq!(series["tokens_per_second"], [(1.0, 100.0)]);
        let series = of_run(&lines, Across::Minutes, Zoom { from: Some(1.0), to: None });
        assert_eq!(series["loss"], [(3.0, 1.0)]);
        let (first, others) = names(series.keys());
        assert_eq!(first, ["loss", "tokens_per_second", "seconds_play", "seconds_train"]);
        assert_eq!(others, ["sampled_tokens"]);
    }
}
