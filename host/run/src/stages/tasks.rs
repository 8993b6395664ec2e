//! Order of tasks of a run, and the splits that it needs.

use gymkhana_config::{EnvironmentSection, RlStage, Stage};
use gymkhana_orchestration::environments::{BoundEnvironment, RunEnvironment};
use gymkhana_orchestration::mixture::TaskMixture;
use gymkhana_orchestration::sampler::{self, TaskSampler, training_order};
use gymkhana_orchestration::tasks::count_tasks;
use gymkhana_orchestration::{Classify, RunError, RunResult};
use gymkhana_sandbox::OptionalInterface;
use gymkhana_trainer::Replay;

use crate::sources::oracle_tasks;
use crate::training_run::TrainingRun;

impl TrainingRun {
    /// Order of the training tasks of all environments under the run's seed.
    pub(crate) async fn training_tasks(&self) -> RunResult<TaskMixture> {
        self.mixture(|environment| environment.settings.share).await
    }

    /// Tasks of the steps of reinforcement learning: the training tasks, as the samplers of the environments choose them.
    pub(crate) async fn sampled_tasks(&self) -> RunResult<TaskSampler> {
        let mixture = self.training_tasks().await?;
        TaskSampler::open(mixture, &self.environments, self.seed, self.progress.sampler.clone()).await
    }

    /// As [`TrainingRun::training_tasks`], without environments that have no oracle to play them.
    pub(crate) async fn demonstration_tasks(&self) -> RunResult<TaskMixture> {
        let has_oracle = |environment: &RunEnvironment| {
            environment.rollout.plugins().environment().plugin.offers(OptionalInterface::Oracle)
        };
        // Without any oracle, the first episodes fail with an error that says so.
        let all = !self.environments.iter().any(has_oracle);
        let share = |environment: &RunEnvironment| environment.settings.share;
        self.mixture(|environment| if all || has_oracle(environment) { share(environment) } else { 0.0 }).await
    }

    async fn mixture(&self, share: impl Fn(&RunEnvironment) -> f64) -> RunResult<TaskMixture> {
        let mut environments = Vec::new();
        for environment in self.environments.iter() {
            environments.push((training_order(environment, self.seed).await?, share(environment)));
        }
        Ok(TaskMixture::new(environments, &self.dropped()))
    }

    /// Number of training tasks that earlier stages used.
    pub(crate) fn tasks_seen_before(&self) -> u64 {
        let stages = &self.file.stages[..self.progress.stage];
        let used = stages.iter().map(|stage| match stage {
            Stage::Sft(stage) => oracle_tasks(stage, stage.steps * u64::from(stage.batch)),
            Stage::BestOfN(stage) => stage.steps * u64::from(stage.tasks),
            Stage::Rl(stage) if stage.recorded.is_some() => 0,
            Stage::Rl(stage) => stage.steps * stage.tasks_of_step(),
        });
        used.sum()
    }
}

/// Rejects backfilling where no task is played twice: it uses an earlier success of the same task. `tasks` is the number
/// of tasks in the split; `None` if it is infinite. `share` is the environment's share of the stage's tasks, 0 to 1.
fn check_repeats(stage: &RlStage, split: &str, tasks: Option<u64>, share: f64) -> RunResult<()> {
    let replay = stage.settings().user_error()?.algorithm.replay;
    let played = (stage.steps.saturating_mul(stage.tasks_of_step()) as f64 * share).ceil() as u64;
    if !matches!(replay, Some(Replay::Backfill { .. })) || tasks.is_some_and(|tasks| tasks < played) {
        return Ok(());
    }
    let (stage, has) = (&stage.name, tasks.map_or("infinitely many".to_owned(), |tasks| tasks.to_string()));
    Err(RunError::user(format!(
        "stage `{stage}`: replay.kind is \"backfill\", which needs an earlier success of the same task, but no task \
         repeats: split `{split}` has {has} tasks, and the stage plays {played}"
    ))
    .with_hint("use a split with fewer tasks, or set settings.replay = \"off\""))
}

/// Rejects splits that an environment lacks, and empty splits.
pub(crate) async fn check_splits(stages: &[Stage], bound: &[BoundEnvironment]) -> RunResult<()> {
    let shares: f64 = bound.iter().map(|environment| environment.settings.share).sum();
    for environment in bound {
        let (settings, set) = (&environment.settings, &environment.set);
        let EnvironmentSection { train, eval, .. } = &settings.rules.environment;
        let blame = |error| environment.blame(error);
        let tasks = count_tasks(set, train).await.map_err(blame)?;
        sampler::check(settings, set).await.map_err(blame)?;
        for stage in stages {
            if let Stage::Rl(stage) = stage {
                check_repeats(stage, train, tasks, settings.share / shares).map_err(blame)?;
            }
        }
        if settings.eval_tasks > 0 {
            count_tasks(set, eval).await.map_err(blame)?;
        }
    }
    Ok(())
}
