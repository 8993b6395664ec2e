//! Checks at the start of a run: an ordered list per phase, one function per check.
//!
//! A check reads its phase and returns the first problem that the user must fix. The run's folder is not written before
//! the last list has passed.

use std::collections::BTreeSet;
use std::pin::Pin;

use gymkhana_config::{RlStage, Stage, ToolsInPrompt};
use gymkhana_nearest::did_you_mean;
use gymkhana_record::{Seed, TaskRef};
use gymkhana_rollout::{ContextStrategy, PluginSet, ProbeError, SamplingPlan, SeatPlayer, TurnProbe};
use gymkhana_sandbox::OptionalInterface;
use gymkhana_trainer::PresetRequirement;

use super::memory;
use super::phases::{Assembled, OpenedRun, Pinned, Prepared, Resumed};
use super::request::RunRequest;
use crate::agreement;
use crate::oracle;
use crate::resume::{self, taken};
use crate::seats::weight_sync;
use crate::setup::check_fit;
use crate::stages::{batch, tasks};
use gymkhana_orchestration::environments::{BoundEnvironment, RunEnvironment};
use gymkhana_orchestration::rollout;
use gymkhana_orchestration::seat_players::SeatPlayers;
use gymkhana_orchestration::seats;
use gymkhana_orchestration::{Classify, RunError, RunResult};

/// Result of a check that waits for a plugin or a server.
type Checked<'a> = Pin<Box<dyn Future<Output = RunResult<()>> + Send + 'a>>;

/// A check of the phase `T`.
pub(crate) enum PhaseCheck<T> {
    /// Compares what is there.
    Read(fn(&T) -> RunResult<()>),
    /// Calls a plugin or a server.
    Call(for<'a> fn(&'a T) -> Checked<'a>),
}

/// Checks before anything is opened.
pub(crate) const REQUESTED: [PhaseCheck<RunRequest>; 2] =
    [PhaseCheck::Read(folder_is_free), PhaseCheck::Read(starts_agents)];

/// Checks of the run file by itself.
pub(crate) const RESOLVED: [PhaseCheck<RunRequest>; 2] =
    [PhaseCheck::Read(learns_from_server), PhaseCheck::Read(teachers_exist)];

/// Checks of the run file against the plugins.
pub(crate) const ASSEMBLED: [PhaseCheck<Assembled>; 7] = [
    PhaseCheck::Call(splits_exist),
    PhaseCheck::Read(seats_exist),
    PhaseCheck::Read(groups_fit),
    PhaseCheck::Read(deterministic_places),
    PhaseCheck::Read(companions_present),
    PhaseCheck::Read(guidance_is_offered),
    PhaseCheck::Read(agent_can_play),
];

/// Checks of the folder of a resumed run.
pub(crate) const REOPENED: [PhaseCheck<Resumed>; 4] = [
    PhaseCheck::Read(run_file_is_intact),
    PhaseCheck::Read(state_is_there),
    PhaseCheck::Read(same_plugins),
    PhaseCheck::Read(position_agrees),
];

/// Checks before models are opened.
pub(crate) const PINNED: [PhaseCheck<Pinned>; 2] = [PhaseCheck::Read(same_seats), PhaseCheck::Read(memory::fits)];

/// Checks of the run file against the models and, when resuming, against the run's folder. The last ones start episodes
/// of the first training task of each environment.
pub(crate) const OPENED: [PhaseCheck<OpenedRun>; 12] = [
    PhaseCheck::Read(models_are_as_read),
    PhaseCheck::Read(run_file_holds),
    PhaseCheck::Read(same_run),
    PhaseCheck::Read(checkpoint_agrees),
    PhaseCheck::Read(policies_can_score),
    PhaseCheck::Call(task_has_answer),
    PhaseCheck::Call(rewards_find_fields),
    PhaseCheck::Call(oracle_has_functions),
    PhaseCheck::Call(oracle_can_play),
    PhaseCheck::Call(prompts_fit),
    PhaseCheck::Call(conversations_call_offered),
    PhaseCheck::Call(template_shows_all),
];

