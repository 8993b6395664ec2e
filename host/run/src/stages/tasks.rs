//! Order of tasks of a run, and the splits that it needs.

use gymkhana_config::{RlStage, RunFile, Stage};
use gymkhana_orchestration::tasks::{TaskSampler, count_tasks};
use gymkhana_orchestration::{Classify, RunError, RunResult};
use gymkhana_rollout::PluginSet;
use gymkhana_trainer::Replay;

use crate::session::Session;

impl Session {
    /// Order of a split's tasks under the run's seed.
    pub(crate) async fn tasks(&self, split: &str) -> RunResult<TaskSampler> {
        TaskSampler::of_run(self.rollout.plugins(), split, self.seed).await
    }
}

/// Rejects backfilling where no task is played twice: it uses an earlier success of the same task. `tasks` is the number
/// of tasks in the split; `None` if it is infinite.
fn check_repeats(stage: &RlStage, split: &str, tasks: Option<u64>) -> RunResult<()> {
    let replay = stage.settings().user_error()?.algorithm.replay;
    let played = stage.steps.saturating_mul(stage.tasks_of_step());
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

/// Rejects splits that the environment lacks, and empty splits.
pub(crate) async fn check_splits(file: &RunFile, plugins: &PluginSet) -> RunResult<()> {
    let tasks = count_tasks(plugins, &file.environment.train).await?;
    for stage in &file.stages {
        if let Stage::Rl(stage) = stage {
            check_repeats(stage, &file.environment.train, tasks)?;
        }
    }
    if file.evaluation.tasks > 0 {
        count_tasks(plugins, &file.environment.eval).await?;
    }
    Ok(())
}
