//! Scoring: each reward scores a group's episodes together, with one call if nothing fails.
//!
//! The episodes of a group have one task and are played concurrently.

pub(crate) mod hidden_fields;
pub(crate) mod reward_call;

use futures::future::join_all;

use gymkhana_record::{CallSite, Ending, EpisodeRecord, Failure, Phase, PluginScore, Score, Turn};
use gymkhana_rules::ProvokedReward;
use gymkhana_sandbox::CallError;
use tracing::{Instrument, info_span};

use crate::episode::agent::play_with_agent_program;
use crate::episode::state::{Actor, EpisodePlan, EpisodeState, milliseconds};
use crate::metrics::WaitKind;
use crate::plugins::RewardPlugin;
use crate::replay::overrides::ReplayOverrides;
use crate::reward::RewardTerm;
use crate::scoring::reward_call::{RewardCall, ScoringResult, boundary};
use crate::{Rollout, RolloutError};
use gymkhana_policy::ReplayedPolicy;

impl Rollout {
    /// Plays a group's episodes concurrently and scores them together. A member that meets a fault of the model or the
    /// host is repeated; if it keeps failing, it is `Dropped` and not scored. If the host keeps failing to run a
    /// reward, all scored members are `Dropped`.
    ///
    /// # Errors
    /// If the host itself fails.
    pub async fn run_group(
        &self,
        plans: Vec<EpisodePlan>,
        actor: Actor<'_>,
    ) -> Result<Vec<EpisodeRecord>, RolloutError> {
        let members = plans.into_iter().map(|plan| self.run_member(plan, actor));
        let mut records = join_all(members).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        self.score_group(&mut records, &[]).await;
        Ok(records)
    }

