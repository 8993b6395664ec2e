//! The record of an episode, as a run would write it, without tokens.

use gymkhana_driver::unsandboxed;
use gymkhana_record::{EPISODE_SCHEMA, Ending, EpisodeId, EpisodeRecord, Phase, Timing};

use crate::environment::episode::{Closing, Live, Play};
use crate::errors::Fault;

/// The record of the episode. One that continues is `dropped`.
///
/// # Errors
/// If no episode has begun.
pub async fn of(play: &mut Play) -> Result<EpisodeRecord, Fault> {
    let group = u32::try_from(play.sequence.begun().saturating_sub(1)).unwrap_or(u32::MAX);
    let tools = play.spec.tools.tools().iter().map(|tool| &tool.bound.plugin);
    let unsandboxed = unsandboxed(std::iter::once(&play.spec.environment.plugin).chain(tools));
    let live = play.live()?;
    let closing = match live.episode.data.ending {
        Some(_) => live.close().await,
        None => Closing::none(live.begun),
    };
    Ok(EpisodeRecord { unsandboxed, ..record(live, closing, group) })
}

fn record(live: &Live, closing: Closing, group: u32) -> EpisodeRecord {
    let data = live.episode.data.clone();
    let fault = data.failures.iter().any(|failure| failure.kind.is_hosts());
    let ending = data.ending.filter(|_| !fault).unwrap_or(Ending::Dropped);
    let total = |rewards: &gymkhana_record::SeatRewards| rewards.rewards.iter().fold(0.0, |sum, reward| sum + reward);
    EpisodeRecord {
        schema: EPISODE_SCHEMA,
        id: EpisodeId { stage: 0, phase: Phase::Train, step: 0, group, member: 0, attempt: 0 },
        environment: None,
        task: live.task.clone(),
        seed: live.seed,
        forks: vec![],
        turn_limit: 0,
        guidance: None,
        training_step: 0,
        opening: data.opening,
        turns: data.turns,
        policy_turns: vec![],
        segments: vec![],
        ending,
        rewards: data.rewards.iter().map(total).collect(),
        environment_rewards: data.rewards,
        extras: data.extras,
        privileged: closing.privileged,
        views: closing.views,
        hint: closing.hint,
        scores: vec![],
        turn_rewards: vec![],
        turn_gains: vec![],
        success: false,
        selected: false,
        failures: data.failures,
        exchanges: data.exchanges,
        costs: data.costs,
        logs: data.logs.into_entries(),
        unsandboxed: vec![],
        agent: None,
        timing: Timing { total_ms: closing.total_ms, ..data.timing },
    }
}
