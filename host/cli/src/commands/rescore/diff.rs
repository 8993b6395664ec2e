//! `host reward diff`: compares two versions of a reward on recorded episodes.

use std::collections::BTreeSet;

use gymkhana_record::{CallSite, EpisodeId, EpisodeRecord, FailureKind, Score, Turn, text_of};
use gymkhana_registry::{Kind, Lock, PluginFile};
use gymkhana_store::{ComparedEpisode, RewardComparison, RunReader, ScoreOutcome, Sides, SummaryStats};

use super::score_run;
use super::statistics::{mean, rank_correlation, reordered, summary};
use crate::args::DiffArgs;
use crate::columns::columns;
use crate::error::{Classify, CliError, CliResult};
use crate::escape::escape_terminal;
use crate::printer::Printer;
use crate::registry;
use gymkhana_config::{EnvironmentSettings, RunFile};
use gymkhana_orchestration::plugins;
use gymkhana_orchestration::run_file_of;

/// Score of one version for one seat of an episode, or its failure.
type ScoreResult = Result<Score, String>;

/// Outcomes of both versions for one seat of an episode.
struct Pair {
    episode: EpisodeId,
    outcomes: [ScoreResult; 2],
    /// The seat's last message.
    last: String,
}

impl Pair {
    fn totals(&self) -> Option<[f64; 2]> {
        let [one, other] = &self.outcomes;
        Some([one.as_ref().ok()?.total, other.as_ref().ok()?.total])
    }

    /// Difference of the totals; infinite if only one version failed.
    fn distance(&self) -> f64 {
        match (&self.outcomes[0], &self.outcomes[1]) {
            (Ok(one), Ok(other)) => (one.total - other.total).abs(),
            (Err(_), Err(_)) => 0.0,
            _ => f64::INFINITY,
        }
    }
}

/// Runs the command.
pub fn diff(args: &DiffArgs, printer: &Printer) -> CliResult<()> {
    let run = RunReader::open(&args.on)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().internal()?;
    let sides = [(&args.a, &args.option_a), (&args.b, &args.option_b)];
    let mut outcomes: Vec<Vec<(EpisodeId, u32, ScoreResult, String)>> = vec![];
    let mut names = [String::new(), String::new()];
    for ((path, options), name) in sides.into_iter().zip(&mut names) {
        let reward = registry::look_up(std::slice::from_ref(path), printer)?;
        *name = version(&reward.1, options);
        outcomes.push(runtime.block_on(score_with(&run, reward, options, printer))?);
    }
    let sides = <[_; 2]>::try_from(outcomes);
    let [one, other] = sides.map_err(|_| anyhow::anyhow!("expected two versions")).internal()?;
    let pairs: Vec<Pair> = one
        .into_iter()
        .zip(other)
        .map(|((episode, _, one, last), (_, _, other, _))| Pair { episode, outcomes: [one, other], last })
        .collect();
    if pairs.is_empty() {
        let message = format!("`{}` has no episodes to score", args.on.display());
        return Err(CliError::user(message).with_hint("choose a run with episodes"));
    }
    let report = PairStatistics::of(&pairs);
    if report.scored == 0 {
        return Err(CliError::user(format!("no episode was scored by both versions: {}", first_failure(&pairs)))
            .with_hint("check the options of the versions and the fields that they need"));
    }
    let worst = worst(&pairs, args.worst);
    let comparison = report.comparison(names, &worst);
    if args.keep {
        comparison.keep(run.path())?;
        printer.status(format!("kept: `host page {}` shows the comparison", args.on.display()));
    }
    if args.json {
        printer.json(serde_json::to_string_pretty(&comparison).internal()?);
    } else {
        for (side, name) in ["A", "B"].into_iter().zip(&comparison.versions) {
            printer.result(format!("{side}: {name}"));
        }
        report.print(printer);
        print_worst(&worst, printer);
    }
    Ok(())
}

/// Name, version and options of the reward in this lock.
fn version(lock: &Lock, options: &[String]) -> String {
    let named = lock.entries().first().map(|entry| format!("{}@{}", entry.name, entry.version));
    let options = options.iter().map(|option| format!(" {option}"));
    named.into_iter().chain(options).collect()
}

/// Outcomes of one version for every seat of every episode, in the order of the record.
async fn score_with(
    run: &RunReader,
    (mut given, lock): (Vec<PluginFile>, Lock),
    options: &[String],
    printer: &Printer,
) -> CliResult<Vec<(EpisodeId, u32, ScoreResult, String)>> {
    plugins::only_rewards(&lock, &[])?;
    let name = given.first().map(|file| file.name().to_owned()).unwrap_or_default();
    let sets: Vec<String> = options.iter().map(|option| format!("plugins.{name}.options.{option}")).collect();
    let mut file = run_file_of(run, &sets)?;
    let mut files = others(run, &mut file, &name)?;
    let has_reward =
        |settings: &EnvironmentSettings| settings.plugins.as_ref().is_none_or(|names| names.contains(&name));
    let scored = file.environment_settings().into_iter().filter(has_reward);
    let scored: BTreeSet<Option<String>> = scored.map(|settings| settings.name).collect();
    files.append(&mut given);
    let mut outcomes = vec![];
    score_run(
        run,
        &file,
        &files,
        |_| true,
        printer,
        |_, now| {
            let now = now.iter().filter(|record| scored.contains(&record.environment));
            outcomes.extend(now.flat_map(|record| of_episode(record, &name)));
            Ok(())
        },
    )
    .await?;
    Ok(outcomes)
}

