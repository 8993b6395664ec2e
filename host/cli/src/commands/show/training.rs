//! Training of each stage: success and reward by step, and components of the rewards in the first and the last step.

use std::collections::BTreeMap;

use gymkhana_config::Stage;
use gymkhana_orchestration::run_file_of;
use gymkhana_record::step_metrics::{self, failures_of, rl};
use gymkhana_record::{EpisodeRecord, Phase};
use gymkhana_store::{MetricsLine, RunReader};
use serde::Serialize;

use super::curve::blocks;
use crate::error::CliResult;
use crate::printer::Printer;
use crate::units::counted;

/// Maximum width of a curve in characters.
const CURVE_WIDTH: usize = 60;

/// Training of one stage.
#[derive(Debug, Serialize)]
pub(super) struct Training {
    /// Name of the stage.
    stage: String,
    /// Share of solved episodes by step, 0 to 1.
    success: Vec<f64>,
    /// Mean reward by step.
    reward: Vec<f64>,
    /// Share of pairs that the policy orders as they are labelled, by step, 0 to 1; of stages on recorded preferences only,
    /// whose success and reward are those of the data.
    preference_accuracy: Vec<f64>,
    /// Share of the policy's replies that a limit of tokens cut, by step, 0 to 1.
    cut_replies: Vec<f64>,
    /// Number of steps that changed no weights.
    idle_steps: usize,
    /// Number of steps.
    steps: usize,
    /// Episodes that failed, and those of them that were dropped.
    failed: u64,
    dropped: u64,
    /// Failures by owner and kind, such as "tool `search`: trap".
    failures: BTreeMap<String, u64>,
    /// Components of the rewards.
    components: Vec<ComponentMeans>,
}

/// Means of one component over the episodes and seats of a step.
#[derive(Debug, PartialEq, Serialize)]
struct ComponentMeans {
    /// Name as `REWARD.COMPONENT`.
    name: String,
    first: f64,
    last: f64,
}

impl Training {
    /// Prints a line for each measure.
    pub(super) fn print(&self, printer: &Printer) {
        let Self { stage, success, reward, preference_accuracy, cut_replies, idle_steps, steps, .. } = self;
        if let (Some(first), Some(last)) = (success.first(), success.last()) {
            printer.result(format!(
                "training success of {stage}: {}  {:.1} % to {:.1} % in {}",
                blocks(success, CURVE_WIDTH),
                100.0 * first,
                100.0 * last,
                counted(success.len(), "step")
            ));
        }
        if let (Some(first), Some(last)) = (reward.first(), reward.last()) {
            printer.result(format!("training reward of {stage}: {first:.3} to {last:.3}"));
        }
        if let (Some(first), Some(last)) = (preference_accuracy.first(), preference_accuracy.last()) {
            printer.result(format!(
                "preference accuracy of {stage}: {}  {:.1} % to {:.1} % in {}",
                blocks(preference_accuracy, CURVE_WIDTH),
                100.0 * first,
                100.0 * last,
                counted(preference_accuracy.len(), "step")
            ));
        }
        if let (Some(first), Some(last)) = (cut_replies.first(), cut_replies.last())
            && cut_replies.iter().any(|share| *share > 0.0)
        {
            printer.result(format!("training cut replies of {stage}: {:.1} % to {:.1} %", 100.0 * first, 100.0 * last));
        }
        if *idle_steps > 0 {
            printer.result(format!("steps of {stage} that changed no weights: {idle_steps} of {steps}"));
        }
        if self.failed > 0 {
            let causes: Vec<String> = self.failures.iter().map(|(at, count)| format!("{count} of {at}")).collect();
            printer.result(format!(
                "failed episodes of {stage}: {} ({} dropped); {}",
                self.failed,
                self.dropped,
                causes.join(", ")
            ));
        }
        for ComponentMeans { name, first, last } in &self.components {
            printer.result(format!("training {name} of {stage}: {first:.3} to {last:.3}"));
        }
    }
}

