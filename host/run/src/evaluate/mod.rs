//! Evaluation: held-out tasks before and after each stage, and models by themselves.

mod figures;
pub(crate) mod points;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gymkhana_config::{Checkpoint, EnvironmentSettings, RunFile, SeatBinding};
use gymkhana_policy::Sampling;
use gymkhana_record::{Ending, EpisodeRecord, Phase, PolicyTurn, Seed, TaskRef, Turn};
use gymkhana_registry::PluginFile;
use gymkhana_rollout::{PluginSet, StartAgent};
use gymkhana_sandbox::GuestThreads;
use gymkhana_trainer::TrainerSettings;
use tokio::sync::Semaphore;

use crate::evaluate::figures::Attempt;
use crate::seats::frozen::Frozen;
use crate::seats::{self, SeatPolicies, weight_sync};
use crate::setup::chat::chat_format;
use crate::setup::check_fit;
use crate::setup::models::Models;
use crate::stages::batch;
use crate::stages::replies::Replies;
use crate::stages::tally::{BatchFailures, FailureTally};
use gymkhana_orchestration::environments::{self, BoundEnvironment, Environments};
use gymkhana_orchestration::grants::{AssetFiles, OutboundMode};
use gymkhana_orchestration::plugins;
use gymkhana_orchestration::scheduler::{FinishedGroup, GroupBatch, GroupRunner, GroupTask, Scheduler};
use gymkhana_orchestration::tasks::count_tasks;
use gymkhana_orchestration::{Classify, RunError, RunResult};
use gymkhana_orchestration::{ProgressFigures, Reporter, SuccessRate, Work};
use gymkhana_orchestration::{places, rewards, rollout};

pub use figures::{AtTurn, Figures};

/// Input of an evaluation.
pub struct EvalRequest {
    /// Run file: environment, options, rewards, limits.
    pub file: RunFile,
    /// Plugins of the run file.
    pub plugins: Vec<PluginFile>,
    /// Assets of the plugins.
    pub assets: AssetFiles,
    /// Model to evaluate.
    pub checkpoint: Checkpoint,
    /// Split of tasks; `environment.eval` if absent.
    pub split: Option<String>,
    /// Maximum number of tasks; `evaluation.tasks` if absent.
    pub tasks: Option<u64>,
    /// Attempts per task.
    pub samples: u32,
    /// Sampling of tokens.
    pub sampling: Sampling,
    /// Starts the agent program of the run file; absent in a program without the gateway.
    pub agents: Option<StartAgent>,
}

/// Result of an evaluation.
pub struct Evaluated {
    /// The model, with its commit if it came from a hub.
    pub model: Checkpoint,
    /// Attempts per task.
    pub samples: u32,
    /// Figures of each environment, in the order of the run file.
    pub environments: Vec<EvaluatedEnvironment>,
    /// Success, cost and reward over all environments.
    pub figures: Figures,
    /// Episodes dropped because the host or a model failed.
    pub dropped: usize,
    /// Failures of all episodes.
    pub failures: FailureTally,
}

/// Result of an evaluation on one environment.
pub struct EvaluatedEnvironment {
    /// Name of the environment, in a run with several.
    pub name: Option<String>,
    /// Split of the tasks.
    pub split: String,
    /// Success, cost and reward; absent if every episode was dropped.
    pub figures: Option<Figures>,
    /// Episodes dropped because the host or a model failed.
    pub dropped: usize,
    /// Episodes with a failure.
    pub failed: u64,
}

/// Outcome of all attempts.
struct Played {
    /// Attempts and dropped episodes of each environment, by its index.
    environments: Vec<(Vec<Attempt>, usize)>,
    failures: BatchFailures,
}

