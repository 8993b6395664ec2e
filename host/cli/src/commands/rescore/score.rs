//! `host rescore`: scores a run's episodes with other rewards.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};

use gymkhana_record::{Ending, EpisodeRecord, Phase};
use gymkhana_store::RunReader;
use serde_json::{Value as Json, json};

use super::score_run;
use super::statistics::mean;
use crate::args::RescoreArgs;
use crate::args::data::EpisodePurpose;
use crate::columns::columns;
use crate::error::{Classify, CliError, CliResult};
use crate::printer::Printer;
use crate::registry;
use gymkhana_orchestration::recorded_runs::{RecordedRun, count_matches};
use gymkhana_orchestration::{plugins, run_file_of};

/// Message about scores that cannot be written.
const NO_SPACE: &str = "the file of --out cannot be written\nhint: free space, or name a file on another disk";

/// Recorded and new values of a metric.
type ScorePair = (Vec<f64>, Vec<f64>);

/// Metrics of all episodes and seats, as recorded and as scored now.
#[derive(Default)]
struct Tally {
    episodes: u64,
    changed: u64,
    failed: u64,
    /// Failure of the first episode that could not be scored.
    first_failure: Option<String>,
    /// Values by purpose of the episodes: demonstrations succeed, and evaluations are greedy.
    figures: BTreeMap<EpisodePurpose, BTreeMap<String, ScorePair>>,
}

impl EpisodePurpose {
    /// Whether episodes of this phase have the purpose.
    pub(crate) fn includes(self, phase: Phase) -> bool {
        self == Self::of(phase)
    }

    fn of(phase: Phase) -> Self {
        match phase {
            Phase::Train => Self::Train,
            Phase::Demonstration => Self::Demonstrations,
            Phase::Before
            | Phase::BeforeSampled
            | Phase::During
            | Phase::DuringSampled
            | Phase::After
            | Phase::AfterSampled
            | Phase::Served => Self::Evaluation,
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Demonstrations => "demonstrations",
            Self::Evaluation => "evaluation",
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
    let file = run_file_of(&run, &args.set)?;
    let mut files = plugins::recorded_files(&run)?;
    let (given, lock) = registry::look_up(&args.plugins, printer)?;
    plugins::only_rewards(&lock, &files)?;
    files.retain(|file| given.iter().all(|other| other.name() != file.name()));
    files.extend(given);
    files.sort_by(|one, other| one.name().cmp(other.name()));
    let mut out = args.out.as_ref().map(|path| lines_to(path)).transpose()?;
    let recorded = RecordedRun::open(&args.dir)?;
    if let Some(filter) = &args.filter {
        count_matches(std::slice::from_ref(&recorded), filter)?;
    }
    // A group is scored as a whole: rewards may compare its members.
    let is_counted = |record: &EpisodeRecord| recorded.meets(record, args.filter.as_ref());
    let mut tally = Tally::default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().internal()?;
    runtime.block_on(score_run(
        &run,
        &file,
        &files,
        |phase| args.only.is_none_or(|only| only.includes(phase)),
        printer,
        |recorded, now| {
            for (recorded, now) in recorded.iter().zip(now).filter(|(recorded, _)| is_counted(recorded)) {
                tally.add(recorded, now);
                if let Some(out) = &mut out {
                    let line = json!({
                        "episode": now.id.to_string(), "rewards": now.rewards, "success": now.success,
                        "scores": now.scores, "failures": now.failures,
                    });
                    writeln!(out, "{line}").user_context(NO_SPACE)?;
                }
            }
            Ok(())
        },
    ))?;
    out.map_or(Ok(()), |mut out| out.flush()).user_context(NO_SPACE)?;
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
        let own = self.figures.entry(EpisodePurpose::of(recorded.id.phase)).or_default();
        for (record, which) in [(recorded, 0), (now, 1)] {
            for (name, value) in figures(record) {
                let found = own.entry(name).or_default();
                if which == 0 { found.0.push(value) } else { found.1.push(value) }
            }
        }
    }

    /// Values of all purposes.
    fn all(&self) -> BTreeMap<String, ScorePair> {
        let mut all: BTreeMap<String, ScorePair> = BTreeMap::new();
        for (name, (then, now)) in self.figures.values().flatten() {
            let found = all.entry(name.clone()).or_default();
            found.0.extend(then);
            found.1.extend(now);
        }
        all
    }

    fn print(&self, as_json: bool, printer: &Printer) -> CliResult<()> {
        if self.episodes == 0 {
            return Err(CliError::user("the run has no episodes to score")
                .with_hint("`host show DIR --episodes all` lists its episodes; choose others, or another run"));
        }
        if self.failed == self.episodes {
            let why = self.first_failure.as_deref().unwrap_or("all were dropped");
            return Err(CliError::user(format!("no episode could be scored: {why}"))
                .with_hint("check the options of the reward and the fields that it needs; --out lists each failure"));
        }
        if as_json {
            let purposes = self.figures.iter().map(|(purpose, own)| (purpose.key().to_owned(), means(own)));
            let purposes: serde_json::Map<String, Json> = purposes.collect();
            let (episodes, changed, failed) = (self.episodes, self.changed, self.failed);
            printer.json(format!(
                "{:#}",
                json!({
                    "episodes": episodes, "changed": changed, "failed": failed, "figures": means(&self.all()),
                    "purposes": purposes,
                })
            ));
            return Ok(());
        }
        let mut rows = Vec::new();
        for (purpose, own) in &self.figures {
            rows.push([purpose.heading(), "recorded", "now"].map(ToOwned::to_owned).to_vec());
            let shown = |values: &[f64]| mean(values).map_or("-".to_owned(), |value| format!("{value:.4}"));
            rows.extend(own.iter().map(|(name, (then, now))| vec![name.clone(), shown(then), shown(now)]));
        }
        columns(&rows).into_iter().for_each(|line| printer.result(line));
        printer.result(format!("{} of {} episodes changed their reward or success", self.changed, self.episodes));
        if self.failed > 0 {
            printer.result(format!("{} episodes failed to score; --out lists the causes", self.failed));
        }
        Ok(())
    }
}

/// Means of values by name.
fn means(figures: &BTreeMap<String, ScorePair>) -> Json {
    let figures = figures.iter();
    figures.map(|(name, (then, now))| (name.clone(), json!({ "recorded": mean(then), "now": mean(now) }))).collect()
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
