//! A list of episodes: all, failed, solved, unsolved, or those of the highest or lowest reward.

use gymkhana_orchestration::run_file_of;
use gymkhana_record::EpisodeRecord;
use gymkhana_store::RunReader;
use serde::Serialize;

use super::NO_EPISODES;
use crate::args::{ShowArgs, WhichEpisodes};
use crate::error::{Classify, CliError, CliResult};
use crate::printer::Printer;

/// An episode in one line.
#[derive(Serialize)]
struct EpisodeLine {
    episode: String,
    task: String,
    turns: usize,
    /// Rewards by seat.
    rewards: Vec<f64>,
    success: bool,
    ending: String,
    failures: usize,
}

impl EpisodeLine {
    fn of(record: &EpisodeRecord) -> Self {
        Self {
            episode: record.id.to_string(),
            task: record.task_name(),
            turns: record.policy_turns.len(),
            rewards: record.rewards.clone(),
            success: record.success,
            ending: record.ending.to_string(),
            failures: record.failures.len(),
        }
    }

    /// Reward of the first seat; lowest if the episode was not scored.
    fn reward(&self) -> f64 {
        self.rewards.first().copied().unwrap_or(f64::NEG_INFINITY)
    }
}

impl WhichEpisodes {
    fn includes(self, row: &EpisodeLine) -> bool {
        match self {
            Self::All | Self::Best | Self::Worst => true,
            Self::Failed => row.failures > 0,
            Self::Solved => row.success,
            Self::Unsolved => !row.success,
        }
    }
}

impl WhichEpisodes {
    /// The message about a run without such episodes.
    fn none_found(self) -> &'static str {
        match self {
            Self::All | Self::Best | Self::Worst => NO_EPISODES,
            Self::Failed => "no episode has a failure; `--episodes unsolved` lists those without success",
            Self::Solved => "no episode has success; `--episodes best` lists those with the highest reward",
            Self::Unsolved => "every episode has success; `--episodes worst` lists those with the lowest reward",
        }
    }
}

/// Prints the selected episodes.
pub(super) fn show(run: &RunReader, which: WhichEpisodes, args: &ShowArgs, printer: &Printer) -> CliResult<()> {
    let stage = args.stage.as_deref().map(|name| stage_index(run, name)).transpose()?;
    let (mut rows, mut stored) = (Vec::new(), 0);
    for record in run.episodes()?.read_all() {
        let record = record?;
        stored += 1;
        let row = EpisodeLine::of(&record);
        if stage.is_none_or(|stage| record.id.stage == stage) && which.includes(&row) {
            rows.push(row);
        }
    }
    match which {
        WhichEpisodes::Best => rows.sort_by(|one, other| other.reward().total_cmp(&one.reward())),
        WhichEpisodes::Worst => rows.sort_by(|one, other| one.reward().total_cmp(&other.reward())),
        _ => {}
    }
    let found = rows.len();
    rows.truncate(args.limit);
    if args.json {
        printer.json(serde_json::to_string_pretty(&rows).internal()?);
        return Ok(());
    }
    if rows.is_empty() {
        printer.result(if stored == 0 { NO_EPISODES } else { which.none_found() });
        return Ok(());
    }
    printer.result(format!(
        "{:<20} {:<16} {:>5} {:>9} {:<8} {:<14} {:>8}",
        "episode", "task", "turns", "reward", "success", "end", "failures"
    ));
    for row in &rows {
        let rewards: Vec<String> = row.rewards.iter().map(|reward| format!("{reward:.3}")).collect();
        printer.result(format!(
            "{:<20} {:<16} {:>5} {:>9} {:<8} {:<14} {:>8}",
            row.episode,
            row.task,
            row.turns,
            rewards.join(","),
            if row.success { "yes" } else { "no" },
            row.ending,
            row.failures
        ));
    }
    if found > rows.len() {
        printer.result(format!("{} of {found} episodes; --limit shows more", rows.len()));
    }
    Ok(())
}

/// Index of a stage of the run file.
fn stage_index(run: &RunReader, name: &str) -> CliResult<u32> {
    let file = run_file_of(run, &[])?;
    let names: Vec<&str> = file.stages.iter().map(gymkhana_config::Stage::name).collect();
    let index = names.iter().position(|known| *known == name);
    index.map(|index| index as u32).ok_or_else(|| {
        CliError::user(format!("the run has no stage `{name}`\nhint: use one of `{}`", names.join("`, `")))
    })
}
