//! Values of a run's steps as points, by name.

use std::collections::BTreeMap;

use gymkhana_record::step_metrics::failures_of;
use gymkhana_store::{MetricsLine, StageSummary};

/// Values that the overview shows first, in this order.
const FIRST: [&str; 19] = [
    "success",
    HELD_OUT,
    "reward",
    "loss",
    "entropy",
    "updates",
    "cut_replies",
    "tokens_per_second",
    "reply_tokens",
    "thought_tokens",
    "calls",
    "malformed_calls",
    "failures",
    "staleness_mean",
    "staleness_max",
    "reference_divergence",
    "behaviour_divergence",
    "seconds_play",
    "seconds_train",
];

/// Values that are shown first only if they are not 0 throughout.
const SELDOM: [&str; 6] =
    ["thought_tokens", "failures", "staleness_mean", "staleness_max", "reference_divergence", "behaviour_divergence"];

/// Absolute value below which such a value counts as 0: divergences have rounding errors.
const ZERO: f64 = 1e-6;

/// Success on held-out tasks.
const HELD_OUT: &str = "eval_success";

/// What the horizontal axis is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Across {
    /// Training steps, counted from 0.
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

/// What the curves show of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CurveView {
    /// The horizontal axis.
    pub across: Across,
    /// Its bounds.
    pub zoom: Zoom,
    /// Whether steps are those of each stage; otherwise stages follow each other.
    pub own_steps: bool,
}

/// Points of all values of a run, by name. Success on held-out tasks has those before and after each finished stage too.
pub(crate) fn of_run(
    lines: &[&MetricsLine],
    finished: &[StageSummary],
    CurveView { across, zoom, own_steps }: CurveView,
) -> BTreeMap<String, Vec<(f64, f64)>> {
    let start = lines.first().map_or(0.0, |line| line.time);
    let mut series: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (number, line) in lines.iter().enumerate() {
        let step = if own_steps { line.step as f64 } else { number as f64 };
        let x = match across {
            Across::Steps => step,
            Across::Minutes => (line.time - start) / 60.0,
        };
        let is_first = number == 0 || lines[number - 1].stage != line.stage;
        let is_last = lines.get(number + 1).is_none_or(|next| next.stage != line.stage);
        let stage = finished.get(line.stage as usize);
        let before =
            stage.and_then(|stage| stage.success_before).filter(|_| is_first && !line.values.contains_key(HELD_OUT));
        let after = stage.and_then(|stage| stage.success_after).filter(|_| is_last);
        let own = line.values.iter().filter_map(|(name, value)| Some((name.as_str(), x, value.as_f64()?)));
        let speed = tokens_per_second(line).map(|speed| ("tokens_per_second", x, speed));
        let before = before.map(|success| (HELD_OUT, x, success));
        // The weights after the last step are those before the next one.
        let end = if across == Across::Steps { x + 1.0 } else { x };
        let after = after.map(|success| (HELD_OUT, end, success));
        for (name, x, value) in before.into_iter().chain(own).chain(speed).chain(after) {
            if zoom.includes(x) {
                push(&mut series, name, x, value);
            }
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

/// Names of all values of some runs: the well-known ones and failures by owner and kind first, then the others by name.
pub(crate) fn names<'a>(
    all: &(impl Iterator<Item = (&'a String, &'a Vec<(f64, f64)>)> + Clone),
) -> (Vec<&'a str>, Vec<&'a str>) {
    let mut found: Vec<&str> = all.clone().map(|(name, _)| name.as_str()).collect();
    found.sort_unstable();
    found.dedup();
    let is_zero = |name: &str| {
        let mut points = all.clone().filter(|(known, _)| *known == name).flat_map(|(_, points)| points);
        points.all(|(_, value)| value.abs() < ZERO)
    };
    let is_shown = |name: &&str| found.contains(name) && !(SELDOM.contains(name) && is_zero(name));
    let mut first: Vec<&str> = FIRST.into_iter().filter(is_shown).collect();
    first.extend(found.iter().filter(|name| failures_of(name).is_some()));
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
        let lines: Vec<&MetricsLine> = lines.iter().collect();
        let all = CurveView { across: Across::Steps, zoom: Zoom { from: None, to: None }, own_steps: false };
        let series = of_run(&lines, &[], all);
        assert_eq!(series["loss"], [(0.0, 2.0), (2.0, 1.0)]);
        assert_eq!(series["tokens_per_second"], [(1.0, 100.0)]);
        let zoom = Zoom { from: Some(1.0), to: None };
        let series = of_run(&lines, &[], CurveView { across: Across::Minutes, zoom, ..all });
        assert_eq!(series["loss"], [(3.0, 1.0)]);
        let (first, others) = names(&series.iter());
        assert_eq!(first, ["loss", "tokens_per_second", "seconds_play", "seconds_train"]);
        assert_eq!(others, ["sampled_tokens"]);
        let series = of_run(&lines[1..], &[], CurveView { own_steps: true, ..all });
        assert_eq!(series["loss"], [(1.0, 1.0)], "the stage's own steps");
    }

    #[test]
    fn held_out_success_has_the_ends_of_finished_stages() {
        let lines = [line(0, 0, 0.0, &json!({})), line(0, 1, 60.0, &json!({})), line(1, 0, 120.0, &json!({}))];
        let lines: Vec<&MetricsLine> = lines.iter().collect();
        let stage = serde_json::from_value(json!({
            "name": "sft", "success_before": 0.25, "success_after": 0.75, "episodes": 1, "tokens": 1, "seconds": 1.0,
        }));
        let view = CurveView { across: Across::Steps, zoom: Zoom { from: None, to: None }, own_steps: false };
        let series = of_run(&lines, &[stage.unwrap()], view);
        assert_eq!(series["eval_success"], [(0.0, 0.25), (2.0, 0.75)]);
    }

    #[test]
    fn seldom_values_that_are_0_throughout_are_not_shown_first() {
        let zero = json!({ "staleness_max": 0, "behaviour_divergence": -1e-10, "failures": 0, "updates": 0 });
        let lines = [line(0, 0, 0.0, &zero), line(0, 1, 1.0, &json!({ "failures": 1, "model.fault/failed_calls": 1 }))];
        let lines: Vec<&MetricsLine> = lines.iter().collect();
        let view = CurveView { across: Across::Steps, zoom: Zoom { from: None, to: None }, own_steps: false };
        let series = of_run(&lines, &[], view);
        let (first, others) = names(&series.iter());
        assert_eq!(first, ["updates", "failures", "model.fault/failed_calls"]);
        assert_eq!(others, ["behaviour_divergence", "staleness_max"]);
    }
}