/// Checks of a run that is about to train. A plan of a run leaves them out, because they change the server.
pub(crate) const PREPARED: [PhaseCheck<Prepared>; 1] = [PhaseCheck::Call(server_takes_weights)];

/// Runs a list of checks in order.
///
/// # Errors
/// The first error of a check.
pub(crate) async fn pass<T>(phase: &T, checks: &[PhaseCheck<T>]) -> RunResult<()> {
    for check in checks {
        match check {
            PhaseCheck::Read(check) => check(phase)?,
            PhaseCheck::Call(check) => check(phase).await?,
        }
    }
    Ok(())
}

fn folder_is_free(request: &RunRequest) -> RunResult<()> {
    if request.resume { Ok(()) } else { taken::check(&request.out, request.overwrite) }
}

fn learns_from_server(run: &RunRequest) -> RunResult<()> {
    run.file.check_learns_from_server().user_error()
}

/// Checks teachers early, because they are opened only when their stage begins.
fn teachers_exist(run: &RunRequest) -> RunResult<()> {
    for stage in &run.file.stages {
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

fn splits_exist(run: &Assembled) -> Checked<'_> {
    Box::pin(tasks::check_splits(&run.file.stages, &run.bound))
}

/// Checks each environment.
fn each(run: &Assembled, check: impl Fn(&BoundEnvironment) -> RunResult<()>) -> RunResult<()> {
    run.bound.iter().try_for_each(|bound| check(bound).map_err(|error| bound.blame(error)))
}

fn seats_exist(run: &Assembled) -> RunResult<()> {
    each(run, |bound| seats::check(&bound.settings.rules, &bound.set))
}

fn groups_fit(run: &Assembled) -> RunResult<()> {
    each(run, |bound| batch::check_places(&run.file.stages, bound, run.places))
}

fn deterministic_places(run: &Assembled) -> RunResult<()> {
    each(run, |bound| batch::deterministic_places(&run.file, &bound.set).map(drop))
}

fn starts_agents(request: &RunRequest) -> RunResult<()> {
    rollout::starts_agents(&request.file, request.agents.is_some())
}

fn agent_can_play(run: &Assembled) -> RunResult<()> {
    each(run, |bound| rollout::check_agent(&run.file, &bound.set))
}

fn run_file_is_intact(run: &Resumed) -> RunResult<()> {
    Ok(run.folder.reader().run_text().map(drop)?)
}

fn state_is_there(run: &Resumed) -> RunResult<()> {
    resume::state_is_there(&run.folder, run.state.as_ref())
}

fn same_plugins(run: &Resumed) -> RunResult<()> {
    resume::same_plugins(&run.folder, run.state.as_ref(), &run.lock)
}

/// A run file that this host cannot parse differs from the given one, which is reported later.
fn position_agrees(run: &Resumed) -> RunResult<()> {
    match run.state.as_ref().zip(resume::begun_as(&run.folder)) {
        Some((state, begun)) => agreement::position(&run.folder, state, &begun.stages),
        None => Ok(()),
    }
}

fn same_seats(run: &Pinned) -> RunResult<()> {
    match run.resumed.as_ref().zip(run.begun.as_ref()) {
        Some((resumed, begun)) => resume::same_seats(&resumed.folder, begun, &run.file, resumed.state.as_ref()),
        None => Ok(()),
    }
}

fn run_file_holds(run: &OpenedRun) -> RunResult<()> {
    run.file.check().user_error()
}

fn same_run(run: &OpenedRun) -> RunResult<()> {
    run.folder.as_ref().map_or(Ok(()), |folder| resume::same_run_file(folder, run.state.as_ref(), &run.file))
}

fn checkpoint_agrees(run: &OpenedRun) -> RunResult<()> {
    match run.folder.as_ref().zip(run.state.as_ref()) {
        Some((folder, state)) => agreement::checkpoint(folder, &state.checkpoint, &run.seats),
        None => Ok(()),
    }
}

fn policies_can_score(run: &OpenedRun) -> RunResult<()> {
    for (seat, player) in run.seats.seats.iter().zip(run.seats.players()) {
        if let SeatPlayer::Policy(policy) = player {
            run.environments.first().rollout.check_policy(seat, policy).user_error()?;
        }
    }
    Ok(())
}

/// A preset that needs a companion (a probe, a plan, a gate …) would train something else without it.
fn companions_present(run: &Assembled) -> RunResult<()> {
    for stage in &run.file.stages {
        let Stage::Rl(stage) = stage else { continue };
        let preset = stage.preset().user_error()?;
        if let Some(missing) = preset
            .requires()
            .iter()
            .find(|needed| !run.bound.iter().all(|bound| is_met(**needed, stage, run.file.probe.as_ref(), bound)))
        {
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

fn is_met(needed: PresetRequirement, stage: &RlStage, probe: Option<&TurnProbe>, bound: &BoundEnvironment) -> bool {
    let (rules, set) = (&bound.settings.rules, &bound.set);
    match needed {
        PresetRequirement::AnswerProbe => matches!(probe, Some(TurnProbe::Answer(_))),
        PresetRequirement::BranchPlan => stage.plan.kind() == "branch",
        PresetRequirement::OversamplePlan => stage.plan.kind() == "oversample",
        PresetRequirement::TurnSchedule => stage.turns.is_some(),
        PresetRequirement::RewardGate => {
            rules.environment.gate.is_some() || rules.plugins.values().any(|plugin| plugin.gate.is_some())
        }
        PresetRequirement::CallEfficiencyReward => set.reward_names().any(|name| name == "tool-efficiency"),
        PresetRequirement::SummaryContext => matches!(rules.context, ContextStrategy::Summary(_)),
    }
}

/// A plan with hints would repeat nothing without them.
fn guidance_is_offered(run: &Assembled) -> RunResult<()> {
    let is_guided = |stage: &&Stage| matches!(stage, Stage::Rl(stage) if matches!(stage.plan, SamplingPlan::Guided(_)));
    let Some(stage) = run.file.stages.iter().find(is_guided) else { return Ok(()) };
    let lacks = |set: &PluginSet| !set.environment().plugin.offers(OptionalInterface::Guidance);
    let lacking = run.bound.iter().map(|bound| &bound.set).filter(|set| lacks(set));
    let names: Vec<String> = lacking.map(|set| format!("`{}`", set.environment().plugin.name())).collect();
    if names.is_empty() {
        return Ok(());
    }
    let message = format!(
        "stage `{}`: plan `guided` repeats attempts with a hint of the environment, and no `guidance` is offered by {}",
        stage.name(),
        names.join(", ")
    );
    Err(RunError::user(message).with_hint("use another plan, or an environment that offers `guidance`"))
}

/// The first training task of an environment.
fn first_task(environment: &RunEnvironment) -> TaskRef {
    TaskRef { split: environment.settings.rules.environment.train.clone(), index: 0 }
}

/// Wrappers must not hide what rewards read.
fn rewards_find_fields(run: &OpenedRun) -> Checked<'_> {
    Box::pin(async {
        for environment in run.environments.iter() {
            let checked = environment.rollout.check_fields(&first_task(environment), Seed(run.file.seed)).await;
            checked.map_err(|error| environment.blame(RunError::user(error.to_string())))?;
        }
        Ok(())
    })
}

/// A context that no prompt fits is found here and not by its empty episodes.
fn prompts_fit(run: &OpenedRun) -> Checked<'_> {
    Box::pin(async {
        let plays = |stage: &Stage| match stage {
            Stage::Sft(_) => false,
            Stage::BestOfN(_) => true,
            Stage::Rl(stage) => stage.recorded.is_none(),
        };
        if !run.file.evaluates() && !run.file.stages.iter().any(plays) {
            return Ok(());
        }
        for environment in run.environments.iter() {
            let (split, seed) = (&environment.settings.rules.environment.train, Seed(run.file.seed));
            check_fit(environment, split, seed, run.seats.context()).await?;
        }
        Ok(())
    })
}

/// Warns of conversations that call functions which no plugin of the run offers. The policy would learn calls that fail.
fn conversations_call_offered(run: &OpenedRun) -> Checked<'_> {
    Box::pin(async {
        let mut offered = BTreeSet::new();
        for environment in run.environments.iter().filter(|_| !run.sources.called.is_empty()) {
            match environment.rollout.offered_functions(&first_task(environment), Seed(run.file.seed)).await {
                Some(functions) => offered.extend(functions),
                None => return Ok(()),
            }
        }
        for (stage, called) in &run.sources.called {
            let missing: Vec<String> = called.difference(&offered).cloned().collect();
            if let Some(first) = missing.first() {
                let (stage, near) = (
                    run.file.stages.get(*stage).map_or("", Stage::name),
                    did_you_mean(first, offered.iter().map(String::as_str)),
                );
                run.reporter.warn(&format!(
                    "stage `{stage}`: its conversations call {}, which no plugin of the run offers{near}\nhint: {}, or \
                     correct the names in the file",
                    oracle::listed(&missing),
                    oracle::remedy(&missing)
                ));
            }
        }
        Ok(())
    })
}

/// Warns of what is known of the models' files.
fn models_are_as_read(run: &OpenedRun) -> RunResult<()> {
    run.seats.warnings().iter().for_each(|warning| run.reporter.warn(warning));
    Ok(())
}

/// Warns of what the chat template leaves out and of what it reveals too little of.
fn template_shows_all(run: &OpenedRun) -> Checked<'_> {
    Box::pin(async {
        let report = run.environments.first().rollout.chat().report();
        let mut warnings = report.warnings(run.file.policy.system.is_some());
        let confirmed = run.file.policy.tools_in_prompt == ToolsInPrompt::System;
        for environment in run.environments.iter() {
            // A plugin that fails here fails in the run too, with its reason.
            let offered = environment.rollout.offered_functions(&first_task(environment), Seed(run.file.seed)).await;
            if !confirmed && offered.is_some_and(|functions| !functions.is_empty()) {
                warnings.extend(report.warnings_of_tools());
                break;
            }
        }
        warnings.iter().for_each(|warning| run.reporter.warn(warning));
        Ok(())
    })
}

