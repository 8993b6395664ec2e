//! `host rescore`: scores a run's episodes with other rewards.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};

use gymkhana_record::{Ending, EpisodeRecord, Phase};
use gymkhana_store::RunReader;
use serde_json::json;

use super::score_run;
use super::statistics::mean;
use crate::args::RescoreArgs;
use crate::args::data::Purpose;
use crate::columns::columns;
use crate::error::{Classify, CliError, CliResult};
use crate::printer::Printer;
use crate::registry;
use gymkhana_config::RunFile;
use gymkhana_orchestration::plugins;

/// Metrics of all episodes and seats, as recorded and as scored now.
#[derive(Default)]
struct Tally {
    heading: &'static str,
    episodes: u64,
    changed: u64,
    failed: u64,
    /// Failure of the first episode that could not be scored.
    first_failure: Option<String>,
    figures: BTreeMap<String, (Vec<f64>, Vec<f64>)>,
}

impl Purpose {
    /// Whether episodes of this phase have the purpose.
    pub(crate) fn includes(self, phase: Phase) -> bool {
        match self {
            Self::Train => phase == Phase::Train,
            Self::Demonstrations => phase == Phase::Demonstration,
            Self::Evaluation => !matches!(phase, Phase::Train | Phase::Demonstration),
        }
    }

    fn heading(self) -> &'static str {
        match self {
            Self::Train => "mean over training",
            Self::Demonstrations => "mean over demonstrations",
            Self::Evaluation => "mean over evaluations",
        }
    }
}

/// Runs the command.
pub fn score(args: &RescoreArgs, printer: &Printer) -> CliResult<()> {
    let run = RunReader::open(&args.dir)?;
    let file = RunFile::parse(&run.run_text()?, "run.toml", &args.set).user_error()?;
    let mut files = plugins::recorded_files(&run)?;
    let (given, lock) = registry::look_up(&args.plugins, printer)?;
    plugins::only_rewards(&lock)?;
    files.retain(|file| given.iter().all(|other| other.name != file.name));
    files.extend(given);
    files.sort_by(|one, other| one.name.cmp(&other.name));
    let mut out = args.out.as_ref().map(|path| lines_to(path)).transpose()?;
    let heading = match args.only {
        None => "mean over all episodes",
        Some(only) => only.heading(),
    };
    let mut tally = Tally { heading, ..Tally::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().internal()?;
    runtime.block_on(score_run(
        &run,
        &file,
        &files,
        |phase| args.only.is_none_or(|only| only.includes(phase)),
        printer,
        |recorded, now| {
            for (recorded, now) in recorded.iter().zip(now) {
                tally.add(recorded, now);
                if let Some(out) = &mut out {
                    let line = json!({
                        "episode": now.id.to_string(), "rewards": now.rewards, "success": now.success,
                        "scores": now.scores, "failures": now.failures,
                    });
                    writeln!(out, "{line}").internal()?;
                }
            }
            Ok(())
        },
    ))?;
    out.map_or(Ok(()), |mut out| out.flush()).internal()?;
    tally.print(args.json, printer)
}

fn lines_to(path: &std::path::Path) -> CliResult<BufWriter<File>> {
    let wrong = format!("--out `{}` cannot be written\nhint: name a file in a writable folder", path.display());
    Ok(BufWriter::new(File::create(path).user_context(wrong)?))
}

impl Tally {
    fn add(&mut self, recorded: &EpisodeRecord, now: &EpisodeRecord) {
        self.episodes += 1;
        if now.ending == Ending::Dropped || now.failures.len() > recorded.failures.len() {
            self.failed += 1;
            let failure = now.failures.last().map(ToString::to_string);
            self.first_failure = self.first_failure.take().or(failure);
        }
        self.changed += u64::from(recorded.rewards != now.rewards || recorded.success != now.success);
        for (record, which) in [(recorded, 0), (now, 1)] {
            for (name, value) in figures(record) {
                let found = self.figures.entry(name).or_default();
                if which == 0 { found.0.push(value) } else { found.1.push(value) }
            }
        }
    }

    fn print(&self, as_json: bool, printer: &Printer) -> CliResult<()> {
        if self.episodes == 0 {
            return Err(CliError::user("the run has no episodes to score\nhint: choose a run with episodes"));
        }
        if self.failed == self.episodes {
            let why = self.first_failure.as_deref().unwrap_or("all were dropped");
            return Err(CliError::user(format!("no episode could be scored: {why}"))
                .with_hint("check the options of the reward and the fields that it needs; --out lists each failure"));
        }
        if as_json {
            let figures: serde_json::Map<String, serde_json::Value> = self
                .figures
                .iter()
                .map(|(name, (then, now))| (name.clone(), json!({ "recorded": mean(then), "now": mean(now) })))
                .collect();
            let (episodes, changed, failed) = (self.episodes, self.changed, self.failed);
            printer.json(format!(
                "{:#}",
                json!({ "episodes": episodes, "changed": changed, "failed": failed, "figures": figures })
            ));
            return Ok(());
        }
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.4}"));
        let head = [self.heading, "recorded", "now"].map(ToOwned::to_owned).to_vec();
        let rows =
            self.figures.iter().map(|(name, (then, now))| vec![name.clone(), shown(mean(then)), shown(mean(now))]);
        columns(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
            .into_iter()
            .for_each(|line| printer.result(line));
        printer.result(format!("{} of {} episodes changed their reward or success", self.changed, self.episodes));
        if self.failed > 0 {
            printer.result(format!("{} episodes failed to score; --out lists the causes", self.failed));
        }
        Ok(())
    }
}

/// Metrics of an episode by name; a name occurs once per seat.
fn figures(record: &EpisodeRecord) -> Vec<(String, f64)> {
    let rewards = record.rewards.iter().map(|reward| ("reward".to_owned(), *reward));
    let success = ("success".to_owned(), f64::from(u8::from(record.success)));
    let scores = record.scores.iter().flat_map(|plugin| {
        plugin.scores.iter().flat_map(|score| {
            let total = (format!("{}.total", plugin.plugin), score.total);
            let parts = score.components.iter();
            let parts = parts.map(|part| (format!("{}.{}", plugin.plugin, part.name), part.value));
            std::iter::once(total).chain(parts).collect::<Vec<_>>()
        })
    });
    rewards.chain([success]).chain(scores).collect()
}
