//! Sums over the last steps of a stage: episodes, groups and metrics. Their size does not depend on the number of episodes,
//! apart from groups, which have a bound.

mod episodes;
mod groups;
mod malformed;
mod metrics;
mod positions;
mod times;

use std::collections::BTreeMap;

use gymkhana_record::EpisodeRecord;

use crate::settings::StageBounds;
use crate::usual::WINDOW;

pub(crate) use episodes::{EpisodeSums, FunctionUse};
use groups::GroupSums;
pub(crate) use groups::GroupTotals;
pub(crate) use malformed::{CUT, UNKNOWN_FUNCTION};
pub(crate) use metrics::{MetricTrend, StepFigures};
pub(crate) use positions::PartDifference;

/// Most groups of a step that are compared.
const MOST_GROUPS: usize = 4096;

/// Sums of one step.
#[derive(Debug, Clone, Default)]
struct StepWindow {
    episodes: EpisodeSums,
    groups: BTreeMap<u32, GroupSums>,
    metrics: StepFigures,
}

/// The last steps of a stage. Earlier ones are forgotten.
#[derive(Debug, Clone, Default)]
pub(crate) struct StageWindow {
    steps: BTreeMap<u64, StepWindow>,
    /// Steps below it are forgotten.
    first: u64,
    trend: MetricTrend,
}

impl StageWindow {
    /// Adds an episode of a step with its context length in tokens.
    pub fn add_episode(&mut self, record: &EpisodeRecord, context: Option<u64>) {
        let Some(step) = self.step(record.id.step) else { return };
        step.episodes.add(record, context);
        if step.groups.len() < MOST_GROUPS || step.groups.contains_key(&record.id.group) {
            step.groups.entry(record.id.group).or_default().add(record);
        }
    }

    /// Sets the metrics of a step. Steps come in their order.
    pub fn add_metrics(&mut self, step: u64, figures: StepFigures) {
        self.trend.add(step, &figures);
        if let Some(own) = self.step(step) {
            own.metrics = figures;
        }
    }

    /// A step of the window; `None` if it is forgotten.
    fn step(&mut self, step: u64) -> Option<&mut StepWindow> {
        if step < self.first {
            return None;
        }
        self.steps.entry(step).or_default();
        while self.steps.len() > WINDOW {
            let (forgotten, _) = self.steps.pop_first()?;
            self.first = forgotten + 1;
        }
        self.steps.get_mut(&step)
    }

    /// Number of steps with metrics.
    pub fn measured(&self) -> usize {
        self.steps.values().filter(|step| step.metrics.has_update.is_some()).count()
    }

    /// Sums over the steps.
    pub fn figures(&self, bounds: StageBounds) -> StageFigures {
        let (mut episodes, mut groups, mut metrics) = (EpisodeSums::default(), GroupTotals::default(), vec![]);
        for step in self.steps.values() {
            episodes.merge(&step.episodes);
            step.groups.values().for_each(|group| groups.add(group));
            if step.metrics.has_update.is_some() {
                metrics.push(step.metrics.clone());
            }
        }
        StageFigures { bounds, episodes, groups, metrics, trend: self.trend.clone() }
    }
}

/// What the checks of a stage read.
#[derive(Debug, Clone)]
pub(crate) struct StageFigures {
    pub bounds: StageBounds,
    pub episodes: EpisodeSums,
    pub groups: GroupTotals,
    /// Metrics of the steps that have any, in order.
    pub metrics: Vec<StepFigures>,
    pub trend: MetricTrend,
}