/// The run's environment and tools; removes other rewards and references to them from the run file.
fn others(run: &RunReader, file: &mut RunFile, name: &str) -> CliResult<Vec<PluginFile>> {
    let lock = run.lock()?;
    let rewards: BTreeSet<&str> = lock
        .entries()
        .iter()
        .filter(|entry| entry.kinds.iter().all(|kind| *kind == Kind::Reward))
        .map(|entry| entry.name.name())
        .collect();
    let is_kept = |plugin: &str| plugin == name || !rewards.contains(plugin);
    file.rules.plugins.retain(|plugin, _| is_kept(plugin));
    file.rules.plugins.values_mut().for_each(|section| section.gate = None);
    for plugins in file.environments.iter_mut().filter_map(|own| own.plugins.as_mut()) {
        plugins.retain(|plugin, _| is_kept(plugin));
        plugins.values_mut().for_each(|section| section.gate = None);
    }
    // Unused, but the run file needs a valid rule.
    file.rules.success = "environment.success".to_owned();
    file.rules.environment.gate = None;
    for own in &mut file.environments {
        (own.gate, own.success) = (None, None);
    }
    Ok(plugins::recorded_files(run)?.into_iter().filter(|file| !rewards.contains(file.name())).collect())
}

fn of_episode(record: &EpisodeRecord, name: &str) -> Vec<(EpisodeId, u32, ScoreResult, String)> {
    let failure = record.failures.iter().rev().find(|failure| failure.call_site == CallSite::Score);
    let failure = failure.map(|failure| failure.message.clone());
    let scores = record.scores.iter().find(|scores| scores.plugin == name).map(|scores| &scores.scores[..]);
    match scores {
        Some(scores) => scores
            .iter()
            .map(|score| (record.id, score.seat, Ok(score.clone()), last_message(record, score.seat)))
            .collect(),
        None => {
            let why = failure.unwrap_or_else(|| format!("{:?}", FailureKind::Refused));
            vec![(record.id, 0, Err(why), last_message(record, 0))]
        }
    }
}

/// First failure, with its version.
fn first_failure(pairs: &[Pair]) -> String {
    let failures = pairs.iter().flat_map(|pair| ["A", "B"].into_iter().zip(&pair.outcomes));
    let mut named = failures.filter_map(|(name, outcome)| Some(format!("{name}: {}", outcome.as_ref().err()?)));
    named.next().unwrap_or_else(|| "all were dropped".to_owned())
}

fn last_message(record: &EpisodeRecord, seat: u32) -> String {
    let said = record.turns.iter().rev().find_map(|turn| match turn {
        Turn::Message { seat: speaker, content } if *speaker == seat => Some(text_of(content)),
        _ => None,
    });
    said.unwrap_or_default()
}

/// The pairs with the largest differences.
fn worst(pairs: &[Pair], most: usize) -> Vec<&Pair> {
    let mut apart: Vec<&Pair> = pairs.iter().filter(|pair| pair.distance() > 0.0).collect();
    apart.sort_by(|one, other| other.distance().total_cmp(&one.distance()));
    apart.truncate(most);
    apart
}

/// Statistics of all pairs.
struct PairStatistics {
    scored: usize,
    /// Failures of one version, by version.
    failed: [usize; 2],
    equal: usize,
    totals: [Vec<f64>; 2],
    reordered: (u64, u64),
    /// Means of components by name; absent in a version without the component.
    components: Vec<(String, [Option<f64>; 2])>,
}

impl PairStatistics {
    fn of(pairs: &[Pair]) -> Self {
        let both: Vec<[f64; 2]> = pairs.iter().filter_map(Pair::totals).collect();
        let totals = [0, 1].map(|side| both.iter().map(|pair| pair[side]).collect::<Vec<f64>>());
        let failed = [0, 1].map(|side| pairs.iter().filter(|pair| pair.outcomes[side].is_err()).count());
        let (mut otherwise, mut all) = (0, 0);
        let group = |pair: &Pair| (pair.episode.stage, pair.episode.phase, pair.episode.step, pair.episode.group);
        for members in pairs.chunk_by(|one, next| group(one) == group(next)) {
            let members: Vec<[f64; 2]> = members.iter().filter_map(Pair::totals).collect();
            let side = |side: usize| members.iter().map(|pair| pair[side]).collect::<Vec<f64>>();
            let (in_group, of) = reordered(&side(0), &side(1));
            (otherwise, all) = (otherwise + in_group, all + of);
        }
        let equal = both.iter().filter(|[one, other]| one == other).count();
        Self { scored: both.len(), failed, equal, totals, reordered: (otherwise, all), components: components(pairs) }
    }

