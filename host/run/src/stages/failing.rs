//! Failed episodes of a run: the limit of their share, and environments that are dropped because of it.

use gymkhana_config::{RlStage, Stage, WhenFailing};
use gymkhana_orchestration::environments::RunEnvironment;
use gymkhana_orchestration::mixture::DroppedEnvironment;
use gymkhana_orchestration::{RunError, RunResult};

use crate::sources::oracle_tasks;
use crate::stages::tally::{BatchFailures, Failures, LastFailure, too_many};
use crate::state::DropPoint;
use crate::training_run::TrainingRun;

impl TrainingRun {
    /// Counts the failures of a batch. Drops environments that fail too often where the run file says so; otherwise ends
    /// the run if too many episodes failed, of one environment or of all.
    pub(super) fn judge_failures(&mut self, batch: BatchFailures) -> RunResult<()> {
        let limit = self.file.rules.failures.limit;
        let BatchFailures { mut total, tally, environments } = batch;
        let last = tally.last.clone();
        self.progress.tally.add(tally);
        for (name, (failures, last)) in environments {
            let own = self.progress.environments.entry(name.clone()).or_default();
            if own.dropped.is_some() {
                // An episode that was in flight.
                total.remove(failures);
                continue;
            }
            let before = own.failures;
            own.failures.add(failures);
            if let Some((found, of)) = too_many(own.failures, failures, limit) {
                if !self.may_drop(&name) {
                    let of = format!("{of} in environment `{name}`");
                    return Err(self.suggest_drop(&name, found.too_many(&of, limit, last)));
                }
                self.drop_environment(&name, found, of, last);
                total.remove(failures);
                self.progress.failures.remove(before);
            }
        }
        self.progress.failures.add(total);
        match too_many(self.progress.failures, total, limit) {
            Some((failures, of)) => Err(failures.too_many(of, limit, last)),
            None => Ok(()),
        }
    }

    /// Whether an environment was dropped.
    pub(crate) fn is_dropped(&self, environment: &RunEnvironment) -> bool {
        let progress = environment.settings.name.as_ref().and_then(|name| self.progress.environments.get(name));
        progress.is_some_and(|progress| progress.dropped.is_some())
    }

    /// Dropped environments, as the order of training tasks in the current stage sees them.
    pub(crate) fn dropped(&self) -> Vec<DroppedEnvironment> {
        let first = self.first_position();
        let names = self.environments.iter().map(|environment| environment.settings.name.as_ref());
        let point = |(environment, name): (usize, Option<&String>)| {
            let DropPoint { stage, position } = self.progress.environments.get(name?)?.dropped?;
            // A stage of demonstrations begins with the first position again.
            let position = if stage < self.progress.stage { position.min(first) } else { position };
            Some(DroppedEnvironment { environment, position })
        };
        names.enumerate().filter_map(point).collect()
    }

    /// Whether the run file lets the run continue without an environment, and another one can take its groups.
    fn may_drop(&self, name: &str) -> bool {
        let can_take = |other: &RunEnvironment| other.settings.share > 0.0 && !self.is_dropped(other);
        let mut others = self.environments.iter().filter(|other| other.settings.name.as_deref() != Some(name));
        self.drops(name) && others.any(can_take)
    }

    /// Whether the run file says that an environment that fails is dropped.
    fn drops(&self, name: &str) -> bool {
        let own = |environment: &&RunEnvironment| environment.settings.name.as_deref() == Some(name);
        self.environments.iter().find(own).is_some_and(|own| own.settings.when_failing == WhenFailing::Drop)
    }

    fn suggest_drop(&self, name: &str, error: RunError) -> RunError {
        if self.drops(name) {
            return error.with_hint("fix the failure: the last environment is never dropped");
        }
        error.with_hint(format!(
            "fix the failure, or set environments.{name}.when_failing = \"drop\" to train on without the environment"
        ))
    }

    fn drop_environment(&mut self, name: &str, failures: Failures, of: &str, last: Option<LastFailure>) {
        let point = DropPoint { stage: self.progress.stage, position: self.first_free_position() };
        self.progress.environments.entry(name.to_owned()).or_default().dropped = Some(point);
        let last = last.map(|(id, failure)| format!("\nlast failure, in episode {id}: {failure}"));
        self.reporter.warn(&format!(
            "environment `{name}` is dropped: {} of {} {of} failed, above failures.limit = {}; the other environments \
             share its groups{}",
            failures.failed,
            failures.played,
            self.file.rules.failures.limit,
            last.unwrap_or_default()
        ));
    }

    /// First position of the current stage in the order of training tasks.
    pub(crate) fn first_position(&self) -> u64 {
        match self.file.stages.get(self.progress.stage) {
            Some(Stage::Rl(_) | Stage::BestOfN(_)) => self.tasks_seen_before(),
            Some(Stage::Sft(_)) | None => 0,
        }
    }

    /// First position in the order of training tasks that no step has begun with.
    fn first_free_position(&self) -> u64 {
        let first = self.first_position();
        let begun = self.progress.current.is_some();
        match self.file.stages.get(self.progress.stage).filter(|_| begun) {
            Some(Stage::Sft(stage)) => oracle_tasks(stage, (self.steps_done() + 1) * u64::from(stage.batch)),
            Some(Stage::BestOfN(stage)) => first + (self.steps_done() + 1) * u64::from(stage.tasks),
            Some(Stage::Rl(stage)) => first + self.steps_begun(stage) * stage.tasks_of_step(),
            None => first,
        }
    }

    /// Upper bound on the number of steps that have begun.
    fn steps_begun(&self, stage: &RlStage) -> u64 {
        self.steps_done() + u64::from(stage.max_staleness) + 1
    }
}