/// Evaluates a model.
///
/// # Errors
/// If the plugins do not fit the run file, or the share of failed episodes exceeds `failures.limit`.
pub async fn evaluate(request: EvalRequest, reporter: &Arc<dyn Reporter>) -> RunResult<Evaluated> {
    let EvalRequest { mut file, plugins, assets, checkpoint, split, tasks, samples, sampling, agents } = request;
    rollout::starts_agents(&file, agents.is_some())?;
    let parts = parts(&file, &checkpoint)?;
    (file.policy.checkpoint, file.policy.tiny) = (Some(checkpoint.clone()), None);
    if let Some(split) = split {
        file.environments.iter_mut().for_each(|entry| entry.eval.clone_from(&split));
        if file.environments.is_empty() {
            file.rules.environment.eval = split;
        }
    }
    let sandbox = plugins::sandbox(&file.rules.sandbox, reporter)?;
    let loaded = plugins::load(&file.rules, &file.wrappers(), &sandbox, &plugins, &assets, OutboundMode::Live)?;
    let bound = environments::bind(&file, loaded).await?;
    for environment in &bound {
        check_playable(&file, environment, sandbox.counters().places).map_err(|error| environment.blame(error))?;
    }
    let tasks = held_out_tasks(&bound, tasks).await?;
    let set = environments::first_set(&bound)?;
    let places = sandbox.counters().places;
    let ordered = batch::deterministic_places(&file, set)?;
    let slots = ordered.map_or(file.policy.max_concurrent_sequences, |places| places * set.seats());
    let models = Models::pin(&mut file, None, parts.is_some(), reporter).await?;
    let left_off = parts.as_ref().map(|(folder, name)| (folder.as_path(), name.as_str()));
    let settings = TrainerSettings { learns: false, ..seats::settings(&file, slots) };
    let mut seats = seats::start(&file, &models, set, &settings, left_off, &Frozen::new(), reporter).await?;
    weight_sync::connect(&mut seats, &file, reporter).await?;
    if let Some(server) = &file.policy.server {
        reporter.status(&format!("evaluating the server at {} with its current weights", server.url));
    }
    file.fit_model(seats.context()).user_error()?;
    let bound = environments::with_file(bound, &file);
    let environments = Environments::open(&file, bound, || chat_format(seats.policy().files()), ordered, agents)?;
    for environment in environments.iter() {
        check_fit(environment, &environment.settings.rules.environment.eval, Seed(file.seed), seats.context()).await?;
    }
    let in_flight = file.policy.max_concurrent_sequences.min(places as usize / environments.places());
    let permits = Arc::new(Semaphore::new(in_flight));
    let guests = GuestThreads::start().internal()?;
    let seeds = Seed(file.seed).child("episode");
    let rollouts = environments.rollouts();
    let runner =
        GroupRunner { rollouts, seats, seeds, stage: 0, guests: guests.handle().clone(), permits, remote: None };
    let tasks = tasks.into_iter().flat_map(|task| (0..samples).map(move |_| task.clone())).collect();
    let phase = if sampling.is_greedy() { Phase::After } else { Phase::AfterSampled };
    let batch = GroupBatch::of_single_episodes(phase, 0, tasks, sampling);
    let played = play(runner, &batch, samples, &environments, reporter).await?;
    played.failures.total.judge(file.rules.failures.limit, played.failures.tally.last.clone())?;
    let all: Vec<Attempt> = played.environments.iter().flat_map(|(attempts, _)| attempts).copied().collect();
    let empty = || RunError::user("no results: every episode was dropped\nhint: fix the failures reported above");
    let figures = Figures::of(&all, samples as usize).ok_or_else(empty)?;
    let own = environments.iter().zip(&played.environments).map(|(environment, (attempts, dropped))| {
        let name = environment.settings.name.clone();
        let failed = match name.as_ref().and_then(|name| played.failures.environments.get(name)) {
            Some((failures, _)) => failures.failed,
            None if name.is_none() => played.failures.total.failed,
            None => 0,
        };
        let (split, figures) =
            (environment.settings.rules.environment.eval.clone(), Figures::of(attempts, samples as usize));
        EvaluatedEnvironment { name, split, figures, dropped: *dropped, failed }
    });
    let own: Vec<EvaluatedEnvironment> = own.collect();
    let dropped = own.iter().map(|environment| environment.dropped).sum();
    let model = file.policy.checkpoint.unwrap_or(checkpoint);
    Ok(Evaluated { model, samples, environments: own, figures, dropped, failures: played.failures.tally })
}

/// Rejects an environment whose seats or agent program cannot play.
fn check_playable(file: &RunFile, environment: &BoundEnvironment, places: u32) -> RunResult<()> {
    let set = &environment.set;
    gymkhana_orchestration::seats::check(&environment.settings.rules, set)?;
    rollout::check_agent(file, set)?;
    places::check_group("evaluation", 1, set, places)
}

/// Held-out tasks of all environments, at most `most` of each if given.
async fn held_out_tasks(bound: &[BoundEnvironment], most: Option<u64>) -> RunResult<Vec<GroupTask>> {
    let mut tasks = Vec::new();
    for (index, environment) in bound.iter().enumerate() {
        let EnvironmentSettings { rules, eval_tasks, .. } = &environment.settings;
        let split = &rules.environment.eval;
        // An evaluation of one environment has at least one task.
        let own = if bound.len() == 1 { (*eval_tasks).max(1) } else { *eval_tasks };
        let own = held_out_of(&environment.set, split, index, most.unwrap_or(own)).await;
        tasks.extend(own.map_err(|error| environment.blame(error))?);
    }
    Ok(tasks)
}

