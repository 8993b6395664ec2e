//! Order of tasks of a run, and the splits that it needs.

use gymkhana_assembly::RunResult;
use gymkhana_assembly::tasks::{TaskSampler, count_tasks};
use gymkhana_config::RunFile;
use gymkhana_rollout::PluginSet;

use crate::session::Session;

impl Session {
    /// Order of a split's tasks under the run's seed.
    pub(crate) async fn tasks(&self, split: &str) -> RunResult<TaskSampler> {
        TaskSampler::of_run(self.rollout.plugins(), split, self.seed).await
    }
}

/// Rejects splits that the environment lacks, and empty splits.
pub(crate) async fn check_splits(file: &RunFile, plugins: &PluginSet) -> RunResult<()> {
    count_tasks(plugins, &file.environment.train).await?;
    if file.evaluation.tasks > 0 {
        count_tasks(plugins, &file.environment.eval).await?;
    }
    Ok(())
}
