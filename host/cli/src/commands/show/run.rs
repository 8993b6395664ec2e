//! Summary of a run: its state, stages, curves, episodes, checkpoints and plugins.

use std::collections::BTreeMap;

use gymkhana_config::{RunFile, Stage};
use gymkhana_record::{EpisodeId, Phase};
use gymkhana_store::{RunReader, Summary};
use serde::Serialize;

use super::curve::blocks;
use crate::error::{Classify, CliResult};
use crate::printer::Printer;
use crate::units::counted;

/// Schema number of the JSON output.
const SCHEMA: u32 = 1;
/// Maximum width of a curve in characters.
const CURVE_WIDTH: usize = 60;

/// Whether a run continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum RunState {
    /// All stages are complete.
    Finished,
    /// A process has the folder open.
    Running,
    /// The run can be resumed.
    Stopped,
}

#[derive(Serialize)]
struct RunView {
    schema: u32,
    state: RunState,
    summary: Option<Summary>,
    curves: Vec<Curve>,
    episodes: Vec<Episodes>,
    /// Paths of the checkpoints, the newest last.
    checkpoints: Vec<String>,
    plugins: Vec<PluginView>,
}

/// Share of solved training episodes by step of a stage.
#[derive(Serialize)]
struct Curve {
    stage: String,
    success: Vec<f64>,
}

/// Number of episodes of one purpose, with the first.
#[derive(Serialize)]
struct Episodes {
    count: usize,
    first: String,
}

#[derive(Serialize)]
struct PluginView {
    name: String,
    version: String,
    digest: String,
}

/// Prints a run.
pub(super) fn show(run: &RunReader, as_json: bool, printer: &Printer) -> CliResult<()> {
    let view = RunView::read(run)?;
    if as_json {
        printer.json(serde_json::to_string_pretty(&view).internal()?);
    } else {
        view.print(run, printer);
    }
    Ok(())
}

impl RunView {
    fn read(run: &RunReader) -> CliResult<Self> {
        let (lock, summary) = (run.lock()?, run.summary()?);
        let state = match &summary {
            Some(_) => RunState::Finished,
            None if run.is_in_use()? => RunState::Running,
            None => RunState::Stopped,
        };
        let plugins = lock.entries().iter().map(|entry| PluginView {
            name: entry.name.to_string(),
            version: entry.version.to_string(),
            digest: entry.digest.to_string(),
        });
        Ok(Self {
            schema: SCHEMA,
            state,
            summary,
            curves: curves(run)?,
            episodes: episodes(run)?,
            checkpoints: run.checkpoints()?.iter().map(|path| path.display().to_string()).collect(),
            plugins: plugins.collect(),
        })
    }

    fn print(&self, run: &RunReader, printer: &Printer) {
        match (self.state, &self.summary) {
            (RunState::Running, _) => printer.result("running: a process has the folder open"),
            (RunState::Stopped, _) | (RunState::Finished, None) => {
                printer.result(format!("stopped; continue it with `host run --resume {}`", run.path().display()));
            }
            (RunState::Finished, Some(summary)) => print_summary(summary, printer),
        }
        for Curve { stage, success } in &self.curves {
            let (first, last) = (success.first().unwrap_or(&0.0), success.last().unwrap_or(&0.0));
            printer.result(format!(
                "training success of {stage}: {}  {:.1} % to {:.1} % in {}",
                blocks(success, CURVE_WIDTH),
                100.0 * first,
                100.0 * last,
                counted(success.len(), "step")
            ));
        }
        if !self.episodes.is_empty() {
            printer.result(
                "episodes, each kind with its first id (stage.phase.step.group.member.attempt, `~` if sampled):",
            );
        }
        for Episodes { count, first } in &self.episodes {
            printer.result(format!("{:>16} like {first}", counted(*count, "episode")));
        }
        if let Some(newest) = self.checkpoints.last() {
            printer.result(format!("newest of {}: {newest}", counted(self.checkpoints.len(), "checkpoint")));
        }
        for PluginView { name, version, digest } in &self.plugins {
            printer.result(format!("plugin {name} {version} {digest}"));
        }
    }
}

fn print_summary(summary: &Summary, printer: &Printer) {
    for stage in &summary.stages {
        let success = match (stage.success_before, stage.success_after) {
            (Some(before), Some(after)) => format!("{:.1} % to {:.1} %", 100.0 * before, 100.0 * after),
            _ => "not measured".to_owned(),
        };
        printer.result(format!(
            "stage {}: success {success}, {} episodes, {:.0} s",
            stage.name, stage.episodes, stage.seconds
        ));
    }
    let success = summary.success.map_or("not measured".to_owned(), |share| format!("{:.1} %", 100.0 * share));
    printer.result(format!("success {success} on held-out tasks, {:.0} s", summary.seconds));
}

/// Curves of the stages whose metrics have a success.
fn curves(run: &RunReader) -> CliResult<Vec<Curve>> {
    let file = RunFile::parse(&run.run_text()?, "run.toml", &[]).user_error()?;
    let mut success: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for line in run.metrics()? {
        if let Some(share) = line.values.get("success").and_then(serde_json::Value::as_f64) {
            success.entry(line.stage).or_default().push(share);
        }
    }
    let name =
        |stage: u32| file.stages.get(stage as usize).map_or_else(|| stage.to_string(), |it| Stage::name(it).to_owned());
    Ok(success.into_iter().map(|(stage, success)| Curve { stage: name(stage), success }).collect())
}

fn episodes(run: &RunReader) -> CliResult<Vec<Episodes>> {
    let mut phases: BTreeMap<(u32, Phase), (usize, EpisodeId)> = BTreeMap::new();
    for id in run.episodes()?.ids() {
        phases.entry((id.stage, id.phase)).or_insert((0, id)).0 += 1;
    }
    Ok(phases.into_values().map(|(count, first)| Episodes { count, first: first.to_string() }).collect())
}
