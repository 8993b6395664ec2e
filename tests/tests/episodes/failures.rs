//! Failures have two owners: one that the agent's turn provoked costs the least declared total, and one that it did not
//! leaves the episode out of training.

use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, FailureKind, Phase, Value};
use gymkhana_rollout::{EpisodePlan, ProvokedReward, RewardTerm, Rollout};

use crate::common::{Table, limits, plan, play_plan_with, rollout};

/// An environment with this misbehaviour (rewards 0 to 1) and a reward of -1 to 1 that counts half.
async fn table(behaviour: &str, provoked: ProvokedReward) -> Rollout {
    let table = Table::new()
        .environment("guest-hostile-environment", &[("behaviour", Value::Text(behaviour.to_owned()))])
        .reward_sharing("guest-hostile-reward", &[], RewardTerm::from(0.5))
        .provoked(provoked);
    rollout(&table, limits()).await
}

async fn play(rollout: &Rollout, phase: Phase, replies: &[&str]) -> EpisodeRecord {
    let member = plan(0, 7);
    let plan = EpisodePlan { id: EpisodeId { phase, ..member.id }, ..member };
    play_plan_with(rollout, plan, replies, || ()).await
}

/// 0 of the environment, and -1 times 0.5 of the reward.
#[tokio::test]
async fn a_provoked_failure_costs_the_least_declared_total() {
    let rollout = table("trap-on-silence", ProvokedReward::Least).await;
    let silent = play(&rollout, Phase::Train, &["no", ""]).await;
    assert_eq!((silent.ending, &silent.rewards[..]), (Ending::EnvironmentFailed, &[-0.5][..]));
    assert_eq!(silent.failures[0].kind, FailureKind::Trap);
    assert_eq!((&silent.turn_rewards[..], silent.success), (&[vec![0.0, 0.0]][..], false));
    // The twin that speaks is scored.
    let spoken = play(&rollout, Phase::Train, &["no", "yes"]).await;
    assert_eq!(spoken.ending, Ending::Terminated);
    assert!(spoken.rewards[0] > silent.rewards[0], "{:?}", spoken.rewards);
}

#[tokio::test]
async fn a_run_may_set_or_exclude_provoked_failures() {
    let fixed = play(&table("trap-on-silence", ProvokedReward::Fixed(-3.0)).await, Phase::Train, &[""]).await;
    assert_eq!((fixed.ending, &fixed.rewards[..]), (Ending::EnvironmentFailed, &[-3.0][..]));
    let excluding = table("trap-on-silence", ProvokedReward::Exclude).await;
    let absent = play(&excluding, Phase::Train, &[""]).await;
    assert_eq!((absent.ending, absent.rewards.len(), absent.failures.len()), (Ending::Dropped, 0, 1));
    // An evaluation counts the failure.
    let counted = play(&excluding, Phase::After, &[""]).await;
    assert_eq!((counted.ending, &counted.rewards[..]), (Ending::EnvironmentFailed, &[-0.5][..]));
    assert!(!counted.success);
}

#[tokio::test]
async fn a_failure_before_the_first_turn_is_not_the_agents() {
    let rollout = table("trap-start", ProvokedReward::Least).await;
    let absent = play(&rollout, Phase::Train, &["yes"]).await;
    assert_eq!((absent.ending, absent.rewards.len(), absent.failures[0].kind), (Ending::Dropped, 0, FailureKind::Trap));
    let counted = play(&rollout, Phase::After, &["yes"]).await;
    assert_eq!((counted.ending, &counted.rewards[..]), (Ending::EnvironmentFailed, &[-0.5][..]));
}
