//! Preference stage on recorded episodes: nothing is played, and each step trains on the next pairs or episodes.

use gymkhana_config::RlStage;
use gymkhana_orchestration::{ProgressFigures, Work};
use gymkhana_record::step_metrics::rl;
use gymkhana_record::{EpisodeRecord, StepMetrics};
use gymkhana_rollout::WaitKind;
use tracing::{Instrument, info_span};

use crate::schedule::StagePart;
use crate::sources::Passes;
use crate::stages::groups::reward_of;
use crate::stages::rl::{StepData, learn, mean};
use crate::stop::Halt;
use crate::training_run::TrainingRun;

impl TrainingRun {
    pub(crate) async fn preferences(&mut self, stage: &RlStage) -> Result<(), Halt> {
        let max_divergence = self.file.policy.max_behaviour_divergence;
        let of_models = self.settings_of_models(stage)?;
        let preferences = self.sources.preferences.remove(&self.progress.stage).unwrap_or_default();
        let of_files = stage.recorded.as_ref().is_some_and(|recorded| !recorded.files.is_empty());
        let mut passes = Passes::new(self.seed.child("preferences").child(self.progress.stage), preferences.len());
        let groups = u64::from(stage.groups);
        if groups > preferences.len() as u64 {
            self.reporter.warn(&format!(
                "stage `{}`: a step takes {groups} preferences of {}, so that some of them occur twice in it\nhint: lower \
                 groups, or add preferences",
                stage.name,
                preferences.len()
            ));
        }
        let progress = self.reporter.progress(Work {
            done: self.steps_done(),
            later: self.later(StagePart::Training),
            ..Work::new(format!("{}: preferences", stage.name), stage.steps)
        });
        while let Some(step) = self.next_training_step(stage.steps).await? {
            let places = (step * groups..(step + 1) * groups).filter_map(|position| passes.at(position));
            let drawn: Vec<Vec<EpisodeRecord>> = places.filter_map(|place| preferences.get(place).cloned()).collect();
            let span = info_span!("train", stage = stage.name, step);
            let data = StepData { groups: &drawn, shown: &[], environments: &self.environments, learner: None };
            let timer = self.metrics_of_rollouts().time(WaitKind::Train);
            let mut measured = learn(&self.seats, data, &of_models, max_divergence).instrument(span).await?;
            drop(timer);
            if of_files {
                measured = measured.without(rl::ENTROPY);
            }
            let episodes = drawn.iter().map(Vec::len).sum::<usize>();
            self.count_step(episodes, self.trained_tokens(&drawn));
            measured.append(StepMetrics::from([
                (rl::REWARD, mean(drawn.iter().flatten(), |record| reward_of(record, 0))),
                (rl::SUCCESS, mean(drawn.iter().flatten(), |record| f64::from(u8::from(record.success)))),
                (rl::EPISODES, episodes as f64),
            ]));
            self.record_step(step, &measured)?;
            let loss = measured.get(rl::LOSS.name()).map(|loss| format!("loss {loss:.3}"));
            progress.at(step + 1, &ProgressFigures::of(loss.unwrap_or_default()));
            if (step + 1) % stage.checkpoint_every == 0 || step + 1 == stage.steps {
                self.checkpoint().await?;
            }
        }
        Ok(())
    }
}
