//! The workers of a run: they play its episodes instead of this process.

use std::sync::Arc;

use gymkhana_orchestration::RunResult;
use gymkhana_orchestration::remote::{RemoteRun, RunPosition, RunWorkers};

use crate::stages::batch::deterministic_places;
use crate::training_run::TrainingRun;

impl TrainingRun {
    /// Lets workers play the episodes from here on.
    ///
    /// # Errors
    /// If the run cannot be given to them.
    pub(crate) async fn give_out(&mut self, workers: &mut dyn RunWorkers) -> RunResult<()> {
        let plugins = self.environments.first().rollout.plugins();
        let run = RemoteRun {
            folder: self.folder.reader().path().to_owned(),
            rollouts: self.environments.rollouts(),
            seats: Arc::new(self.seats.clone()),
            places: deterministic_places(&self.file, plugins)?,
            reporter: Arc::clone(&self.reporter),
        };
        self.remote = Some(workers.begin(run).await?);
        Ok(())
    }

    /// Shows the position to the workers' operators, if workers play.
    pub(crate) fn show_position(&self) {
        let (Some(remote), Some(stage)) = (&self.remote, self.file.stages.get(self.progress.stage)) else { return };
        remote.show(RunPosition {
            stage: stage.name().to_owned(),
            step: self.steps_done(),
            steps: stage.steps(),
            weight_version: self.seats.policy().weight_version(),
        });
    }
}