    pub(crate) async fn run_member(
        &self,
        mut plan: EpisodePlan,
        actor: Actor<'_>,
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
            let episode = async {
                if let Some(agent) = self.agent.as_deref()
                    && let Some(played) = play_with_agent_program(self, agent, &plan, actor).await
                {
                    return played;
                }
                EpisodeState::begin(self, plan.clone(), ReplayOverrides::default()).await?.play(actor).await
            };
            let record = episode.instrument(span).await?;
            if record.ending != Ending::Dropped || plan.id.attempt >= self.retries {
                return Ok(record);
            }
            plan.id.attempt += 1;
        }
    }

    /// Replays recorded episodes of one group from their tokens and scores them together.
    ///
    /// # Errors
    /// If the host itself fails.
    pub async fn replay_group(&self, recorded: &[EpisodeRecord]) -> Result<Vec<EpisodeRecord>, RolloutError> {
        let members = recorded.iter().map(|record| async move {
            if record.id.phase == Phase::Served && record.agent.is_none() {
                return Ok(self.replay_transcript(record).await);
            }
            self.begin_replay(record).await?.play(Actor::Policy(&ReplayedPolicy::of(record))).await
        });
        let mut records = join_all(members).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        for (record, recorded) in records.iter_mut().zip(recorded) {
            record.training_step = recorded.training_step;
            record.selected = recorded.selected;
        }
        self.score_group(&mut records, recorded).await;
        Ok(records)
    }

    /// Calls every reward and assembles the rewards. `recorded` holds the records of a replay and is empty otherwise.
    pub(crate) async fn score_group(&self, records: &mut [EpisodeRecord], recorded: &[EpisodeRecord]) {
        let present: Vec<usize> = (0..records.len()).filter(|&index| is_scored(&records[index])).collect();
        let mut failed: Vec<bool> = records.iter().map(|record| !is_sound(record)).collect();
        let overrides: Vec<ReplayOverrides> = recorded.iter().map(ReplayOverrides::of).collect();
        for reward in &self.plugins.rewards {
            let since = std::time::Instant::now();
            let mut call = RewardCall::new(self, reward, recorded, &overrides);
            let outcomes = ask(&mut call, records, &present, &overrides).await;
            if let Some(&first) = present.first() {
                let (exchanges, costs, logs) = call.into_account();
                records[first].exchanges.extend(exchanges);
                records[first].costs.extend(costs);
                records[first].logs.extend(logs);
            }
            if let Some(error) = outcomes.iter().find_map(ScoringResult::host_failure) {
                for &index in &present {
                    records[index].failures.push(reward_failure(reward, error.clone()));
                    drop_unscored(&mut records[index]);
                }
                break;
            }
            let spent = milliseconds(since);
            for (&index, outcome) in present.iter().zip(outcomes) {
                let record = &mut records[index];
                record.timing.reward_ms += spent;
                match outcome {
                    ScoringResult::Scored(scores) => {
                        let plugin = reward.bound.plugin.name().to_owned();
                        record.scores.push(PluginScore { plugin, scores: reward.term.shared(scores) });
                    }
                    ScoringResult::Failed(error) | ScoringResult::HostFailed(error) => {
                        failed[index] = true;
                        record.failures.push(reward_failure(reward, error));
                    }
                }
            }
        }
        let terms = self.plugins.terms();
        let kept = records.iter_mut().zip(failed).filter(|(record, _)| record.ending != Ending::Dropped);
        for (record, failed) in kept {
            if failed {
                self.settle_failed(record, &terms);
            } else {
                self.reward_sum.assemble(record, &terms, self.plugins.seats());
                self.add_gains(record);
            }
        }
    }

    /// Sets the rewards of an episode that was not scored. In training, one that failed before the agent's first turn
    /// is absent, and so is one whose failure the agent provoked if the run excludes those.
    fn settle_failed(&self, record: &mut EpisodeRecord, terms: &[(&str, &RewardTerm)]) {
        let provoked = self.reward_sum.provoked;
        let started = !record.policy_turns.is_empty();
        let is_absent = !record.failures.is_empty() && (!started || provoked == ProvokedReward::Exclude);
        if is_absent && record.id.phase == Phase::Train {
            return drop_unscored(record);
        }
        let total = match provoked {
            ProvokedReward::Fixed(total) => total,
            ProvokedReward::Least | ProvokedReward::Exclude => {
                self.plugins.least_total(&self.reward_sum, record.training_step)
            }
        };
        self.reward_sum.assemble_failed(record, terms, self.plugins.seats(), total);
    }
}

/// Whether nothing failed before the first turn or at the end. Served episodes have no tokens, and may have no turns.
fn is_sound(record: &EpisodeRecord) -> bool {
    let begun = record.id.phase == Phase::Served || !record.segments.is_empty();
    begun && !matches!(record.ending, Ending::Dropped | Ending::EnvironmentFailed | Ending::AgentFailed)
}

/// Whether rewards are asked about the episode: it is sound, and a seat made a turn.
fn is_scored(record: &EpisodeRecord) -> bool {
    let is_turn = |turn: &Turn| matches!(turn, Turn::Message { .. }) || turn.caller().is_some();
    is_sound(record) && (record.id.phase != Phase::Served || record.turns.iter().any(is_turn))
}