/// Training of the stages whose metrics have a success.
pub(super) fn training(run: &RunReader) -> CliResult<Vec<Training>> {
    let file = run_file_of(run, &[])?;
    let mut stages: BTreeMap<u32, Vec<MetricsLine>> = BTreeMap::new();
    for line in run.metrics()?.into_iter().filter(|line| line.values.contains_key("success")) {
        stages.entry(line.stage).or_default().push(line);
    }
    let of_stage = |(stage, lines): (u32, Vec<MetricsLine>)| -> CliResult<Training> {
        let values =
            |name: &str| -> Vec<f64> { lines.iter().filter_map(|line| line.values.get(name)?.as_f64()).collect() };
        let sum = |name: &str| values(name).iter().sum::<f64>();
        let is_recorded = matches!(file.stages.get(stage as usize), Some(Stage::Rl(stage)) if stage.recorded.is_some());
        let of_play = |name: &str| if is_recorded { vec![] } else { values(name) };
        let steps = [lines.first(), lines.last()].map(|line| line.map_or(0, |line| line.step));
        let name = file.stages.get(stage as usize).map_or_else(|| stage.to_string(), |it| Stage::name(it).to_owned());
        let components = components(run, stage, steps)?;
        Ok(Training {
            stage: name,
            success: of_play(rl::SUCCESS.name()),
            reward: of_play(rl::REWARD.name()),
            preference_accuracy: if is_recorded { values(rl::PREFERENCE_ACCURACY.name()) } else { vec![] },
            cut_replies: of_play(rl::CUT_REPLIES.name()),
            failed: (sum(rl::FAILURES.name()) + sum(rl::DROPPED.name())) as u64,
            dropped: sum(rl::DROPPED.name()) as u64,
            failures: failures(&lines),
            idle_steps: lines.iter().filter(|line| !has_update(line)).count(),
            steps: lines.len(),
            components,
        })
    };
    stages.into_iter().map(of_stage).collect()
}

/// Failures of all steps by owner and kind.
fn failures(lines: &[MetricsLine]) -> BTreeMap<String, u64> {
    let mut failures = BTreeMap::new();
    for (name, value) in lines.iter().flat_map(|line| &line.values) {
        if let Some((cause, count)) = failures_of(name).zip(value.as_f64()) {
            *failures.entry(cause).or_default() += count as u64;
        }
    }
    failures
}

/// Whether the step of a line changed the weights of a model.
fn has_update(line: &MetricsLine) -> bool {
    let values = line.values.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_f64()?)));
    step_metrics::has_update(&values)
}

/// Means of the components that the training episodes of both steps have.
fn components(run: &RunReader, stage: u32, [first, last]: [u64; 2]) -> CliResult<Vec<ComponentMeans>> {
    let mut values = [BTreeMap::new(), BTreeMap::new()];
    let episodes = run.episodes()?;
    let of_steps = episodes
        .read_where(|id| (id.stage, id.phase) == (stage, Phase::Train) && (id.step == first || id.step == last));
    for record in of_steps {
        let record = record?;
        for (step, values) in [first, last].into_iter().zip(&mut values) {
            if record.id.step == step {
                collect(&record, values);
            }
        }
    }
    let [in_first, in_last] = values;
    let both = in_first.into_iter().filter_map(|(name, first)| {
        let (first, last) = (mean(&first), mean(in_last.get(&name)?));
        Some(ComponentMeans { name, first, last })
    });
    Ok(both.collect())
}

/// Adds the components of an episode to the values by name.
fn collect(record: &EpisodeRecord, values: &mut BTreeMap<String, Vec<f64>>) {
    for reward in &record.scores {
        for part in reward.scores.iter().flat_map(|score| &score.components) {
            values.entry(format!("{}.{}", reward.plugin, part.name)).or_default().push(part.value);
        }
    }
}

/// Mean of at least one value.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
