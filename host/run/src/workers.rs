//! The workers of a run: they play its episodes instead of this process.

use std::sync::Arc;

use gymkhana_orchestration::remote::RunPosition;
use gymkhana_orchestration::{Reporter, RunResult};
use gymkhana_workers::{Dispatched, Dispatcher, RunOnBus, TrainersBus};

use crate::session::Session;
use crate::stages::batch::deterministic_places;

impl Session {
    /// Lets workers play the episodes from here on.
    ///
    /// # Errors
    /// If the bus does not keep the run.
    pub(crate) async fn give_out(&mut self, bus: TrainersBus) -> RunResult<Dispatcher> {
        let plugins = self.environments.first().rollout.plugins();
        let run = RunOnBus {
            folder: self.folder.reader().path().to_owned(),
            rollouts: self.environments.rollouts(),
            seats: self.seats.clone(),
            places: deterministic_places(&self.file, plugins)?,
            reporter: Arc::clone(&self.reporter),
        };
        let dispatcher = Dispatcher::start(bus, run).await?;
        self.reporter.status(&format!("workers play run {} of the bus", dispatcher.run()));
        self.remote = Some(dispatcher.players());
        Ok(dispatcher)
    }

    /// Shows the position on the bus, if workers play.
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

/// Reports what workers did.
pub(crate) fn report(dispatched: &Dispatched, reporter: &dyn Reporter) {
    let Dispatched { groups, delivered_again, not_wanted, refused, failed, workers } = dispatched;
    reporter.status(&format!(
        "workers: {}; groups: {groups}, delivered again: {delivered_again}, results not wanted: {not_wanted}, refused: \
         {refused}, failed: {failed}",
        workers.len()
    ));
}
