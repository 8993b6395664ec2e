//! Groups: attempts at one task that are played side by side and scored together.

use futures::future::join_all;

use gymkhana_record::{Ending, EpisodeRecord, Failure, PluginScore, Score};
use gymkhana_sandbox::CallError;
use tracing::{Instrument, info_span};

use crate::metrics::WaitKind;
use crate::overrides::ReplayOverrides;
use crate::plugins::Reward;
use crate::reward_call::{HostFault, RewardCall, boundary};
use crate::state::{Actor, EpisodePlan, Started, milliseconds, play};
use crate::{Rollout, RolloutError};
use gymkhana_policy::ReplayedPolicy;

impl Rollout {
    /// Plays a group's episodes, each at its own pace, and scores them together. A member that meets a fault of
    /// the model or the host is tried again; one that keeps failing is `Dropped` and takes no part in the scoring.
    /// When the host keeps failing to run a reward, all members that were to be scored are `Dropped`.
    ///
    /// # Errors
    /// If the host itself is at fault.
    pub async fn run_group(
        &self,
        plans: Vec<EpisodePlan>,
        speaker: Actor<'_>,
    ) -> Result<Vec<EpisodeRecord>, RolloutError> {
        let members = plans.into_iter().map(|plan| self.run_member(plan, speaker));
        let mut records = join_all(members).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        self.score_group(&mut records, &[]).await;
        Ok(records)
    }

    pub(crate) async fn run_member(
        &self,
        mut plan: EpisodePlan,
        speaker: Actor<'_>,
    ) -> Result<EpisodeRecord, RolloutError> {
        let _lane = match self.deterministic_places.len() {
            0 => None,
            deterministic_places => {
                let _timer = self.metrics.time(WaitKind::Queue);
                Some(self.deterministic_places[plan.place as usize % deterministic_places].lock().await)
            }
        };
        loop {
            let span = info_span!("episode", id = %plan.id);
            let record = play(self, plan.clone(), speaker).instrument(span).await?;
            if record.ending != Ending::Dropped || plan.id.attempt >= self.retries {
                return Ok(record);
            }
            plan.id.attempt += 1;
        }
    }

    /// Plays recorded episodes of one group again, from their tokens, and scores them together.
    ///
    /// # Errors
    /// If the host itself is at fault.
    pub async fn replay_group(&self, recorded: &[EpisodeRecord]) -> Result<Vec<EpisodeRecord>, RolloutError> {
        let members = recorded.iter().map(|record| async move {
            match self.begin_replay(record).await? {
                Started::Playing(play) => play.to_end(Actor::Policy(&ReplayedPolicy::of(record))).await,
                Started::Over(over) => Ok(*over),
            }
        });
        let mut records = join_all(members).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        for (record, recorded) in records.iter_mut().zip(recorded) {
            record.training_step = recorded.training_step;
            record.selected = recorded.selected;
        }
        self.score_group(&mut records, recorded).await;
        Ok(records)
    }

    /// Asks every reward and assembles. `recorded` holds the episodes that are replayed, if they are.
    pub(crate) async fn score_group(&self, records: &mut [EpisodeRecord], recorded: &[EpisodeRecord]) {
        let playable = |record: &EpisodeRecord| {
            !matches!(record.ending, Ending::Dropped | Ending::EnvironmentFailed) && !record.segments.is_empty()
        };
        let present: Vec<usize> = (0..records.len()).filter(|&index| playable(&records[index])).collect();
        let mut failed: Vec<bool> = records.iter().map(|record| !playable(record)).collect();
        for reward in &self.plugins.rewards {
            let since = std::time::Instant::now();
            let mut panel = RewardCall::new(self, reward, recorded);
            let asked = self.ask(&mut panel, records, &present, recorded).await;
            if let Some(&first) = present.first() {
                let (exchanges, costs) = panel.into_account();
                records[first].exchanges.extend(exchanges);
                records[first].costs.extend(costs);
            }
            let scores = match asked {
                Ok(scores) => scores,
                Err(HostFault(error)) => {
                    for &index in &present {
                        records[index].ending = Ending::Dropped;
                        records[index].failures.push(reward_failure(reward, error.clone()));
                    }
                    break;
                }
            };
            let spent = milliseconds(since);
            for (&index, answer) in present.iter().zip(scores) {
                let record = &mut records[index];
                record.timing.reward_ms += spent;
                match answer {
                    Ok(scores) => {
                        let plugin = reward.bound.plugin.name().to_owned();
                        record.scores.push(PluginScore { plugin, scores });
                    }
                    Err(error) => {
                        failed[index] = true;
                        record.failures.push(reward_failure(reward, error));
                    }
                }
            }
        }
        let shares = self.plugins.shares();
        let kept = records.iter_mut().zip(failed).filter(|(record, _)| record.ending != Ending::Dropped);
        for (record, failed) in kept {
            self.assembly.assemble(record, &shares, self.plugins.seats(), failed);
            if !failed {
                self.add_gains(record);
            }
        }
    }

    /// One reward's scores for the members that are present. When it fails on the group, the members on which it
    /// fails alone pay, and the others are scored without them.
    async fn ask(
        &self,
        panel: &mut RewardCall<'_>,
        records: &[EpisodeRecord],
        present: &[usize],
        recorded: &[EpisodeRecord],
    ) -> Result<Vec<Result<Vec<Score>, CallError>>, HostFault> {
        let mut sound: Vec<usize> = Vec::new();
        let mut answers: Vec<Option<Result<Vec<Score>, CallError>>> = present.iter().map(|_| None).collect();
        for (place, &index) in present.iter().enumerate() {
            match recorded.get(index).and_then(|record| injected_failure(panel.reward, record)) {
                Some(error) => answers[place] = Some(Err(error)),
                None => sound.push(place),
            }
        }
        let of = |places: &[usize]| places.iter().map(|&place| present[place]).collect::<Vec<_>>();
        let mut error = match panel.score(records, &of(&sound)).await? {
            Ok(scores) => return Ok(fill(answers, &sound, scores)),
            Err(error) => error,
        };
        let mut rest = Vec::new();
        for &place in &sound {
            match panel.score(records, &of(&[place])).await? {
                Ok(_) => rest.push(place),
                Err(alone) => answers[place] = Some(Err(alone)),
            }
        }
        if rest.len() < sound.len() {
            match panel.score(records, &of(&rest)).await? {
                Ok(scores) => return Ok(fill(answers, &rest, scores)),
                Err(again) => error = again,
            }
        }
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(error.clone()))).collect())
    }
}

/// Puts scores into their places; every other place holds its failure already.
fn fill(
    mut answers: Vec<Option<Result<Vec<Score>, CallError>>>,
    places: &[usize],
    scores: Vec<Vec<Score>>,
) -> Vec<Result<Vec<Score>, CallError>> {
    for (&place, scores) in places.iter().zip(scores) {
        answers[place] = Some(Ok(scores));
    }
    answers.into_iter().flatten().collect()
}

fn reward_failure(reward: &Reward, error: CallError) -> Failure {
    Failure { at: boundary(reward), kind: error.kind, during: "score".to_owned(), message: error.message }
}

/// What the clock decided about this reward when the episode was recorded.
fn injected_failure(reward: &Reward, recorded: &EpisodeRecord) -> Option<CallError> {
    let failure = ReplayOverrides::of(recorded).failure(&boundary(reward), "score")?;
    Some(CallError::new(failure.kind, failure.message))
}