/// Outcome of one reward for each present member. If the reward fails on the group, each member is scored alone:
/// members on which that fails have failed, and the others are scored together again.
async fn ask(
    call: &mut RewardCall<'_>,
    records: &[EpisodeRecord],
    present: &[usize],
    overrides: &[ReplayOverrides],
) -> Vec<ScoringResult<Vec<Score>>> {
    let at = boundary(call.reward);
    let recorded_failure = |&index: &usize| {
        let failure = overrides.get(index)?.calls.failure(&at, &CallSite::Score)?;
        Some(ScoringResult::Failed(CallError::new(failure.kind, failure.message)))
    };
    let mut outcomes: Vec<Option<ScoringResult<Vec<Score>>>> = present.iter().map(recorded_failure).collect();
    let sound: Vec<usize> = (0..outcomes.len()).filter(|&place| outcomes[place].is_none()).collect();
    let of = |places: &[usize]| places.iter().map(|&place| present[place]).collect::<Vec<_>>();
    let host_failed = |error: &CallError| present.iter().map(|_| ScoringResult::HostFailed(error.clone())).collect();
    let mut error = match call.score(records, &of(&sound)).await {
        ScoringResult::Scored(scores) => return fill(outcomes, &sound, scores),
        ScoringResult::Failed(error) => error,
        ScoringResult::HostFailed(error) => return host_failed(&error),
    };
    let mut rest = Vec::new();
    for &place in &sound {
        match call.score(records, &of(&[place])).await {
            ScoringResult::Scored(_) => rest.push(place),
            ScoringResult::Failed(alone) => outcomes[place] = Some(ScoringResult::Failed(alone)),
            ScoringResult::HostFailed(error) => return host_failed(&error),
        }
    }
    if rest.len() < sound.len() {
        match call.score(records, &of(&rest)).await {
            ScoringResult::Scored(scores) => return fill(outcomes, &rest, scores),
            ScoringResult::Failed(again) => error = again,
            ScoringResult::HostFailed(error) => return host_failed(&error),
        }
    }
    outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|| ScoringResult::Failed(error.clone()))).collect()
}

/// Sets the scores of the members that have no failure yet.
fn fill(
    mut outcomes: Vec<Option<ScoringResult<Vec<Score>>>>,
    places: &[usize],
    scores: Vec<Vec<Score>>,
) -> Vec<ScoringResult<Vec<Score>>> {
    for (&place, scores) in places.iter().zip(scores) {
        outcomes[place] = Some(ScoringResult::Scored(scores));
    }
    outcomes.into_iter().flatten().collect()
}

/// Drops an episode after its end, such as one whose group the host could not score. It keeps its failures, and no scores
/// and no rewards.
fn drop_unscored(record: &mut EpisodeRecord) {
    let failures = std::mem::take(&mut record.failures);
    record.clear_scores();
    record.failures = failures;
    record.ending = Ending::Dropped;
}

/// The failure of a reward that scored.
pub(crate) fn reward_failure(reward: &RewardPlugin, error: CallError) -> Failure {
    Failure { at: boundary(reward), kind: error.kind, call_site: CallSite::Score, message: error.message }
}

impl Rollout {
    /// Scores a recorded group with this set's rewards, which replace the recorded scores. The episodes are not
    /// replayed and do not change otherwise; models and tools are called again.
    pub async fn rescore(&self, recorded: &[EpisodeRecord]) -> Vec<EpisodeRecord> {
        let mut records = recorded.to_vec();
        records.iter_mut().for_each(EpisodeRecord::clear_scores);
        self.score_group(&mut records, &[]).await;
        records
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_record::{Boundary, EpisodeId, FailureKind, Seed, TaskRef};

    use super::*;

    #[test]
    fn a_dropped_episode_keeps_no_rewards() {
        let id = EpisodeId { stage: 0, phase: Phase::Train, step: 0, group: 0, member: 0, attempt: 0 };
        let task = TaskRef { split: "train".to_owned(), index: 0 };
        let mut record = EpisodeRecord::new(id, task, Seed(0), Ending::Terminated);
        record.rewards = vec![1.0];
        record.turn_rewards = vec![vec![0.5, 0.5]];
        record.turn_gains = vec![vec![0.25, 0.0]];
        record.success = true;
        record.scores = vec![PluginScore { plugin: "judge".to_owned(), scores: vec![] }];
        let failure = Failure {
            at: Boundary::Reward("judge".to_owned()),
            kind: FailureKind::Capacity,
            call_site: CallSite::Score,
            message: "no instance became free".to_owned(),
        };
        record.failures = vec![failure.clone()];
        drop_unscored(&mut record);
        assert_eq!(record.ending, Ending::Dropped);
        assert!(record.rewards.is_empty() && record.turn_rewards.is_empty() && record.turn_gains.is_empty());
        assert!(record.scores.is_empty() && !record.success);
        assert_eq!(record.failures, [failure]);
    }
}
