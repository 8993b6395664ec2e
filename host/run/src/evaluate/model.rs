//! Evaluation of a model on held-out tasks, given its folder or its name on a hub.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gymkhana_config::{Checkpoint, RunFile, SeatBinding};
use gymkhana_policy::Sampling;
use gymkhana_record::{Ending, EpisodeRecord, Phase, PolicyTurn, Seed, TaskRef, Turn};
use gymkhana_rollout::Rollout;
use gymkhana_sandbox::GuestThreads;
use gymkhana_trainer::Settings;
use tokio::sync::Semaphore;

use super::figures::{Attempt, Figures};
use crate::seats::frozen::Frozen;
use crate::seats::{self, SeatPolicies, weight_sync};
use crate::setup::chat::chat_format;
use crate::setup::models::Models;
use crate::stages::batch;
use crate::stages::tally::{FailureTally, Failures, failed_figure};
use gymkhana_orchestration::grants::{AssetFiles, OutboundMode};
use gymkhana_orchestration::plugins::{self, PluginFile};
use gymkhana_orchestration::scheduler::{Batch, FinishedGroup, GroupRunner, Scheduler};
use gymkhana_orchestration::tasks;
use gymkhana_orchestration::{Classify, RunError, RunResult};
use gymkhana_orchestration::{ProgressFigures, Reporter, SuccessRate, Work};
use gymkhana_orchestration::{places, rewards, rollout};

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
}

/// Result of an evaluation.
pub struct Evaluated {
    /// The model, with its commit if it came from a hub.
    pub model: Checkpoint,
    /// Split of the tasks.
    pub split: String,
    /// Attempts per task.
    pub samples: u32,
    /// Success, cost and reward.
    pub figures: Figures,
    /// Episodes dropped because the host or a model failed.
    pub dropped: usize,
    /// Failures of all episodes.
    pub failures: FailureTally,
}

/// Outcome of all attempts.
struct Played {
    attempts: Vec<Attempt>,
    dropped: usize,
    failures: FailureTally,
}

/// Evaluates a model.
///
/// # Errors
/// If the plugins do not fit the run file, or the share of failed episodes exceeds `failures.limit`.
pub async fn evaluate(request: EvalRequest, reporter: &Arc<dyn Reporter>) -> RunResult<Evaluated> {
    let EvalRequest { mut file, plugins, assets, checkpoint, split, tasks, samples, sampling } = request;
    let parts = parts(&file, &checkpoint)?;
    (file.policy.checkpoint, file.policy.tiny) = (Some(checkpoint.clone()), None);
    if let Some(split) = split {
        file.environment.eval = split;
    }
    let split = file.environment.eval.clone();
    let sandbox = plugins::sandbox(&file, reporter)?;
    let set = plugins::assemble(&file, &sandbox, &plugins, &assets, OutboundMode::Live).await?;
    let rewards = rewards::reward_sum(&file, &set)?;
    gymkhana_orchestration::seats::check(&file, &set)?;
    rollout::check_agent(&file, &set)?;
    let most = tasks.unwrap_or(file.evaluation.tasks.max(1));
    let count = tasks::count_tasks(&set, &split).await?.map_or(most, |count| count.min(most));
    let places = sandbox.counters().places;
    places::check_group("evaluation", 1, &set, places)?;
    let ordered = batch::deterministic_places(&file, &set)?;
    let slots = ordered.map_or(file.policy.max_concurrent_sequences, |places| places * set.seats());
    let models = Models::pin(&mut file, None, parts.is_some(), reporter).await?;
    let left_off = parts.as_ref().map(|(folder, name)| (folder.as_path(), name.as_str()));
    let settings = Settings { learns: false, ..seats::settings(&file, slots) };
    let mut seats = seats::start(&file, &models, &set, &settings, left_off, &Frozen::new())?;
    weight_sync::connect(&mut seats, &file, reporter).await?;
    if let Some(server) = &file.policy.server {
        reporter.status(&format!("evaluating the server at {} with its current weights", server.url));
    }
    file.limits.fit_model(seats.context()).user_error()?;
    let in_flight = file.policy.max_concurrent_sequences.min(places::most_in_flight(&set, places));
    let permits = Arc::new(Semaphore::new(in_flight));
    let rollout = rollout::rollout(&file, set, chat_format(seats.policy())?, rewards, ordered)?;
    let rollout = Arc::new(rollout::with_agent(rollout, &file)?);
    let guests = GuestThreads::start().internal()?;
    let seeds = Seed(file.seed).child("episode");
    let runner = GroupRunner { rollout, seats, seeds, stage: 0, guests: guests.handle().clone(), permits };
    let tasks = (0..count).flat_map(|index| (0..samples).map(move |_| index));
    let tasks = tasks.map(|index| TaskRef { split: split.clone(), index }).collect();
    let phase = if sampling.is_greedy() { Phase::After } else { Phase::AfterSampled };
    let batch = Batch::of_single_episodes(phase, 0, tasks, sampling);
    let Played { attempts, dropped, failures } = play(runner, &batch, file.failures.limit, reporter).await?;
    let empty = || RunError::user("no results: every episode was dropped\nhint: fix the failures reported above");
    let figures = Figures::of(&attempts, samples as usize).ok_or_else(empty)?;
    let model = file.policy.checkpoint.unwrap_or(checkpoint);
    Ok(Evaluated { model, split, samples, figures, dropped, failures })
}

