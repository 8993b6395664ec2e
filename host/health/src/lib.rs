//! Health of a rollout set: figures of a run's records and metrics, each with its usual range and, outside of it, a
//! remedy that names the key of the run file.
//!
//! [`Health`] takes the records one after the other. What it keeps is bounded: sums of the last steps of each stage
//! ([`usual::WINDOW`]). `host show --health`, the run page and a run in progress read the same figures. The crate changes
//! no run and computes no figure that a record or `metrics.jsonl` does not support.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod checks;
mod named_counts;
mod read;
mod settings;
mod sums;
pub mod usual;

use std::collections::BTreeMap;

use gymkhana_finding::{Finding, FindingStatus};
use gymkhana_record::{EpisodeId, EpisodeRecord, Phase};

use checks::{CHECKS, HealthCheck, JudgedFigure};
use sums::{StageFigures, StageWindow, StepFigures};

pub use read::HealthError;
pub use settings::{HealthSettings, RunFileSyntaxError};

/// Text of a check without data.
const NOT_MEASURED: &str = "not measured";

/// Figures of a run.
///
/// ```
/// use gymkhana_health::{Health, HealthSettings};
///
/// let mut health = Health::new(HealthSettings::parse("[[stages]]\nkind = \"rl\"").unwrap());
/// health.add_metrics(0, 0, &[("cut_replies", 0.5)].into_iter());
/// let unusual: Vec<_> = health.unusual(0).into_iter().map(|finding| finding.check).collect();
/// assert_eq!(unusual, ["cut-replies"]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Health {
    settings: HealthSettings,
    stages: BTreeMap<u32, StageWindow>,
}

/// Names of all checks, in the order of reports.
pub fn names() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().map(|check| check.name)
}

/// Whether figures include an episode: one that was played for training, or by an agent from outside.
pub(crate) fn is_counted(id: EpisodeId) -> bool {
    matches!(id.phase, Phase::Train | Phase::Served)
}

impl Health {
    /// Figures of a run without episodes.
    #[must_use]
    pub fn new(settings: HealthSettings) -> Self {
        Self { settings, stages: BTreeMap::new() }
    }

    /// Adds an episode. Demonstrations and evaluations are left out, and steps before the window.
    pub fn add_episode(&mut self, record: &EpisodeRecord) {
        if is_counted(record.id) {
            let context = self.settings.context(record.environment.as_deref());
            self.stages.entry(record.id.stage).or_default().add_episode(record, context);
        }
    }

    /// Adds the metrics of a training step, by name. Steps of a stage come in their order.
    pub fn add_metrics<'a>(&mut self, stage: u32, step: u64, values: &(impl Iterator<Item = (&'a str, f64)> + Clone)) {
        self.stages.entry(stage).or_default().add_metrics(step, StepFigures::of(values));
    }

    /// Number of the training steps of a stage with metrics, at most [`usual::WINDOW`].
    #[must_use]
    pub fn steps(&self, stage: u32) -> usize {
        self.stages.get(&stage).map_or(0, StageWindow::measured)
    }

    /// A finding of every check: of the last stage outside of the usual range, or else of the last one with data.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let stages: Vec<StageFigures> = self.stages.keys().map(|stage| self.figures(*stage)).collect();
        let is_one = self.settings.stages.len() < 2;
        CHECKS.iter().map(|check| finding_of(check, &stages, is_one)).collect()
    }

    /// Findings of a stage outside of their usual ranges.
    #[must_use]
    pub fn unusual(&self, stage: u32) -> Vec<Finding> {
        if !self.stages.contains_key(&stage) {
            return vec![];
        }
        let stage = [self.figures(stage)];
        let findings = CHECKS.iter().map(|check| finding_of(check, &stage, true));
        findings.filter(|finding| finding.status != FindingStatus::Ok).collect()
    }

    fn figures(&self, stage: u32) -> StageFigures {
        let window = self.stages.get(&stage).cloned().unwrap_or_default();
        window.figures(self.settings.stage(stage))
    }
}

/// The finding of a check on stages in their order; `is_one` leaves the name of the stage out.
fn finding_of(check: &HealthCheck, stages: &[StageFigures], is_one: bool) -> Finding {
    let judged = stages.iter().filter_map(|stage| Some((stage, (check.judge)(stage)?)));
    let judged: Vec<(&StageFigures, JudgedFigure)> = judged.collect();
    let worst = judged.iter().rev().find(|(_, figure)| figure.remedy.is_some()).or(judged.last());
    let Some((stage, JudgedFigure { text, remedy })) = worst else { return Finding::ok(check.name, NOT_MEASURED) };
    let of = if is_one { String::new() } else { format!("stage `{}`: ", stage.bounds.name) };
    let finding = match remedy {
        None => Finding::ok(check.name, format!("{of}{text}")),
        Some(remedy) => Finding::warn(check.name, format!("{of}{text}\nhint: {remedy}")),
    };
    finding.with_range((check.range)(stage))
}
