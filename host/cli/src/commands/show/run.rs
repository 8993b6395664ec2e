//! Summary of a run: its state, stages, training, episodes, checkpoints and plugins.

use std::collections::BTreeMap;
use std::path::Path;

use gymkhana_config::Recorder;
use gymkhana_orchestration::recorder;
use gymkhana_record::{EpisodeId, Phase};
use gymkhana_registry::LOCK_FILE;
use gymkhana_store::{RunReader, RunSummary};
use serde::Serialize;

use super::NO_EPISODES;
use super::training::{Training, training};
use crate::error::{Classify, CliResult};
use crate::printer::Printer;
use crate::units::counted;

/// Schema number of the JSON output.
const SCHEMA: u32 = 1;

/// State of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum RunStatus {
    /// All stages are complete.
    Finished,
    /// A process has the folder open.
    Running,
    /// The run can be resumed.
    Stopped,
    /// The folder holds records of a server, and no server has it open.
    Served,
}

#[derive(Serialize)]
struct RunView {
    schema: u32,
    state: RunStatus,
    #[serde(skip)]
    recorder: Option<Recorder>,
    summary: Option<RunSummary>,
    curves: Vec<Training>,
    episodes: Vec<EpisodeCount>,
    /// Paths of the checkpoints, the newest last.
    checkpoints: Vec<String>,
    plugins: Vec<PluginView>,
}

/// Number of episodes of one purpose, with the first.
#[derive(Serialize)]
struct EpisodeCount {
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
        let summary = run.summary()?;
        let recorder = if summary.is_none() { recorder(run)? } else { None };
        let state = match &summary {
            Some(_) => RunStatus::Finished,
            None if run.is_in_use()? => RunStatus::Running,
            None if recorder.is_some() => RunStatus::Served,
            None => RunStatus::Stopped,
        };
        Ok(Self {
            schema: SCHEMA,
            state,
            recorder,
            summary,
            curves: training(run)?,
            episodes: episodes(run)?,
            checkpoints: run.checkpoints()?.iter().map(|path| path.display().to_string()).collect(),
            plugins: plugins(run)?,
        })
    }

    fn print(&self, run: &RunReader, printer: &Printer) {
        match (self.state, &self.summary) {
            (RunStatus::Running, _) => printer.result("running: a process has the folder open"),
            (RunStatus::Served, _) => {
                let command = self.recorder.and_then(|recorder| recorder.command(run.path()));
                let add = command.map_or(String::new(), |command| format!("; `{command}` adds episodes"));
                printer.result(format!("served: no server has the folder open{add}"));
            }
            (RunStatus::Stopped, _) | (RunStatus::Finished, None) => {
                printer.result(format!("stopped; continue it with `host run --resume {}`", run.path().display()));
            }
            (RunStatus::Finished, Some(summary)) => print_summary(summary, printer),
        }
        self.curves.iter().for_each(|stage| stage.print(printer));
        printer.result(if self.episodes.is_empty() {
            NO_EPISODES
        } else {
            "episodes, each kind with its first id (stage.phase.step.group.member.attempt, `~` if sampled):"
        });
        for EpisodeCount { count, first } in &self.episodes {
            printer.result(format!("{:>16} like {first}", counted(*count, "episode")));
        }
        print_checkpoints(&self.checkpoints, printer);
        for PluginView { name, version, digest } in &self.plugins {
            printer.result(format!("plugin {name} {version} {digest}"));
        }
    }
}

/// Plugins of a run. One that was killed at its start has none yet.
fn plugins(run: &RunReader) -> CliResult<Vec<PluginView>> {
    if !run.path().join(LOCK_FILE).exists() {
        return Ok(vec![]);
    }
    let lock = run.lock()?;
    let views = lock.entries().iter().map(|entry| PluginView {
        name: entry.name.to_string(),
        version: entry.version.to_string(),
        digest: entry.digest.to_string(),
    });
    Ok(views.collect())
}

fn print_summary(summary: &RunSummary, printer: &Printer) {
    for stage in &summary.stages {
        let success = match (stage.success_before, stage.success_after) {
            (Some(before), Some(after)) => format!("{:.1} % to {:.1} %", 100.0 * before, 100.0 * after),
            _ => "not measured".to_owned(),
        };
        printer.result(format!(
            "stage {}: success {success}, {}, {:.0} s",
            stage.name,
            counted(stage.episodes, "episode"),
            stage.seconds
        ));
        for (name, own) in &stage.environments {
            if let (Some(before), Some(after)) = (own.before.greedy, own.after.greedy) {
                printer.result(format!("{:>16} {:.1} % to {:.1} %", name, 100.0 * before, 100.0 * after));
            }
        }
    }
    let success = summary.success.map_or("not measured".to_owned(), |share| format!("{:.1} %", 100.0 * share));
    printer.result(format!("success {success} on held-out tasks, {:.0} s", summary.seconds));
}

/// Prints the names of the checkpoints, then the path of the newest.
fn print_checkpoints(paths: &[String], printer: &Printer) {
    let Some(newest) = paths.last() else { return };
    let names = paths.iter().filter_map(|path| Path::new(path).file_name()).map(|name| name.to_string_lossy());
    printer.result(format!("checkpoints: {}", names.collect::<Vec<_>>().join(", ")));
    printer.result(format!("newest checkpoint: {newest}"));
}

fn episodes(run: &RunReader) -> CliResult<Vec<EpisodeCount>> {
    let mut phases: BTreeMap<(u32, Phase), (usize, EpisodeId)> = BTreeMap::new();
    for id in run.episodes()?.ids() {
        phases.entry((id.stage, id.phase)).or_insert((0, id)).0 += 1;
    }
    Ok(phases.into_values().map(|(count, first)| EpisodeCount { count, first: first.to_string() }).collect())
}
