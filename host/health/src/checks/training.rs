//! Checks of training steps: updates, their size, reward beside success, demonstrations.

use gymkhana_record::step_metrics::{rl, sft};

use super::groups::more_signal;
use super::{JudgedFigure, bound, mean, percent, share};
use crate::sums::{StageFigures, StepFigures};
use crate::usual::{LEFT_OUT, SOLVED, STEP_SIZE, TREND_ERRORS, WITHOUT_UPDATE};

pub(super) fn usual_updates(_: &StageFigures) -> String {
    format!("at most {} of the steps without an update", bound(WITHOUT_UPDATE))
}

/// A step in which every episode succeeds has nothing to learn.
pub(super) fn updates(stage: &StageFigures) -> Option<JudgedFigure> {
    let is_solved = |success: Option<f64>| success.is_some_and(|success| success >= 1.0);
    let steps: Vec<bool> = stage
        .metrics
        .iter()
        .filter(|step| step.has_update == Some(true) || !is_solved(step.get(rl::SUCCESS)))
        .map(|step| step.has_update == Some(true))
        .collect();
    if steps.is_empty() {
        return None;
    }
    let idle = steps.iter().filter(|has_update| !**has_update).count();
    let text = format!("{idle} of {} steps changed no weights", steps.len());
    let is_usual = share(idle as u64, steps.len() as u64) <= WITHOUT_UPDATE;
    Some(JudgedFigure::judged(is_usual, text, || more_signal(stage)))
}

pub(super) fn usual_skipped(_: &StageFigures) -> String {
    "0".to_owned()
}

pub(super) fn skipped(stage: &StageFigures) -> Option<JudgedFigure> {
    let skipped: Vec<f64> = stage.metrics.iter().filter_map(|step| step.get(rl::SKIPPED_UPDATES)).collect();
    if skipped.is_empty() {
        return None;
    }
    let sum: f64 = skipped.iter().sum();
    let text = format!("{sum} skipped because their gradient was not finite");
    Some(JudgedFigure::judged(sum == 0.0, text, || {
        format!("lower {}, or set `policy.precision` to \"float32\"", stage.bounds.key("optimizer.learning_rate"))
    }))
}

pub(super) fn usual_step_size(_: &StageFigures) -> String {
    format!("{} to {} times the bound", STEP_SIZE.0, STEP_SIZE.1)
}

pub(super) fn step_size(stage: &StageFigures) -> Option<JudgedFigure> {
    let limit = stage.bounds.step_divergence?;
    let learns = |step: &&StepFigures| {
        step.has_update == Some(true) && step.get(rl::EPISODES_WITH_ADVANTAGE).is_none_or(|count| count > 0.0)
    };
    let found = mean(stage.metrics.iter().filter(learns).filter_map(|step| step.get(rl::STEP_DIVERGENCE)))?;
    let times = found / limit;
    let shown = if times < 0.01 { format!("{times:.1e}") } else { format!("{times:.2}") };
    let text = format!("{shown} times the bound of {limit} nats per token, before steps are shortened");
    let key = stage.bounds.key("optimizer.learning_rate");
    let change = if times > STEP_SIZE.1 { "lower" } else { "raise" };
    Some(JudgedFigure::judged((STEP_SIZE.0..=STEP_SIZE.1).contains(&times), text, || format!("{change} {key}")))
}

pub(super) fn usual_reward(_: &StageFigures) -> String {
    "success rises with the reward".to_owned()
}

/// Compares the first steps of the stage with the last ones.
pub(super) fn reward(stage: &StageFigures) -> Option<JudgedFigure> {
    let [(reward, success), (last_reward, last_success)] = stage.trend.ends()?;
    let text = format!(
        "reward {:.3} to {:.3}, success {} to {}",
        reward.mean,
        last_reward.mean,
        percent(success.mean),
        percent(last_success.mean)
    );
    let error = (reward.variance + last_reward.variance).sqrt();
    let rose = last_reward.mean - reward.mean > TREND_ERRORS * error;
    let is_usual = !rose || last_success.mean > success.mean || last_success.mean >= SOLVED;
    Some(JudgedFigure::judged(is_usual, text, || {
        "see `host show DIR --episodes best`, and change `plugins.NAME.weight`, `plugins.NAME.gate` or `success`"
            .to_owned()
    }))
}

pub(super) fn usual_demonstrations(_: &StageFigures) -> String {
    format!("at most {} left out", bound(LEFT_OUT))
}

pub(super) fn demonstrations(stage: &StageFigures) -> Option<JudgedFigure> {
    let steps: Vec<(f64, f64)> = stage
        .metrics
        .iter()
        .filter_map(|step| Some((step.get(sft::LEFT_OUT)?, step.get(sft::DEMONSTRATIONS).unwrap_or(0.0))))
        .collect();
    let (left_out, kept) = steps.iter().fold((0.0, 0.0), |(left, kept), step| (left + step.0, kept + step.1));
    if left_out + kept <= 0.0 {
        return None;
    }
    let part = left_out / (left_out + kept);
    let text = format!("{} of {} exceed the context", percent(part), left_out + kept);
    Some(JudgedFigure::judged(part <= LEFT_OUT, text, || {
        "raise `limits.context_tokens` or `policy.tiny.context`, or shorten `policy.system`".to_owned()
    }))
}
