//! Metrics of steps that checks read, and the course of a whole stage.

use std::collections::{BTreeMap, VecDeque};

use gymkhana_record::StepMetric;
use gymkhana_record::step_metrics::{self, rl, sft};

use crate::usual::{LEAST_ENTROPY, TREND_STEPS};

/// Values that are kept. Values of supervised fine-tuning with the same meaning have the same names.
const KEPT: [StepMetric; 12] = [
    rl::REWARD,
    rl::SUCCESS,
    rl::EPISODES,
    rl::CUT_REPLIES,
    rl::STALENESS_MEAN,
    rl::STEP_DIVERGENCE,
    rl::ENTROPY,
    rl::ON_POLICY_DIVERGENCE,
    rl::SKIPPED_UPDATES,
    rl::EPISODES_WITH_ADVANTAGE,
    rl::DEMONSTRATIONS,
    sft::LEFT_OUT,
];

/// Metrics of one step.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct StepFigures {
    values: BTreeMap<&'static str, f64>,
    /// Whether weights changed; `None` without metrics.
    pub has_update: Option<bool>,
}

impl StepFigures {
    /// Reads values by name. Values that are not finite are left out.
    pub fn of<'a>(values: &(impl Iterator<Item = (&'a str, f64)> + Clone)) -> Self {
        let kept = |(name, value): (&str, f64)| {
            let metric = KEPT.iter().find(|metric| metric.name() == name)?;
            value.is_finite().then_some((metric.name(), value))
        };
        let has_update = Some(step_metrics::has_update(values));
        Self { values: values.clone().filter_map(kept).collect(), has_update }
    }

    /// A value of the step.
    pub fn get(&self, metric: StepMetric) -> Option<f64> {
        self.values.get(metric.name()).copied()
    }
}

/// Course of a stage: reward and success of its first and last steps, and the sharpest fall of the entropy.
#[derive(Debug, Clone, Default)]
pub(crate) struct MetricTrend {
    early: Vec<(f64, f64)>,
    late: VecDeque<(f64, f64)>,
    entropy: Option<f64>,
    /// Lowest entropy as a part of the step before, and the number of the step.
    pub sharpest_fall: Option<(f64, u64)>,
}

/// A mean with its variance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StepMean {
    pub mean: f64,
    /// Squared standard error.
    pub variance: f64,
}

impl StepMean {
    fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self { mean, variance: squares / (count - 1.0) / count }
    }
}

impl MetricTrend {
    pub fn add(&mut self, step: u64, figures: &StepFigures) {
        if let (Some(reward), Some(success)) = (figures.get(rl::REWARD), figures.get(rl::SUCCESS)) {
            if self.early.len() < TREND_STEPS {
                self.early.push((reward, success));
            } else {
                self.late.push_back((reward, success));
                if self.late.len() > TREND_STEPS {
                    self.late.pop_front();
                }
            }
        }
        let Some(entropy) = figures.get(rl::ENTROPY) else { return };
        if let Some(before) = self.entropy.replace(entropy).filter(|before| *before > LEAST_ENTROPY) {
            let part = entropy / before;
            if self.sharpest_fall.is_none_or(|(lowest, _)| part < lowest) {
                self.sharpest_fall = Some((part, step));
            }
        }
    }

    /// Mean reward and success of the first steps, and of the last ones; `None` in a shorter stage.
    pub fn ends(&self) -> Option<[(StepMean, StepMean); 2]> {
        let late: Vec<(f64, f64)> = self.late.iter().copied().collect();
        let mean = |steps: &[(f64, f64)]| {
            let (rewards, successes): (Vec<f64>, Vec<f64>) = steps.iter().copied().unzip();
            (StepMean::of(&rewards), StepMean::of(&successes))
        };
        (late.len() == TREND_STEPS).then(|| [mean(&self.early), mean(&late)])
    }
}