    fn correlation(&self) -> Option<f64> {
        rank_correlation(&self.totals[0], &self.totals[1])
    }

    /// The result with the largest differences.
    fn comparison(&self, versions: [String; 2], worst: &[&Pair]) -> RewardComparison {
        let outcome = |outcome: &ScoreResult| match outcome {
            Ok(score) => ScoreOutcome::Scored(score.clone()),
            Err(why) => ScoreOutcome::Failed { failed: why.clone() },
        };
        let compared = |pair: &&Pair| ComparedEpisode {
            episode: pair.episode.to_string(),
            a: outcome(&pair.outcomes[0]),
            b: outcome(&pair.outcomes[1]),
        };
        RewardComparison {
            versions,
            scored: self.scored,
            failed: Sides { a: self.failed[0], b: self.failed[1] },
            equal: self.equal,
            a: summary(&self.totals[0]),
            b: summary(&self.totals[1]),
            rank_correlation: self.correlation(),
            reordered_pairs: self.reordered.0,
            pairs: self.reordered.1,
            components: self.components.iter().map(|(name, [a, b])| (name.clone(), Sides { a: *a, b: *b })).collect(),
            worst: worst.iter().map(compared).collect(),
        }
    }

    fn print(&self, printer: &Printer) {
        let mut rows = vec![["total", "mean", "std", "min", "25 %", "50 %", "75 %", "max"].map(ToOwned::to_owned)];
        for (name, totals) in ["A", "B"].into_iter().zip(&self.totals) {
            if let Some(SummaryStats { mean, deviation, quartiles: [a, b, c, d, e] }) = summary(totals) {
                let numbers = [mean, deviation, a, b, c, d, e].map(|number| format!("{number:.4}"));
                let [mean, deviation, a, b, c, d, e] = numbers;
                rows.push([name.to_owned(), mean, deviation, a, b, c, d, e]);
            }
        }
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.4}"));
        columns(&rows.into_iter().map(Vec::from).collect::<Vec<_>>()).into_iter().for_each(|line| printer.result(line));
        let mut rows = vec![vec!["component".to_owned(), "A".to_owned(), "B".to_owned()]];
        rows.extend(self.components.iter().map(|(name, [a, b])| vec![name.clone(), shown(*a), shown(*b)]));
        columns(&rows).into_iter().for_each(|line| printer.result(line));
        printer.result(format!("equal: {} of {}", self.equal, self.scored));
        printer.result(format!("rank correlation: {}", shown(self.correlation())));
        let (otherwise, pairs) = self.reordered;
        printer.result(format!("reordered within their group: {otherwise} of {pairs} pairs"));
        for (name, failed) in ["A", "B"].into_iter().zip(self.failed).filter(|(_, failed)| *failed > 0) {
            printer.result(format!("{name} failed to score {failed}"));
        }
    }
}

fn components(pairs: &[Pair]) -> Vec<(String, [Option<f64>; 2])> {
    let scores = |side: usize| pairs.iter().filter_map(move |pair| pair.outcomes[side].as_ref().ok());
    let names: BTreeSet<&str> = [0, 1]
        .into_iter()
        .flat_map(scores)
        .flat_map(|score| score.components.iter().map(|component| component.name.as_str()))
        .collect();
    let of = |side: usize, name: &str| {
        let parts = scores(side).flat_map(|score| &score.components);
        mean(&parts.filter(|part| part.name == name).map(|part| part.value).collect::<Vec<f64>>())
    };
    names.into_iter().map(|name| (name.to_owned(), [of(0, name), of(1, name)])).collect()
}

fn print_worst(worst: &[&Pair], printer: &Printer) {
    for pair in worst {
        let message: String = escape_terminal(&pair.last).chars().take(200).collect();
        printer.result(format!("episode {}: {}", pair.episode, message.replace('\n', " ")));
        for (name, outcome) in ["A", "B"].into_iter().zip(&pair.outcomes) {
            printer.result(match outcome {
                Err(why) => format!("  {name}: failed: {}", escape_terminal(why)),
                Ok(score) => {
                    let parts = score.components.iter().map(|part| format!("{} {:.4}", part.name, part.value));
                    let notes = score.evidence.iter().map(|evidence| escape_terminal(&evidence.note).into_owned());
                    let more: Vec<String> = parts.chain(notes).collect();
                    format!("  {name}: {:.4}  ({})", score.total, more.join(", "))
                }
            });
        }
    }
}