/// The task must have the field that the probe scores.
fn task_has_answer(run: &OpenedRun) -> Checked<'_> {
    Box::pin(async {
        for environment in run.environments.iter() {
            let checked = environment.rollout.check_answer(&first_task(environment), Seed(run.file.seed)).await;
            checked.map_err(|error| {
                let near = match &error {
                    ProbeError::NoField { field, known, .. } => did_you_mean(field, known.iter().map(String::as_str)),
                    ProbeError::CannotScore { .. } | ProbeError::NoView { .. } => String::new(),
                };
                environment.blame(RunError::user(format!("{error}{near}")))
            })?;
        }
        Ok(())
    })
}

fn oracle_has_functions(run: &OpenedRun) -> Checked<'_> {
    Box::pin(async {
        for environment in run.environments.iter() {
            let (rollout, task) = (&environment.rollout, first_task(environment));
            oracle::has_functions(&run.file, rollout, &task, run.reporter.as_ref()).await?;
        }
        Ok(())
    })
}

/// A mistyped fact and a reward that cannot score are found here and not after an evaluation, if the environment has an
/// oracle.
fn oracle_can_play(run: &OpenedRun) -> Checked<'_> {
    Box::pin(async {
        for environment in run.environments.iter() {
            let (rollout, task) = (&environment.rollout, first_task(environment));
            let played = oracle::can_play(&run.file, rollout, &task, run.reporter.as_ref()).await;
            played.map_err(|error| environment.blame(error))?;
        }
        Ok(())
    })
}

/// A server that cannot take weights is found here and not after the first stage.
fn server_takes_weights(run: &Prepared) -> Checked<'_> {
    Box::pin(weight_sync::push_first(&run.opened.seats, &run.out))
}
