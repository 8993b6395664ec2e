//! Checks at the start of a run: an ordered list per phase, one function per check.
//!
//! A check reads its phase and returns the first problem that the user must fix. The run's folder is not written before
//! the last list has passed.

use gymkhana_config::{RlStage, RunFile, Stage};
use gymkhana_nearest::did_you_mean;
use gymkhana_record::{Seed, TaskRef};
use gymkhana_rollout::{ContextStrategy, ProbeError, Rollout, SeatPlayer, TurnProbe};
use gymkhana_trainer::Requirement;

use crate::agreement;
use crate::oracle;
use crate::resume::same_run_file;
use crate::stages::batch;
use crate::start::{Assembled, Opened, Resolved};
use gymkhana_orchestration::rewards;
use gymkhana_orchestration::scheduler::SeatPlayers;
use gymkhana_orchestration::seats;
use gymkhana_orchestration::{Classify, Reporter, RunError, RunResult};

/// Checks of the run file by itself.
pub(crate) const RESOLVED: [fn(&Resolved) -> RunResult<()>; 2] = [learns_from_server, teachers_exist];

/// Checks of the run file against the plugins.
pub(crate) const ASSEMBLED: [fn(&Assembled) -> RunResult<()>; 4] =
    [seats_exist, groups_fit, deterministic_places, companions_present];

/// Checks of the run file against the models and, when resuming, against the run's folder.
pub(crate) const OPENED: [fn(&Opened) -> RunResult<()>; 4] =
    [run_file_holds, same_run, checkpoint_agrees, policies_can_score];

fn learns_from_server(run: &Resolved) -> RunResult<()> {
    run.request.file.check_learns_from_server().user_error()
}

/// Checks teachers early, because they are opened only when their stage begins.
fn teachers_exist(run: &Resolved) -> RunResult<()> {
    for stage in &run.request.file.stages {
        if let Stage::Rl(RlStage { name, teacher: Some(folder), .. }) = stage
            && !folder.join("config.json").is_file()
        {
            return Err(RunError::user(format!(
                "the teacher of stage `{name}`, `{}`, is not a model: config.json is missing\nhint: name a \
                 checkpoint's folder",
                folder.display()
            )));
        }
    }
    Ok(())
}

fn seats_exist(run: &Assembled) -> RunResult<()> {
    seats::check(&run.file, &run.set)
}

fn groups_fit(run: &Assembled) -> RunResult<()> {
    batch::check_places(&run.file, &run.set, run.places)
}

fn deterministic_places(run: &Assembled) -> RunResult<()> {
    batch::deterministic_places(&run.file, &run.set).map(|_| ())
}

fn run_file_holds(run: &Opened) -> RunResult<()> {
    run.file.check().user_error()
}

fn same_run(run: &Opened) -> RunResult<()> {
    run.folder.as_ref().map_or(Ok(()), |folder| same_run_file(folder, run.state.as_ref(), &run.file))
}

fn checkpoint_agrees(run: &Opened) -> RunResult<()> {
    match run.folder.as_ref().zip(run.state.as_ref()) {
        Some((folder, state)) => agreement::checkpoint(folder, &state.checkpoint, &run.seats),
        None => Ok(()),
    }
}

fn policies_can_score(run: &Opened) -> RunResult<()> {
    for (seat, player) in run.seats.seats.iter().zip(run.seats.players()) {
        if let SeatPlayer::Policy(policy) = player {
            run.rollout.check_policy(seat, policy).user_error()?;
        }
    }
    Ok(())
}

/// A preset that needs a companion (a probe, a plan, a gate …) would train something else without it.
fn companions_present(run: &Assembled) -> RunResult<()> {
    for stage in &run.file.stages {
        let Stage::Rl(stage) = stage else { continue };
        let preset = stage.preset().user_error()?;
        if let Some(missing) = preset.requires().iter().find(|needed| !is_met(**needed, stage, run)) {
            let (stage, algorithm) = (&stage.name, &stage.algorithm);
            return Err(RunError::user(format!(
                "stage `{stage}`: algorithm `{algorithm}` needs {}",
                missing.description()
            ))
            .with_hint(format!("add lines such as\n{}", missing.example())));
        }
    }
    Ok(())
}

fn is_met(needed: Requirement, stage: &RlStage, run: &Assembled) -> bool {
    let file = &run.file;
    match needed {
        Requirement::AnswerProbe => matches!(file.probe, Some(TurnProbe::Answer(_))),
        Requirement::BranchPlan => stage.plan.kind() == "branch",
        Requirement::OversamplePlan => stage.plan.kind() == "oversample",
        Requirement::TurnSchedule => stage.turns.is_some(),
        Requirement::RewardGate => {
            file.environment.gate.is_some() || file.rewards.values().any(|reward| reward.gate.is_some())
        }
        Requirement::CallEfficiencyReward => run.set.reward_names().any(|name| name == "tool-efficiency"),
        Requirement::SummaryContext => matches!(file.context, ContextStrategy::Summary(_)),
    }
}

/// Last checks, in their order. They start episodes of the first training task.
pub(crate) async fn pass_trials(file: &RunFile, rollout: &Rollout, reporter: &dyn Reporter) -> RunResult<()> {
    let task = TaskRef { split: file.environment.train.clone(), index: 0 };
    task_has_answer(file, rollout, &task).await?;
    oracle::has_functions(file, rollout, &task, reporter).await?;
    facts_exist(file, rollout, &task).await
}

/// A mistyped fact is found here and not after an evaluation, if the environment has an oracle.
async fn facts_exist(file: &RunFile, rollout: &Rollout, task: &TaskRef) -> RunResult<()> {
    let checked = rollout.check_oracle_facts(task, Seed(file.seed)).await;
    checked.map_err(|error| rewards::with_nearest_name(&error))
}

/// The task must have the field that the probe scores.
async fn task_has_answer(file: &RunFile, rollout: &Rollout, task: &TaskRef) -> RunResult<()> {
    rollout.check_answer(task, Seed(file.seed)).await.map_err(|error| {
        let near = match &error {
            ProbeError::NoField { field, known, .. } => did_you_mean(field, known.iter().map(String::as_str)),
            ProbeError::CannotScore { .. } | ProbeError::NoView { .. } => String::new(),
        };
        RunError::user(format!("{error}{near}"))
    })
}

/// Runs a list of checks in order; returns the first error.
pub(crate) fn pass<T>(run: &T, checks: &[fn(&T) -> RunResult<()>]) -> RunResult<()> {
    checks.iter().try_for_each(|check| check(run))
}
