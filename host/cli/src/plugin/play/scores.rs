//! Scores of a finished episode, one reward after the other, as in a group of one episode.

use std::sync::Arc;

use gymkhana_driver::{ExchangeRecorder, RewardTools, ToolCaller, with_recorder};
use gymkhana_record::{Score, Seed};
use gymkhana_sandbox::{CallError, Plugin, Trajectory, score};

use super::lines::TypedLines;
use crate::plugin::companions::Companions;

/// Maximum number of tool calls of a reward.
const MAX_CALLS: u32 = 100;

/// Scores an episode with each reward and shows the scores; `setup` is what the environment prepared for tools.
pub async fn show(
    companions: &Companions,
    trajectory: Trajectory<'_>,
    setup: &[(String, Vec<u8>)],
    seed: Seed,
    seats: &[String],
    lines: &TypedLines<'_>,
) {
    for reward in &companions.rewards {
        match scored(reward, companions, trajectory, setup, seed).await {
            Ok(scores) => scores.iter().for_each(|score| show_score(reward.name(), score, seats, lines)),
            Err(error) => lines.show(format!("reward {} failed: {error}", reward.name())),
        }
    }
}

async fn scored(
    reward: &Plugin,
    companions: &Companions,
    trajectory: Trajectory<'_>,
    setup: &[(String, Vec<u8>)],
    seed: Seed,
) -> Result<Vec<Score>, CallError> {
    let seed = seed.child("reward").child(reward.name());
    let tools = || -> Arc<dyn ToolCaller> {
        Arc::new(RewardTools::new(&companions.tools, MAX_CALLS, seed.child("tool"), setup))
    };
    let recorder = ExchangeRecorder::of_reward(reward, None, 1, tools);
    let plugin = with_recorder(reward, recorder.as_ref());
    let scores = score(&plugin, &[trajectory], &[], 0, seed).await?;
    Ok(scores.into_iter().flatten().collect())
}

fn show_score(reward: &str, score: &Score, seats: &[String], lines: &TypedLines<'_>) {
    let seat = seats.get(score.seat as usize).filter(|_| seats.len() > 1);
    let of = seat.map_or_else(String::new, |seat| format!(" of {seat}"));
    lines.show(format!("reward {reward}{of}: {}", score.total));
    for component in &score.components {
        lines.show(format!("  {} = {}", component.name, component.value));
    }
}
