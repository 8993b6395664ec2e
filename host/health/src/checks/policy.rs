//! Checks of the sampling policy: entropy, staleness, divergence from the trainer, surprise by position.

use gymkhana_record::StepMetric;
use gymkhana_record::step_metrics::rl;

use super::{JudgedFigure, mean};
use crate::sums::{PartDifference, StageFigures};
use crate::usual::{ENTROPY_PART, LEAST_TOKENS, ON_POLICY_DIVERGENCE, STALENESS, SURPRISE, SURPRISE_ERRORS};

fn mean_of(stage: &StageFigures, metric: StepMetric) -> Option<f64> {
    mean(stage.metrics.iter().filter_map(|step| step.get(metric)))
}

pub(super) fn usual_entropy(_: &StageFigures) -> String {
    format!("at least {ENTROPY_PART} of the step before")
}

pub(super) fn entropy(stage: &StageFigures) -> Option<JudgedFigure> {
    let now = stage.metrics.iter().rev().find_map(|step| step.get(rl::ENTROPY))?;
    let fall = stage.trend.sharpest_fall;
    let lowest = fall.map(|(part, step)| format!("; lowest {part:.3} of the step before, in step {step}"));
    let text = format!("{now:.3} nats per token in the last step{}", lowest.unwrap_or_default());
    let is_usual = fall.is_none_or(|(part, _)| part >= ENTROPY_PART);
    let [bound, rate, bonus] =
        ["step_divergence", "optimizer.learning_rate", "settings.entropy_bonus"].map(|key| stage.bounds.key(key));
    Some(JudgedFigure::judged(is_usual, text, || format!("set {bound}, lower {rate}, or raise {bonus}")))
}

pub(super) fn usual_staleness(stage: &StageFigures) -> String {
    match stage.bounds.off_policy {
        true => "any with `settings.off_policy`".to_owned(),
        false => format!("at most {STALENESS} steps"),
    }
}

pub(super) fn staleness(stage: &StageFigures) -> Option<JudgedFigure> {
    let staleness = mean_of(stage, rl::STALENESS_MEAN)?;
    let text = format!("mean of {staleness:.2} training steps");
    let [most, correction] = ["max_staleness", "settings.off_policy"].map(|key| stage.bounds.key(key));
    let is_usual = staleness <= STALENESS || stage.bounds.off_policy;
    Some(JudgedFigure::judged(is_usual, text, || format!("lower {most}, or set {correction}")))
}

pub(super) fn usual_divergence(_: &StageFigures) -> String {
    format!("at most {ON_POLICY_DIVERGENCE} nats per token")
}

pub(super) fn divergence(stage: &StageFigures) -> Option<JudgedFigure> {
    let found = mean_of(stage, rl::ON_POLICY_DIVERGENCE)?;
    // Rounding makes a divergence of 0 negative.
    let text = format!("{:.6} nats per token between the policy that samples and the trainer", found.max(0.0));
    Some(JudgedFigure::judged(found <= ON_POLICY_DIVERGENCE, text, || {
        "check the weights and the number format of the server, `policy.server.logprobs` and `policy.precision`"
            .to_owned()
    }))
}

pub(super) fn usual_surprise(_: &StageFigures) -> String {
    format!("-{SURPRISE} to {SURPRISE} nats per token")
}

/// Divergence from the trainer is not recorded by position; the difference between surprise and entropy is.
pub(super) fn surprise(stage: &StageFigures) -> Option<JudgedFigure> {
    let parts = stage.episodes.positions.differences(LEAST_TOKENS);
    if parts.is_empty() {
        return None;
    }
    let listed: Vec<String> = parts.iter().map(|part| format!("{:+.3} from token {}", part.mean, part.start)).collect();
    let text = format!("surprise less entropy: {}", listed.join(", "));
    let is_unusual =
        |part: &PartDifference| part.mean.abs() > SURPRISE && part.mean.abs() > SURPRISE_ERRORS * part.error;
    let [temperature, top_k, top_p, min_p] =
        ["temperature", "top_k", "top_p", "min_p"].map(|key| stage.bounds.key(key));
    Some(JudgedFigure::judged(!parts.iter().any(is_unusual), text, || {
        format!(
            "remove {top_k}, {top_p} and {min_p}, which truncate the distribution, or raise {temperature} towards 1"
        )
    }))
}
