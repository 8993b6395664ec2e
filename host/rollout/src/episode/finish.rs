//! The end of an episode: final views and the record.

use std::time::Instant;

use gymkhana_driver::{EpisodeData, StartFailure};
use gymkhana_record::{Ending, EpisodeRecord, Failure, Timing};

use crate::context::SeatContext;
use crate::episode::state::{EpisodePlan, EpisodeState, PolicyData, hooks, milliseconds};
use crate::{Rollout, RolloutError};

impl EpisodeState<'_> {
    /// Reads the final views and writes the record.
    pub(crate) async fn finish(self, ending: Ending) -> Result<EpisodeRecord, RolloutError> {
        let turn_limit = self.turn_limit();
        // The bytes are held until the record is complete.
        let Self { rollout, episode, mut policy, held: _held } = self;
        let hooks = hooks(rollout, &mut policy.contexts);
        let record = EpisodeRecord { turn_limit, ..ended(rollout, &policy.plan, ending, vec![]) };
        let record = episode.finish(&hooks, ending, policy.begun, record).await;
        Ok(completed(rollout, policy, record))
    }
}

/// A record with the policies' side of its episode.
pub(crate) fn completed(rollout: &Rollout, policy: PolicyData, record: EpisodeRecord) -> EpisodeRecord {
    EpisodeRecord {
        policy_turns: policy.policy_turns,
        segments: policy.contexts.into_iter().flat_map(SeatContext::into_segments).collect(),
        unsandboxed: rollout.plugins.unsandboxed(),
        forks: policy.forks,
        agent: policy.agent,
        ..record
    }
}

/// The record of an episode in flight, with what a replay up to here needs.
pub(crate) fn so_far(rollout: &Rollout, policy: &PolicyData, data: &EpisodeData) -> EpisodeRecord {
    let segments = policy.contexts.iter().flat_map(|context| context.segments().to_vec()).collect();
    let (forks, policy_turns) = (policy.forks.clone(), policy.policy_turns.clone());
    let record = ended(rollout, &policy.plan, Ending::Dropped, data.failures.clone());
    EpisodeRecord { segments, forks, policy_turns, exchanges: data.exchanges.clone(), ..record }
}

/// The record of an episode whose environment did not start.
pub(crate) fn never_started(
    rollout: &Rollout,
    plan: &EpisodePlan,
    failed: StartFailure,
    begun: Instant,
) -> EpisodeRecord {
    let StartFailure { failure, exchanges, logs } = failed;
    let timing = Timing { total_ms: milliseconds(begun), ..Timing::default() };
    let unsandboxed = rollout.plugins.unsandboxed();
    EpisodeRecord {
        timing,
        exchanges,
        logs,
        unsandboxed,
        ..ended(rollout, plan, Ending::EnvironmentFailed, vec![failure])
    }
}

/// An empty record with this ending. An episode with a fault of the host is dropped, whatever its ending.
pub(crate) fn ended(rollout: &Rollout, plan: &EpisodePlan, ending: Ending, failures: Vec<Failure>) -> EpisodeRecord {
    let fault = failures.iter().any(|failure| failure.kind.is_hosts());
    let ending = if fault { Ending::Dropped } else { ending };
    EpisodeRecord {
        environment: rollout.environment.clone(),
        turn_limit: plan.turns.unwrap_or(0),
        guidance: plan.guidance.clone(),
        failures,
        ..EpisodeRecord::new(plan.id, plan.task.clone(), plan.seed, ending)
    }
}