/// Parent folder and name of the checkpoint, if separate seats have models stored beside it.
fn parts(file: &RunFile, checkpoint: &Checkpoint) -> RunResult<Option<(PathBuf, String)>> {
    let separate = file.rules.seats.iter().find(|(_, seat)| seat.policy == SeatBinding::Separate);
    let Some((seat, _)) = separate else { return Ok(None) };
    let Checkpoint::Folder(folder) = checkpoint else {
        return Err(RunError::user(format!(
            "seats.{seat} needs its own model, which is stored beside the run's checkpoint\nhint: give the folder of \
             that checkpoint"
        )));
    };
    let missing = format!("`{}` cannot be opened\nhint: check the path", folder.display());
    let whole = folder.canonicalize().user_context(missing)?;
    let name = whole.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(whole.parent().map(Path::to_owned).zip(name))
}

/// Plays all attempts, `samples` of each task.
async fn play(
    runner: GroupRunner<SeatPolicies>,
    batch: &GroupBatch,
    samples: u32,
    environments: &Environments,
    reporter: &Arc<dyn Reporter>,
) -> RunResult<Played> {
    let seats = runner.seats.clone();
    let progress = reporter.progress(Work::new("evaluating", batch.tasks.len() as u64));
    let mut scheduler = Scheduler::new(runner);
    let _in_flight = scheduler.start(batch);
    let mut ended: Vec<(usize, Option<Attempt>)> = Vec::new();
    let mut failures = BatchFailures::default();
    let (mut done, mut solved, mut played) = (0, 0, 0);
    while let Some(arrival) = scheduler.next().await {
        let FinishedGroup { place, records, .. } = arrival?;
        for record in &records {
            let environment = environments.of(record)?;
            let checked = environment.rollout.check_facts(record);
            checked.map_err(|error| environment.blame(rewards::with_nearest_name(&error)))?;
            failures.count(record);
            let replies = Replies::of([record], seats.own_seats(), environments);
            let attempt = attempt(record, place as u64 / u64::from(samples), &seats, replies);
            solved += u64::from(attempt.is_some_and(|attempt| attempt.success));
            played += u64::from(attempt.is_some());
            ended.push((place, attempt));
        }
        done += 1;
        let success = Some(SuccessRate::SoFar { solved, played });
        let others = failures.tally.figure();
        progress.at(done, &ProgressFigures { success, others });
    }
    // In the order of tasks, so that sums do not depend on timing.
    ended.sort_by_key(|(place, _)| *place);
    let mut of_environments = vec![(Vec::new(), 0); environments.iter().count()];
    for (place, attempt) in ended {
        let (attempts, dropped) = &mut of_environments[batch.tasks[place].environment];
        match attempt {
            Some(attempt) => attempts.push(attempt),
            None => *dropped += 1,
        }
    }
    Ok(Played { environments: of_environments, failures })
}

/// Statistics of a record of this task; `None` if the host dropped the episode.
fn attempt(record: &EpisodeRecord, task: u64, seats: &SeatPolicies, replies: Replies) -> Option<Attempt> {
    let own = |seat: &u32| seats.own_seats().contains(seat);
    let is_turn = |turn: &&PolicyTurn| own(&turn.seat) && turn.note.is_none();
    let calls = |is_kind: fn(&Turn) -> bool| {
        let own_calls = record.turns.iter().filter(|turn| turn.caller().is_some_and(|seat| own(&seat)));
        own_calls.filter(|turn| is_kind(turn)).count()
    };
    (record.ending != Ending::Dropped).then(|| Attempt {
        task,
        success: record.success,
        turns: record.policy_turns.iter().filter(is_turn).count(),
        replies: replies.count,
        cut_replies: replies.cut,
        calls: calls(|turn| matches!(turn, Turn::Call { .. })),
        malformed_calls: calls(|turn| matches!(turn, Turn::MalformedCall { .. })),
        reward: seats.own_seats().iter().filter_map(|seat| record.rewards.get(*seat as usize)).sum(),
    })
}

/// The first tasks of a split of the environment with this index, at most `most`. The same tasks each time, once each, so
/// that success rates are comparable.
async fn held_out_of(set: &PluginSet, split: &str, environment: usize, most: u64) -> RunResult<Vec<GroupTask>> {
    if most == 0 {
        return Ok(vec![]);
    }
    let count = count_tasks(set, split).await?.map_or(most, |count| count.min(most));
    let task = |index| TaskRef { split: split.to_owned(), index };
    Ok((0..count).map(|index| GroupTask { environment, task: task(index), turns: None, attempts: None }).collect())
}