/// Parent folder and name of the checkpoint, if separate seats have models stored beside it.
fn parts(file: &RunFile, checkpoint: &Checkpoint) -> RunResult<Option<(PathBuf, String)>> {
    let separate = file.seats.iter().find(|(_, seat)| seat.policy == SeatBinding::Separate);
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

/// Plays all attempts; fails when the share of failed episodes exceeds `limit`.
async fn play(
    runner: GroupRunner<SeatPolicies>,
    batch: &Batch,
    limit: f64,
    reporter: &Arc<dyn Reporter>,
) -> RunResult<Played> {
    let (seats, rollout) = (runner.seats.clone(), Arc::clone(&runner.rollout));
    let progress = reporter.progress(Work::new("evaluating", batch.tasks.len() as u64));
    let mut scheduler = Scheduler::new(runner);
    let _in_flight = scheduler.start(batch);
    let mut ended: Vec<(usize, Attempt)> = Vec::new();
    let (mut failures, mut tally) = (Failures::default(), FailureTally::default());
    let (mut done, mut dropped) = (0, 0);
    while let Some(arrival) = scheduler.next().await {
        let FinishedGroup { place, records, .. } = arrival?;
        for record in &records {
            check(&rollout, record)?;
            failures.count(record);
            tally.count(record.id, &record.failures);
            match attempt(record, &seats) {
                Some(attempt) => ended.push((place, attempt)),
                None => dropped += 1,
            }
        }
        done += 1;
        let solved = ended.iter().filter(|(_, attempt)| attempt.success).count() as u64;
        let success = Some(SuccessRate::SoFar { solved, played: ended.len() as u64 });
        progress.at(done, &ProgressFigures { success, others: failed_figure(tally.episodes) });
    }
    failures.judge(limit, tally.last.clone())?;
    // Sorted by task, so that sums do not depend on timing.
    ended.sort_by_key(|(place, _)| *place);
    let attempts = ended.into_iter().map(|(_, attempt)| attempt).collect();
    Ok(Played { attempts, dropped, failures: tally })
}

fn check(rollout: &Rollout, record: &EpisodeRecord) -> RunResult<()> {
    rollout.check_facts(record).map_err(|error| rewards::with_nearest_name(&error))
}

/// Statistics of a record; `None` if the host dropped the episode.
fn attempt(record: &EpisodeRecord, seats: &SeatPolicies) -> Option<Attempt> {
    let own = |seat: &u32| seats.own_seats().contains(seat);
    let is_turn = |turn: &&PolicyTurn| own(&turn.seat) && turn.note.is_none();
    let calls = |is_kind: fn(&Turn) -> bool| {
        let own_calls = record.turns.iter().filter(|turn| turn.caller().is_some_and(|seat| own(&seat)));
        own_calls.filter(|turn| is_kind(turn)).count()
    };
    (record.ending != Ending::Dropped).then(|| Attempt {
        task: record.task.index,
        success: record.success,
        turns: record.policy_turns.iter().filter(is_turn).count(),
        calls: calls(|turn| matches!(turn, Turn::Call { .. })),
        malformed_calls: calls(|turn| matches!(turn, Turn::MalformedCall { .. })),
        reward: seats.own_seats().iter().filter_map(|seat| record.rewards.get(*seat as usize)).sum(),
    })
}
